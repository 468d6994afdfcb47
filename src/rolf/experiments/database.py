"""Open an experiment by name: create it, or continue it."""

from __future__ import annotations

import json
import math
import os
import secrets
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from rolf.checks import as_number, between, whole
from rolf.errors import (
    DifferentExperiment,
    InvalidArgument,
    RolfError,
    RolfWarning,
    UnknownExperiment,
    UnknownPolicy,
)
from rolf.experiments.experiment import Experiment
from rolf.experiments.log.idempotency import plain
from rolf.experiments.roster import Roster
from rolf.experiments.serving import in_thread
from rolf.experiments.storage.contract import Record, Row
from rolf.experiments.storage.urls import check_url, connect, connect_existing, shown
from rolf.experiments.transfer.backup import backup, fill_experiment, restore
from rolf.experiments.transfer.learn_file import HistoryFile, Learned
from rolf.policies.catalogue import DEFAULT_POLICY, DEFAULT_VARYING
from rolf.policies.contract import check_decide, check_replaceable
from rolf.policies.policy import Policy
from rolf.policies.registry import check_options, policy_class, policy_name
from rolf.progress import Progress

#: characters of the name of an experiment: PostgreSQL's index has room for no more
MAX_NAME = 500


def open_experiment(
    url: str,
    name: str,
    *,
    features: Any = None,
    policy: Any = None,
    options: Mapping[str, Any] | None = None,
    context: int | Sequence[str] | None = None,
    seed: int | None = None,
    default_reward: float | None = None,
    reward_after: float | timedelta | None = None,
    timeout: float | None = None,
    missing: str = "impute",
) -> Experiment:
    """``rolf.open_experiment`` for databases."""
    name = _checked_name(name)
    roster = None if features is None else Roster.read(features, missing)
    if context is not None:
        options = {**(options or {}), "context": context}
    settings = _Settings.checked(policy, options, seed, default_reward, reward_after)
    store = connect_existing(url, timeout)
    try:
        record = None if store is None else store.record(name)
        if record is None:
            if roster is None:
                raise UnknownExperiment(
                    f"no experiment is called {name!r}; pass features to create it"
                )
            new = settings.record(name, roster, settings.new_policy(roster))
            store = store or connect(url, timeout)
            record = store.create(new)
            if record is not None:
                roster.warn()
                return Experiment(store, record, new=True)
            record = store.record(name)  # another process was faster
            if record is None:
                raise UnknownExperiment(f"experiment {name!r} was deleted just now")
        assert store is not None
        experiment = Experiment(store, record)
        settings.check_same(experiment)
        if roster is not None:
            first = Roster.loads(record.features)
            experiment.synced.replica.roster.check_same(roster, first)
        return experiment
    except BaseException:
        if store is not None:
            store.close()
        raise


def create(
    url: str,
    name: str,
    roster: Roster,
    *,
    policy: Any = None,
    options: Mapping[str, Any] | None = None,
    seed: int | None = None,
    default_reward: float | None = None,
    reward_after: float | timedelta | None = None,
    rows: Iterable[Row] = (),
) -> Experiment:
    """Create an experiment that must not exist yet, with a log that its policy accepts."""
    settings = _Settings.checked(policy, options, seed, default_reward, reward_after)
    begun = settings.record(_checked_name(name), roster, settings.new_policy(roster))
    roster.warn()
    store = connect(url)
    try:
        record = fill_experiment(store, begun, rows)
        return Experiment(store, record)
    except BaseException:
        store.close()
        raise


def create_from_file(
    url: str,
    name: str,
    path: str | Path,
    arm: str,
    reward: str,
    *,
    features: Any,
    policy: Any = None,
    options: Mapping[str, Any] | None = None,
    source: str | None = None,
    skip_unknown: bool = False,
    progress: Progress = None,
    **settings: Any,
) -> tuple[Experiment, Learned]:
    """Create an experiment that has learned from a file; an error leaves nothing behind.

    Arguments are those of ``open_experiment`` and of ``Experiment.learn_file``.
    """
    roster = Roster.read(features)
    cls = policy_class(default_policy(options or {}) if policy is None else policy)
    first = _first_policy(cls, roster, options or {})
    file = HistoryFile(
        path,
        arm,
        reward,
        arms=roster.arms,
        policy=first,
        source=source,
        skip_unknown=skip_unknown,
        progress=progress,
    )
    experiment = create(
        url,
        name,
        roster,
        policy=policy,
        options=options,
        **settings,
        rows=[file.first_row(first)],
    )
    return experiment, file.learned()


def _first_policy(cls: Any, roster: Roster, options: Mapping[str, Any]) -> Policy:
    """The policy of a new experiment, to learn with before the experiment is created."""
    check_options(cls, options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RolfWarning)  # shown when the experiment is created
        try:
            policy: Policy = cls(roster.arms.features, seed=0, **options)
        except (TypeError, ArithmeticError) as error:
            wanted = f"options of {policy_name(cls)} ({error})"
            raise InvalidArgument("options", dict(options), wanted) from None
    return policy


class ExperimentSummary(NamedTuple):
    """An experiment in a list.

    Attributes:
        name, policy: as it was created.
        created: when, in seconds since 1970.
        paused: whether it makes no decisions; None, as below, if it cannot be read.
        arms: how many are not retired.
        asked: decisions so far.
        told: rewards told.
        pending: decisions without a reward.
    """

    name: str
    policy: str
    created: float
    paused: bool | None = None
    arms: int | None = None
    asked: int | None = None
    told: int | None = None
    pending: int | None = None

    @classmethod
    def of(cls, experiment: Experiment) -> ExperimentSummary:
        """The summary of an open experiment."""
        with experiment.current() as replica:
            asked, told, roster = sum(replica.asked), sum(replica.told), replica.roster
            pending = asked - told - replica.defaults
        record = experiment.record
        return cls(
            record.name,
            record.policy,
            record.created,
            roster.paused,
            sum(roster.active),
            asked,
            told,
            pending,
        )


class Database:
    """The experiments of a database. ``rolf.connect`` gives one.

    It holds no connection: each call opens its own. Every method that opens one has a coroutine
    whose name starts with an ``a``.
    """

    def __init__(self, url: str, *, timeout: float | None = None) -> None:
        check_url(url)
        self._url = url
        self._timeout = timeout

    @property
    def url(self) -> str:
        return self._url

    def experiment(self, name: str) -> Experiment:
        """Open an experiment that exists."""
        return open_experiment(self._url, name, timeout=self._timeout)

    def create(
        self,
        name: str,
        features: Any,
        *,
        policy: Any = None,
        options: Mapping[str, Any] | None = None,
        context: int | Sequence[str] | None = None,
        seed: int | None = None,
        default_reward: float | None = None,
        reward_after: float | timedelta | None = None,
    ) -> Experiment:
        """Create an experiment, or check that it was created with the same settings.

        The arguments are those of ``rolf.open_experiment``.
        """
        return open_experiment(
            self._url,
            name,
            features=features,
            policy=policy,
            options=options,
            context=context,
            seed=seed,
            default_reward=default_reward,
            reward_after=reward_after,
            timeout=self._timeout,
        )

    def experiments(self) -> list[ExperimentSummary]:
        """All experiments, in the order of their names."""
        store = connect_existing(self._url, self._timeout)
        if store is None:
            return []
        with closing(store):
            records = [store.record(name) for name in store.names()]
        return [self._summary(record) for record in records if record is not None]

    def _summary(self, record: Record) -> ExperimentSummary:
        try:
            with self.experiment(record.name) as experiment:
                return ExperimentSummary.of(experiment)
        except RolfError:  # deleted just now, or damaged
            return ExperimentSummary(record.name, record.policy, record.created)

    def delete(self, name: str, *, confirm: str) -> None:
        """Delete an experiment with all its decisions and rewards, even one that is damaged;
        ``confirm`` is its name."""
        delete_experiment(self._url, name, confirm=confirm)

    def backup(
        self, path: str | Path, names: Sequence[str] | None = None, *, progress: Progress = None
    ) -> list[str]:
        """Write experiments to a new file while they are in use; returns their names.

        Args:
            path: of the backup, a SQLite database of its own, which ``restore`` reads.
            names: of the experiments; all by default.
            progress: whether to show a progress bar; by default only on a terminal.
        """
        return backup(self._url, path, names, progress=progress)

    def restore(
        self, path: str | Path, names: Sequence[str] | None = None, *, progress: Progress = None
    ) -> list[str]:
        """Put the experiments of a backup into this database, all or none; returns their names.

        Args:
            path: of the backup, which is not changed.
            names: of the experiments, which must not exist here; all of the backup by default.
            progress: whether to show a progress bar; by default only on a terminal.
        """
        return restore(path, self._url, names, progress=progress)

    def close(self) -> None:
        """Nothing is open; for use in a ``with`` statement, like a service."""

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def aclose(self) -> None:
        """``close`` for coroutines."""

    async def __aenter__(self) -> Database:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<Database {shown(self._url)}>"


for _method in ("create", "experiments", "delete", "backup", "restore"):
    setattr(Database, f"a{_method}", in_thread(getattr(Database, _method)))


def list_experiments(url: str) -> list[str]:
    """The names of all experiments in a database."""
    store = connect_existing(url)
    if store is None:
        return []
    with closing(store):
        return store.names()


def delete_experiment(url: str, name: str, *, confirm: str) -> None:
    """Delete an experiment without opening it, so that one that is damaged can be deleted, too.

    Args:
        url: of its database.
        name: of the experiment.
        confirm: its name once more.
    """
    if confirm != name:
        raise InvalidArgument("confirm", confirm, f"the experiment's name, {name!r}")
    store = connect_existing(url)
    try:
        record = None if store is None else store.record(_checked_name(name))
        if store is None or record is None:
            raise UnknownExperiment(f"no experiment is called {name!r}")
        store.delete(record.id)
    finally:
        if store is not None:
            store.close()


def default_policy(options: Mapping[str, Any]) -> str:
    """The policy of a new experiment that names none."""
    return DEFAULT_POLICY if options.get("context") is None else DEFAULT_VARYING


def _checked_name(name: Any) -> str:
    good = isinstance(name, str) and name and name == name.strip() and name.isprintable()
    if not good or len(name) > MAX_NAME:
        expected = f"some text, up to {MAX_NAME} characters, without blanks around it"
        raise InvalidArgument("name", name, expected)
    return str(name)


class _Settings(NamedTuple):
    """What an experiment is created with besides its arms; None for what is not specified."""

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
    ) -> _Settings:
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
        """The policy of a new experiment, which must be fit for one."""
        cls: Any = policy_class(
            default_policy(self.options) if self.policy is None else self.policy
        )
        check_options(cls, self.options)
        policy: Policy = cls(roster.arms.features, seed=0, **self.options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RolfWarning)  # shown a line ago
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
            raise InvalidArgument("options", policy.options, "data that JSON can hold") from None
        return Record(
            id=0,
            name=name,
            tag=os.urandom(4).hex(),
            policy=_importable_name(type(policy)),
            options=options,
            features=roster.dumps(),
            seed=secrets.randbits(62) if self.seed is None else self.seed,
            default_reward=self.default_reward,
            reward_after=self.reward_after,
            created=time.time(),
        )

    def check_same(self, experiment: Experiment) -> None:
        """Raise if an experiment was created with other settings."""
        record = experiment.record
        policy = None
        if self.policy is not None:
            cls = policy_class(self.policy)
            same = cls is type(experiment.synced.replica.policy)
            policy = record.policy if same else policy_name(cls)
        recorded_options = (
            experiment.synced.replica.policy.options
        )  # with defaults, also newer ones
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
    """An error about a reward is one about the default reward."""
    try:
        yield
    except InvalidArgument as error:
        raise InvalidArgument("default_reward", error.got, error.wanted) from None


def _importable_name(cls: type[Policy]) -> str:
    """The name of a policy, by which another process finds its class again."""
    name = policy_name(cls)
    try:
        if policy_class(name) is cls:
            return name
    except UnknownPolicy:
        pass
    expected = "a class at the top level of a module, which other processes can import"
    raise InvalidArgument("policy", name, expected)
