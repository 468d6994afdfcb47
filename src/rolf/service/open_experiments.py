"""The experiments that this process has open."""

from __future__ import annotations

import json
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from rolf.errors import RolfError, RolfWarning, UnknownExperiment
from rolf.experiments.database import open_experiment
from rolf.experiments.experiment import Experiment
from rolf.experiments.storage.contract import check_exists
from rolf.experiments.storage.urls import connect
from rolf.policies.catalogue import DEFAULT_POLICY
from rolf.policies.warm import warm_up

T = TypeVar("T")


class Handles:
    """Open experiments by name: those that were used last. Others are opened when needed.

    An experiment may be deleted, and another created under its name, by other processes.
    """

    def __init__(self, url: str, timeout: float, most: int) -> None:
        self.url, self.timeout = url, timeout
        self.store = connect(url, timeout)
        self._most = most
        self._open: OrderedDict[str, Experiment] = OrderedDict()
        self._lock = threading.Lock()
        self._opening: dict[str, threading.Lock] = {}
        self._warnings = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def use(self, name: str, work: Callable[[Experiment], T], *, check: bool = False) -> T:
        """Do some work with an experiment; ``check``: the work itself would not notice that it has
        been deleted."""
        experiment, fresh = self._get(name)
        try:
            if check and not fresh:
                check_exists(self.store, experiment.record)
            return work(experiment)
        except UnknownExperiment:
            self.drop(name, experiment)
            if fresh:
                raise
        try:
            experiment, _ = self._get(name)
        except UnknownExperiment:
            raise unknown(name) from None
        return work(experiment)

    def _get(self, name: str) -> tuple[Experiment, bool]:
        """An experiment, and whether it was opened just now."""
        with self._lock:
            known = self._open.get(name)
            if known is not None:
                self._open.move_to_end(name)
                return known, False
            opening = self._opening.setdefault(name, threading.Lock())
        with opening:
            with self._lock:
                if name in self._open:
                    return self._open[name], False
            try:
                experiment = self._opened(name)
            finally:
                with self._lock:
                    self._opening.pop(name, None)
            self._keep(name, experiment)
            return experiment, True

    def _opened(self, name: str) -> Experiment:
        try:
            if self.store.record(name) is None:
                raise unknown(name)
            experiment = open_experiment(self.url, name, timeout=self.timeout)
            experiment.warm_up()
            return experiment
        except UnknownExperiment:
            raise unknown(name) from None

    def create(self, name: str, **settings: Any) -> tuple[Experiment, bool, list[str]]:
        """Create an experiment, or find it; whether it is new, and what should be known about how
        its arms were read."""
        with self.notes() as notes:
            experiment = open_experiment(self.url, name, timeout=self.timeout, **settings)
        self._keep(name, experiment)
        return experiment, experiment._new, notes

    @contextmanager
    def notes(self) -> Iterator[list[str]]:
        """What rolf warns of meanwhile, once it is over."""
        notes: list[str] = []
        with self._warnings, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RolfWarning)
            yield notes
        ours = (str(each.message) for each in caught if issubclass(each.category, RolfWarning))
        notes += dict.fromkeys(ours)  # once, also if it took two attempts

    def warm_up(self) -> None:
        """Compile, or load, what the policies of experiments call, before anybody waits."""
        warm_up(DEFAULT_POLICY)
        records = [self.store.record(name) for name in self.store.names()[: self._most]]
        for policy, options in {(each.policy, each.options) for each in records if each}:
            with suppress(RolfError):  # it is told to whoever uses the experiment
                warm_up(policy, options=json.loads(options))

    def _keep(self, name: str, experiment: Experiment) -> None:
        with self._lock:
            self._open[name] = experiment
            self._open.move_to_end(name)
            while len(self._open) > self._most:
                self._open.popitem(last=False)  # closed once nobody uses it any more

    def drop(self, name: str, experiment: Experiment | None = None) -> None:
        """Open an experiment again when it is needed next."""
        with self._lock:
            if experiment is None or self._open.get(name) is experiment:
                self._open.pop(name, None)

    def close(self) -> None:
        with self._lock:
            known = list(self._open.values())
            self._open.clear()
        for experiment in known:
            experiment.close()
        self.store.close()


def unknown(name: str) -> UnknownExperiment:
    return UnknownExperiment(f"no experiment is called {name!r}")
