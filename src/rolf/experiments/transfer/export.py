"""Export a log to a file, one row per decision, and import it as a new experiment.

A Parquet file also says how the experiment was created. The columns:

* ``id``, ``number``, ``arm``, ``probability``, ``asked_at``: the decision;
* ``reward``, ``told_at``, ``is_default``: its reward, empty while it waits;
* ``greedy``, ``pseudo``, ``matched``, ``clocks``: what the policy's update needs;
* ``asked_order``, ``told_order``: the places of decision and reward in the log;
* ``corrections``: what its reward was before, and why, where it was corrected;
* ``x_<arm>_<feature>``: the features of the round, where they vary;
* ``context_<name>``: the context of the round, from which they follow.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from rolf.errors import InvalidArgument, RolfError, RolfWarning
from rolf.experiments.database import create, default_reward_named
from rolf.experiments.experiment import Experiment
from rolf.experiments.roster import Roster
from rolf.experiments.storage.contract import (
    CHANGE,
    CORRECTION,
    DECISION,
    DEFAULT,
    HISTORY,
    REWARD,
    Row,
    log_rows,
)
from rolf.experiments.transfer.log_additions import corrections_text, history_data, history_rows
from rolf.experiments.transfer.log_files import (
    METADATA,
    checked_path,
    open_log_file,
    recorded_number,
    recorded_options,
    recorded_policy,
    recorded_roster,
)
from rolf.experiments.transfer.log_rows import CONTEXT, LogRows
from rolf.extras import require
from rolf.policies.core.rounds import Context
from rolf.policies.policy import Policy
from rolf.policies.registry import check_options, policy_class, policy_name
from rolf.progress import Progress, counting_bar
from rolf.tables.files import is_parquet
from rolf.text import harmless


class Logged(NamedTuple):
    """A decision with its latest reward, and their places in the log."""

    decision: Row
    asked_order: int
    reward: Row | None = None
    told_order: int | None = None
    corrections: tuple[tuple[int, Row], ...] = ()


# --- export ---


def export_log(experiment: Experiment, path: str | Path) -> int:
    """Write the log to a file; returns the number of decisions.

    History from before the experiment is kept in a Parquet file only.
    """
    require("pyarrow", "exporting a log")
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    target = checked_path(path)
    parquet = is_parquet(target)
    record = experiment.record
    logged, roster, histories = _collect(experiment)
    corrected = any(each.corrections for each in logged)
    policy = experiment.synced.replica.policy
    columns = columns_of(logged, policy, roster, record.tag, corrections=corrected)
    if not all(_is_plain(label) for label in roster.arms.labels):
        columns |= {name: list(map(str, columns[name])) for name in ("arm", "greedy", "pseudo")}
    table = pa.table(columns)
    settings: dict[str, Any] = {
        "policy": record.policy,
        "options": json.loads(record.options),
        "seed": record.seed,
        "default_reward": record.default_reward,
        "reward_after": record.reward_after,
        "features": json.loads(roster.dumps()),
    }
    if histories and parquet:
        settings["history"] = history_data(histories)
    elif histories:
        rounds = sum(sum(row.details["counts"]) for _, row in histories)
        warnings.warn(
            f"{path}: a CSV file has no place for history, here {rounds} rounds from before the "
            "experiment; a Parquet file has",
            RolfWarning,
            stacklevel=2,
        )
    try:
        if parquet:
            table = table.replace_schema_metadata({METADATA: json.dumps(settings)})
            pq.write_table(table, target)
        else:
            pyarrow.csv.write_csv(_for_spreadsheets(table), target)
    except OSError as error:
        raise RolfError(f"{path}: cannot be written ({error.strerror or error})") from None
    return len(logged)


def _for_spreadsheets(table: Any) -> Any:
    """A table whose text no spreadsheet takes for formulas; ``read_table`` reads it as it was."""
    import pyarrow as pa

    for i, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            values = [harmless(each) for each in table.column(i).to_pylist()]
            table = table.set_column(i, field.name, pa.array(values, pa.string()))
    return table.rename_columns([harmless(name) for name in table.column_names])


def _collect(experiment: Experiment) -> tuple[list[Logged], Roster, list[tuple[int, Row]]]:
    """The decisions with their rewards, the roster at the end of the log, and history."""
    roster = Roster.loads(experiment.record.features)
    rows = [Row(*row) for row in log_rows(experiment.synced.store, experiment.record)]
    for row in rows:
        if row.kind == CHANGE:
            roster = roster.changed(row.details)
    histories = [(row.seq, row) for row in rows if row.kind == HISTORY]
    return joined(rows), roster, histories


def joined(rows: Iterable[Row]) -> list[Logged]:
    """Decisions with their rewards, which follow them."""
    logged: dict[int, Logged] = {}
    for row in rows:
        if row.kind == DECISION:
            logged[row.number] = Logged(row, row.seq)
        elif row.kind == CORRECTION:
            known = logged[row.number]
            corrections = (*known.corrections, (row.seq, row))
            logged[row.number] = known._replace(corrections=corrections)
        elif row.kind in (REWARD, DEFAULT):  # a late reward takes the place of the default
            logged[row.number] = logged[row.number]._replace(reward=row, told_order=row.seq)
    return [logged[number] for number in sorted(logged)]


def columns_of(
    logged: list[Logged], policy: Policy, roster: Roster, tag: str, *, corrections: bool
) -> dict[str, Any]:
    """Decisions as columns, with the features or the context of their rounds, where they vary."""
    labels = _column_labels(roster)
    decisions = [each.decision for each in logged]
    rewards = [each.reward for each in logged]
    columns: dict[str, Any] = {
        "id": [f"{tag}-{row.number}" for row in decisions],
        "number": [row.number for row in decisions],
        "arm": [labels[row.arm] for row in decisions],
        "probability": [row.probability for row in decisions],
        "asked_at": [row.time for row in decisions],
        "reward": [_final_reward(each) for each in logged],
        "told_at": [None if row is None else row.time for row in rewards],
        "is_default": [row is not None and row.kind == DEFAULT for row in rewards],
        "greedy": [labels[row.greedy] for row in decisions],
        "pseudo": [labels[row.pseudo] for row in decisions],
        "matched": [bool(row.matched) for row in decisions],
        "clocks": [row.clock_steps for row in decisions],
        "asked_order": [each.asked_order for each in logged],
        "told_order": [each.told_order for each in logged],
    }
    if corrections:
        columns["corrections"] = [corrections_text(each.corrections) for each in logged]
    if policy.context is not None:
        columns |= _context_columns(logged, policy.context)
    elif policy.varying:
        columns |= _round_columns(logged, roster)
    return columns


def _final_reward(logged: Logged) -> float | None:
    """The reward that counts, once it was corrected."""
    if logged.corrections:
        return logged.corrections[-1][1].reward
    return None if logged.reward is None else logged.reward.reward


def _round_columns(logged: list[Logged], roster: Roster) -> dict[str, list[float | None]]:
    """The features of every round; empty for arms that were added later."""
    rounds = [json.loads(each.decision.features or "") for each in logged]
    return {
        f"x_{label}_{column}": [
            table[arm][feature] if arm < len(table) else None for table in rounds
        ]
        for arm, label in enumerate(_column_labels(roster))
        for feature, column in enumerate(roster.arms.columns)
    }


def _context_columns(logged: list[Logged], context: Context) -> dict[str, list[float]]:
    """The context of every round."""
    rounds = [json.loads(each.decision.features or "")["context"] for each in logged]
    return {
        f"{CONTEXT}{name}": [entries[place] for entries in rounds]
        for place, name in enumerate(context.names)
    }


def _is_plain(label: Any) -> bool:
    """Whether a file gives the name of an arm back as it is, and not 2.0 as 2."""
    return isinstance(label, str) or (isinstance(label, int) and abs(label) < 2**63)


def _column_labels(roster: Roster) -> list[Any]:
    """The names of the arms, all of one type."""
    labels = roster.arms.labels
    return labels if len({type(label) for label in labels}) == 1 else [str(each) for each in labels]


# --- import ---


def import_log(
    url: str,
    name: str,
    path: str | Path,
    *,
    features: Any = None,
    policy: Any = None,
    options: Mapping[str, Any] | None = None,
    seed: int | None = None,
    default_reward: float | None = None,
    reward_after: float | None = None,
    progress: Progress = None,
) -> Experiment:
    """Create an experiment from an exported log; decisions keep their ids.

    Rows go from the file to the database some at a time, so the log may be larger than memory. If
    one cannot be read, nothing is left in the database.

    A Parquet file needs nothing else; arguments override what it says. A CSV file needs the
    policy, which it does not say, and the features of all arms in it, retired ones included.
    """
    stream, recorded = open_log_file(path)
    if features is not None:
        roster = Roster.read(features)
    elif "features" in recorded:
        roster = recorded_roster(path, recorded)
    else:
        raise InvalidArgument("features", None, f"the table of arms, which {path} does not have")
    recorded_name = recorded_policy(path, recorded)
    chosen = policy if policy is not None else recorded_name
    if chosen is None:
        expected = f"the policy that made the decisions, or another: {path} does not say; "
        expected += "a Parquet file would"
        raise InvalidArgument("policy", None, expected)
    cls = policy_class(chosen)
    if options is None and policy_name(cls) == recorded_name:
        options = recorded_options(path, recorded)
    if default_reward is None:
        default_reward = recorded_number(path, recorded, "default_reward")
    if reward_after is None:
        reward_after = recorded_number(path, recorded, "reward_after")
    blank = new_policy(cls, roster, options or {})
    histories = history_rows(path, recorded.get("history", []), blank)
    if default_reward is not None:
        with default_reward_named():
            blank._number(default_reward)
    with counting_bar(progress, stream.rows, f"importing {Path(path).name}") as count:
        log = LogRows(stream, roster, blank, histories, count)
        rows = _with_defaults(iter(log), default_reward, reward_after)
        first = list(islice(rows, 1))  # by then the tag is known
        return create(
            url,
            name,
            roster,
            policy=cls,
            options=options,
            seed=seed if seed is not None else recorded_number(path, recorded, "seed"),
            default_reward=default_reward,
            reward_after=reward_after,
            tag=log.tag,
            rows=chain(first, rows),
            new=not first,
        )


def new_policy(cls: Any, roster: Roster, options: Mapping[str, Any]) -> Policy:
    """The policy that the log will be of."""
    check_options(cls, options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RolfWarning)  # shown when the experiment is created
        try:
            policy: Policy = cls(roster.arms.features, seed=0, **options)
        except (TypeError, ArithmeticError) as error:
            expected = f"options of {policy_name(cls)} ({error})"
            raise InvalidArgument("options", dict(options), expected) from None
    return policy


def _with_defaults(
    rows: Iterable[Row], default: float | None, after: float | None
) -> Iterator[Row]:
    """The rows of a log, whose default rewards must be those of the new experiment."""
    for row in rows:
        if row.kind == DEFAULT and (after is None or row.reward != (default or 0.0)):
            expected = f"{row.reward}, and reward_after with it: the log has such rewards"
            raise InvalidArgument("default_reward", default, expected)
        yield row
