"""What to expect before anything is spent: a public model of the loss, fitted to our own benchmark.

It looks at no record: the number of records that it is told must be public, or a guess. Docs: docs/plan.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from dpkmeans.errors import MethodError
from dpkmeans.privacy.epsilon import Epsilon

HOPELESS = 3.0  # a loss above which a clustering is of little use
GOOD = 0.1
WEAK_SIGNAL = 100.0  # of N * epsilon / k


@dataclass(frozen=True)
class Expectation:
    """Expected loss (cost over the best non-private cost, minus 1) of a method at one epsilon.

    On nine held-out sets of ten the measured loss lay between `low` and `high`.
    """

    method: str
    epsilon: float
    loss: float
    low: float
    high: float


@dataclass(frozen=True)
class Noise:
    """Deviation of the noise on the mean of one feature of a cluster of average size, in the units of the data."""

    feature: int
    epsilon: float
    deviation: float


@dataclass(frozen=True)
class Advice:
    """Expectations, noise where bounds were given, and what to do."""

    expectations: tuple[Expectation, ...]
    noise: tuple[Noise, ...]
    recommendation: str


def plan(
    n_records: int,
    n_features: int,
    n_clusters: int,
    epsilons: Sequence[float],
    bounds: Sequence[tuple[float, float]] | None = None,
) -> Advice:
    """Expected loss per method and epsilon, from public numbers alone.

    >>> advice = plan(50_000, 4, 8, [0.1, 1.0])
    >>> {e.method for e in advice.expectations} >= {"synopsis", "su"}
    True
    """
    for name, value in (("records", n_records), ("features", n_features), ("k", n_clusters)):
        if value < 1:
            raise MethodError(f"{name} must be at least 1; got {value}.")
    checked = sorted(float(Epsilon.of(epsilon)) for epsilon in epsilons)
    if not checked:
        raise MethodError("give at least one epsilon.")
    found = tuple(
        _expected(method, entry, n_records, n_features, n_clusters, epsilon)
        for epsilon in checked
        for method, entry in _model()["methods"].items()
    )
    pairs = [] if bounds is None else list(bounds)
    noise = tuple(
        Noise(j, epsilon, _deviation(high - low, n_features, n_records / n_clusters, epsilon))
        for epsilon in checked
        for j, (low, high) in enumerate(pairs)
    )
    return Advice(found, noise, _recommend(found, n_records, n_clusters, checked))


@cache
def _model() -> dict[str, Any]:
    model: dict[str, Any] = json.loads(files("dpkmeans").joinpath("plan_model.json").read_text("utf-8"))
    return model


def _expected(method: str, entry: dict[str, Any], n: int, d: int, k: int, epsilon: float) -> Expectation:
    constant, signal, features, clusters = entry["coefficients"]
    log = constant + signal * math.log(n * epsilon / k) + features * math.log(d) + clusters * math.log(k)
    loss, factor = math.exp(min(log, 50.0)), entry["ninetieth_factor"]
    return Expectation(method, epsilon, loss, loss / factor, loss * factor)


def _deviation(side: float, d: int, size: float, epsilon: float) -> float:
    """√((D+1)(D+2)/3)/ε · half a side, over the size of the cluster, D = d + 1: one cube step with all of ε."""
    entries = d + 1
    return math.sqrt((entries + 1) * (entries + 2) / 3) / epsilon * side / 2 / max(size, 1.0)


def _recommend(found: tuple[Expectation, ...], n: int, k: int, epsilons: list[float]) -> str:
    best = {e: min((x for x in found if x.epsilon == e), key=lambda x: x.loss) for e in epsilons}
    good = [e for e in epsilons if best[e].loss <= GOOD]
    largest = epsilons[-1]
    if n * largest / k < WEAK_SIGNAL or best[largest].loss > HOPELESS:
        return (
            f"Do not expect useful clusters: records * epsilon / k is {n * largest / k:.3g} at the largest epsilon. "
            "Use fewer clusters, more records or a larger epsilon."
        )
    if good:
        chosen = best[good[0]]
        return (
            f"Use {chosen.method} with epsilon {chosen.epsilon:g}: the smallest of these with an expected loss of at "
            f"most {GOOD:.0%}. Keep the rest of the budget."
        )
    chosen = best[largest]
    return (
        f"Use {chosen.method} with epsilon {chosen.epsilon:g}; expect a cost about {chosen.loss:.0%} above the best. "
        "Fewer clusters would help more than another method."
    )
