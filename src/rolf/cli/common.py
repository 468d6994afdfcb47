"""Shared by the commands: arguments, reading of input, printing of output."""

from __future__ import annotations

import csv
import json
import logging
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rolf.errors import InvalidArgument, RolfWarning, UnknownExperiment
from rolf.text import listed

if TYPE_CHECKING:
    from rich.table import Table

    from rolf.arms.table import Arms
    from rolf.experiments.experiment import Experiment
    from rolf.experiments.roster import Roster

URL = Annotated[str, typer.Argument(help="sqlite:///file.db or postgresql://user@host/database.")]
NAME = Annotated[str, typer.Argument(help="The experiment's name.")]
JSON = Annotated[bool, typer.Option("--json", help="Print JSON.")]
LOG_FEATURES = Annotated[
    Path, typer.Argument(help="The arms' features, CSV or Parquet: one row per arm.")
]
MISSING = Annotated[
    str,
    typer.Option(
        help="What to do with missing cells in the table of arms: impute (and mark them) or error."
    ),
]
PLOT = Annotated[Path | None, typer.Option(help="Also plot the result: a .png, .svg or .pdf file.")]
FEATURES = typer.Option(
    help="Table of the arms, CSV or Parquet: one row per arm, with its name and features."
)
OPTIONS = Annotated[
    str | None, typer.Option(help='Options of the policy, as JSON: {"width": 2.0}.')
]
SEED = Annotated[int | None, typer.Option(min=0, help="Seed for all random draws.")]
DEFAULT_REWARD = Annotated[
    float | None, typer.Option(help="Reward of decisions that never get one.")
]
REWARD_AFTER = Annotated[
    float | None, typer.Option(help="Seconds after which a decision gets the default reward.")
]
JOBS = Annotated[int | None, typer.Option(min=1, help="Number of workers; by default all cores.")]
BACKEND = Annotated[
    str, typer.Option(help="Where to run: local, threads, dask or ray; the numbers are the same.")
]
ADDRESS = Annotated[
    str | None,
    typer.Option(help="Address of a Dask scheduler or Ray cluster; by default one starts here."),
]
#: how to name a policy on the command line, for help texts
POLICY = "A policy: catalogue name, entry point, or package.module:Class"


# --- input ---


def open_existing(url: str, name: str) -> Experiment:
    """Open an existing experiment; the error for an unknown name lists the known ones."""
    from rolf.experiments.database import Database, open_experiment

    try:
        return open_experiment(url, name)
    except UnknownExperiment:
        known = Database(url).names()
        there = f"there are {listed(known, 20)}" if known else "this database has none"
        raise UnknownExperiment(f"no experiment named {name!r}; {there}") from None


def open_roster(experiment: Experiment) -> Roster:
    """The arms of an open experiment, and which of them are active."""
    with experiment.current(defaults=False) as replica:
        return replica.roster


def read_json(option: str, text: str) -> Any:
    """Parse the JSON value of an option."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidArgument(option, text, f"JSON ({error})") from None


def read_options(text: str | None) -> dict[str, Any] | None:
    """Parse the JSON object of --options."""
    if text is None:
        return None
    options = read_json("--options", text)
    if not isinstance(options, dict):
        raise InvalidArgument("--options", text, 'a JSON object: {"width": 2.0}')
    return options


@contextmanager
def errors_name_options(*arguments: str, **options: str) -> Iterator[None]:
    """Make errors about these library arguments name the options that set them.

    ``options``: options whose name differs from the argument's.
    """
    try:
        yield
    except InvalidArgument as error:
        if error.argument not in (*arguments, *options):
            raise
        option = "--" + options.get(error.argument, error.argument).replace("_", "-")
        raise type(error)(option, error.got, error.wanted) from None


def find_labels(names: Sequence[str], arms: Arms, option: str) -> list[Any]:
    """The labels of arms by their text; on the command line even numbers are text."""
    labels = {str(label): label for label in arms.labels}
    for name in names:
        if name not in labels:
            arms.position(name, option)  # raises an error that lists the arms
    return [labels[name] for name in names]


def split_names(values: Sequence[str], arms: Arms) -> list[str]:
    """Names of arms in an option: each value is one name, or several separated by commas.

    A name that contains a comma is quoted as in CSV, or is the only one in its value.
    """
    known = {str(label) for label in arms.labels}
    names = []
    for value in values:
        if value in known:
            names.append(value)
        else:
            parts = next(csv.reader([value], skipinitialspace=True), [""])
            names += [part.strip() for part in parts]
    return names


def join_names(names: Iterable[Any]) -> str:
    """Names on one line, in the format ``split_names`` reads."""
    return ", ".join(
        '"' + name.replace('"', '""') + '"' if {*name} & {*',"'} else name
        for name in map(str, names)
    )


# --- output ---


@contextmanager
def log_shown() -> Iterator[None]:
    """Show rolf's log messages on standard error, for instance what is being compiled."""
    logger, handler = logging.getLogger("rolf"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("rolf: %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print rolf's warnings as notes on standard error, to keep standard output clean."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", RolfWarning)
        show_other = warnings.showwarning

        def show(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, RolfWarning):
                typer.echo(f"note: {message}", err=True)
            else:
                show_other(message, category, *place, **more)

        warnings.showwarning = show
        yield


def make_table(
    header: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    text: Sequence[str] = (),
    title: str | None = None,
) -> Table:
    """A table whose cells are printed verbatim.

    The first column and the columns in ``text`` are left-aligned, the others right-aligned.
    """
    from rich.table import Table
    from rich.text import Text

    caption = Text(title) if title else None
    table = Table(title=caption, title_justify="left", box=None, pad_edge=False)
    for name in header:
        left = name == header[0] or name in text
        table.add_column(name, justify="left" if left else "right")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    return table


def print_table(table: Table) -> None:
    """Print a table, as wide as the screen."""
    from rich.console import Console

    Console().print(table)


def format_number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def print_json(data: Any) -> None:
    typer.echo(json.dumps(data, indent=2))


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C."""
    import signal

    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def writable_folder(folder: Path) -> Path:
    """Create the output folder if needed, before anything is computed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InvalidArgument("--out", str(folder), f"a writable folder ({error})") from None
    return folder
