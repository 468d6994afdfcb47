"""How many cores this process may use."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

#: where Linux keeps the CPU quota of a container
QUOTA = Path("/sys/fs/cgroup/cpu.max")
QUOTA_V1 = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us")


def cores() -> int:
    """The number of cores this process may use, at least one, given its affinity and the limits of
    its container."""
    count = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        count = min(count, len(os.sched_getaffinity(0)))
    return max(1, min(count, _quota()))


def _quota() -> int:
    """The cores granted to the container, rounded up."""
    with suppress(OSError, ValueError):
        if QUOTA.exists():
            granted, period = QUOTA.read_text().split()
        else:
            granted, period = (path.read_text().strip() for path in QUOTA_V1)
        if int(granted) > 0:
            return -(-int(granted) // int(period))
    return 2**16
