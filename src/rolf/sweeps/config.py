"""Read and check the configuration of a sweep: a TOML file, or a dict of the same form."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rolf.checks import whole
from rolf.errors import InvalidArgument, InvalidTable, RolfError
from rolf.simulation.config import (
    check_keys,
    find_family,
    read_policy,
    read_problem,
    read_table,
    read_title,
    read_toml,
)
from rolf.simulation.entries import Entry, read_policies
from rolf.simulation.runs import draw_problem, make_policy
from rolf.simulation.simulate import kept_rounds, warn_if_unsuited
from rolf.sweeps.identity import alike, cell_key, plain
from rolf.sweeps.plan import Cell, SweepPlan

KEYS = ("title", "rounds", "runs", "seed", "seeds", "points", "problems", "policies")
#: default number of rounds after which regret is kept
POINTS = 20


class Players(NamedTuple):
    """What plays in a cell: a policy against a problem or a family of problems."""

    entry: Entry
    problem: Any


class _Problem(NamedTuple):
    """A problem with one choice of its grid."""

    where: str
    name: str
    arguments: dict[str, Any]
    grid: list[str]
    builder: Any
    problem: Any


class _Policy(NamedTuple):
    """A policy with one choice of its grid."""

    where: str
    grid: list[str]
    entry: Entry


class _Mistakes(list[InvalidArgument]):
    """Mistakes in a configuration, to be reported together."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source = source

    @contextmanager
    def noted(self, where: str) -> Iterator[None]:
        """Collect an error; if it does not name its place, use ``where``."""
        try:
            yield
        except InvalidArgument as error:
            place = error.argument
            if place.startswith("policies["):
                place = where
            elif not place.startswith(self.source):
                place = f"{where}: {place}" if where == self.source else f"{where}.{place}"
            mistake = InvalidArgument(place, error.got, error.wanted)
            if str(mistake) not in map(str, self):  # each policy is built once per problem
                self.append(mistake)

    def raise_any(self) -> None:
        if len(self) == 1:
            raise self[0]
        if self:
            raise InvalidTable(self.source, self)


def read_config(config: str | Path | Mapping[str, Any]) -> tuple[SweepPlan, list[Players]]:
    """The plan of a sweep, and the policy and problem of each of its cells.

    One error reports all mistakes, of each problem and each policy the first.
    """
    if isinstance(config, Mapping):
        source, data, title = "config", dict(config), "sweep"
    elif isinstance(config, str | Path):
        source, data, title = str(config), read_toml(Path(config)), Path(config).stem
    else:
        raise InvalidArgument("config", config, "the path of a TOML file, or a dict")
    mistakes = _Mistakes(source)
    with mistakes.noted(source):
        check_keys(source, data, KEYS)
    with mistakes.noted(f"{source}: title"):
        title = read_title(f"{source}: title", data.get("title", title))
    rounds, runs, points = 1, 1, data.get("points")
    with mistakes.noted(source):
        rounds = whole(f"{source}: rounds", data.get("rounds", 1200), 1)
        points = _read_points(f"{source}: points", data.get("points"), rounds)
    with mistakes.noted(source):
        runs = whole(f"{source}: runs", data.get("runs", 5), 1)
    seeds = [0]
    with mistakes.noted(source):
        seeds = _read_seeds(source, data)
    problems = list(_read_problems(source, data.get("problems"), mistakes))
    policies = list(_read_policies(source, data.get("policies"), mistakes))
    mistakes.raise_any()
    plan = SweepPlan(title, rounds, points, runs, seeds, [])
    cells, players = _combine(plan, problems, policies, mistakes)
    mistakes.raise_any()
    return plan._replace(cells=cells), players


def _read_points(where: str, points: Any, rounds: int) -> list[int] | str:
    """The rounds after which regret is kept, from "all", a number of rounds, or a list of them."""
    if points == "all":
        return "all"
    if points is not None and not isinstance(points, int | list | tuple):
        raise InvalidArgument(where, points, '"all", a number of rounds, or a list of rounds')
    wanted = min(POINTS, rounds) if points is None else points
    return [int(each) for each in kept_rounds(wanted, rounds)]


def _read_seeds(source: str, data: Mapping[str, Any]) -> list[int]:
    if "seeds" not in data:
        return [whole(f"{source}: seed", data.get("seed", 0), 0)]
    where, seeds = f"{source}: seeds", data["seeds"]
    if "seed" in data:
        raise InvalidArgument(where, seeds, "either seed or seeds")
    if not isinstance(seeds, list | tuple) or not seeds:
        raise InvalidArgument(where, seeds, "a list of whole numbers")
    numbers = [whole(where, seed, 0) for seed in seeds]
    if len(set(numbers)) < len(numbers):
        raise InvalidArgument(where, seeds, "distinct seeds")
    return numbers


# --- problems and policies, with their grids ---


def _read_problems(source: str, table: Any, mistakes: _Mistakes) -> Iterator[_Problem]:
    names: dict[str, Any] = {}
    with mistakes.noted(f"{source}: problems"):
        names = read_table(f"{source}: problems", table)
    for name, entry in names.items():
        name, where = str(name), f"{source}: problems.{name}"
        if hasattr(entry, "draw") or hasattr(entry, "params"):  # a problem object, from Python
            with mistakes.noted(where):
                described = plain(where, entry.describe())
                yield _Problem(where, name, described, [], type(entry), entry)
            continue
        with mistakes.noted(where):
            if not isinstance(entry, Mapping):
                raise InvalidArgument(where, entry, "a table with a family and its arguments")
            for arguments, grid in _choices(where, entry):
                with mistakes.noted(where):
                    builder = find_family(f"{where}.family", arguments.get("family", "paper"))
                    problem = read_problem(where, arguments)
                    described = plain(where, arguments)
                    yield _Problem(where, name, described, grid, builder, problem)


def _read_policies(source: str, table: Any, mistakes: _Mistakes) -> Iterator[_Policy]:
    labels: dict[str, Any] = {}
    with mistakes.noted(f"{source}: policies"):
        labels = read_table(f"{source}: policies", table)
    for label, value in labels.items():
        where = f"{source}: policies.{label}"
        with mistakes.noted(where):
            policy, options = read_policy(where, str(label), value)
            for chosen, grid in _choices(where, options):
                with mistakes.noted(where):
                    (entry,) = read_policies({label: (policy, plain(where, chosen))})
                    yield _Policy(where, grid, entry)


def _choices(where: str, table: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """For every combination of the grid: the table with those values, and the grid's names."""
    fixed = dict(table)
    where = f"{where}.grid"
    grid = fixed.pop("grid", {})
    if not isinstance(grid, Mapping):
        raise InvalidArgument(where, grid, "a table that maps each argument to a list of values")
    for name, values in grid.items():
        if not isinstance(values, list | tuple) or not values:
            raise InvalidArgument(f"{where}.{name}", values, "a list of at least one value")
        values = plain(f"{where}.{name}", values)
        if any(value in values[:place] for place, value in enumerate(values)):
            raise InvalidArgument(f"{where}.{name}", values, "a list of distinct values")
        if name in fixed:
            raise InvalidArgument(f"{where}.{name}", values, "in the grid or outside it, not both")
    for choice in itertools.product(*grid.values()):
        yield {**fixed, **dict(zip(grid, choice, strict=True))}, list(grid)


# --- cells ---


def _combine(
    plan: SweepPlan, problems: list[_Problem], policies: list[_Policy], mistakes: _Mistakes
) -> tuple[list[Cell], list[Players]]:
    """Combine every policy with every problem; build each pair once, to check that it works."""
    cells: dict[str, Cell] = {}
    players = []
    for problem in problems:
        first = None
        with mistakes.noted(problem.where), _foreign(problem.where, problem.arguments):
            first = draw_problem(problem.problem, plan.seeds[0], 0)
        for policy in policies:
            entry = policy.entry
            with mistakes.noted(policy.where), _foreign(policy.where, entry.options):
                if first is None:
                    continue
                instance = make_policy(entry, first, plan.seeds[0], 0)
                if entry.ours:
                    warn_if_unsuited(entry, instance, first, plan.rounds)
                content = {
                    "problem": alike(problem.builder, problem.arguments),
                    "label": entry.label,
                    "policy": f"{entry.build.__module__}:{entry.build.__qualname__}",
                    "options": alike(entry.build, entry.options),
                    "points": {"all": plan.rounds} if plan.points == "all" else plan.points,
                }
                builders = [(problem.where, problem.builder), (policy.where, entry.build)]
                cell = Cell(
                    cell_key(content, builders),
                    problem.name,
                    problem.arguments,
                    problem.grid,
                    entry.label,
                    entry.name,
                    entry.options,
                    policy.grid,
                )
                if (same := cells.get(cell.key)) is not None:
                    got = f"the same as problems.{same.problem}"
                    raise InvalidArgument(problem.where, got, "a problem unlike the others")
                cells[cell.key] = cell
                players.append(Players(entry, problem.problem))
    return list(cells.values()), players


@contextmanager
def _foreign(where: str, arguments: Mapping[str, Any]) -> Iterator[None]:
    """Report any error in the user's code as a mistake in the configuration."""
    try:
        yield
    except (RolfError, Warning):
        raise
    except Exception as error:
        expected = f"arguments that its code accepts ({type(error).__name__}: {error})"
        raise InvalidArgument(where, dict(arguments), expected) from error
