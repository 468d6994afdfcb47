"""Every error that rolf raises.

RolfError
├── InvalidArgument          an argument is not acceptable (also a ValueError)
│   ├── InvalidTable         a table with several problems, which it lists
│   └── UnknownPolicy        no policy has this name
├── DecisionError            a decision whose reward cannot be told or corrected
│   ├── UnknownDecision      it was never issued here (also a KeyError)
│   ├── AlreadyTold          its reward is known already
│   └── UntoldDecision       it has no reward to correct
├── IncompatibleState        a saved state that cannot be used here
├── ExperimentError          an experiment that does not fit the call
│   ├── UnknownExperiment    no experiment has this name (also a KeyError)
│   ├── DifferentExperiment  one of this name exists with other settings
│   ├── DifferentRequest     the idempotency key was used before with other arguments
│   └── ExperimentPaused     it makes no decisions until it is resumed
├── StorageError             a database operation that failed
│   ├── UnusableStorage      foreign, damaged or from a newer version; left as it was
│   └── StorageUnavailable   locked, full or unreachable for now; nothing is half done
│       └── ServiceUnavailable  a service is unreachable or busy; asking and telling again is safe
├── ServiceError             a service that did not do what it was asked
│   └── AccessDenied         the API key is missing, wrong, revoked, or lacks permission
└── MissingExtra             an optional dependency is not installed (also an ImportError)

RolfWarning                  the call works, but probably not as intended
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

#: characters of a text that are looked at before it is cut to ``SHOWN``, so that no part of a
#: password is left
LOOKED_AT, SHOWN = 10_000, 120


def without_password(text: str) -> str:
    """Text with every URL that contains a user or a password cut short."""
    return re.sub(r"[^\s'\"]+", _word_without_password, text) if "@" in text else text


def _word_without_password(word: re.Match[str]) -> str:
    """In time that grows with the length of the word, whatever it is."""
    url = re.search(r"\w:/", word[0])
    if url is None or word[0].rfind("@") < url.end():
        return word[0]
    return word[0][: url.start() + 1] + ":..."


def short_repr(value: object) -> str:
    """A value as messages show it: without passwords, in at most 120 characters."""
    text = ""
    try:
        for piece in _repr(value):
            text += piece
            if len(text) >= LOOKED_AT:
                break
    except ValueError:  # a number with thousands of digits
        return "a number that is too long to show"
    except RecursionError:
        return "a value that is nested too deeply to show"
    text = without_password(text)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def _repr(value: object) -> Iterator[str]:
    """``repr``, piece by piece: only as much is computed as is shown."""
    if type(value) is list or (type(value) is tuple and len(value) > 1):
        yield "[" if type(value) is list else "("
        for place, each in enumerate(value):
            if place:
                yield ", "
            yield from _repr(each)
        yield "]" if type(value) is list else ")"
    elif type(value) is dict:
        yield "{"
        for place, (key, each) in enumerate(value.items()):
            yield f"{', ' if place else ''}{key!r}: "
            yield from _repr(each)
        yield "}"
    else:
        yield repr(value[:LOOKED_AT] if type(value) in (str, bytes) else value)  # type: ignore[index]


class RolfError(Exception):
    """Base of every error raised by rolf. No message shows a URL with a password."""

    def __str__(self) -> str:
        return without_password(super().__str__())


class InvalidArgument(RolfError, ValueError):
    """An argument is not acceptable.

    The message names the argument, what was passed and what is accepted; all three are also
    attributes.
    """

    def __init__(self, argument: str, got: object, wanted: str) -> None:
        super().__init__(f"{argument}: got {short_repr(got)}, wanted {wanted}")
        self.argument = argument
        self.got = got
        self.wanted = wanted

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.argument, self.got, self.wanted), {"args": self.args}


class InvalidTable(InvalidArgument):
    """A table has several problems; the message has a line for each.

    ``problems`` are the individual errors, in the order of the table.
    """

    def __init__(self, argument: str, problems: Sequence[InvalidArgument]) -> None:
        count = f"{len(problems)} problems"
        super().__init__(argument, count, "a table without them")
        self.problems = list(problems)
        self.args = ("\n  ".join([f"{argument}: {count}", *map(_without_source, problems)]),)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.argument, self.problems), {"args": self.args}


def _without_source(problem: InvalidArgument) -> str:
    """A problem as listed under the name of its table."""
    return f"{problem.argument.rpartition(': ')[2]}: {problem.got}; wanted {problem.wanted}"


class _Unknown(RolfError, KeyError):
    """Something that does not exist. Its message is shown as text, where KeyError shows its
    repr."""

    def __str__(self) -> str:
        return without_password(str(self.args[0]))


class UnknownPolicy(InvalidArgument):
    """No policy has this name."""


class DecisionError(RolfError):
    """A decision whose reward cannot be told or corrected; ``decision`` is its id."""

    def __init__(self, message: str, decision: str | None = None) -> None:
        super().__init__(message)
        self.decision = decision


class UnknownDecision(DecisionError, _Unknown):
    """The decision was never issued here."""


class AlreadyTold(DecisionError):
    """The decision already has its reward."""


class UntoldDecision(DecisionError):
    """The decision has no reward to correct."""


class IncompatibleState(RolfError):
    """A saved state that this policy or this version cannot use."""


class ExperimentError(RolfError):
    """An experiment that does not fit the call."""


class UnknownExperiment(ExperimentError, _Unknown):
    """There is no experiment of that name."""


class DifferentExperiment(ExperimentError):
    """An experiment of this name exists with other settings."""


class DifferentRequest(ExperimentError):
    """The idempotency key was used before with other arguments."""


class ExperimentPaused(ExperimentError):
    """The experiment makes no decisions until it is resumed; rewards can still be told."""


class StorageError(RolfError):
    """A database operation that failed."""


class UnusableStorage(StorageError):
    """A foreign, damaged or newer database; it was left as it was."""


class StorageUnavailable(StorageError):
    """A database that is locked, full or unreachable for now; nothing is half done."""


class ServiceUnavailable(StorageUnavailable):
    """A service that cannot be reached or is too busy for now; nothing is half done.

    The request may still have been carried out. Telling again is safe, and so is asking again with
    the same ``idempotency_key``.
    """


class ServiceError(RolfError):
    """A service that did not do what it was asked."""


class RequestTooLarge(ServiceError):
    """The request is larger than the service accepts; none of it was carried out."""


class AccessDenied(ServiceError):
    """The API key is missing, wrong, revoked, or lacks permission."""


class MissingExtra(RolfError, ImportError):
    """An optional dependency is needed and not installed."""


class RolfWarning(UserWarning):
    """The call works, but probably not as intended."""
