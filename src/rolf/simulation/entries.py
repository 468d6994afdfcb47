"""Which policies are played: labels, classes and options, checked before anything is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from rolf.errors import InvalidArgument
from rolf.policies.policy import Policy
from rolf.policies.registry import check_options, find_policy


class Entry(NamedTuple):
    """One policy of a simulation or of an evaluation."""

    label: str
    name: str
    build: Any  # class: called with features, options and seed
    options: dict[str, Any]

    @property
    def ours(self) -> bool:
        """Whether the loop may play it by its operations, past ask and tell."""
        policy = isinstance(self.build, type) and issubclass(self.build, Policy)
        return policy and self.build.ask is Policy.ask and self.build.tell is Policy.tell


def read_policies(policies: Mapping[str, Any]) -> list[Entry]:
    """Check the policies of a call: for each label a policy, or a pair of it and its options."""
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


def describe_policies(policies: Mapping[str, Any]) -> dict[str, Any]:
    """The policies of a simulation as plain data: label, name and options."""
    return {e.label: {"policy": e.name, "options": e.options} for e in read_policies(policies)}
