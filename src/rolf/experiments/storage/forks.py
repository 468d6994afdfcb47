"""What must be put in order before a process forks.

A forked process has the locks of its parent as they were, held by threads that it does not have,
and a copy of SQLite's notes about file locks that it does not hold. So locks are taken before the
fork, files closed, and both processes carry on from there.
"""

from __future__ import annotations

import os
import weakref
from contextlib import suppress
from typing import Protocol


class Forkable(Protocol):
    """Something that takes part in a fork.

    Nobody who holds one of these locks may wait for another: forking takes all of them.
    """

    def before_fork(self) -> None:
        """Come to rest, and keep other threads out."""

    def after_fork(self, in_child: bool) -> None:
        """Carry on, in the process that forked or in the new one."""


_taking_part: weakref.WeakSet[Forkable] = weakref.WeakSet()


def take_part(each: Forkable) -> None:
    """Let something take part in every fork, for as long as it lives."""
    _taking_part.add(each)


def _before() -> None:
    for each in list(_taking_part):
        each.before_fork()


def _after(in_child: bool) -> None:
    for each in list(_taking_part):
        with suppress(Exception):
            each.after_fork(in_child)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before,
        after_in_parent=lambda: _after(False),
        after_in_child=lambda: _after(True),
    )
