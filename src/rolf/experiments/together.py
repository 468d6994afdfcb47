"""Asks and rewards that come together are written together."""

from __future__ import annotations

from collections.abc import Sequence

from rolf.errors import RolfError
from rolf.experiments.asking import Asking, Asks
from rolf.experiments.telling import Rewards, Telling, combined, recorded


class Together(Asks, Rewards):
    """The part of an experiment that decides and takes rewards at the same time."""

    def serve_each(self, askings: Sequence[Asking] = (), tellings: Sequence[Telling] = ()) -> None:
        """Record what all tell, and decide for all who ask, with a single write where nothing is
        in the way: rewards of decisions that this process has made just now need not be looked up.

        What is wrong with one of them is its own error; if the database fails, it is that of all.
        """
        good = self._checked(tellings)
        if not askings and not good:
            return
        try:
            with self._exclusive():
                together = combined(good)
                rows = self._live.recent_rewards(together, self._now()) if askings else []
                if good and not rows:
                    self._tell(good)
                written = bool(askings) and self._ask(askings, rows)
                if written:
                    recorded(good, set(together))
                elif rows:
                    self._tell(good)
        except RolfError as error:
            for asking in askings:
                if len(asking.decisions) < asking.count:  # what was wrong with it may be outdated
                    asking.error = error
            for telling in good:
                telling.error = telling.error or error
