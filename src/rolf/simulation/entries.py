"""The policies of a simulation: labels, classes and options, checked before anything is played."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from rolf.errors import InvalidArgument
from rolf.policies.policy import Policy
from rolf.policies.registry import check_options, find_policy


class Entry(NamedTuple):
    """One policy of a simulation or an evaluation."""

    label: str
    name: str
    build: Any  # a class, called with features, options and seed
    options: dict[str, Any]

    @property
    def ours(self) -> bool:
        """Whether the loop may call its operations directly, bypassing ask and tell."""
        policy = isinstance(self.build, type) and issubclass(self.build, Policy)
        return policy and self.build.ask is Policy.ask and self.build.tell is Policy.tell

    def make(self, problem: Any, seed: np.random.SeedSequence) -> Any:
        """Build the policy for a problem; pass the seed if the class accepts one."""
        if self.ours:
            return self.build(problem.features, seed=seed, **self.options)
        options = dict(self.options)
        try:
            takes_seed = "seed" in inspect.signature(self.build).parameters
        except (TypeError, ValueError):
            takes_seed = False
        if takes_seed:
            options["seed"] = int(seed.generate_state(1)[0])
        return self.build(problem.features.copy(), **options)  # others share the problem


def read_policies(policies: Mapping[str, Any]) -> list[Entry]:
    """Check a dict of policies: each label maps to a policy or a (policy, options) pair."""
    if not isinstance(policies, Mapping) or not policies:
        raise InvalidArgument("policies", policies, "a dict: label to policy, or (policy, options)")
    entries = []
    for label, value in policies.items():
        pair = isinstance(value, tuple | list) and len(value) == 2
        spec, options = value if pair else (value, {})
        if not isinstance(options, Mapping):
            raise InvalidArgument(f"policies[{label!r}]", value, "(policy, dict of options)")
        build = find_policy(spec)
        if not callable(build) or not (hasattr(build, "ask") and hasattr(build, "tell")):
            raise InvalidArgument(
                f"policies[{label!r}]",
                spec,
                "a policy's name, package.module:Class, or a class with ask and tell",
            )
        check_options(build, options, f"policies[{label!r}]")
        name = spec if isinstance(spec, str) else getattr(build, "__name__", repr(build))
        entries.append(Entry(str(label), name, build, dict(options)))
    return entries


def describe(entries: Iterable[Entry]) -> dict[str, Any]:
    """Policies as plain data: name and options by label."""
    return {each.label: {"policy": each.name, "options": each.options} for each in entries}
