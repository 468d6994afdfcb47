"""The settings of an experiment, besides its arms."""

from __future__ import annotations

import json
import math
import secrets
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

from rolf.checks import as_number, between, whole
from rolf.errors import DifferentExperiment, InvalidArgument, RolfWarning, UnknownPolicy
from rolf.experiments.log.idempotency import plain
from rolf.experiments.log.replica import Replica
from rolf.experiments.roster import Roster
from rolf.experiments.storage.rows import Record
from rolf.policies.catalogue import DEFAULT_POLICY, DEFAULT_VARYING
from rolf.policies.contract import check_decide, check_replaceable
from rolf.policies.policy import Policy
from rolf.policies.registry import check_options, policy_class, policy_name
from rolf.text import new_tag

#: maximum number of characters in a name, limited by PostgreSQL's index
MAX_NAME = 500


def default_policy(options: Mapping[str, Any]) -> str:
    """The policy of a new experiment if none is named."""
    return DEFAULT_POLICY if options.get("context") is None else DEFAULT_VARYING


def checked_name(name: Any) -> str:
    good = isinstance(name, str) and name and name == name.strip() and name.isprintable()
    if not good or len(name) > MAX_NAME:
        expected = f"text of up to {MAX_NAME} characters, without spaces around it"
        raise InvalidArgument("name", name, expected)
    return str(name)


class Settings(NamedTuple):
    """The arguments of ``open_experiment``; None if unspecified."""

    policy: Any
    options: dict[str, Any]
    seed: int | None
    default_reward: float | None
    reward_after: float | None

    @classmethod
    def checked(
        cls,
        policy: Any,
        options: Mapping[str, Any] | None,
        seed: int | None,
        default_reward: float | None,
        reward_after: float | timedelta | None,
    ) -> Settings:
        if reward_after is None:
            if default_reward is not None:
                raise InvalidArgument(
                    "default_reward", default_reward, "reward_after to be set as well"
                )
        else:
            with default_reward_named():
                default_reward = as_number(default_reward or 0.0)
            if isinstance(reward_after, timedelta):
                reward_after = reward_after.total_seconds()
            reward_after = between("reward_after", reward_after, 0.0, math.inf)
        seed = None if seed is None else whole("seed", seed, 0, 2**62)
        return cls(policy, dict(options or {}), seed, default_reward, reward_after)

    def new_policy(self, roster: Roster) -> Policy:
        """Create the policy of a new experiment, and check that it is fit for one."""
        cls: Any = policy_class(
            default_policy(self.options) if self.policy is None else self.policy
        )
        check_options(cls, self.options)
        policy: Policy = cls(roster.arms.features, seed=0, **self.options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RolfWarning)  # shown above
            check_decide(cls, roster.arms.features, policy.options)
        if self.default_reward is not None:
            with default_reward_named():
                policy.check_reward(self.default_reward)
                check_replaceable(policy)
        return policy

    def record(self, name: str, roster: Roster, policy: Policy) -> Record:
        """The record of a new experiment."""
        try:
            options = json.dumps(policy.options)
        except (TypeError, ValueError):
            raise InvalidArgument("options", policy.options, "data for JSON") from None
        return Record(
            id=0,
            name=name,
            tag=new_tag(),
            policy=_importable_name(type(policy)),
            options=options,
            features=roster.dumps(),
            seed=secrets.randbits(62) if self.seed is None else self.seed,
            default_reward=self.default_reward,
            reward_after=self.reward_after,
            created=time.time(),
        )

    def check_same(self, replica: Replica) -> None:
        """Raise if an experiment was created with different settings."""
        record, policy = replica.record, None
        if self.policy is not None:
            cls = policy_class(self.policy)
            policy = record.policy if cls is type(replica.policy) else policy_name(cls)
        recorded_options = replica.policy.options  # with defaults, including newer options
        pairs: list[tuple[str, Any, Any]] = [("policy", policy, record.policy)]
        for key, value in json.loads(json.dumps(self.options, default=plain)).items():
            pairs.append((f"options: {key}", value, recorded_options.get(key)))
        pairs += [
            ("seed", self.seed, record.seed),
            ("reward_after", self.reward_after, record.reward_after),
            ("default_reward", self.default_reward, record.default_reward),
        ]
        for setting, here, there in pairs:
            if here is not None and here != there:
                raise DifferentExperiment(
                    f"experiment {record.name!r} was created with a different {setting}: "
                    f"{there!r} there, {here!r} here"
                )


@contextmanager
def default_reward_named() -> Iterator[None]:
    """Rename errors about a reward: here they are about the default reward."""
    try:
        yield
    except InvalidArgument as error:
        raise InvalidArgument("default_reward", error.got, error.wanted) from None


def _importable_name(cls: type[Policy]) -> str:
    """The name by which another process can find a policy's class."""
    name = policy_name(cls)
    try:
        if policy_class(name) is cls:
            return name
    except UnknownPolicy:
        pass
    expected = "a class at the top level of a module, which other processes can import"
    raise InvalidArgument("policy", name, expected)
