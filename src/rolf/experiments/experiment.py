"""Durable ask and tell, in one process or many.

A decision is in the database before ``ask`` returns it, a reward before ``tell`` returns. Each
process keeps a replica of the state and, with every ask, reads what other processes wrote.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

from rolf.checks import between, is_text, whole
from rolf.errors import ExperimentError, InvalidArgument, RolfError
from rolf.experiments import batch
from rolf.experiments.batch import Ask, Tell
from rolf.experiments.gate import Gate, check_interrupted
from rolf.experiments.log import changes, rewards
from rolf.experiments.log.decisions import LoggedDecision, logged_decisions
from rolf.experiments.log.history import HistoryEntry, checked_source
from rolf.experiments.log.replica import Replica
from rolf.experiments.log.synced import SyncedReplica
from rolf.experiments.roster import Roster
from rolf.experiments.status.make import status_of, view_of
from rolf.experiments.status.pending import LATEST, Pending, find_pending
from rolf.experiments.status.result import (
    ArmRecord,
    Counts,
    Status,
    arm_records,
)
from rolf.experiments.status.timeline import read_outcomes
from rolf.experiments.storage.contract import log_rows
from rolf.experiments.storage.rows import Record, Row
from rolf.experiments.transfer.backup import back_up
from rolf.experiments.transfer.export import write_log
from rolf.experiments.transfer.learn_file import HistoryFile, Learned
from rolf.policies.posterior_policy import PosteriorPolicy
from rolf.policies.warm import warm_up
from rolf.progress import Progress
from rolf.types import Decision

#: maximum number of characters in the reason for a correction
MAX_REASON = 1_000

S = TypeVar("S")
P = ParamSpec("P")
T = TypeVar("T")


def in_thread(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """The coroutine of a method, which runs in another thread so as not to block the event loop.

    A cancelled call still takes effect: a decision that was never received stays pending like any
    other.
    """

    @wraps(method)
    async def coroutine(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        import asyncio  # importing it takes as long as importing all of rolf

        return await asyncio.to_thread(method, self, *args, **kwargs)

    coroutine.__name__ = f"a{method.__name__}"
    coroutine.__doc__ = f"``{method.__name__}`` for coroutines."
    return coroutine


class Experiment:
    """Decisions and rewards that are never lost. Open one with ``rolf.open_experiment``.

    It may be shared by threads and by processes forked from this one. Close it, or use it in a
    ``with`` statement. Every method has a coroutine with an ``a`` in front of its name: ``aask``,
    ``atell`` and so on.
    """

    def __init__(self, log: SyncedReplica, gate: Gate) -> None:
        #: this process's replica of the log, for servers and tests
        self.synced = log
        self._gate = gate

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def policy(self) -> str:
        """The name of the policy."""
        return self.record.policy

    @property
    def record(self) -> Record:
        """How the experiment was created."""
        return self.synced.record

    @contextmanager
    def current(self, *, defaults: bool = True) -> Iterator[Replica]:
        """The replica, up to date with everything recorded so far, while other calls are kept out.
        For servers and the command line.

        Args:
            defaults: whether to give due default rewards first.
        """
        finished = not defaults
        while not finished:
            with self._gate:
                finished = rewards.give_defaults(self.synced)
            time.sleep(0.0)  # others may ask in between
        with self._gate:
            yield self.synced.sync()

    def submit(self, asks: Sequence[Ask] = (), tells: Sequence[Tell] = ()) -> None:
        """Record rewards and make decisions, with a single write if possible. For batchers.

        Each ask or tell gets its own error; if the database fails, all get that error.
        """
        good = batch.checked(self.synced, tells) if tells else []
        if not asks and not good:
            return
        try:
            with self._gate:
                batch.write(self.synced, asks, good)
        except RolfError as error:
            for ask in asks:
                if len(ask.decisions) < ask.count:  # its error may be outdated
                    ask.error = error
            for tell in good:
                tell.error = tell.error or error

    # --- decisions ---

    def ask(
        self,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
        context: Any = None,
        idempotency_key: str | None = None,
    ) -> Decision:
        """Choose the next arm; the decision is durable when this returns.

        Args:
            available: arms to choose from; by default all that are not retired.
            features: (K, d) features of this round, for policies that take them.
            context: context of this round, for policies created with one: entries by name or in
                order. It is stored once with the decision.
            idempotency_key: asking again with the same key, in any process and even after a crash,
                returns the same decision; a different request with the same key is refused.
        """
        ask = Ask(
            available=available, features=features, context=context, idempotency_key=idempotency_key
        )
        self.submit([ask])
        return ask.result()[0]

    def ask_many(
        self,
        n: int,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
        context: Any = None,
        distinct: bool = False,
        idempotency_key: str | None = None,
    ) -> list[Decision]:
        """Make several decisions before any of them is rewarded.

        Args:
            n: number of decisions; at most 100,000, or 1,000 with an idempotency key.
            available: as in ``ask``.
            features: as in ``ask``.
            context: as in ``ask``.
            distinct: choose a slate of ``n`` different arms, one after the other, each from the
                arms that remain; a decision's probability is conditional on the arms before it.
                Each gets its own reward.
            idempotency_key: as in ``ask``.
        """
        ask = Ask(
            n,
            available=available,
            features=features,
            context=context,
            distinct=distinct,
            idempotency_key=idempotency_key,
        )
        self.submit([ask])
        return ask.result()

    # --- rewards ---

    def tell(self, decision: Decision | str, reward: float) -> None:
        """Record a reward, however late, in any order, from any process; durable on return.

        Telling the same reward again changes nothing; a different one is refused. For a corrected
        reward, both the original and the corrected value count as the same.
        """
        self.tell_many([(decision, reward)])

    def tell_many(
        self, rewards: Mapping[str, float] | Iterable[tuple[Decision | str, float]]
    ) -> int:
        """Record many rewards, all or none: pairs, or a mapping by id.

        All are checked before any is recorded. Large batches are recorded part by part, so that
        others need not wait; if that is interrupted, repeat the call to complete it. Returns how
        many rewards were new.
        """
        tell = Tell(rewards)
        self.submit(tells=[tell])
        return tell.result()

    def correct(self, decision: Decision | str, reward: float, reason: str) -> None:
        """Replace a wrong reward; durable when this returns.

        The log keeps both rewards and the reason. The state becomes what it would be had the right
        reward been told in the first place. A reward may be corrected repeatedly; correcting it to
        its current value changes nothing.

        Args:
            decision: a decision with a reward, or its id.
            reward: the correct reward.
            reason: why the recorded reward was wrong.
        """
        value = self.synced.replica.policy.check_reward(reward)
        number = rewards.decision_number(self.record, decision)
        good = isinstance(reason, str) and reason.strip() and is_text(reason)
        if not good or len(reason) > MAX_REASON:
            raise InvalidArgument("reason", reason, f"some text, up to {MAX_REASON} characters")
        with self._gate:
            rewards.correct(self.synced, number, value, reason)

    # --- history ---

    def learn(
        self,
        arms: Any,
        rewards: Any,
        *,
        features: Any = None,
        context: Any = None,
        probabilities: Any = None,
        source: str | None = None,
    ) -> int:
        """Learn from history, rounds played before the experiment; durable when this returns.

        These rounds are not decisions and have no ids; ``status`` counts them separately, as
        history. Either all or none are learned. As with ``Policy.learn``, they count as rounds and
        towards RoLF's forced exploration.

        Args:
            arms: name of the arm of each past round.
            rewards: reward of each past round.
            features: (n, d) features of the arms played, for policies that take them with each ask.
            context: (n, m) context of each past round, for policies created with one.
            probabilities: probability of each arm played, for policies that weight rewards by it;
                uniform by default.
            source: name of the origin of these rounds. The same rounds from the same source are
                learned once, however often they are sent; other rounds from it are refused.

        Returns:
            The number of rounds learned; 0 if they had been learned before.
        """
        source = checked_source(source)
        listed = list(arms) if isinstance(arms, Iterator) else arms
        values = list(rewards) if isinstance(rewards, Iterator) else rewards

        def history(replica: Replica) -> HistoryEntry:
            return HistoryEntry.checked(
                replica.policy,
                replica.roster.arms,
                listed,
                values,
                features=features,
                context=context,
                probabilities=probabilities,
            )

        with self._gate:
            return changes.learn(self.synced, history, source)

    def learn_totals(
        self,
        counts: Any,
        sums: Any,
        squares: Any = None,
        *,
        level: float = 0.0,
        source: str | None = None,
    ) -> int:
        """Learn from history that was summed per arm; durable when this returns.

        Args:
            counts: (K,) number of rewards per arm.
            sums: (K,) their sums.
            squares: (K,) the sums of their squares; needed by policies that learn the noise.
            level: the constant subtracted from every reward beforehand.
            source: as in ``learn``.

        Returns:
            The number of rounds learned; 0 if they had been learned before.
        """
        source = checked_source(source)

        def history(replica: Replica) -> HistoryEntry:
            return HistoryEntry.from_totals(replica.policy, counts, sums, squares, level)

        with self._gate:
            return changes.learn(self.synced, history, source)

    def learn_file(
        self,
        path: str | Path,
        arm: str,
        reward: str,
        *,
        source: str | None = None,
        skip_unknown: bool = False,
        progress: Progress = None,
    ) -> Learned:
        """Learn from a file of past rounds, all of it or nothing.

        Any table works, including exports of other experiments, if it has a column with the arm of
        each round, one with its reward and, if the policy takes a context, one per context entry.

        Args:
            path: CSV, Parquet, or a folder of Parquet files; may be larger than memory.
            arm: column with the arm of each round.
            reward: column with the reward of each round.
            source: name that identifies the file, as in ``learn``; by default the name of the file.
            skip_unknown: leave out rows of unknown arms instead of refusing the file.
            progress: show a progress bar; by default on a terminal.

        Returns:
            The number of rows in the file, the number of rounds learned, and the unknown arms.
        """
        with self.current(defaults=False) as replica:
            policy, arms = replica.policy, replica.roster.arms
        file = HistoryFile(
            path,
            arm,
            reward,
            arms=arms,
            policy=policy,
            source=source,
            skip_unknown=skip_unknown,
            progress=progress,
        )
        with self._gate:
            learned = changes.learn(self.synced, file.history_of, file.source)
        return file.learned(learned)

    # --- estimates and status ---

    def estimates(self, *, features: Any = None, context: Any = None) -> Any:
        """Estimated mean reward per arm: an array, or a Series for labelled arms."""
        with self.current() as replica:
            return replica.policy.estimates(features=features, context=context)

    def rank(self, k: int | None = None, *, features: Any = None, context: Any = None) -> list[Any]:
        """The ``k`` best active arms by estimate, best first; all by default."""
        with self.current() as replica:
            count = None if k is None else whole("k", k, 1)
            active = dict(zip(replica.roster.arms.labels, replica.roster.active, strict=True))
            ranked = replica.policy.rank(features=features, context=context)
            return [arm for arm in ranked if active[arm]][:count]

    def probabilities(
        self,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
        context: Any = None,
        draws: int = 10_000,
    ) -> Any:
        """Each arm's probability in the next ``ask``; 0 for retired arms.

        Exact except for Thompson sampling, which uses the share of ``draws`` posterior draws. This
        call changes no later decision.
        """
        with self.current() as replica:
            arms = replica.roster.named(replica.roster.available(available))
            return replica.policy.probabilities(
                available=arms, features=features, context=context, draws=draws
            )

    def intervals(self, level: float = 0.9, *, features: Any = None, context: Any = None) -> Any:
        """Posterior intervals of the arms' mean rewards, for policies with a posterior.

        Each is equal-tailed and contains the mean with probability ``level``. An array (K, 2), or a
        table with columns low and high for labelled arms. Unbounded until there are two different
        rewards.
        """
        level = between("level", level, 0.0, 1.0)
        with self.current() as replica:
            policy = _with_posterior(replica)
            return policy.intervals(level, features=features, context=context)

    def probability_best(
        self,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
        context: Any = None,
        draws: int = 10_000,
    ) -> Any:
        """Each arm's posterior probability of being the best active one, for policies with a
        posterior: the share of ``draws`` in which it is best."""
        draws = whole("draws", draws, 1)
        with self.current() as replica:
            policy = _with_posterior(replica)
            arms = replica.roster.named(replica.roster.active_among(available))
            return policy.probability_best(
                available=arms, features=features, context=context, draws=draws
            )

    def status(
        self,
        *,
        features: Any = None,
        context: Any = None,
        control: Any = None,
        timeline: bool = False,
    ) -> Status:
        """Counts of decisions and rewards, each arm's plays and estimate, and the uplift.

        Args:
            features: (K, d) features of a round, for policies that take them.
            context: context of a round, for experiments with contexts.
            control: arm to compare with; by default an equal share of all active arms.
            timeline: read the whole log for rewards over time. If features come with every ask, the
                uplift needs it too.
        """
        with self.current() as replica:
            round = features is not None or context is not None
            table = replica.policy.round_features(features, context) if round else None
            view, last = view_of(replica, table), replica.last
        outcomes = None
        if timeline:
            rows = log_rows(self.synced.store, self.record, 0, last)
            outcomes = read_outcomes(Roster.loads(self.record.features), rows)
        try:  # asks do not wait for this
            return status_of(self.name, view, control, outcomes)
        except SystemError as error:
            check_interrupted(error)
            raise

    def status_in_round(
        self, features: Any, context: Any, available: Any, level: float, draws: int
    ) -> Status:
        """The status of the arms in a round: ``estimates``, ``intervals`` and ``probability_best``
        at once, computed while asks go on. For servers."""
        with self.current() as replica:
            view = view_of(replica, replica.policy.round_features(features, context))
            arms = None if available is None else replica.roster.active_among(available)
        return status_of(self.name, view, level=level, available=arms, draws=draws)

    def counts(self) -> Counts:
        """The numbers of decisions and rewards, without any estimates."""
        with self.current(defaults=False) as replica:
            return Counts(sum(replica.asked), sum(replica.told))

    def pending(self, limit: int = 100) -> Pending:
        """The latest decisions without a reward, default or not, latest first.

        Only the latest 1,000 decisions are examined, however long the log is.

        Args:
            limit: number of decisions to list; at most 1,000.
        """
        limit = whole("limit", limit, 1, LATEST)
        with self.current() as replica:
            last, issued, labels = replica.last, replica.issued, replica.roster.arms.labels
            total = sum(replica.asked) - sum(replica.told) - replica.defaults
        return find_pending(self.synced.store, self.record, last, issued, labels, total, limit)

    # --- the arms ---

    @property
    def arms(self) -> list[Any]:
        """The names of all arms, retired ones included."""
        with self.current(defaults=False) as replica:
            return list(replica.roster.arms.labels)

    def arm_table(self) -> list[ArmRecord]:
        """Every arm, retired ones included, with its features, plays and rewards."""
        with self.current(defaults=False) as replica:
            return arm_records(replica)

    @property
    def paused(self) -> bool:
        """Whether the experiment makes no decisions until it is resumed."""
        with self.current() as replica:
            return replica.roster.paused

    def pause(self) -> None:
        """Make no more decisions until ``resume``; rewards are still accepted."""
        self._change(lambda roster: {} if roster.paused else {"paused": True})

    def resume(self) -> None:
        """Resume making decisions after ``pause``."""
        self._change(lambda roster: {"paused": False} if roster.paused else {})

    def add_arms(self, features: Any) -> list[Any]:
        """Add arms and return their names: rows of features, or a DataFrame or file with names."""
        before, after = self._change(lambda roster: roster.addition(features))
        return after.arms.labels[before.arms.count :]

    def retire_arms(self, ids: Any) -> None:
        """Stop choosing these arms. Rewards of earlier decisions are still accepted."""
        self._change(lambda roster: roster.retirement(ids))

    def restore_arms(self, ids: Any) -> None:
        """Choose retired arms again, with everything learned about them."""
        self._change(lambda roster: roster.restoration(ids))

    def update_features(self, features: Any) -> None:
        """Correct features: a mapping from arms to rows, or a table or file of some or all arms.

        Counts and sums of rewards are kept, and everything derived from them is recomputed.
        """
        policy = self.synced.replica.policy
        if policy.varying:
            expected = "no change: features come with every ask"
            if policy.context is not None:
                expected = (
                    "no change: the policy has learned with them; retire the arm and add another"
                )
            raise InvalidArgument("features", features, expected)
        self._change(lambda roster: roster.correction(features))

    def _change(self, describe: Callable[[Roster], dict[str, Any]]) -> tuple[Roster, Roster]:
        with self._gate:
            return changes.change_roster(self.synced, describe)

    # --- the log ---

    def log(self) -> list[LoggedDecision]:
        """All decisions in order, with their rewards."""
        with self.current(defaults=False) as replica:
            context, roster, last = replica.policy.context, replica.roster, replica.last
        return logged_decisions(self._rows(last), self.record, roster, context)

    def export(self, path: str | Path) -> int:
        """Write the log to a .csv or .parquet file, one row per decision with its reward.

        Returns:
            The number of decisions written.
        """
        with self.current(defaults=False) as replica:
            policy, last = replica.policy, replica.last
        return write_log(path, self.record, self._rows(last), policy)

    def _rows(self, upto: int) -> list[Row]:
        """The rows of the log up to row ``upto``."""
        if not upto:
            return []
        return [Row(*row) for row in log_rows(self.synced.store, self.record, 0, upto)]

    def snapshot(self) -> None:
        """Save the state, so that opening need not fold the log. Also happens automatically."""
        with self._gate:
            self.synced.sync()
            self.synced.save()

    def rebuild(self) -> None:
        """Discard the saved state, fold the whole log again and save the result."""
        with self._gate:
            self.synced.rebuild()

    def backup(self, path: str | Path) -> None:
        """Back up the experiment to a new SQLite file, even while it is in use.

        ``rolf restore`` copies it to another database; it can also be opened directly.
        """
        self._gate.check_open()
        back_up(self.synced.store, path, [self.name])

    # --- the end ---

    def delete(self, *, confirm: str) -> None:
        """Delete the experiment with all its decisions and rewards; ``confirm`` is its name."""
        if confirm != self.name:
            raise InvalidArgument("confirm", confirm, f"the experiment's name, {self.name!r}")
        with self._gate:
            self.synced.store.delete(self.record.id)

    def close(self) -> None:
        """Close the connection."""
        self._gate.close()

    def warm_up(self) -> None:
        """Compile or load the code behind ``ask``, ``tell`` and ``status`` in advance."""
        warm_up(self.synced.replica.policy)

    def __enter__(self) -> Experiment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise ExperimentError(
            f"experiment {self.name!r} holds a connection and cannot be pickled or copied: "
            "send its URL and name, and call rolf.open_experiment at the other end"
        )

    def __repr__(self) -> str:
        asked, told = sum(self.synced.replica.asked), sum(self.synced.replica.told)
        return f"<Experiment {self.name!r}: {self.policy}, {asked} asked, {told} told>"

    # --- coroutines: ``protocol.METHODS`` lists them ---

    aask, aask_many = in_thread(ask), in_thread(ask_many)
    atell, atell_many, acorrect = in_thread(tell), in_thread(tell_many), in_thread(correct)
    alearn, alearn_totals = in_thread(learn), in_thread(learn_totals)
    alearn_file = in_thread(learn_file)
    astatus, acounts, apending = in_thread(status), in_thread(counts), in_thread(pending)
    alog, aexport, abackup = in_thread(log), in_thread(export), in_thread(backup)
    aarm_table, aadd_arms = in_thread(arm_table), in_thread(add_arms)
    aretire_arms, arestore_arms = in_thread(retire_arms), in_thread(restore_arms)
    aupdate_features = in_thread(update_features)
    apause, aresume, adelete = in_thread(pause), in_thread(resume), in_thread(delete)
    aestimates, arank = in_thread(estimates), in_thread(rank)
    aprobabilities, aintervals = in_thread(probabilities), in_thread(intervals)
    aprobability_best = in_thread(probability_best)
    asnapshot, arebuild = in_thread(snapshot), in_thread(rebuild)
    aclose, awarm_up = in_thread(close), in_thread(warm_up)


def _with_posterior(replica: Replica) -> PosteriorPolicy:
    if not isinstance(replica.policy, PosteriorPolicy):
        raise no_posterior(replica.record.policy)
    return replica.policy


def no_posterior(policy: str) -> ExperimentError:
    return ExperimentError(
        f"{policy} has no posterior, which this requires; "
        "status() shows the posterior of RoLF-Bayes after the same rewards"
    )
