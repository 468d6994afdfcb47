"""Asks and rewards that come together are written together."""

from __future__ import annotations

from collections.abc import Sequence

from rolf.errors import RolfError
from rolf.experiments.asking import Asks
from rolf.experiments.batch import Ask, Tell
from rolf.experiments.telling import Rewards, combined, recorded


class Together(Asks, Rewards):
    """The part of an experiment that decides and takes rewards at the same time."""

    def submit(self, asks: Sequence[Ask] = (), tells: Sequence[Tell] = ()) -> None:
        """Record what all tell, and decide for all who ask, with a single write where nothing is
        in the way: rewards of decisions that this process has made just now need not be looked up.

        What is wrong with one of them is its own error; if the database fails, it is that of all.
        """
        good = self._checked(tells)
        if not asks and not good:
            return
        try:
            with self._exclusive():
                together = combined(good)
                rows = self.synced.recent_rewards(together, self.synced.now()) if asks else []
                if good and not rows:
                    self._tell(good)
                written = bool(asks) and self._ask(asks, rows)
                if written:
                    recorded(good, set(together))
                elif rows:
                    self._tell(good)
        except RolfError as error:
            for ask in asks:
                if len(ask.decisions) < ask.count:  # what was wrong with it may be outdated
                    ask.error = error
            for tell in good:
                tell.error = tell.error or error
