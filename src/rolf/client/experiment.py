"""An experiment on a service, with the methods of a local one."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from rolf.arms.table import Arms, number_table
from rolf.checks import MAX_BATCH, as_number, between, whole
from rolf.client.arguments import (
    arm_names,
    checked_key,
    decision_id,
    listed,
    plain,
    plain_context,
    table_of_arms,
    warn_of,
)
from rolf.client.calls import Connected, awaited, path, sent
from rolf.client.errors import not_ours
from rolf.client.exchange import Call, Request
from rolf.client.transport import Transport
from rolf.errors import ExperimentError, InvalidArgument, RequestTooLarge, ServiceError
from rolf.experiments.protocol import METHODS
from rolf.tables.raw import index_labels
from rolf.types import Decision, FloatArray

if TYPE_CHECKING:
    from pathlib import Path

    from rolf.diagnosis.result import Diagnosis
    from rolf.experiments.log.decisions import LoggedDecision
    from rolf.experiments.status.pending import Pending
    from rolf.experiments.status.result import ArmRecord, Counts, Status
    from rolf.experiments.transfer.learn_file import Learned
    from rolf.progress import Progress


class RemoteExperiment(Connected):
    """An experiment on a service: asks, tells and raises as ``rolf.Experiment`` does.

    ``rolf.connect(url).experiment(name)`` gives one. Every method has a coroutine whose name starts
    with an ``a``: ``aask``, ``atell`` and so on. Several threads may share it.

    Temporary failures are retried until the call times out; then it raises ServiceUnavailable, a
    StorageUnavailable. However often a request is sent, decisions are made once and rewards count
    once.
    """

    def __init__(self, transport: Transport, name: str) -> None:
        if not isinstance(name, str) or name in ("", ".", ".."):
            raise InvalidArgument("name", name, "the name of an experiment")
        self.transport = transport
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    @property
    def policy(self) -> str:
        """The name of the policy."""
        return str(self.describe()["policy"])

    @property
    def arms(self) -> list[Any]:
        """The names of all arms, retired ones included."""
        return [each.arm for each in self.arm_table()]

    @property
    def paused(self) -> bool:
        """Whether the experiment makes no decisions until it is resumed."""
        return bool(self.describe()["paused"])

    # --- decisions ---

    @sent
    def ask(
        self,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
        context: Any = None,
        idempotency_key: str | None = None,
    ) -> Call[Decision]:
        """Decide which arm to play next; the decision is durable when this returns.

        Args:
            available: the arms to choose from; by default all that are not retired.
            features: (K, d) features of this round, for policies that take them.
            context: of this round, for policies that were created with one: its entries by name,
                or in order.
            idempotency_key: asking again with the same key, also after a crash of this process,
                gives the same decision; asking for something else with it is refused. Without one,
                every call has a key of its own, so that its retries decide once.
        """
        wanted = yield from self._round(available, features, context)
        request = self._ask_request(wanted, idempotency_key)
        return _decisions((yield request))[0]

    @sent
    def ask_many(
        self,
        n: int,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
        context: Any = None,
        distinct: bool = False,
        idempotency_key: str | None = None,
    ) -> Call[list[Decision]]:
        """Make several decisions before any of them is rewarded.

        Args:
            n: how many; at most 100,000, and at most 1,000 with an idempotency key.
            available: as in ``ask``.
            features: as in ``ask``.
            context: as in ``ask``.
            distinct: a slate, ``n`` different arms.
            idempotency_key: as in ``ask``.
        """
        n = whole("n", n, 1, MAX_BATCH)
        wanted = yield from self._round(available, features, context)
        if distinct:
            wanted["distinct"] = distinct

        def request(first: int, size: int) -> Request:
            return self._ask_request({"n": size, **wanted}, idempotency_key)

        if idempotency_key is not None or distinct:
            return _decisions((yield request(0, n)))
        answers = yield from self._in_parts(n, request, remember=features is None)
        return [decision for each in answers for decision in _decisions(each)]

    def _ask_request(self, wanted: Mapping[str, Any], idempotency_key: str | None) -> Request:
        key = uuid.uuid4().hex if idempotency_key is None else checked_key(idempotency_key)
        return Request("POST", self._path("ask"), wanted, headers={"Idempotency-Key": key})

    # --- rewards ---

    @sent
    def tell(self, decision: Decision | str, reward: float) -> Call[None]:
        """Record a reward: late, in any order, from anywhere; durable when this returns.

        Telling the same reward again changes nothing; a different one is refused. Of a reward that
        was corrected, both what was told and what it was corrected to count as the same.
        """
        body = {"id": decision_id(decision), "reward": as_number(reward)}
        yield Request("POST", self._path("tell"), body)

    @sent
    def tell_many(
        self, rewards: Mapping[str, float] | Iterable[tuple[Decision | str, float]]
    ) -> Call[int]:
        """Record many rewards, all or none: pairs, or a mapping by id.

        They are sent 1,000 at a time, or as many as the service takes, and what holds for all of
        them holds for each part. If that is cut short, the same call again completes it.

        Returns:
            How many of them were not on record before. Those whose first answer was lost on the
            way were, when they were sent again.
        """
        pairs = rewards.items() if isinstance(rewards, Mapping) else rewards
        told = []
        try:
            for decision, reward in pairs:
                told.append({"reward": as_number(reward), "id": decision_id(decision)})
        except (TypeError, ValueError) as error:
            if isinstance(error, InvalidArgument):
                raise
            raise InvalidArgument("rewards", rewards, "pairs of an id and a reward") from None

        def request(first: int, size: int) -> Request:
            return Request("POST", self._path("tell"), {"rewards": told[first : first + size]})

        answers = yield from self._in_parts(len(told), request)
        return sum(answer["new"] for answer in answers)

    @sent
    def correct(self, decision: Decision | str, reward: float, reason: str) -> Call[None]:
        """Put the right reward in the place of a wrong one; durable when this returns.

        Args:
            decision: one that has been told a reward, or its id.
            reward: the right one.
            reason: why the other one was wrong.
        """
        body = {"id": decision_id(decision), "reward": as_number(reward), "reason": reason}
        yield Request("POST", self._path("correct"), body)

    @sent
    def learn(
        self,
        arms: Any,
        rewards: Any,
        *,
        features: Any = None,
        context: Any = None,
        probabilities: Any = None,
        source: str | None = None,
    ) -> Call[int]:
        """Learn from rounds from before the experiment; durable when this returns.

        Args:
            arms: the arm of each round, by its name.
            rewards: its reward.
            features: (n, d) features that each had, for policies that take them with every ask.
            context: (n, m) context that each had, for policies that were created with one.
            probabilities: with which each arm was chosen; uniform by default.
            source: a name for where they come from. The same rounds from the same source are
                learned once, however often they are sent. Without one, every call has a source of
                its own, so that its retries learn once.

        Returns:
            How many rounds were learned; 0 if they were known.
        """
        values = {
            "arms": plain("arms", arms),
            "rewards": plain("rewards", rewards),
            "features": None if features is None else plain("features", features),
            "context": None if context is None else plain_context(context),
            "probabilities": None
            if probabilities is None
            else plain("probabilities", probabilities),
            "source": uuid.uuid4().hex if source is None else source,
        }
        body = {name: value for name, value in values.items() if value is not None}
        answer = yield Request("POST", self._path("learn"), body)
        return len(body["rewards"]) if source is None else int(answer["learned"])

    @sent
    def learn_totals(
        self,
        counts: Any,
        sums: Any,
        squares: Any = None,
        *,
        level: float = 0.0,
        source: str | None = None,
    ) -> Call[int]:
        """Learn from rewards from before the experiment that were added up per arm; durable when
        this returns.

        Args:
            counts: (K,) number of rewards per arm.
            sums: (K,) their sums.
            squares: (K,) the sums of their squares; needed by policies that learn the noise.
            level: what was subtracted from every reward beforehand.
            source: as in ``learn``.

        Returns:
            How many rounds were learned; 0 if they were known.
        """
        body = {
            "counts": plain("counts", counts),
            "sums": plain("sums", sums),
            "level": as_number(level),
            "source": uuid.uuid4().hex if source is None else source,
        }
        if squares is not None:
            body["squares"] = plain("squares", squares)
        answer = yield Request("POST", self._path("learn", "totals"), body)
        return int(sum(body["counts"])) if source is None else int(answer["learned"])

    @sent
    def learn_file(
        self,
        path: str | Path,
        arm: str,
        reward: str,
        *,
        source: str | None = None,
        skip_unknown: bool = False,
        progress: Progress = None,
    ) -> Call[Learned]:
        """Not over HTTP: read the file, and pass its columns to ``learn``."""
        why = "read the file and pass its columns to learn"
        return (yield from _not_over_http("learn_file", why))

    # --- what is known ---

    @sent
    def describe(self) -> Call[dict[str, Any]]:
        """How the experiment was created, and its counts, as plain data."""
        answer: dict[str, Any] = yield Request("GET", self._path())
        return answer

    @sent
    def counts(self) -> Call[Counts]:
        """How many decisions were made and how many rewards told, without any estimates."""
        from rolf.experiments.status.result import Counts

        answer = yield Request("GET", self._path())
        return Counts(answer["asked"], answer["told"])

    @sent
    def status(self, *, control: Any = None, timeline: bool = False) -> Call[Status]:
        """Counts of decisions and rewards, every arm's plays and estimate, and the uplift.

        Args:
            control: an arm to compare with; by default an equal share of all active arms.
            timeline: read the whole log for rewards over time.
        """
        from rolf.experiments.status.result import Status

        params = {"timeline": "true"} if timeline else {}
        if control is not None:
            params["control"] = str(control)
        return Status.from_dict((yield Request("GET", self._path("status"), params=params)))

    @sent
    def pending(self, limit: int = 100) -> Call[Pending]:
        """The latest decisions without a reward, not even the default one, the latest first.

        However long the log is, only the latest 1,000 decisions are looked at.

        Args:
            limit: how many to list; at most 1,000.
        """
        from rolf.experiments.status.pending import LATEST, Pending, PendingDecision

        params = {"limit": whole("limit", limit, 1, LATEST)}
        answer = yield Request("GET", self._path("pending"), params=params)
        decisions = [PendingDecision(**each) for each in answer["decisions"]]
        return Pending(decisions, answer["total"], answer["looked_at"])

    def log(self) -> list[LoggedDecision]:
        """All decisions with their rewards, in their order.

        If the connection fails, this raises ServiceUnavailable without a retry.
        """
        return [_logged(line) for line in self.transport.lines(self._log_request())]

    async def alog(self) -> list[LoggedDecision]:
        """``log`` for coroutines."""
        return [_logged(line) async for line in self.transport.alines(self._log_request())]

    @sent
    def export(self, path: str | Path) -> Call[int]:
        """Not over HTTP: the route ``GET .../log?format=csv`` sends the same columns."""
        return (
            yield from _not_over_http("export", "GET .../log?format=csv sends the same columns")
        )

    @sent
    def backup(self, path: str | Path) -> Call[None]:
        """Not over HTTP: back up the database of the service."""
        yield from _not_over_http("backup", "connect to the database of the service")

    def _log_request(self) -> Request:
        return Request("GET", self._path("log"), params={"format": "jsonl"})

    @sent
    def estimates(self, *, features: Any = None, context: Any = None) -> Call[Any]:
        """Estimated mean reward of every arm: an array, or a Series for labelled arms."""
        answer = yield from self._beliefs(features, context)
        return _labelled(answer, _column(answer, "estimate"))

    @sent
    def rank(
        self, k: int | None = None, *, features: Any = None, context: Any = None
    ) -> Call[list[Any]]:
        """The ``k`` best arms by estimate, best first, without retired ones; all by default."""
        count = None if k is None else whole("k", k, 1)
        answer = yield from self._beliefs(features, context)
        order = np.argsort(-_column(answer, "estimate"), kind="stable")
        ordered = [answer["arms"][position] for position in order]
        return [each["arm"] for each in ordered if each["active"]][:count]

    @sent
    def probabilities(
        self,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
        context: Any = None,
        draws: int = 10_000,
    ) -> Call[Any]:
        """Each arm's probability in the next ``ask``; 0 for retired arms.

        Exact, except for Thompson sampling, where it is the share of ``draws`` posterior draws.
        Reading it changes no later decision.
        """
        options = {} if whole("draws", draws, 1) == 10_000 else {"draws": int(draws)}
        body = {**(yield from self._round(available, features, context)), **options}
        answer = yield Request("POST", self._path("probabilities"), body)
        return _labelled(answer, _column(answer, "probability"))

    @sent
    def intervals(
        self, level: float = 0.9, *, features: Any = None, context: Any = None
    ) -> Call[Any]:
        """Posterior intervals of the arms' mean rewards, for policies with a posterior.

        Each holds the mean with probability ``level``, as much below as above. An array (K, 2), or
        a table with columns low and high for labelled arms. Unbounded while fewer than two
        different rewards have come.
        """
        options = {} if between("level", level, 0.0, 1.0) == 0.9 else {"level": float(level)}
        answer = yield from self._beliefs(features, context, **options)
        _check_posterior(answer)
        ends = [_column(answer, "low", -math.inf), _column(answer, "high", math.inf)]
        return _labelled(answer, np.column_stack(ends), ("low", "high"))

    @sent
    def probability_best(
        self,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
        context: Any = None,
        draws: int = 10_000,
    ) -> Call[Any]:
        """The posterior probability of every arm to be the best one that is not retired, for
        policies with a posterior: the share of ``draws`` in which it is."""
        options = {} if whole("draws", draws, 1) == 10_000 else {"draws": int(draws)}
        answer = yield from self._beliefs(features, context, available, **options)
        _check_posterior(answer)
        if not any(each["active"] for each in answer["arms"]):
            from rolf.experiments.roster import all_retired

            raise all_retired()
        return _labelled(answer, _column(answer, "best"))

    def _beliefs(
        self, features: Any, context: Any, available: Any = None, **options: float
    ) -> Call[dict[str, Any]]:
        """What the service says about the arms, in a round if anything of one is specified."""
        question = {**(yield from self._round(available, features, context)), **options}
        answer: dict[str, Any]
        if not question:
            answer = yield Request("GET", self._path("estimates"))
            if any(each["estimate"] is not None for each in answer["arms"]):
                return answer
        # whose error says what a round has to have
        answer = yield Request("POST", self._path("estimates"), question)
        return answer

    @sent
    def diagnosis(self, *, level: float = 0.95) -> Call[Diagnosis]:
        """Whether the features explain the rewards, as ``rolf.diagnose`` finds.

        Args:
            level: of the intervals, and the probability at which a verdict is sure.
        """
        from rolf.diagnosis.lack_of_fit import LackOfFit
        from rolf.diagnosis.result import ArmDiagnosis, Diagnosis, Share

        params = {"level": between("level", level, 0.0, 1.0)}
        answer = yield Request("GET", self._path("diagnosis"), params=params)
        data = {name: value for name, value in answer.items() if name in Diagnosis.__annotations__}
        nothing = {"level": level, "rewards": 0, "played": 0, "rank": 0, "arms": []}
        data = {**nothing, **data}
        data["arms"] = [ArmDiagnosis(**each) for each in data["arms"]]
        for name, kind in {"share": Share, "lack_of_fit": LackOfFit}.items():
            if data.get(name) is not None:
                data[name] = kind(**data[name])
        return Diagnosis(**data)

    # --- changes ---

    @sent
    def arm_table(self) -> Call[list[ArmRecord]]:
        """Every arm, retired ones included, with its features and how often it was played."""
        return (yield from self._arm_table())

    def _arm_table(self) -> Call[list[ArmRecord]]:
        from rolf.experiments.status.result import ArmRecord

        answer = yield Request("GET", self._path("arms"))
        return [ArmRecord(**each) for each in answer["arms"]]

    @sent
    def add_arms(self, features: Any) -> Call[list[Any]]:
        """Add arms and return their names: rows of features, or a DataFrame or file with names.

        If the answer is lost, this is not tried again: it would add arms without names twice.
        """
        body = table_of_arms(features)
        answer = yield Request("POST", self._path("arms"), body, repeatable=False)
        warn_of(answer["notes"])
        return list(answer["added"])

    @sent
    def update_features(self, features: Any) -> Call[None]:
        """Correct features: a mapping from arms to rows, or a table or file of some or all arms.

        Counts and sums of rewards are kept; whatever follows from them is computed again.
        """
        if isinstance(features, dict):
            rows = number_table(list(features.values()))
            body = {"of": arm_names(list(features)), "features": rows.tolist()}
        else:
            body = table_of_arms(features)
        answer = yield Request("POST", self._path("arms", "update"), body)
        warn_of(answer["notes"])

    @sent
    def retire_arms(self, ids: Any) -> Call[None]:
        """Stop choosing these arms. Rewards of decisions already made can still be told."""
        yield Request("POST", self._path("arms", "retire"), {"arms": arm_names(ids)})

    @sent
    def restore_arms(self, ids: Any) -> Call[None]:
        """Choose retired arms again, with everything that is known about them."""
        yield Request("POST", self._path("arms", "restore"), {"arms": arm_names(ids)})

    @sent
    def pause(self) -> Call[None]:
        """Make no more decisions until ``resume``; rewards can still be told."""
        yield Request("POST", self._path("pause"))

    @sent
    def resume(self) -> Call[None]:
        """Make decisions again after ``pause``."""
        yield Request("POST", self._path("resume"))

    @sent
    def delete(self, *, confirm: str) -> Call[None]:
        """Delete the experiment with all its decisions and rewards; ``confirm`` is its name."""
        if confirm != self.name:
            raise InvalidArgument("confirm", confirm, f"the experiment's name, {self.name!r}")
        yield Request("DELETE", self._path(), params={"confirm": confirm}, deletes=True)

    # --- requests ---

    def _path(self, *parts: str) -> str:
        return path(self.name, *parts)

    def _round(self, available: Any, features: Any, context: Any) -> Call[dict[str, Any]]:
        """A round as requests describe it: only what is specified."""
        if index_labels(features) is not None:
            features = yield from self._in_order(features)
        body = {
            "available": None if available is None else plain("available", listed(available)),
            "features": None if features is None else number_table(features).tolist(),
            "context": None if context is None else plain_context(context),
        }
        return {name: value for name, value in body.items() if value is not None}

    def _in_order(self, features: Any) -> Call[FloatArray]:
        """The rows of a DataFrame, whose index names the arms, in the order of the arms."""
        records = yield from self._arm_table()
        table = np.array([list(each.features.values()) for each in records], dtype=np.float64)
        labels = _names([each.arm for each in records])
        return Arms(table, labels, list(records[0].features)).round_features(features)

    def _in_parts(
        self, count: int, request: Callable[[int, int], Request], remember: bool = True
    ) -> Call[list[Any]]:
        """The answers about ``count`` things, as many at a time as the service takes.

        Args:
            count: how many.
            request: makes the request about some of them: the first, and how many.
            remember: whether how many it takes does not depend on what they are.
        """
        answers, first, part = [], 0, self.transport.part
        while first < count:
            size = min(part, count - first)
            try:
                answer = yield request(first, size)
            except RequestTooLarge:
                if size == 1:
                    raise
                part = (size + 1) // 2
                continue
            if remember:
                self.transport.part = min(part, self.transport.part)
            answers.append(answer)
            first += size
        return answers

    def __reduce__(self) -> NoReturn:
        raise ExperimentError(
            f"experiment {self.name!r} holds connections and a key and cannot be pickled or copied:"
            " send the service's URL and the name, and call rolf.connect there"
        )

    def __repr__(self) -> str:
        return f"<RemoteExperiment {self.name!r} at {self.transport.url}>"

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A coroutine, such as ``aask``."""


for _method in (*METHODS, "describe", "diagnosis"):
    if _method != "log":
        setattr(RemoteExperiment, f"a{_method}", awaited(getattr(RemoteExperiment, _method)))


# --- answers ---


def _decisions(answer: Mapping[str, Any]) -> list[Decision]:
    return [
        Decision(
            each["id"],
            each["arm"],
            math.nan if each["probability"] is None else each["probability"],
            each["greedy"],
            each["matched"],
        )
        for each in answer["decisions"]
    ]


def _logged(line: str) -> LoggedDecision:
    """The decision in a line of a log."""
    from rolf.experiments.log.decisions import LoggedDecision

    try:
        return LoggedDecision.from_dict(json.loads(line))
    except (TypeError, ValueError, LookupError):
        raise not_ours("a request for the log") from None


def _column(answer: Mapping[str, Any], name: str, unknown: float = math.nan) -> FloatArray:
    values = [each[name] for each in answer["arms"]]
    return np.array([unknown if value is None else value for value in values], dtype=np.float64)


def _labelled(
    answer: Mapping[str, Any], values: FloatArray, columns: Sequence[str] | None = None
) -> Any:
    """Values per arm as a local experiment returns them."""
    labels = [each["arm"] for each in answer["arms"]]
    return Arms(np.zeros((len(labels), 0)), _names(labels)).labelled(values, columns)


def _names(labels: list[Any]) -> list[Any] | None:
    """The names of arms; None if they only have numbers."""
    return None if labels == list(range(len(labels))) else labels


def _not_over_http(method: str, instead: str) -> Call[NoReturn]:
    """The call of a method that a service does not have."""
    raise ServiceError(f"{method} is not possible over HTTP: {instead}")
    yield


def _check_posterior(answer: Mapping[str, Any]) -> None:
    if answer["posterior_of"] != answer["policy"]:
        from rolf.experiments.experiment import no_posterior

        raise no_posterior(answer["policy"])
