"""Every error that rolf raises.

RolfError
├── InvalidArgument          an argument is not what was wanted (also a ValueError)
│   └── UnknownPolicy        a policy name that is not in the catalogue
├── DecisionError            an id that cannot be told
│   ├── UnknownDecision      never issued here (also a KeyError)
│   └── AlreadyTold          told before
├── IncompatibleState        a saved state that does not belong here
├── ExperimentError          an experiment that is not as the call takes it to be
│   ├── UnknownExperiment    no experiment of that name (also a KeyError)
│   └── DifferentExperiment  there is one of that name, made otherwise
├── StorageError             a database that does not do what was asked
│   ├── UnusableStorage      foreign, damaged or of a newer version; it is left as it was
│   └── StorageUnavailable   locked, full or out of reach for now; nothing half done
└── MissingExtra             an optional dependency is not installed (also an ImportError)

RolfWarning                  the call works, but probably not as meant
"""

from __future__ import annotations


class RolfError(Exception):
    """Base of every error raised by rolf."""


class InvalidArgument(RolfError, ValueError):
    """An argument is not what was wanted.

    The message names the argument, what came and what was wanted; the three are
    also attributes, for programs.
    """

    def __init__(self, argument: str, got: object, wanted: str) -> None:
        text = repr(got)
        if len(text) > 120:
            text = text[:117] + "..."
        super().__init__(f"{argument}: got {text}, wanted {wanted}")
        self.argument = argument
        self.got = got
        self.wanted = wanted

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.argument, self.got, self.wanted)


class UnknownPolicy(InvalidArgument):
    """A policy name that is not in the catalogue."""


class DecisionError(RolfError):
    """A decision id that cannot be told."""


class UnknownDecision(DecisionError, KeyError):
    """The decision was never issued by this policy."""

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0])


class AlreadyTold(DecisionError):
    """The decision has its reward already."""


class IncompatibleState(RolfError):
    """A saved state that this policy or this version cannot take."""


class ExperimentError(RolfError):
    """An experiment that is not as the call takes it to be."""


class UnknownExperiment(ExperimentError, KeyError):
    """There is no experiment of that name."""

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0])


class DifferentExperiment(ExperimentError):
    """There is an experiment of that name, made with something else."""


class StorageError(RolfError):
    """A database that does not do what was asked."""


class UnusableStorage(StorageError):
    """A foreign, damaged or newer database; it is left as it was."""


class StorageUnavailable(StorageError):
    """A database that is locked, full or out of reach for now; nothing is half done."""


class MissingExtra(RolfError, ImportError):
    """An optional dependency is needed and not installed."""


class RolfWarning(UserWarning):
    """The call works, but probably not as meant."""
