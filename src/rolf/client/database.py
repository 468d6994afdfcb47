"""The experiments of a service, as those of a local database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from rolf.client.arguments import plain, table_of_arms, warn_of
from rolf.client.calls import Connected, awaited, path, sent
from rolf.client.exchange import Call, Request
from rolf.client.experiment import RemoteExperiment
from rolf.client.transport import Transport
from rolf.errors import InvalidArgument, ServiceError
from rolf.experiments.database import ExperimentSummary
from rolf.progress import Progress

#: experiments of one request
PAGE = 100


class RemoteDatabase(Connected):
    """The experiments of a server that ``rolf serve`` runs. ``rolf.connect`` gives one.

    Every method that sends something has a coroutine whose name starts with an ``a``. Close it, or
    use it in a ``with`` or an ``async with`` statement.
    """

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    @property
    def url(self) -> str:
        return self.transport.url

    def experiment(self, name: str) -> RemoteExperiment:
        """An experiment by its name; nothing is sent until it is used."""
        return RemoteExperiment(self.transport, name)

    @sent
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
    ) -> Call[RemoteExperiment]:
        """Create an experiment, or check that it was created with the same settings.

        The arguments are those of ``rolf.open_experiment``.
        """
        if isinstance(reward_after, timedelta):
            reward_after = reward_after.total_seconds()
        settings = {
            "policy": policy,
            "options": options,
            "context": context,
            "seed": seed,
            "default_reward": default_reward,
            "reward_after": reward_after,
        }
        body = {each: plain(each, value) for each, value in settings.items() if value is not None}
        experiment = self.experiment(name)
        arms = table_of_arms(features)
        answer = yield Request("POST", "/v1/experiments", {"name": name, **arms, **body})
        warn_of(answer["notes"])
        return experiment

    @sent
    def experiments(self) -> Call[list[ExperimentSummary]]:
        """All experiments that the key may see, in the order of their names."""
        summaries: list[ExperimentSummary] = []
        params: dict[str, Any] = {"limit": PAGE}
        while True:
            page = yield Request("GET", "/v1/experiments", params=params)
            summaries += [
                ExperimentSummary(*(each[field] for field in ExperimentSummary._fields))
                for each in page["experiments"]
            ]
            if page["next"] is None:
                return summaries
            params["after"] = page["next"]

    @sent
    def delete(self, name: str, *, confirm: str) -> Call[None]:
        """Delete an experiment with all its decisions and rewards; ``confirm`` is its name."""
        if confirm != name:
            raise InvalidArgument("confirm", confirm, f"the experiment's name, {name!r}")
        yield Request("DELETE", path(name), params={"confirm": confirm}, deletes=True)

    def backup(
        self, path: str | Path, names: Sequence[str] | None = None, *, progress: Progress = None
    ) -> list[str]:
        """Not over HTTP: back up the database of the service."""
        raise _needs_the_database("backed up")

    def restore(
        self,
        path: str | Path,
        names: Sequence[str] | None = None,
        *,
        policy: Any = None,
        options: Mapping[str, Any] | None = None,
        progress: Progress = None,
    ) -> list[str]:
        """Not over HTTP: restore into the database of the service."""
        raise _needs_the_database("restored")

    def __reduce__(self) -> NoReturn:
        raise ServiceError(
            "a service holds connections and a key and cannot be pickled or copied: "
            "send its URL, and call rolf.connect there"
        )

    def __repr__(self) -> str:
        return f"<RemoteDatabase {self.url}>"

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A coroutine, such as ``acreate``."""


for _method in ("create", "experiments", "delete"):
    setattr(RemoteDatabase, f"a{_method}", awaited(getattr(RemoteDatabase, _method)))


def _needs_the_database(done: str) -> ServiceError:
    return ServiceError(
        f"experiments cannot be {done} over HTTP: connect to the database of the service instead"
    )
