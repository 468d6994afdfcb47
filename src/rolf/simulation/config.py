"""Read problems and policies from a TOML file, or a dict of the same form."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from rolf import environments
from rolf.errors import InvalidArgument, RolfError

#: kinds of problems, and the names in ``rolf.environments`` that build them
FAMILIES = {
    "problem": "Problem",
    "paper": "paper",
    "synthetic": "synthetic",
    "varying": "varying",
    "two-arms": "two_arms",
    "three-arms": "three_arms",
}


class SimulationPlan(NamedTuple):
    """The configuration of ``rolf simulate``."""

    title: str
    rounds: Any
    runs: Any
    seed: Any
    policies: dict[str, tuple[Any, dict[str, Any]]]
    problem: Any


def read_plan(path: Path) -> SimulationPlan:
    """Read the TOML file of a simulation."""
    data = read_toml(path)
    check_keys(f"{path}", data, SimulationPlan._fields)
    policies = read_table(f"{path}: policies", data.get("policies"))
    return SimulationPlan(
        read_title(f"{path}: title", data.get("title", path.stem)),
        rounds=data.get("rounds", 1200),
        runs=data.get("runs", 5),
        seed=data.get("seed", 0),
        policies={
            label: read_policy(f"{path}: policies.{label}", label, entry)
            for label, entry in policies.items()
        },
        problem=read_problem(f"{path}: problem", data.get("problem", {})),
    )


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as a dict."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RolfError(f"{path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RolfError(f"{path}: is not valid TOML ({error})") from None


# --- parts of a file; ``where`` names them in errors ---


def read_title(where: str, title: Any) -> str:
    if not isinstance(title, str):
        raise InvalidArgument(where, title, "text")
    return title


def read_table(where: str, table: Any) -> dict[str, Any]:
    """A table with at least one entry."""
    if not isinstance(table, Mapping) or not table:
        raise InvalidArgument(where, table, f"a [{where.rpartition(': ')[2]}] table")
    return dict(table)


def read_policy(where: str, label: str, entry: Any) -> tuple[Any, dict[str, Any]]:
    """A policy and its options; the label is the policy's name unless ``policy`` says otherwise."""
    if isinstance(entry, str | type):
        return entry, {}
    if isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[1], Mapping):
        return entry[0], dict(entry[1])
    if not isinstance(entry, Mapping):
        expected = 'a policy\'s name, or { policy = "name", option = value }'
        raise InvalidArgument(where, entry, expected)
    options = dict(entry)
    return options.pop("policy", label), options


def read_problem(where: str, table: Any) -> Any:
    """The problem or family of problems that a table describes."""
    if not isinstance(table, Mapping):
        raise InvalidArgument(where, table, "a [problem] table")
    arguments = dict(table)
    build = find_family(f"{where}.family", arguments.pop("family", "paper"))
    check_keys(where, arguments, inspect.signature(build).parameters)
    try:
        return build(**arguments)
    except TypeError as error:
        raise InvalidArgument(where, arguments, f"numbers and names ({error})") from None


def find_family(where: str, family: Any) -> Callable[..., Any]:
    """The builder of a family, by its name or as ``package.module:function``."""
    if isinstance(family, str) and family in FAMILIES:
        build: Callable[..., Any] = getattr(environments, FAMILIES[family])
        return build
    if not isinstance(family, str) or ":" not in family:
        expected = f"package.module:function, or one of {', '.join(FAMILIES)}"
        raise InvalidArgument(where, family, expected)
    module, _, name = family.partition(":")
    try:
        build = getattr(import_module(module), name)
        inspect.signature(build)
    except Exception as error:  # a user's module may raise anything
        expected = f"a function that can be imported here ({type(error).__name__}: {error})"
        raise InvalidArgument(where, family, expected) from None
    return build


def check_keys(where: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse unknown keys."""
    if unknown := sorted(set(table) - set(known)):
        raise InvalidArgument(where, unknown, "keys among " + ", ".join(sorted(known)))
