"""How much memory there is for this process."""

from __future__ import annotations

import os
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
MEMBERSHIP = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")
LIMITS = "memory.max", "memory.limit_in_bytes"  # of version 2 and 1


def available_bytes() -> float:
    """Return the bytes that this process can still get; infinity where nobody tells.

    The least of what the machine can give without taking it from others and of what a container
    may have. Swap does not count: sweeps visit the weights at random.
    """
    return min(_of_machine(), _of_groups())


def _of_machine() -> float:
    try:
        for line in MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * float(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError, AttributeError):  # no such name, or no such function
        return float("inf")


def _of_groups() -> float:
    """Return the least limit of the control groups that this process is in."""
    folders = {GROUPS, GROUPS / "memory"}  # of a container, the root is its own
    try:
        for line in MEMBERSHIP.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in ("", "memory"):
                own = GROUPS / controllers / path.lstrip("/")
                folders |= {own, *(p for p in own.parents if GROUPS in p.parents)}
    except (OSError, ValueError):
        pass
    return min(_limit(folder / name) for folder in folders for name in LIMITS)


def _limit(file: Path) -> float:
    try:
        return float(file.read_text())  # "max" is none
    except (OSError, ValueError):
        return float("inf")
