"""Arms of an experiment that come and go, and pauses of the whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from rolf.errors import InvalidArgument
from rolf.experiments.log.replica import Replica
from rolf.experiments.parts import Part
from rolf.experiments.roster import Roster
from rolf.experiments.storage.contract import CHANGE, Row
from rolf.policies.contract import check_growth


class ArmChanges(Part):
    """The part of an experiment that changes its arms, and pauses it."""

    @property
    def paused(self) -> bool:
        """Whether the experiment makes no decisions until it is resumed."""
        with self.current() as replica:
            return replica.roster.paused

    def pause(self) -> None:
        """Make no more decisions until ``resume``; rewards can still be told."""
        self._change_arms(lambda roster: {} if roster.paused else {"paused": True})

    def resume(self) -> None:
        """Make decisions again after ``pause``."""
        self._change_arms(lambda roster: {"paused": False} if roster.paused else {})

    def add_arms(self, features: Any) -> list[Any]:
        """Add arms and return their names: rows of features, or a DataFrame or file with names."""
        before, after = self._change_arms(lambda roster: roster.addition(features))
        return after.arms.labels[before.arms.count :]

    def retire_arms(self, ids: Any) -> None:
        """Stop choosing these arms. Rewards of decisions already made can still be told."""
        self._change_arms(lambda roster: roster.retirement(ids))

    def restore_arms(self, ids: Any) -> None:
        """Choose retired arms again, with everything that is known about them."""
        self._change_arms(lambda roster: roster.restoration(ids))

    def update_features(self, features: Any) -> None:
        """Correct features: a mapping from arms to rows, or a table or file of some or all arms.

        Counts and sums of rewards are kept; whatever follows from them is computed again.
        """
        if self.synced.replica.policy.varying:
            expected = "nothing: features come with every ask"
            if self.synced.replica.policy.context is not None:
                expected = (
                    "nothing: what was learned with others stays; retire the arm and add another"
                )
            raise InvalidArgument("features", features, expected)
        self._change_arms(lambda roster: roster.correction(features))

    def _change_arms(self, describe: Callable[[Roster], dict[str, Any]]) -> tuple[Roster, Roster]:
        """Record a change, unless it is empty; returns the rosters before and after it."""
        rosters: tuple[Roster, Roster]

        def change_row() -> list[Row]:
            nonlocal rosters
            before = self.synced.replica.roster
            change = describe(before)
            after = before.changed(change)
            rosters = before, after
            if not change:
                return []
            if after.arms.count > before.arms.count:
                check_growth(self.synced.replica.policy)
            Replica(self._record._replace(features=after.dumps()))  # raises if the policy objects
            number = self.synced.replica.changes + 1
            return [Row(0, CHANGE, number, self.synced.now(), features=json.dumps(change))]

        with self._exclusive():
            self.synced.write(change_row)
            self.synced.sync()
        return rosters
