"""Each lemma and theorem of the paper as a measured statement with its verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpkmeans._typing import AnyArray
from dpkmeans.reproduction.estimators import (
    FAILS,
    HOLDS,
    OPEN,
    at_least,
    at_most,
    chao,
    mean_and_error,
    optima_needed,
    prior_bound,
    prior_factor,
    ratio_and_error,
)
from dpkmeans.reproduction.lemma_runs import SEGMENTS


@dataclass(frozen=True)
class Statement:
    """A claim, what was measured, what the claim allows, and the verdict. `error` is a standard error."""

    claim: str
    says: str
    dataset: str
    measured: float
    error: float
    allowed: float
    verdict: str
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON and CSV."""
        return asdict(self)


@dataclass(frozen=True)
class Measured:
    """The rows of one data set, as columns over runs (and ε)."""

    name: str
    n: int
    d: int
    paths: Mapping[str, Mapping[str, AnyArray]]
    theorems: Mapping[str, Mapping[str, AnyArray]]


def statements(found: Measured) -> list[Statement]:
    """All claims on one data set."""
    lloyd, post, prior = (found.paths[name] for name in ("lloyd", "posterior", "prior"))
    runs_out = [*_costs(found, post, prior), *_segments(found, lloyd)]
    runs_out += _degrees(found, lloyd, post, prior)
    runs_out += _passes(found, lloyd, post, prior)
    add_up = float(np.mean([post["budgets_add_up"].mean(), prior["budgets_add_up"].mean()]))
    runs_out.append(
        Statement(
            "Theorem 5, sum",
            "the ledger's total is ε_0 + Σ_t max_i ε_i, exactly, in every run",
            found.name,
            add_up,
            0.0,
            1.0,
            HOLDS if add_up == 1 else FAILS,
            "the sum only: that it bounds the privacy loss is refuted, see the counter-example",
        )
    )
    return runs_out


def _costs(found: Measured, post: Mapping[str, AnyArray], prior: Mapping[str, AnyArray]) -> list[Statement]:
    worst = float(found.theorems["identity"]["worst_error"].max())
    out = [
        Statement(
            "Cost identity",
            "J(previous) - J(mean) = n a², relative error",
            found.name,
            worst,
            0.0,
            1e-9,
            HOLDS if worst <= 1e-9 else FAILS,
        )
    ]
    for name, rows in (("posterior", post), ("prior", prior)):
        rises, error = mean_and_error(rows["cost_rises"])
        stopped = float(rows["stopped"].mean())
        out.append(
            Statement(
                f"Lemma 1, {name}",
                "the cost never rises: steps per run after which it did",
                found.name,
                rises,
                error,
                0.0,
                HOLDS if rises == 0 else FAILS,
                f"{100 * stopped:.4g} % of the runs converged",
            )
        )
        outside = float(rows["zones_outside"].sum() / rows["zones"].sum())
        out.append(
            Statement(
                f"Zones inside, {name}",
                "the sampling zone lies in the convergent zone: share that does not",
                found.name,
                outside,
                0.0,
                0.0,
                HOLDS if outside == 0 else FAILS,
            )
        )
        settled, error = mean_and_error(rows["fixed_point"])
        out.append(
            Statement(
                f"Ends at a local optimum, {name}",
                "the run ends where Lloyd's algorithm would stay: share that does",
                found.name,
                settled,
                error,
                1.0,
                HOLDS if settled == 1 else FAILS,
            )
        )
    return out


def _segments(found: Measured, lloyd: Mapping[str, AnyArray]) -> list[Statement]:
    out = []
    for name in SEGMENTS:
        rows = found.theorems[name]
        degree, error = mean_and_error(rows["match"])
        runs = len(rows["passes"])
        if name == "segment-uniform":
            out.append(
                Statement(
                    "Lemma 2",
                    "on the segment, the convergence degree is 1",
                    found.name,
                    degree,
                    error,
                    1.0,
                    HOLDS if degree == 1 else FAILS,
                    "claimed of every run, so one that ends elsewhere refutes it",
                )
            )
        delta = 0.5 if name == "segment-uniform" else float(name.removeprefix("segment-"))
        ratio, error = ratio_and_error(rows["passes"], lloyd["passes"][:runs])
        allowed = 1 / (1 - delta**2)
        how = "uniform δ, E δ = 0.5" if name == "segment-uniform" else f"δ = {delta}"
        out.append(
            Statement(
                f"Lemma 3, {how}",
                "passes / Lloyd's passes is at most 1/(1 - δ²)",
                found.name,
                ratio,
                error,
                allowed,
                at_most(ratio, error, allowed),
            )
        )
    return out


def _degrees(
    found: Measured, lloyd: Mapping[str, AnyArray], post: Mapping[str, AnyArray], prior: Mapping[str, AnyArray]
) -> list[Statement]:
    seen, estimate = chao([str(name) for name in lloyd["optimum"].ravel()])
    how_many = f"m: {seen} seen, about {estimate:.4g} by Chao's estimate"
    degree, error = mean_and_error(post["match"])
    verdict = HOLDS if degree >= 1 / seen else at_least(degree, error, 1 / estimate)
    out = [
        Statement(
            "Theorem 1",
            "posterior's convergence degree is at least 1/m",
            found.name,
            degree,
            error,
            1 / seen,
            OPEN if verdict == HOLDS and degree < 1 / seen else verdict,
            how_many,
        )
    ]
    degree, error = mean_and_error(prior["match"])
    strict, lenient = (prior_bound(m, found.n, found.d) for m in (seen, estimate))
    verdict = HOLDS if degree >= strict else at_least(degree, error, lenient)
    needed = optima_needed(degree, found.n, found.d)
    out.append(
        Statement(
            "Theorem 3",
            "prior's convergence degree is at least 1 - ½ (m/n)^((d-1)/d)",
            found.name,
            degree,
            error,
            lenient,
            OPEN if verdict == HOLDS and degree < strict else verdict,
            f"{how_many}; {strict:.4f} with the m that was seen; true only if m is at least {needed:.4g}",
        )
    )
    return out


def _passes(
    found: Measured, lloyd: Mapping[str, AnyArray], post: Mapping[str, AnyArray], prior: Mapping[str, AnyArray]
) -> list[Statement]:
    ratio, error = ratio_and_error(post["passes"], lloyd["passes"])
    more = float(np.mean(post["passes"] > 2 * lloyd["passes"]))
    out = [
        Statement(
            "Theorem 2",
            "posterior's passes / Lloyd's is at most 2",
            found.name,
            ratio,
            error,
            2.0,
            at_most(ratio, error, 2.0),
            f"in expectation; {100 * more:.3g} % of single runs take more",
        )
    ]
    ratio, error = ratio_and_error(prior["passes"], lloyd["passes"])
    delta = float(prior["sum_ratio"].sum() / prior["zones"].sum())
    alpha = float(prior["sum_angle"].sum() / prior["zones"].sum())
    factor = prior_factor(delta, alpha)
    out.append(
        Statement(
            "Theorem 4",
            "prior's passes / Lloyd's is at most 2/(-δ² + 2δ cos α + 1)",
            found.name,
            ratio,
            error,
            factor,
            at_most(ratio, error, factor),
            f"measured means: δ = {delta:.3f}, α = {alpha:.3f}",
        )
    )
    return out
