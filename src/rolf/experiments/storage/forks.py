"""Prepare locks and files for a fork of the process.

A child process inherits its parent's locks as they were, held by threads it does not have, and a
copy of SQLite's bookkeeping for file locks it does not hold. So locks are taken and files closed
before the fork, and both processes carry on from there.
"""

from __future__ import annotations

import os
import weakref
from contextlib import suppress
from typing import Protocol


class Locked(Protocol):
    """Has a lock that must not be held by another thread during a fork.

    A thread that holds one of these locks must not wait for another: forking takes all of them.
    """

    def before_fork(self) -> None:
        """Finish what is running, and keep other threads out."""

    def after_fork(self, in_child: bool) -> None:
        """Carry on, in the parent or in the child."""


class Copied(Protocol):
    """Has state that another thread may have been changing during a fork."""

    def after_fork_in_child(self) -> None:
        """Start over."""


_locked: list[Locked] = []
_held: list[Locked] = []  # locks taken by the fork in progress
_copied: weakref.WeakSet[Copied] = weakref.WeakSet()


def take_part(each: Locked) -> None:
    """Register a global object to be notified of every fork."""
    _locked.append(each)


def notice_forks(each: Copied) -> None:
    """Register an object to start over in every child process, as long as it lives."""
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
        for copy in list(_copied):  # no other thread can change it here
            copy.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before,
        after_in_parent=lambda: _after(False),
        after_in_child=lambda: _after(True),
    )
