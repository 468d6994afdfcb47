"""The forms of requests."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, StringConstraints, Tag

from rolf.checks import MAX_BATCH, MAX_FEATURE, MAX_KEY, MAX_REWARD
from rolf.experiments.experiment import MAX_REASON
from rolf.experiments.log.history import MAX_SOURCE
from rolf.experiments.status.make import DRAWS
from rolf.experiments.status.result import LEVEL
from rolf.policies.catalogue import CATALOG

#: characters of a name of an arm, a column or an option, and of a cell
MAX_TEXT = 1_000
#: draws from a posterior
MAX_DRAWS = 100_000
NO_NULL = r"^[^\x00]*$"

Name: TypeAlias = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9_]([A-Za-z0-9._ -]{0,98}[A-Za-z0-9._-])?$"),
    Field(description="Letters, digits, . _ - and blanks inside; up to 100."),
]
Text: TypeAlias = Annotated[str, StringConstraints(max_length=MAX_TEXT, pattern=NO_NULL)]
Whole: TypeAlias = Annotated[int, Field(ge=-(2**53), le=2**53)]
Decimal: TypeAlias = Annotated[float, Field(ge=-1e15, le=1e15)]
Label: TypeAlias = Annotated[
    Text | Whole | Decimal,
    Field(description="The name of an arm; its number if arms have no names."),
]
Feature: TypeAlias = Annotated[float, Field(ge=-MAX_FEATURE, le=MAX_FEATURE)]
Reward: TypeAlias = Annotated[float, Field(ge=-MAX_REWARD, le=MAX_REWARD)]
Table: TypeAlias = Annotated[
    list[Annotated[list[Feature], Field(min_length=1, max_length=1_000)]],
    Field(description="A row of numbers per arm."),
]
Cell: TypeAlias = bool | Whole | Feature | Text | None
Context: TypeAlias = Annotated[
    dict[Text, Feature] | list[Feature],
    Field(description="The entries of the context, by name or in order."),
]
Option: TypeAlias = Annotated[
    bool | Whole | Feature | Text | list[Text | Whole | Feature] | None,
    Field(description="As in the documentation of the policy."),
]
Id: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[!-~]+$")]
Policy: TypeAlias = Literal[tuple(CATALOG)]  # type: ignore[valid-type]
IdempotencyKey: TypeAlias = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_KEY, pattern=r"^[!-~]+$")
]


class Form(BaseModel):
    """Nothing is converted, nothing unknown is accepted, and numbers are finite."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class ArmRow(Form):
    """An arm: its name, and its features by name: numbers, text, or nothing."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)
    __pydantic_extra__: dict[str, Cell]
    arm: Annotated[Text, Field(min_length=1)] | Whole | Decimal


class Creation(Form):
    """A new experiment: its arms, as rows with names or as a table of numbers."""

    name: Name
    arms: list[ArmRow] | None = None
    features: Table | None = None
    policy: Policy | None = None
    options: dict[Text, Option] | None = None
    context: Annotated[int, Field(ge=1, le=1_000)] | list[Text] | None = None
    seed: Annotated[int, Field(ge=0, le=2**62)] | None = None
    default_reward: Reward | None = None
    reward_after: Annotated[float, Field(gt=0.0, le=1e12)] | None = None


class Round(Form):
    """A round: among which arms, with which features, in which context."""

    available: Annotated[list[Label], Field(min_length=1)] | None = None
    features: Table | None = None
    context: Context | None = None


class Ask(Round):
    """What to decide: how often, among which arms, in which context."""

    n: Annotated[int, Field(ge=1, le=MAX_BATCH)] | None = None
    distinct: bool = False


class Question(Round):
    """What is to be said about the arms in a round."""

    level: Annotated[float, Field(gt=0.0, lt=1.0, description="Of the intervals.")] = LEVEL
    draws: Annotated[
        int, Field(ge=1, le=MAX_DRAWS, description="For the probabilities of being best.")
    ] = DRAWS


class Told(Form):
    """A decision and its reward."""

    id: Id
    reward: Reward


class ToldMany(Form):
    """Decisions and their rewards, all or none."""

    rewards: Annotated[list[Told], Field(min_length=1)]


def _told_form(data: Any) -> str:
    several = isinstance(data, ToldMany) or (isinstance(data, dict) and "rewards" in data)
    return "ToldMany" if several else "Told"


#: one reward or several: only what is wrong with the form that was meant is told
OneOrMany: TypeAlias = Annotated[
    Annotated[Told, Tag("Told")] | Annotated[ToldMany, Tag("ToldMany")], Discriminator(_told_form)
]


class Correct(Form):
    """The right reward in the place of a wrong one."""

    id: Id
    reward: Reward
    reason: Annotated[str, StringConstraints(min_length=1, max_length=MAX_REASON, pattern=NO_NULL)]


class Learn(Form):
    """Rounds from before the experiment: the arm and the reward of each."""

    arms: Annotated[list[Label], Field(min_length=1)]
    rewards: Annotated[list[Reward], Field(min_length=1)]
    features: Table | None = None
    context: list[Context] | None = None
    probabilities: list[Annotated[float, Field(gt=0.0, le=1.0)]] | None = None
    source: Annotated[str, StringConstraints(min_length=1, max_length=MAX_SOURCE)] | None = None


class MoreArms(Form):
    """New arms, as rows with names or as a table of numbers, like those that are there."""

    arms: list[ArmRow] | None = None
    features: Table | None = None


class Labels(Form):
    """Some arms."""

    arms: Annotated[list[Label], Field(min_length=1)]
