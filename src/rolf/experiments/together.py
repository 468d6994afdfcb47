"""Asks and rewards that come together are written together."""

from __future__ import annotations

from collections.abc import Sequence

from rolf.errors import RolfError
from rolf.experiments.asking import Asking, Asks
from rolf.experiments.telling import Rewards, Telling, combined, recorded


class Together(Asks, Rewards):
    """The part of an experiment that decides and takes rewards at the same time."""

    def serve_each(self, askings: Sequence[Asking], tellings: Sequence[Telling]) -> None:
        """``tell_each`` and ``ask_each``, with a single write where nothing is in the way: rewards
        of decisions that this process has made just now need not be looked up."""
        good = self._checked(tellings)
        try:
            with self._exclusive():
                together = combined(good)
                rows = self._live.recent_rewards(together, self._now()) if askings else []
                if good and not rows:
                    self._tell(good)
                written = self._ask(askings, rows)
                if written:
                    recorded(good, set(together))
                elif rows:
                    self._tell(good)
        except RolfError as error:
            for asking in askings:
                if asking.waits:
                    asking.error = error
            for telling in good:
                telling.error = telling.error or error
