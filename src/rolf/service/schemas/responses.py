"""The forms of answers; where the library has a dataclass, the form is made from it."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from rolf.experiments.database import ExperimentSummary
from rolf.experiments.status.pending import Pending, PendingDecision
from rolf.experiments.status.result import ArmRecord, ArmStatus, Status
from rolf.experiments.status.timeline import Period
from rolf.experiments.status.uplift import Uplift
from rolf.service.auth import Scope
from rolf.service.schemas.requests import Label

#: the forms made so far, by the classes they are made from
_forms: dict[type, type[BaseModel]] = {}


def form_of(
    source: type,
    name: str | None = None,
    *,
    doc: str | None = None,
    only: Callable[[str], bool] = lambda field: True,
    **fields: Any,
) -> type[BaseModel]:
    """The form of a dataclass or a named tuple in JSON: its fields, described by its docstring.

    Args:
        source: the class. What is ``Any`` in it is the name of an arm, and classes whose form has
            been made are in that form.
        name: of the form; by default that of the class.
        doc: what the form is; by default the first line of the docstring.
        only: which fields it has.
        fields: types that differ, of numbers that may be null for instance, and further fields.
    """
    text = inspect.cleandoc(source.__doc__ or "")
    descriptions = _descriptions(text)
    hints = {field: hint for field, hint in get_type_hints(source).items() if only(field)}
    definitions: dict[str, Any] = {
        field: (_in_json(hint), Field(**descriptions.get(field, {})))
        for field, hint in {**hints, **fields}.items()
    }
    doc = doc or text.partition("\n")[0]
    made: type[BaseModel] = create_model(name or source.__name__, __doc__=doc, **definitions)
    _forms.setdefault(source, made)
    return made


def _in_json(hint: Any) -> Any:
    if hint is Any:
        return Label
    if hint in _forms:
        return _forms[hint]
    if get_origin(hint) is list:
        return list[_in_json(get_args(hint)[0])]  # type: ignore[misc]
    if get_origin(hint) in (Union, types.UnionType):
        return reduce(or_, map(_in_json, get_args(hint)))
    return hint


def _descriptions(doc: str) -> dict[str, dict[str, Any]]:
    """What a docstring says about each attribute, with null for None."""
    section = doc.partition("Attributes:\n")[2]
    entries = re.findall(r"^    (\w[\w, ]*): (.*(?:\n {5,}.*)*)", section, re.MULTILINE)
    described: dict[str, dict[str, Any]] = {}
    for names, text in entries:
        words = re.sub(r"\s+", " ", text).replace("``", "`").replace("None", "null")
        described |= {name: {"description": words} for name in names.split(", ")}
    return described


class Who(BaseModel):
    """The key of the request."""

    key: str
    scope: Scope
    experiment: str | None = Field(description="The only experiment that the key is for.")


# --- experiments ---

Summary = form_of(ExperimentSummary, doc="An experiment in a list.")


class Summaries(BaseModel):
    """Experiments in the order of their names."""

    experiments: list[Summary]  # type: ignore[valid-type]
    next: str | None = Field(description="Pass it as `after` to get those that follow.")


Details = form_of(
    ExperimentSummary,
    "Details",
    doc="An experiment as it was created, and its counts.",
    options=dict[str, Any],
    columns=list[str],
    seed=int,
    default_reward=float | None,
    reward_after=float | None,
)


class Created(Details):  # type: ignore[valid-type, misc]
    """An experiment that has just been created, or existed."""

    notes: list[str] = Field(description="How the arms were read, if that matters.")


class Paused(BaseModel):
    """Whether the experiment is paused now."""

    paused: bool


# --- decisions and rewards ---


class DecisionMade(BaseModel):
    """An arm to play, with the id under which its reward is told."""

    id: str
    arm: Label
    probability: float | None
    greedy: Label
    matched: bool


class Decisions(BaseModel):
    """Decisions, which are stored."""

    decisions: list[DecisionMade]


class Recorded(BaseModel):
    """How many rewards were told, and how many of them were not on record before."""

    told: int
    new: int


class Corrected(BaseModel):
    """A reward that was corrected."""

    id: str
    reward: float


class Learned(BaseModel):
    """How many rounds were learned; 0 if they were known."""

    learned: int


# --- arms ---

ArmShown = form_of(ArmRecord, "Arm", doc="An arm as it is on record.")


class ArmsShown(BaseModel):
    """Arms, retired ones included."""

    arms: list[ArmShown]  # type: ignore[valid-type]


class Added(BaseModel):
    """The names of new arms."""

    added: list[Label]
    notes: list[str] = []


class Updated(BaseModel):
    """How corrected features were read, if that matters."""

    notes: list[str]


class Changed(BaseModel):
    """Arms that were retired or restored."""

    arms: list[Label]


# --- what is known ---

BELIEF = ("arm", "active", "estimate", "posterior_mean", "low", "high", "best")

form_of(ArmStatus)
form_of(Uplift, control=Label | None, low=float | None, high=float | None)
form_of(Period)


class BestArm(BaseModel):
    """The arm that is most probably the best one."""

    arm: Label
    probability: float


StatusShown = form_of(Status, best=BestArm | None, all_arms=int, matching_arms=int)

Estimate = form_of(
    ArmStatus, "Estimate", doc="What is believed about an arm.", only=lambda field: field in BELIEF
)


class Estimates(BaseModel):
    """What is believed about all arms."""

    policy: str
    posterior_of: str | None = Field(
        description="The policy whose posterior all but `estimate` comes from, if there is one."
    )
    arms: list[Estimate]  # type: ignore[valid-type]


class ArmProbability(BaseModel):
    """An arm, and its probability in the next ask."""

    arm: Label
    probability: float | None


class Probabilities(BaseModel):
    """The probability of every arm in the next ask; 0 for retired ones."""

    arms: list[ArmProbability]


form_of(PendingDecision)
PendingShown = form_of(Pending)


class DiagnosisShown(BaseModel):
    """Whether the features explain the rewards; the fields of `rolf.Diagnosis`."""

    model_config = ConfigDict(extra="allow")
    verdict: Literal["trust the features", "use RoLF", "ignore the features", "not enough data"]
    reason: str
    text: str | None = None


# --- problems ---


class ArgumentProblem(BaseModel):
    """An argument of a request that is not acceptable."""

    argument: str
    got: Any = Field(description="What was sent, or how it looks if it is long.")
    wanted: str
    message: str = Field(description="The same in a sentence.")


class ProblemShown(BaseModel):
    """What went wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    instance: str = Field(description="The id of the request.")
    argument: str | None = Field(default=None, description="What is not acceptable.")
    got: Any = Field(default=None, description="What was sent in its place.")
    wanted: str | None = Field(default=None, description="What would be acceptable.")
    errors: list[ArgumentProblem] | None = Field(
        default=None, description="Everything that is not acceptable."
    )
    decision: str | None = Field(default=None, description="The id of the decision it is about.")
