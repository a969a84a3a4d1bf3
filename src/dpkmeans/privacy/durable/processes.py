"""Which process made a reservation, and whether it still runs.

A mark names the start of the machine, the namespace of process numbers, the number, and when that process started. It
decides nothing about privacy: a reservation counts as spent whether its fit runs or not.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

State = Literal["running", "crashed", "unknown"]
_MARK = re.compile(r"^(?P<note>.*) \[(?P<boot>[0-9a-f]{8})\.(?P<space>\d+)\.(?P<pid>\d+)\.(?P<start>\d+)\]$", re.DOTALL)


def marked(label: str) -> str:
    """The label of a reservation with the mark of this process, where the system tells enough for one."""
    boot, space, start = _boot(), _namespace(), _started(os.getpid())
    if boot is None or space is None or start is None:
        return label
    return f"{label} [{boot}.{space}.{os.getpid()}.{start}]"


def unmarked(label: str) -> str:
    """The label without its mark."""
    found = _MARK.match(label) if label.endswith("]") else None
    return label if found is None else found["note"]


def state_of(label: str) -> State:
    """Whether the process runs that made a reservation with this label; unknown where that cannot be told from here."""
    found = _MARK.match(label)
    boot, space = _boot(), _namespace()
    if found is None or boot is None:
        return "unknown"
    if found["boot"] != boot:
        return "crashed"  # the machine was started again since
    if found["space"] != space:
        return "unknown"  # another container: its numbers are not ours
    started = _started(int(found["pid"]))
    if started is None and _hidden(int(found["pid"])):
        return "unknown"
    return "running" if started == found["start"] else "crashed"


def _boot() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii")[:8]
    except OSError:
        return None


def _namespace() -> str | None:
    try:
        return os.readlink("/proc/self/ns/pid").removeprefix("pid:[").removesuffix("]")
    except OSError:
        return None


def _started(pid: int) -> str | None:
    """When a process started, in ticks since the machine did; None where there is none that runs."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def _hidden(pid: int) -> bool:
    """Whether there is a process that this user may not look at."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return False
