"""An experiment that starts from what is known from before."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rolf.experiments.log.history import Past, check_source, checked_source
from rolf.experiments.log.replica import Replica
from rolf.experiments.parts import Part
from rolf.experiments.storage.contract import HISTORY, Row
from rolf.experiments.transfer.learn_file import HistoryFile, Learned
from rolf.progress import Progress


class WarmStart(Part):
    """The part of an experiment that learns from history."""

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
        """Learn from rewards of before the experiment; durable when this returns.

        They are no decisions and have no ids, and ``status`` counts them apart, as history. All of
        them are learned or none. As for ``Policy.learn``, they count as rounds, and towards RoLF's
        forced exploration.

        Args:
            arms: the arm of each past round, by its name.
            rewards: its reward.
            features: (n, d) features that each had, for policies that take them with every ask.
            context: (n, m) context that each had, for policies that were created with one.
            probabilities: with which chance each was chosen, for policies that weigh rewards by
                it; uniform by default.
            source: a name for where they come from. The same rounds from the same source are
                learned once, however often they are sent; other rounds from it are refused.

        Returns:
            How many rounds were learned; 0 if they were known.
        """
        source = checked_source(source)
        listed = list(arms) if isinstance(arms, Iterator) else arms
        values = list(rewards) if isinstance(rewards, Iterator) else rewards

        def past(replica: Replica) -> Past:
            return Past.checked(
                replica.policy,
                replica.roster.arms,
                listed,
                values,
                features=features,
                context=context,
                probabilities=probabilities,
            )

        return self._learn(past, source)

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
        """Learn from a table of past rounds in a file: all of it or nothing.

        Any table will do that has a column with the arm of each round, one with its reward and, if
        the policy takes a context, one per entry of it: the export of another experiment, too.

        Args:
            path: CSV, Parquet, or a folder of Parquet files, which may be larger than memory.
            arm: the column with the arm of each round.
            reward: the column with its reward.
            source: a name by which the same file is recognised, as in ``learn``; by default that
                of the file.
            skip_unknown: leave out rows of arms that the experiment does not have, rather than
                refuse the file.
            progress: show a progress bar; by default on a terminal.

        Returns:
            How many rows the file has, how many rounds were learned, and which arms are unknown.
        """
        file = HistoryFile(
            path,
            arm,
            reward,
            arms=self.synced.replica.roster.arms,
            policy=self.synced.replica.policy,
            source=source,
            skip_unknown=skip_unknown,
            progress=progress,
        )
        return file.learned(self._learn(file.history_of, file.source))

    def _learn(self, make: Callable[[Replica], Past], source: str | None) -> int:
        """Learn a history, which is made for the arms of the moment."""
        learned = 0

        def history_row() -> list[Row]:
            nonlocal learned
            replica = self.synced.replica
            past = make(replica)
            text = past.dumps(source)
            if check_source(replica.sources, source, json.loads(text)):
                learned = 0
                return []
            past.check_fits(replica.policy)
            learned = past.size
            return [Row(0, HISTORY, replica.histories + 1, self.synced.now(), features=text)]

        with self._exclusive():
            self.synced.write(history_row)
            self.synced.sync()
        return learned
