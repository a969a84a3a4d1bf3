"""Clocks for benchmarks: contestants take turns, CPU and wall time, minimum and median."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SHORT = 0.02  # seconds; shorter runs are timed in a row


@dataclass(frozen=True)
class Seconds:
    cpu: float
    wall: float


Timed = Callable[[], Seconds]


@dataclass(frozen=True)
class Allowance:
    """How long a benchmark may go on: after so many minutes nothing new begins, and what is left out is named."""

    minutes: float | None
    began: float = field(default_factory=time.perf_counter)

    def admits(self, what: str) -> bool:
        """Whether there is time for it."""
        if self.minutes is None or time.perf_counter() - self.began < 60 * self.minutes:
            return True
        print(f"{what} is left out: the {self.minutes:g} minutes are over", file=sys.stderr, flush=True)
        return False


def here(run: Callable[[], Any]) -> Timed:
    """Time a function of this process. A short one runs many times in a row: a clock cannot see it once."""
    run()
    began = time.perf_counter()
    run()
    times = max(int(SHORT / max(time.perf_counter() - began, 1e-9)), 1)

    def timed() -> Seconds:
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(times):
            run()
        return Seconds((time.process_time() - cpu) / times, (time.perf_counter() - wall) / times)

    return timed


def elsewhere(worker: subprocess.Popen[str]) -> Timed:
    """Ask another interpreter for one run; it answers with its CPU and wall time."""

    def timed() -> Seconds:
        assert worker.stdin is not None
        assert worker.stdout is not None
        print("run", file=worker.stdin, flush=True)
        cpu, wall = worker.stdout.readline().split()
        return Seconds(float(cpu), float(wall))

    return timed


def take_turns(contestants: dict[str, Timed], repeats: int) -> dict[str, dict[str, float]]:
    """Every contestant once, then again: minimum and median of CPU and wall time."""
    seen: dict[str, list[Seconds]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, timed in contestants.items():
            seen[name].append(timed())
    return {
        name: {
            f"{clock}_{what}": float(statistic([getattr(s, clock) for s in seconds]))
            for clock in ("cpu", "wall")
            for what, statistic in (("min", np.min), ("median", np.median))
        }
        for name, seconds in seen.items()
    }


def measure(runs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, dict[str, float]]:
    """`take_turns` for functions of this process."""
    return take_turns({name: here(run) for name, run in runs.items()}, repeats)


def best(run: Callable[[], Any], repeats: int = 5) -> float:
    """The least CPU time of a few runs."""
    return measure({"": run}, repeats)[""]["cpu_min"]
