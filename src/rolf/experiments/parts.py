"""What the parts of an experiment, each in a file of its own, need of the whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from rolf.experiments.log.replica import Replica
from rolf.experiments.log.synced import LiveReplica
from rolf.experiments.storage.contract import Record
from rolf.types import FloatArray


class Part(ABC):
    """A part of an experiment."""

    synced: LiveReplica
    _record: Record

    @abstractmethod
    def _exclusive(self) -> AbstractContextManager[None]:
        """One call at a time."""

    @abstractmethod
    def _expire(self) -> bool:
        """Give default rewards that are due; whether there are no more of them."""

    @abstractmethod
    def _round_features(self, features: Any, context: Any) -> FloatArray:
        """The checked features of a round."""

    @abstractmethod
    def _expire_all(self) -> None:
        """Give all default rewards that are due."""

    @contextmanager
    def current(self, *, defaults: bool = True) -> Iterator[Replica]:
        """The replica, once it knows everything that was recorded before; meanwhile there are no
        other calls. For servers and for the command line.

        Args:
            defaults: whether to give default rewards that are due first.
        """
        if defaults:
            self._expire_all()
        with self._exclusive():
            self.synced.sync()
            yield self.synced.replica
