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
    """Something that takes part in a fork."""

    def before_fork(self) -> None:
        """Come to rest, and keep other threads out."""

    def after_fork(self, in_child: bool) -> None:
        """Carry on, in the process that forked or in the new one."""


_taking_part: list[weakref.ref[Forkable]] = []


def take_part(each: Forkable) -> None:
    """Let something take part in every fork, after what came to take part earlier."""
    _taking_part[:] = [ref for ref in _taking_part if ref() is not None]
    _taking_part.append(weakref.ref(each))


def _before() -> None:
    for ref in list(_taking_part):
        if (each := ref()) is not None:
            each.before_fork()


def _after(in_child: bool) -> None:
    for ref in reversed(list(_taking_part)):
        if (each := ref()) is not None:
            with suppress(Exception):
                each.after_fork(in_child)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before,
        after_in_parent=lambda: _after(False),
        after_in_child=lambda: _after(True),
    )
