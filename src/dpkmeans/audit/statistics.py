"""From scores on two neighbouring data sets to a lower bound on epsilon that holds with a stated confidence.

An epsilon-DP release satisfies P(event | D) <= e^epsilon P(event | D') for every event, and with D and D' exchanged. So
an event with probabilities p and p' shows that epsilon >= log(p / p'). The event is chosen on one half of the runs; on
the other half, p is replaced by its Clopper-Pearson lower limit and p' by its upper limit. Where a delta is claimed
beside epsilon, P(event | D) <= e^epsilon P(event | D') + delta, and the event shows epsilon >= log((p - delta) / p').
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpkmeans._typing import FloatArray

MAX_THRESHOLDS = 256


@dataclass(frozen=True)
class Event:
    """A score that is at least, or at most, a threshold; and the side on which that is likelier."""

    threshold: float
    tail: Literal["at least", "at most"]
    likelier_with: bool
    """Whether the event is taken to be likelier with the extra record (D') than without it (D)."""

    def holds(self, scores: FloatArray) -> int:
        """In how many runs the event occurred."""
        hit = scores >= self.threshold if self.tail == "at least" else scores <= self.threshold
        return int(np.count_nonzero(hit))

    def __str__(self) -> str:
        return f"{self.tail} {self.threshold:.6g}"


@dataclass(frozen=True)
class Bound:
    """What the second half of the runs shows about one event: its frequencies, and the lower bound on epsilon."""

    event: Event
    frequency: float
    frequency_with: float
    epsilon: float


def lower_limit(hits: Any, runs: int, alpha: float) -> Any:
    """Clopper-Pearson, for one number of hits or many: the true probability is below it with chance <= `alpha`."""
    from scipy.special import betaincinv

    return np.where(hits > 0, betaincinv(np.maximum(hits, 1), runs - hits + 1, alpha), 0.0)


def upper_limit(hits: Any, runs: int, alpha: float) -> Any:
    """Clopper-Pearson, for one number of hits or many: the true probability is above it with chance <= `alpha`."""
    from scipy.special import betaincinv

    return np.where(hits < runs, betaincinv(hits + 1, np.maximum(runs - hits, 1), 1 - alpha), 1.0)


def epsilon_lower_bound(
    hits: int, other_hits: int, runs: int, other_runs: int, alpha: float, delta: float = 0.0
) -> float:
    """Lower bound on log((p - delta) / p'), wrong with probability at most `alpha`; 0 if it would be negative.

    Both limits are taken at alpha/2, so that together they fail with probability at most alpha.
    """
    low, high = lower_limit(hits, runs, alpha / 2) - delta, upper_limit(other_hits, other_runs, alpha / 2)
    return max(0.0, math.log(low / high)) if low > 0 else 0.0


def choose_event(without: FloatArray, with_record: FloatArray, alpha: float, delta: float = 0.0) -> Event:
    """The event with the largest bound on these runs, over thresholds, both tails and both directions.

    `without` and `with_record` are scores, shape (runs,), under D and D'. The bound itself must come from other runs.
    """
    thresholds = _thresholds(np.concatenate([without, with_record]))
    best, chosen = -math.inf, Event(float(thresholds[0]), "at least", True)
    sides = np.sort(without), np.sort(with_record)
    for tail in ("at least", "at most"):
        if tail == "at least":
            hits = [len(s) - np.searchsorted(s, thresholds, side="left") for s in sides]
        else:
            hits = [np.searchsorted(s, thresholds, side="right") for s in sides]
        for likelier_with in (False, True):
            mine, other = (1, 0) if likelier_with else (0, 1)
            low = lower_limit(hits[mine], len(sides[mine]), alpha / 2) - delta
            ratio = low / upper_limit(hits[other], len(sides[other]), alpha / 2)
            place = int(np.argmax(ratio))
            if ratio[place] > best:
                best, chosen = float(ratio[place]), Event(float(thresholds[place]), tail, likelier_with)
    return chosen


def measure(event: Event, without: FloatArray, with_record: FloatArray, alpha: float, delta: float = 0.0) -> Bound:
    """The bound for an event that was fixed before these runs were looked at; wrong with probability <= `alpha`."""
    hits, hits_with, n, m = event.holds(without), event.holds(with_record), len(without), len(with_record)
    if event.likelier_with:
        epsilon = epsilon_lower_bound(hits_with, hits, m, n, alpha, delta)
    else:
        epsilon = epsilon_lower_bound(hits, hits_with, n, m, alpha, delta)
    return Bound(event, hits / n, hits_with / m, epsilon)


def _thresholds(scores: FloatArray) -> FloatArray:
    """The distinct scores, or quantiles of them if there are many."""
    different = np.unique(scores)
    if len(different) <= MAX_THRESHOLDS:
        return different
    inner = np.quantile(different, np.linspace(0, 1, MAX_THRESHOLDS // 2), method="nearest")
    weighted = np.quantile(scores, np.linspace(0, 1, MAX_THRESHOLDS // 2), method="nearest")
    return np.unique(np.concatenate([inner, weighted]))
