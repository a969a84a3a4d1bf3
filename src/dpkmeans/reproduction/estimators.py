"""Means and ratios over runs with their errors, the verdicts that follow, and the bounds of the paper's theorems."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from dpkmeans._typing import AnyArray

HOLDS, FAILS, OPEN = "holds", "fails", "not decided"
SIGNIFICANT = 3.0
"""Standard errors beyond which a difference counts as real."""


def prior_bound(m: float, n: int, d: int) -> float:
    """Theorem 3: 1 - ½ (m/n)^((d-1)/d)."""
    return 1 - 0.5 * float((m / n) ** ((d - 1) / d))


def optima_needed(degree: float, n: int, d: int) -> float:
    """How many optima Theorem 3 would need to allow a convergence degree this low."""
    return math.inf if d == 1 else n * float((2 * (1 - degree)) ** (d / (d - 1)))


def chao(names: Sequence[str]) -> tuple[int, float]:
    """The number of distinct optima seen, and Chao's lower estimate of how many there are."""
    seen = Counter(names)
    once = sum(count == 1 for count in seen.values())
    twice = sum(count == 2 for count in seen.values())
    unseen = once**2 / (2 * twice) if twice else once * (once - 1) / 2
    return len(seen), len(seen) + unseen


def prior_factor(ratio: float, angle: float) -> float:
    """Theorem 4: 2 / (-δ² + 2 δ cos α + 1)."""
    return 2 / (-(ratio**2) + 2 * ratio * math.cos(angle) + 1)


def posterior_factor(ratio: float) -> float:
    """Theorem 2's proof: min{2, 1 / (1 - δ)²}."""
    return 2.0 if ratio == 1 else min(2.0, 1 / (1 - ratio) ** 2)


def mean_and_error(values: AnyArray) -> tuple[float, float]:
    """Mean over runs and its standard error; `values` has one row per run, any further axis is averaged first."""
    per_run = np.asarray(values, dtype=np.float64).reshape(len(values), -1).mean(axis=1)
    spread = float(per_run.std(ddof=1) / math.sqrt(len(per_run))) if len(per_run) > 1 else math.nan
    return float(per_run.mean()), spread


def ratio_and_error(above: AnyArray, below: AnyArray) -> tuple[float, float]:
    """Ratio of two means over the same runs, and its standard error to first order."""
    a, b = (np.asarray(x, dtype=np.float64).reshape(len(x), -1).mean(axis=1) for x in (above, below))
    ratio = float(a.mean() / b.mean())
    if len(a) < 2:
        return ratio, math.nan
    return ratio, float((a - ratio * b).std(ddof=1) / math.sqrt(len(a)) / b.mean())


def at_most(measured: float, error: float, allowed: float) -> str:
    """Verdict on "measured is at most allowed"."""
    if measured <= allowed:
        return HOLDS
    return FAILS if measured - allowed > SIGNIFICANT * error else OPEN


def at_least(measured: float, error: float, allowed: float) -> str:
    """Verdict on "measured is at least allowed"."""
    return at_most(-measured, error, -allowed)
