"""Do the features explain the rewards?"""

from rolf.diagnosis.files import diagnose_log
from rolf.diagnosis.result import ArmPart, Diagnosis, Share
from rolf.diagnosis.verdict import IGNORE, ROLF, TRUST, UNKNOWN, diagnose

__all__ = [
    "IGNORE",
    "ROLF",
    "TRUST",
    "UNKNOWN",
    "ArmPart",
    "Diagnosis",
    "Share",
    "diagnose",
    "diagnose_log",
]
