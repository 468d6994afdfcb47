"""The registry: every policy by name, for simulations, experiments, replay and commands.

A policy is named in one of four ways:

* by its name in the catalogue, or the ``name`` of a class that this process has defined;
* by the name of an entry point of an installed package, in the group ``rolf.policies``;
* as ``package.module:Class``;
* as the class itself, in Python.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Iterable
from functools import reduce
from typing import Any
from weakref import WeakSet

from rolf.errors import InvalidArgument, UnknownPolicy
from rolf.policies.catalogue import CATALOG

GROUP = "rolf.policies"  # the group of entry points

#: every subclass of ``rolf.Policy``, and those with a name by name
_classes: WeakSet[type] = WeakSet()
named: dict[str, type] = {}


def register(cls: Any, name: str) -> None:
    """Register a subclass of ``rolf.Policy``; ``name`` is empty if it has none."""
    reference = f"{cls.__module__}:{cls.__qualname__}"
    if CATALOG.get(name, reference) != reference:
        raise InvalidArgument("name", name, "a name that is not in the catalogue")
    known = named.get(name)
    if known is not None and known.__qualname__ != cls.__qualname__:
        raise InvalidArgument("name", name, f"a name other than that of {known.__name__}")
    _classes.add(cls)
    if name:
        named[name] = cls


def find_policy(policy: Any) -> Any:
    """The class or function behind a policy's name; anything but text is returned unchanged.

    A reference ``package.module:Class`` may name any class with ``ask`` and ``tell``.
    """
    if not isinstance(policy, str):
        return policy
    if policy in CATALOG:
        return _imported(policy, CATALOG[policy])
    if ":" in policy:
        return _imported(policy, policy)
    if policy in named:
        return named[policy]
    for entry in _entry_points():
        if entry.name == policy:
            return _imported(policy, entry.value)
    known = [*CATALOG, *(name for name in named if name not in CATALOG)]
    known += [entry.name for entry in _entry_points() if entry.name not in known]
    expected = f"package.module:Class, an entry point, or {one_of(policy, known)}"
    raise UnknownPolicy("policy", policy, expected)


def policy_class(policy: Any) -> Any:
    """The class of a policy, from a name, ``package.module:Class``, or the class itself."""
    cls = find_policy(policy)
    if not (isinstance(cls, type) and cls in _classes):
        raise UnknownPolicy("policy", policy, "a policy's name, or a subclass of rolf.Policy")
    return cls


def policy_name(cls: Any) -> str:
    """The name that finds a class again, also in other processes that can import it."""
    reference = f"{cls.__module__}:{cls.__qualname__}"
    if CATALOG.get(cls.name) == reference:
        return str(cls.name)
    for entry in _entry_points():
        if entry.value == reference:
            return str(entry.name)
    if cls.name and "<locals>" in reference:  # known only here, by its name
        return str(cls.name)
    return reference


def policy_classes() -> list[Any]:
    """All classes of the catalogue, in order."""
    return [policy_class(name) for name in CATALOG]


def option_names(build: Any) -> list[str] | None:
    """The options that a class takes; None if it takes any, or has no signature."""
    try:
        parameters = inspect.signature(build).parameters
    except (TypeError, ValueError):
        return None
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return None
    return [each for each in parameters if each not in ("features", "seed")]


def check_options(build: Any, options: Iterable[str], argument: str = "options") -> None:
    """Refuse options that a class does not take."""
    known = option_names(build)
    for option in options:
        if option == "seed" or (known is not None and option not in known):
            name = getattr(build, "name", "") or getattr(build, "__name__", repr(build))
            expected = f"an option of {name}, {one_of(option, known or [])}"
            raise InvalidArgument(argument, option, expected)


def one_of(got: Any, known: Iterable[str]) -> str:
    """The known names, in words, with the one that was probably meant."""
    names = list(known)
    close = difflib.get_close_matches(got, names, n=1) if isinstance(got, str) else []
    return "one of " + ", ".join(names) + "".join(f"; did you mean {each!r}?" for each in close)


def _imported(policy: str, reference: str) -> Any:
    module, _, path = reference.partition(":")
    try:
        return reduce(getattr, path.split("."), importlib.import_module(module))
    except Exception as error:  # a user's module may raise anything
        expected = f"something that can be imported here ({type(error).__name__}: {error})"
        raise UnknownPolicy("policy", policy, expected) from error


def _entry_points() -> Any:
    from importlib import metadata

    return metadata.entry_points(group=GROUP)
