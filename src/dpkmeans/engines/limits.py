"""How much memory this process may use, and one error for too little of it.

With too little, libraries fail each in its own way while they are imported: a damaged file, an import error, or none at
all for minutes. So a limit below what an empty fit needs is refused before they are.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dpkmeans.errors import OutOfMemoryError

GIGA = 10**9
ADDRESSES = 2.2 * GIGA  # bytes; a small fit takes 2.4 GB of addresses with two cores, and threads reserve more
ADDRESSES_PER_CORE = 0.15 * GIGA
RESIDENT = 0.4 * GIGA  # bytes; a small fit takes 0.3 GB
NEARLY = 0.85  # of a limit: what fails then, fails for lack of memory
_NO_LIMIT = 2**60  # bytes; a control group without one names a number near 2^63


@dataclass(frozen=True)
class Limit:
    """At most so many bytes, by this setting; `needed` is what an empty fit takes, `peak` a line of /proc."""

    bytes: int
    name: str
    needed: float
    peak: str

    def in_words(self) -> str:
        return f"this process may use {self.bytes / GIGA:.2g} GB ({self.name})"

    @property
    def nearly_reached(self) -> bool:
        """Whether the process has come close to it."""
        try:
            lines = Path("/proc/self/status").read_text().splitlines()
            peak = next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{self.peak}:"))
        except (OSError, StopIteration, ValueError, IndexError):
            return False
        return peak > NEARLY * self.bytes


def limits() -> list[Limit]:
    """The limits that are set."""
    cores = len(os.sched_getaffinity(0))
    found = []
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    if soft != resource.RLIM_INFINITY:
        found.append(Limit(soft, "RLIMIT_AS, as by ulimit -v", ADDRESSES + cores * ADDRESSES_PER_CORE, "VmPeak"))
    group = _of_control_group()
    if group is not None:
        found.append(Limit(group, "memory limit of its control group or container", RESIDENT, "VmHWM"))
    return found


def _of_control_group() -> int | None:
    """The smallest limit of the control groups that this process is in, of either version."""
    root = Path("/sys/fs/cgroup")
    try:
        groups = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    except OSError:
        return None
    places = [root / "memory.max", root / "memory/memory.limit_in_bytes"]
    for _, controllers, path in groups:
        inner = path.lstrip("/")
        places += [root / inner / "memory.max"] if not controllers else []
        places += [root / "memory" / inner / "memory.limit_in_bytes"] if "memory" in controllers.split(",") else []
    found = []
    for place in places:
        try:
            found.append(int(place.read_text()))
        except (OSError, ValueError):  # not there, or "max"
            continue
    return min((size for size in found if size < _NO_LIMIT), default=None)


def check_memory() -> None:
    """Refuse a limit that is below what an empty fit needs."""
    for limit in limits():
        if limit.bytes < limit.needed:
            raise OutOfMemoryError(
                f"there is not enough memory: {limit.in_words()}, and a fit needs {limit.needed / GIGA:.2g} GB before "
                "it reads a record.",
                hint="Raise the limit.",
            )


def out_of_memory() -> OutOfMemoryError:
    """The error for work that ran out of memory, with the limits that there are."""
    found = "; ".join(limit.in_words() for limit in limits()) or "the machine has no more"
    return OutOfMemoryError(
        f"there is not enough memory for this: {found}.",
        hint="Read the records in pieces with {engine='stream'}, use fewer columns, or raise the limit.",
    )


def nearly_out_of_memory() -> bool:
    """Whether a limit is nearly reached, so that it explains whatever else went wrong."""
    return any(limit.nearly_reached for limit in limits())


@contextmanager
def within_memory() -> Iterator[None]:
    """Work that may run out of memory: an error that says so, and names the limit."""
    try:
        yield
    except OutOfMemoryError:
        raise
    except MemoryError:
        raise out_of_memory() from None
