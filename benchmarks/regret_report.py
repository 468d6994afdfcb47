"""The tables of benchmarks/regret.py, made from its records."""

from __future__ import annotations

import argparse
import math
from collections import Counter
from typing import Any

import numpy as np

from regret_cells import CELLS, quiet
from regret_records import Book, Record, stuck_share

Rows = list[list[str]]


def number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2f}"


def amount(record: Record | None) -> str:
    return "" if record is None else f"{record['mean']:.1f}"


def named(record: Record | None) -> str:
    return "" if record is None else record["label"]


def stuck(record: Record | None) -> str:
    return "" if record is None else str(record.get("stuck", ""))


def cell_table(book: Book, rule: str | None) -> Rows:
    """One row per cell: the best rivals and, if any, the first rule."""
    coupled = book.has("rolf")
    head = ["cell", "best specialist", "regret", "stuck"]
    head += ["best RoLF", "regret"] if coupled else []
    stages = ["specialists", *(["rolf"] if coupled else []), "itself"]
    if rule is not None:
        head += [rule, "/ specialist", *(["/ RoLF"] if coupled else []), "worst / mean", "stuck"]
    rows = [head]
    for cell in book.cells:
        special, other = book.best(cell, "specialists"), book.best(cell, "rolf")
        row = [cell, named(special), amount(special), stuck(special)]
        row += [named(other), amount(other)] if coupled else []
        if rule is not None:
            row.append(amount(book.ours(cell, rule)))
            row += [number(book.ratio(cell, rule, stage)) for stage in stages]
            row.append(stuck(book.ours(cell, rule)))
        rows.append(row)
    return rows


def summary_table(book: Book) -> Rows:
    """One column per rule, without rows for which nothing was played."""
    rows = [["over the cells", *book.rules]]

    def add(title: str, stage: str, cells: Any, shown: Any) -> None:
        values = []
        for rule in book.rules:
            ratios = {cell: book.ratio(cell, rule, stage) for cell in cells}
            known = {c: v for c, v in ratios.items() if not math.isnan(v)}
            values.append(shown(known) if known else "")
        if any(values):
            rows.append([title, *values])

    calm = [cell for cell in book.cells if quiet(CELLS[cell])]
    add("cells", "specialists", book.cells, lambda known: str(len(known)))
    add("/ specialist, geometric mean", "specialists", book.cells, geometric)
    add("/ specialist, worst", "specialists", book.cells, worst)
    if book.won:
        rest = [cell for cell in book.cells if cell not in book.won]
        title = f"/ specialist, without the {len(book.won)} won at the first play"
        add(title + ", geometric mean", "specialists", rest, geometric)
        add(title + ", worst", "specialists", rest, worst)
    for limit in (2.0, 3.0):
        add(f"/ specialist, cells above {limit:g}", "specialists", book.cells, above(limit))
    add("/ RoLF, geometric mean", "rolf", book.cells, geometric)
    add("/ RoLF, worst, noise up to 0.1", "rolf", calm, worst)
    add("/ RoLF, worst", "rolf", book.cells, worst)
    add("worst run / mean, largest", "itself", book.cells, worst)
    add("worst run / mean, cells above 4", "itself", book.cells, above(4.0))
    rows.append(["stuck runs", *(stuck_share(book.all_ours(rule)) for rule in book.rules)])
    return rows


def geometric(values: dict[str, float]) -> str:
    return f"{math.exp(np.mean(np.log([*values.values()]))):.2f}"


def worst(values: dict[str, float]) -> str:
    """The largest value, and its cell."""
    cell = max(values, key=lambda each: values[each])
    return f"{values[cell]:.2f} ({cell})"


def above(limit: float) -> Any:
    return lambda values: str(sum(value > limit for value in values.values()))


def side_table(book: Book) -> Rows:
    """Ratios of all rules to the best specialist, cell by cell."""
    rows = [["/ specialist", *book.rules]]
    for cell in book.cells:
        values = [number(book.ratio(cell, rule, "specialists")) for rule in book.rules]
        rows.append([cell, *values])
    return rows


def plain(rows: Rows) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    texts = {i for i, word in enumerate(rows[0]) if i == 0 or word.startswith("best ")}
    sides = [f"<{width}" if i in texts else f">{width}" for i, width in enumerate(widths)]
    lines = ([format(word, side) for word, side in zip(row, sides, strict=True)] for row in rows)
    return "\n".join("  ".join(line).rstrip() for line in lines)


def markdown(rows: Rows) -> str:
    texts = [i == 0 or word.startswith("best ") for i, word in enumerate(rows[0])]
    rule = "|" + "|".join("---" if text else "---:" for text in texts) + "|"
    head, *rest = ("| " + " | ".join(row) + " |" for row in rows)
    return "\n".join([head, rule, *rest])


def report(args: argparse.Namespace) -> None:
    book = Book(args)
    if not book.cells:
        print(f"{args.out}: no records of {args.runs} runs, {args.rounds} rounds, seed {args.seed}")
        return
    title = f"Mean regret after {args.rounds} rounds, {args.runs} runs, seed {args.seed}"
    tables = [cell_table(book, book.rules[0] if book.rules else None)]
    if book.rules:
        tables.append(summary_table(book))
    if len(book.rules) > 1:
        tables.append(side_table(book))
    print("\n\n".join([title, *map(plain, tables)]))
    records = book.bests("specialists")
    kinds = Counter(named(record).split(" ")[0] for record in records)
    print("\nbest specialist: " + ", ".join(f"{kind} {n}" for kind, n in kinds.most_common()))
    print(f"best with one setting for all cells, told the noise: {book.everywhere()}")
    far = sum(record["worst"] > 4.0 * record["mean"] for record in records)
    print(f"best specialist, worst run / mean above 4: {far} cells")
    print(f"best specialist, stuck runs: {stuck_share(records)}")
    if args.markdown:
        args.markdown.write_text("\n\n".join([title, *map(markdown, tables)]) + "\n")
        print(f"written: {args.markdown}")
