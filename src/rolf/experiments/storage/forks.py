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


class Locked(Protocol):
    """Something with a lock that must not be held by a thread which the new process lacks.

    Nobody who holds one of these locks may wait for another: forking takes all of them.
    """

    def before_fork(self) -> None:
        """Come to rest, and keep other threads out."""

    def after_fork(self, in_child: bool) -> None:
        """Carry on, in the process that forked or in the new one."""


class Copied(Protocol):
    """Something that a new process has as some thread may just have been changing it."""

    def after_fork_in_child(self) -> None:
        """Start over."""


_locked: list[Locked] = []
_held: list[Locked] = []  # the locks that the fork in progress has taken
_copied: weakref.WeakSet[Copied] = weakref.WeakSet()


def take_part(each: Locked) -> None:
    """Let something that exists once take part in every fork."""
    _locked.append(each)


def notice_forks(each: Copied) -> None:
    """Let something start over in every new process, for as long as it lives."""
    _copied.add(each)


def _before() -> None:
    _held.clear()
    for each in list(_locked):
        with suppress(Exception):
            each.before_fork()
            _held.append(each)


def _after(in_child: bool) -> None:
    for each in list(_held):
        with suppress(Exception):
            each.after_fork(in_child)
    if in_child:
        for copy in list(_copied):  # no other thread is there to change it
            copy.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before,
        after_in_parent=lambda: _after(False),
        after_in_child=lambda: _after(True),
    )
