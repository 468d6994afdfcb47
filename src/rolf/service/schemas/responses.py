"""The form of a status, of pending decisions and of a diagnosis."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from rolf.service.schemas.requests import Label


class ArmStatusShown(BaseModel):
    """The status of an arm."""

    arm: Label
    active: bool
    plays: int
    told: int
    estimate: float | None
    low: float | None
    high: float | None
    best: float | None = Field(description="The probability that it is the best active arm.")
    mean: float | None
    posterior_mean: float | None
    history: int


class BestArm(BaseModel):
    """The arm that is most probably the best one."""

    arm: Label
    probability: float


class UpliftShown(BaseModel):
    """What a decision earned on average beyond what the control would have."""

    control: Label | None
    estimate: float
    low: float | None
    high: float | None
    level: float
    baseline: float
    estimator: str
    posterior_of: str | None


class PeriodShown(BaseModel):
    """A stretch of consecutive decisions."""

    first: int
    last: int
    start: float
    end: float
    rewards: int
    mean: float | None
    stderr: float | None


class StatusShown(BaseModel):
    """Counts and beliefs."""

    name: str
    policy: str
    options: dict[str, Any]
    asked: int
    told: int
    defaults: int
    pending: int
    model: str | None
    notes: list[str]
    arms: list[ArmStatusShown]
    posterior_of: str | None
    total_reward: float
    mean_reward: float | None
    uplift: UpliftShown | None
    timeline: list[PeriodShown] | None
    history: int
    paused: bool
    best: BestArm | None
    all_arms: int
    matching_arms: int


class PendingDecisionShown(BaseModel):
    """A decision without a reward."""

    id: str
    arm: Label
    probability: float | None
    asked_at: float = Field(description="Seconds since 1970.")


class PendingShown(BaseModel):
    """The latest decisions without a reward, the latest first."""

    decisions: list[PendingDecisionShown]
    total: int = Field(description="All that are pending; those not listed are older.")
    looked_at: int = Field(
        description="How many of the latest decisions were looked at; `decisions` has all of "
        "them that are pending."
    )


class DiagnosisShown(BaseModel):
    """Whether the features explain the rewards; the fields of `rolf.Diagnosis`."""

    model_config = ConfigDict(extra="allow")
    verdict: Literal["trust the features", "use RoLF", "ignore the features", "not enough data"]
    reason: str
    text: str | None = None
