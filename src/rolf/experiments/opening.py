"""Open an experiment by name: create it, or go on with it."""

from __future__ import annotations

import json
import math
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from rolf.checks import as_number, between, whole
from rolf.errors import DifferentExperiment, InvalidArgument, UnknownExperiment
from rolf.experiments.experiment import Experiment
from rolf.experiments.roster import Table
from rolf.experiments.storage.base import Record, Row, connect
from rolf.policies.registry import check_options, policy_class, policy_name

POLICY = "rolf-lasso"  # what a new experiment gets by default


def open_experiment(
    url: str,
    name: str,
    *,
    features: Any = None,
    policy: Any = None,
    options: Mapping[str, Any] | None = None,
    seed: int | None = None,
    default_reward: float | None = None,
    reward_after: float | timedelta | None = None,
) -> Experiment:
    """Create an experiment, or go on with it.

    What is given for an experiment that exists must be what it was made with.

    Args:
        url: ``sqlite:///file.db``, ``postgresql://user@host/database`` or ``memory://``.
        name: of the experiment, unique in its database.
        features: (K, d) table of the arms, one row an arm; a DataFrame's index names them. Or
            a file, CSV or Parquet. Text becomes zeros and ones.
            Needed to create; without it the experiment must exist.
        policy: a name of the catalogue, ``package.module:Class``, or a class; rolf-lasso by
            default.
        options: of the policy.
        seed: of all draws, together with the number of the decision; any by default.
        default_reward: what a decision counts for whose reward does not come; 0 by default.
        reward_after: after how many seconds it does so; never by default.
    """
    table = None if features is None else Table.read(features)
    after, default = _defaults(reward_after, default_reward)
    seed = None if seed is None else whole("seed", seed, 0, 2**62)
    store = connect(url, create=False)
    try:
        record = None if store is None else store.find(_checked(name))
        if record is None:
            if table is None:
                raise UnknownExperiment(f"no experiment is called {name!r}; features make one")
            chosen = POLICY if policy is None else policy
            given = _described(name, table, chosen, options, seed, default, after)
            store = store or connect(url)
            assert store is not None
            made = store.create(given)
            if made is not None:
                return Experiment(store, made, new=True)
            record = store.find(name)  # another process was faster
            if record is None:
                raise UnknownExperiment(f"experiment {name!r} was deleted just now")
        assert store is not None
        out = Experiment(store, record)
        chosen = None if policy is None else policy_name(policy_class(policy))
        _check_same(out, table, chosen, options, seed, default, after)
        return out
    except BaseException:
        if store is not None:
            store.close()
        raise


def create(
    url: str,
    name: str,
    table: Table,
    *,
    policy: Any = POLICY,
    options: Mapping[str, Any] | None = None,
    seed: int | None = None,
    default_reward: float | None = None,
    reward_after: float | timedelta | None = None,
    tag: str = "",
    rows: Sequence[Row] = (),
) -> Experiment:
    """Create an experiment that must not exist yet, if need be with a log."""
    after, default = _defaults(reward_after, default_reward)
    seed = None if seed is None else whole("seed", seed, 0, 2**62)
    given = _described(name, table, policy, options, seed, default, after)
    store = connect(url)
    assert store is not None
    try:
        made = store.create(given._replace(tag=tag or given.tag), rows)
        if made is None:
            raise DifferentExperiment(f"there is an experiment called {name!r} already")
        return Experiment(store, made, new=not rows)
    except BaseException:
        store.close()
        raise


def _checked(name: Any) -> str:
    if not isinstance(name, str) or not name or name != name.strip():
        raise InvalidArgument("name", name, "some text, without blanks around it")
    return name


def _described(
    name: str,
    table: Table,
    policy: Any,
    options: Mapping[str, Any] | None,
    seed: int | None,
    default: float | None,
    after: float | None,
) -> Record:
    """The record of a new experiment; its policy is made once, to check the options."""
    cls: Any = policy_class(policy)
    check_options(cls, options or {})
    complete = cls(table.arms.features, seed=0, **dict(options or {})).options
    return Record(
        id=0,
        name=_checked(name),
        tag=os.urandom(4).hex(),
        policy=policy_name(cls),
        options=json.dumps(complete),
        features=table.dumps(),
        seed=secrets.randbits(62) if seed is None else seed,
        default_reward=default,
        reward_after=after,
        created=time.time(),
    )


def _defaults(
    after: float | timedelta | None, reward: float | None
) -> tuple[float | None, float | None]:
    """When the default reward is taken, and what it is."""
    if after is None:
        if reward is not None:
            raise InvalidArgument("default_reward", reward, "reward_after with it")
        return None, None
    seconds = after.total_seconds() if isinstance(after, timedelta) else after
    return between("reward_after", seconds, 0.0, math.inf), as_number(reward or 0.0)


def list_experiments(url: str) -> list[str]:
    """The names of all experiments in a database."""
    store = connect(url, create=False)
    if store is None:
        return []
    try:
        return store.names()
    finally:
        store.close()


def _check_same(
    out: Experiment,
    table: Table | None,
    policy: str | None,
    options: Mapping[str, Any] | None,
    seed: int | None,
    default: float | None,
    after: float | None,
) -> None:
    """Whether an experiment was made with what is given now."""
    kept = out._record
    there = json.loads(kept.options)
    pairs: list[tuple[str, Any, Any]] = [("policy", policy, kept.policy)]
    for key, value in json.loads(json.dumps(dict(options or {}), default=_plain)).items():
        pairs.append((f"options: {key}", value, there.get(key)))
    pairs += [
        ("seed", seed, kept.seed),
        ("reward_after", after, kept.reward_after),
        ("default_reward", default, kept.default_reward),
    ]
    for what, now, then in pairs:
        if now is not None and now != then:
            raise DifferentExperiment(
                f"experiment {kept.name!r} was made with another {what}: {then!r} there, "
                f"{now!r} here"
            )
    if table is not None:
        out._replica.table.check(table, Table.loads(kept.features))


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as JSON has them."""
    return value.tolist() if hasattr(value, "tolist") else repr(value)
