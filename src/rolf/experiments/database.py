"""Databases of experiments: open, create, list, delete, back up and restore them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from rolf.errors import InvalidArgument, RolfError, RolfWarning, UnknownExperiment
from rolf.experiments.experiment import Experiment, in_thread
from rolf.experiments.gate import Gate, close_abandoned
from rolf.experiments.log.synced import SyncedReplica
from rolf.experiments.roster import Roster
from rolf.experiments.settings import Settings, checked_name, default_policy
from rolf.experiments.storage.contract import Store
from rolf.experiments.storage.rows import Record, Row
from rolf.experiments.storage.urls import check_url, connect, connect_existing, shown
from rolf.experiments.transfer.backup import back_up, fill_experiment, restore_into
from rolf.experiments.transfer.learn_file import HistoryFile, Learned
from rolf.policies.policy import Policy
from rolf.policies.registry import check_options, policy_class, policy_name
from rolf.progress import Progress


def open_experiment(
    url: str,
    name: str,
    features: Any = None,
    *,
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
    name = checked_name(name)
    roster = None if features is None else Roster.read(features, missing)
    if context is not None:
        options = {**(options or {}), "context": context}
    settings = Settings.checked(policy, options, seed, default_reward, reward_after)
    store = connect_existing(url, timeout)
    try:
        record = None if store is None else store.record(name)
        if record is None:
            if roster is None:
                raise UnknownExperiment(f"no experiment named {name!r}; pass features to create it")
            new = settings.record(name, roster, settings.new_policy(roster))
            store = store or connect(url, timeout)
            record = store.create(new)
            if record is not None:
                roster.warn()
                return opened(store, record, new=True)
            record = store.record(name)  # another process created it
            if record is None:
                raise UnknownExperiment(f"experiment {name!r} has just been deleted")
        assert store is not None
        experiment = opened(store, record)
        settings.check_same(experiment.synced.replica)
        if roster is not None:
            first = Roster.loads(record.features)
            experiment.synced.replica.roster.check_same(roster, first)
        return experiment
    except BaseException:
        if store is not None:
            store.close()
        raise


def opened(store: Store, record: Record, *, new: bool = False) -> Experiment:
    """Open an experiment by its record; ``new``: it has just been created."""
    close_abandoned()
    log = SyncedReplica(store, record, new=new)
    return Experiment(log, Gate(log))


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
    """Create an experiment, which must not exist yet, with a log its policy accepts."""
    settings = Settings.checked(policy, options, seed, default_reward, reward_after)
    begun = settings.record(checked_name(name), roster, settings.new_policy(roster))
    roster.warn()
    store = connect(url)
    try:
        record = fill_experiment(store, begun, rows)
        return opened(store, record)
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

    Arguments are the same as for ``open_experiment`` and ``Experiment.learn_file``.
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
    """The policy of a new experiment, which learns before the experiment is created."""
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
        name, policy: as the experiment was created.
        created: when it was created, in seconds since 1970.
        paused: whether it makes no decisions; None, as the counts below, if it cannot be read.
        arms: number of arms that are not retired.
        asked: number of decisions so far.
        told: number of rewards told.
        pending: number of decisions without a reward.
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
    """The experiments of a database, as returned by ``rolf.connect``.

    It holds no connection: each call opens its own. Every such method has a coroutine of the same
    name with an ``a`` in front.
    """

    def __init__(self, url: str, *, timeout: float | None = None) -> None:
        check_url(url)
        self.url, self._timeout = url, timeout

    def experiment(self, name: str) -> Experiment:
        """Open an existing experiment."""
        return open_experiment(self.url, name, timeout=self._timeout)

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

        Arguments are the same as for ``rolf.open_experiment``.
        """
        return open_experiment(
            self.url,
            name,
            features,
            policy=policy,
            options=options,
            context=context,
            seed=seed,
            default_reward=default_reward,
            reward_after=reward_after,
            timeout=self._timeout,
        )

    def names(self) -> list[str]:
        """The names of all experiments, sorted."""
        with self._existing() as store:
            return [] if store is None else store.names()

    def experiments(self) -> list[ExperimentSummary]:
        """Summaries of all experiments, sorted by name."""
        with self._existing() as store:
            records = [] if store is None else [store.record(name) for name in store.names()]
        return [self._summary(record) for record in records if record is not None]

    def _summary(self, record: Record) -> ExperimentSummary:
        try:
            with self.experiment(record.name) as experiment:
                return ExperimentSummary.of(experiment)
        except RolfError:  # deleted just now, or damaged
            return ExperimentSummary(record.name, record.policy, record.created)

    def delete(self, name: str, *, confirm: str) -> None:
        """Delete an experiment without opening it, so that damaged ones can be deleted too.

        Args:
            name: name of the experiment.
            confirm: the name again.
        """
        if confirm != name:
            raise InvalidArgument("confirm", confirm, f"the experiment's name, {name!r}")
        with self._existing() as store:
            record = None if store is None else store.record(checked_name(name))
            if store is None or record is None:
                raise UnknownExperiment(f"no experiment named {name!r}")
            store.delete(record.id)

    def backup(
        self, path: str | Path, names: Sequence[str] | None = None, *, progress: Progress = None
    ) -> list[str]:
        """Back up experiments to a new file, even while they are in use; return their names.

        Args:
            path: path of the backup, a separate SQLite database for ``restore``.
            names: names of the experiments; all by default.
            progress: whether to show a progress bar; by default only on a terminal.
        """
        with self._existing() as store:
            if store is None:
                raise UnknownExperiment("there is no database to back up")
            return back_up(store, path, names, progress=progress)

    def restore(
        self,
        path: str | Path,
        names: Sequence[str] | None = None,
        *,
        policy: Any = None,
        options: Mapping[str, Any] | None = None,
        progress: Progress = None,
    ) -> list[str]:
        """Restore the experiments of a backup to the database, all or none; return their names.

        Args:
            path: path of the backup, which is not changed.
            names: names of the experiments, which must not exist in the database; all by default.
            policy: continue with another policy, which learns from the whole log; ids of decisions,
                arms, seed and default rewards stay the same. By default the policy in the backup.
            options: options of the other policy.
            progress: whether to show a progress bar; by default only on a terminal.
        """
        if policy is None and options is not None:
            raise InvalidArgument("options", options, "a policy as well, to use the options with")
        with closing(connect(self.url, self._timeout)) as store:
            return restore_into(
                store, path, names, policy=policy, options=options, progress=progress
            )

    @contextmanager
    def _existing(self) -> Iterator[Store | None]:
        """Open the store and close it at the end; None if there is no database yet."""
        store = connect_existing(self.url, self._timeout)
        try:
            yield store
        finally:
            if store is not None:
                store.close()

    def close(self) -> None:
        """Do nothing: there is no connection. Lets a ``with`` statement work as for a service."""

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

    acreate, aexperiments, adelete = in_thread(create), in_thread(experiments), in_thread(delete)
    abackup, arestore = in_thread(backup), in_thread(restore)

    def __repr__(self) -> str:
        return f"<Database {shown(self.url)}>"
