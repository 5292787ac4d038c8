"""The memory that this process can get."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
MEMBERSHIP = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")
LIMITS = "memory.max", "memory.limit_in_bytes"  # of version 2 and 1


def available_bytes() -> float:
    """Return the bytes that this process can still get; infinity if unknown.

    Swap does not count, since sweeps visit the weights at random.
    """
    return min(_machine_bytes(), _group_limit())


def _machine_bytes() -> float:
    with suppress(OSError, ValueError, IndexError):
        for line in MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * float(line.split()[1])
    with suppress(OSError, ValueError, AttributeError):  # unknown name, or no `sysconf`
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    return float("inf")


def _group_limit() -> float:
    """Return the smallest limit of this process's control groups."""
    folders = {GROUPS, GROUPS / "memory"}  # a container sees its group as the root
    with suppress(OSError, ValueError):
        for line in MEMBERSHIP.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in ("", "memory"):
                own = GROUPS / controllers / path.lstrip("/")
                folders |= {own, *(p for p in own.parents if GROUPS in p.parents)}
    return min(_limit(folder / name) for folder in folders for name in LIMITS)


def _limit(file: Path) -> float:
    with suppress(OSError, ValueError):
        return float(file.read_text())  # "max" is none
    return float("inf")
