"""The files of a sweep: one per finished task, complete or absent.

``sweep.json`` is the latest plan; ``runs/CELL/SEED-FIRST-RUNS.parquet``, named after the key of a
cell, a seed, the first run and the number of runs, holds one row per run. A file is written under
a temporary name, synced to disk and renamed, so a killed process leaves either the complete file
or a leftover that is never read. A checksum of all its bytes precedes the footer, where Parquet
readers do not look: a damaged footer can crash the process that reads it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rolf.errors import InvalidArgument, RolfError
from rolf.sweeps.plan import SweepPlan, plan_from_dict
from rolf.tables.durable import sync_folder
from rolf.tables.parquet import check_parquet
from rolf.types import FloatArray

FORMAT = "rolf-sweep-runs"
PLAN = "sweep.json"
NAME = re.compile(r"(\d+)-(\d+)-(\d+)\.parquet")
PART = ".part"
#: seconds after which a temporary file is taken for a leftover
STALE = 600.0


class Block(NamedTuple):
    """Consecutive runs of a cell with one seed."""

    seed: int
    first: int
    runs: int

    @property
    def stop(self) -> int:
        return self.first + self.runs

    @property
    def name(self) -> str:
        return f"{self.seed}-{self.first}-{self.runs}.parquet"


class SweepStore:
    """The folder of a sweep."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    # --- the plan ---

    def write_plan(self, plan: SweepPlan) -> None:
        """Keep the latest plan."""
        self._write(self.folder / PLAN, json.dumps(plan.to_dict()).encode())

    def read_plan(self) -> SweepPlan:
        """The latest plan."""
        path = self.folder / PLAN
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RolfError(f"{self.folder}: is not a folder of rolf sweep (no {PLAN})") from None
        except OSError as error:
            raise RolfError(f"{path}: cannot be read ({error.strerror})") from None
        except (ValueError, RecursionError) as error:
            raise RolfError(f"{path}: is damaged ({error})") from None
        return plan_from_dict(str(path), data)

    # --- runs ---

    def blocks(self, key: str) -> list[Block]:
        """The files of a cell, sorted by seed and run; they may turn out to be damaged."""
        with suppress(FileNotFoundError, NotADirectoryError):
            names = (NAME.fullmatch(each.name) for each in os.scandir(self._cell(key)))
            return sorted(Block(*map(int, name.groups())) for name in names if name)
        return []

    def write(self, key: str, block: Block, regret: FloatArray) -> None:
        """Store the cumulative regret (runs, points) of a block."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        runs, points = regret.shape
        table = pa.table(
            {
                "run": np.arange(block.first, block.first + runs),
                "regret": pa.FixedSizeListArray.from_arrays(regret.ravel(), points),
            }
        )
        header = json.dumps({"format": FORMAT, "cell": key, "seed": block.seed})
        sink = pa.BufferOutputStream()
        pq.write_table(
            table.replace_schema_metadata({"rolf": header}),
            sink,
            use_dictionary=False,
            write_statistics=False,
        )
        self._write(self._cell(key) / block.name, _sealed(sink.getvalue()))

    def read(self, key: str, block: Block, points: int) -> FloatArray:
        """Read the cumulative regret (runs, points) of a block; raise if its file is damaged."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self._cell(key) / block.name
        try:
            content = path.read_bytes()
            _check_seal(content)
            check_parquet(path)
            with pq.ParquetFile(pa.BufferReader(content)) as file:
                table = file.read()
            header = json.loads((table.schema.metadata or {}).get(b"rolf", b"{}"))
            if header != {"format": FORMAT, "cell": key, "seed": block.seed}:
                raise ValueError("other runs")
            if not np.array_equal(table["run"].to_numpy(), np.arange(block.first, block.stop)):
                raise ValueError("other runs")
            flat = table["regret"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
            values: FloatArray = flat.reshape(block.runs, points)
            if values.dtype != np.float64:
                raise ValueError(f"{values.dtype}")
            return values
        except (pa.ArrowException, OSError, ValueError, KeyError, AttributeError) as error:
            again = "rolf sweep with the same configuration plays these runs again"
            raise RolfError(f"{path}: is damaged ({error}); {again}") from None

    def gaps(self, plan: SweepPlan) -> Iterator[tuple[int, Block]]:
        """The missing runs: indices of cells, and blocks of runs without a file.

        Every file is read, and a damaged one counts as missing.
        """
        points = plan.kept_rounds.size
        for index, cell in enumerate(plan.cells):
            have: dict[int, list[Block]] = {seed: [] for seed in plan.seeds}
            for block in self.blocks(cell.key):
                if block.seed in have and block.first < plan.runs:
                    with suppress(RolfError):
                        self.read(cell.key, block, points)
                        have[block.seed].append(block)
            for seed, blocks in have.items():
                for first, stop in _uncovered(blocks, plan.runs):
                    for each in _split(first, stop, plan.block):
                        yield index, Block(seed, *each)

    def count(self, plan: SweepPlan) -> int:
        """How many runs of a plan have a file, without checking that it can be read."""
        count = 0
        for cell in plan.cells:
            blocks = self.blocks(cell.key)
            for seed in plan.seeds:
                of_seed = [block for block in blocks if block.seed == seed]
                gaps = _uncovered(of_seed, plan.runs)
                count += plan.runs - sum(stop - first for first, stop in gaps)
        return count

    def clean(self) -> None:
        """Delete temporary files left by killed processes."""
        latest = time.time() - STALE
        for path in self.folder.rglob(f"*{PART}"):
            with suppress(OSError):  # another sweep may be cleaning too
                if path.stat().st_mtime < latest:
                    path.unlink()

    def check(self) -> None:
        """Create the folder if needed; raise if it is not writable."""
        try:
            self._write(self.folder / f"check-{secrets.token_hex(4)}", b"", keep=False)
        except RolfError as error:
            wanted = f"a writable folder ({error.__cause__ or error})"
            raise InvalidArgument("out", str(self.folder), wanted) from None

    # --- private ---

    def _cell(self, key: str) -> Path:
        return self.folder / "runs" / key

    def _write(self, target: Path, content: Any, *, keep: bool = True) -> None:
        """Write a file atomically: whatever happens, it is complete or absent."""
        part = target.with_name(f"{target.name}.{secrets.token_hex(8)}{PART}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with part.open("xb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                if keep:
                    part.replace(target)
                    with suppress(PermissionError):  # the folder is writable but not readable
                        sync_folder(target.parent)
            finally:
                part.unlink(missing_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
            kept = "finished runs are kept, and the same call resumes from there"
            raise RolfError(f"{target}: cannot be written ({reason}); {kept}") from error


def _sealed(file: Any) -> bytes:
    """A Parquet file with its checksum inserted before the footer."""
    content = memoryview(file)
    start = _footer(content)
    return b"".join([content[:start], hashlib.sha256(content).digest(), content[start:]])


def _check_seal(file: bytes) -> None:
    """Raise if a file's checksum is wrong."""
    content = memoryview(file)
    start = _footer(content)
    seal = max(start - hashlib.sha256().digest_size, 0)
    checksum = hashlib.sha256(content[:seal])
    checksum.update(content[start:])
    if content[seal:start] != checksum.digest():
        raise ValueError("wrong checksum")


def _footer(content: memoryview) -> int:
    """Where the footer of a Parquet file starts; its length precedes the last four bytes."""
    return max(len(content) - 8 - int.from_bytes(content[-8:-4], "little"), 0)


def _uncovered(blocks: list[Block], runs: int) -> Iterator[tuple[int, int]]:
    """The ranges of runs below ``runs`` that are in no block; blocks may overlap."""
    done = 0
    for block in sorted(blocks, key=lambda block: block.first):
        if min(block.first, runs) > done:
            yield done, min(block.first, runs)
        done = max(done, block.stop)
    if done < runs:
        yield done, runs


def _split(first: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    """Split a range at multiples of ``size``: first run and number of runs of each part."""
    while first < stop:
        end = min(stop, (first // size + 1) * size)
        yield first, end - first
        first = end
