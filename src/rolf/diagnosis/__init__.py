"""Do the features explain the rewards?"""

from rolf.diagnosis.verdict import (
    IGNORE,
    ROLF,
    TRUST,
    UNKNOWN,
    ArmPart,
    Diagnosis,
    Share,
    diagnose,
)

__all__ = [
    "IGNORE",
    "ROLF",
    "TRUST",
    "UNKNOWN",
    "ArmPart",
    "Diagnosis",
    "Share",
    "diagnose",
]
