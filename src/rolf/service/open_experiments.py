"""The experiments that this process has open."""

from __future__ import annotations

import json
import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rolf.errors import RolfError, RolfWarning, UnknownExperiment
from rolf.experiments.database import open_experiment
from rolf.experiments.experiment import Experiment
from rolf.experiments.storage.contract import check_exists
from rolf.experiments.storage.urls import connect
from rolf.policies.catalogue import DEFAULT_POLICY
from rolf.policies.warm import warm_up
from rolf.service.http.errors import unknown_experiment


class OpenExperiments:
    """The most recently used experiments by name. Others are opened when needed.

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

    def current(self, name: str) -> Experiment:
        """An experiment that is in the database now."""
        experiment, fresh = self.get(name)
        try:
            if not fresh:
                check_exists(self.store, experiment.record)
        except UnknownExperiment:
            return self.reopen(name, experiment)
        return experiment

    def get(self, name: str) -> tuple[Experiment, bool]:
        """An experiment, and whether it was opened just now: otherwise it may be one that has
        been deleted, which whatever is written to it shows."""
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
                raise unknown_experiment(name)
            experiment = open_experiment(self.url, name, timeout=self.timeout)
            experiment.warm_up()
            return experiment
        except UnknownExperiment:
            raise unknown_experiment(name) from None

    def reopen(self, name: str, deleted: Experiment) -> Experiment:
        """The experiment that has the name of a deleted one now."""
        self.drop(name, deleted)
        return self.get(name)[0]

    def create(self, name: str, **settings: Any) -> tuple[Experiment, bool, list[str]]:
        """Create an experiment, or find it; whether it is new, and what should be known about how
        its arms were read."""
        with self.notes() as notes:
            experiment = open_experiment(self.url, name, timeout=self.timeout, **settings)
        self._keep(name, experiment)
        return experiment, experiment.synced.new, notes

    @contextmanager
    def notes(self) -> Iterator[list[str]]:
        """What rolf warns of within the ``with`` block, complete at its end."""
        notes: list[str] = []
        with self._warnings, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RolfWarning)
            yield notes
        ours = (str(each.message) for each in caught if issubclass(each.category, RolfWarning))
        notes += dict.fromkeys(ours)  # once, even if it took two attempts

    def warm_up(self) -> None:
        """Compile, or load, what the policies of experiments call, before the first request."""
        warm_up(DEFAULT_POLICY)
        records = [self.store.record(name) for name in self.store.names()[: self._most]]
        for policy, options in {(each.policy, each.options) for each in records if each}:
            with suppress(RolfError):  # raised again where the experiment is used
                warm_up(policy, options=json.loads(options))

    def _keep(self, name: str, experiment: Experiment) -> None:
        with self._lock:
            self._open[name] = experiment
            self._open.move_to_end(name)
            while len(self._open) > self._most:
                self._open.popitem(last=False)  # closed once no request uses it any more

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
