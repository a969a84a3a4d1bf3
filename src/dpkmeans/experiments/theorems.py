"""Each lemma and theorem of the paper as a measured statement with its verdict."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpkmeans.arrays import AnyArray, FloatArray
from dpkmeans.experiments.paper import (
    MOST_STEPS,
    WHY,
    Cell,
    Problem,
    Row,
    baseline,
    is_near,
    last_means,
    name_of,
    seed_of,
)
from dpkmeans.iteration.loop import Move, Step, iterate
from dpkmeans.iteration.stopping import Repeats
from dpkmeans.privacy.exact import reveal
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.privacy.schedules import StepBudget

HOLDS, FAILS, OPEN = "holds", "fails", "not decided"
SURE = 3.0
"""Standard errors beyond which a difference is taken for real."""

SEGMENTS = ("segment-uniform", "segment-0.25", "segment-0.5", "segment-0.75")


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
class SegmentSampling:
    """Lemma 2's ALG: a point of the segment between previous centroid and mean, δ of the way back. Not private.

    `ratio` fixes δ; without it δ is uniform, which is the lemma's "randomly select".
    """

    ratio: float | None = None

    def move(self, step: Step, *, ledger: Ledger, rng: Randomness) -> Move:
        """Ŝ = mean + δ (previous - mean)."""
        means = reveal(step.exact, why=WHY).means(empty=step.previous)
        k = len(means)
        share = rng.generator.random(k) if self.ratio is None else np.full(k, self.ratio)
        return Move(means + share[:, None] * (step.previous - means))


def theorem_cells(datasets: Sequence[str], runs: int) -> list[Cell]:
    """What the theorems need beyond the path cells."""
    return [
        Cell("theorem", name, run, "none", method, 0.0)
        for run in range(runs)
        for name in datasets
        for method in ("identity", *SEGMENTS)
    ]


def theorem_row(problem: Problem, cell: Cell, seed: int) -> Row:
    """One run of the identity's check, or of ALG on the segment."""
    base = baseline(problem, cell.run, seed)
    if cell.method == "identity":
        return {"worst_error": identity_error(problem, base.start)}
    name = cell.method.removeprefix("segment-")
    update = SegmentSampling(None if name == "uniform" else float(name))
    rng = Randomness.with_seed(seed_of(seed, *cell))
    plan = (StepBudget() for _ in range(MOST_STEPS))
    end = iterate(problem.engine, base.start, plan, update=update, stop=Repeats(), ledger=Ledger(), rng=rng)
    means = last_means(problem, end)
    return {
        "passes": end.passes,
        "stopped": end.stopped,
        "match": bool(is_near(means, base.lloyd.centroids).all()),
        "same_optimum": name_of(means) == name_of(base.lloyd.centroids),
    }


def identity_error(problem: Problem, previous: FloatArray) -> float:
    """The largest |J(previous) - J(mean) - n a²| / J(previous) over the clusters of a first step, by plain sums."""
    points = problem.engine.bounds.to_unit(problem.data.unit_records()).astype(np.float64)
    labels = problem.engine.labels(previous)
    worst = 0.0
    for i, centroid in enumerate(previous):
        cell = points[labels == i]
        if not len(cell):
            continue
        mean = cell.mean(axis=0)
        before, after = float(((cell - centroid) ** 2).sum()), float(((cell - mean) ** 2).sum())
        saved = len(cell) * float(((centroid - mean) ** 2).sum())
        if before > 0:
            worst = max(worst, abs(before - after - saved) / before)
    return worst


def prior_bound(m: float, n: int, d: int) -> float:
    """Theorem 3: 1 - ½ (m/n)^((d-1)/d)."""
    return 1 - 0.5 * float((m / n) ** ((d - 1) / d))


def optima_needed(degree: float, n: int, d: int) -> float:
    """How many optima there would have to be for Theorem 3 to allow a convergence degree this low."""
    return math.inf if d == 1 else n * float((2 * (1 - degree)) ** (d / (d - 1)))


def chao(names: Sequence[str]) -> tuple[int, float]:
    """How many different optima were seen, and Chao's lower estimate of how many there are."""
    seen = Counter(names)
    once = sum(count == 1 for count in seen.values())
    twice = sum(count == 2 for count in seen.values())
    unseen = once**2 / (2 * twice) if twice else once * (once - 1) / 2
    return len(seen), len(seen) + unseen


def prior_factor(ratio: float, angle: float) -> float:
    """Theorem 4: 2 / (-δ² + 2 δ cos α + 1)."""
    return 2 / (-(ratio**2) + 2 * ratio * math.cos(angle) + 1)


def mean_and_error(values: AnyArray) -> tuple[float, float]:
    """Mean over runs and its standard error; `values` has one row per run, any further axis is averaged first."""
    per_run = np.asarray(values, dtype=np.float64).reshape(len(values), -1).mean(axis=1)
    spread = float(per_run.std(ddof=1) / math.sqrt(len(per_run))) if len(per_run) > 1 else math.nan
    return float(per_run.mean()), spread


def ratio_and_error(above: AnyArray, below: AnyArray) -> tuple[float, float]:
    """Ratio of two means over the same runs, and its standard error to first order."""
    a = np.asarray(above, dtype=np.float64).reshape(len(above), -1).mean(axis=1)
    b = np.asarray(below, dtype=np.float64).reshape(len(below), -1).mean(axis=1)
    ratio = float(a.mean() / b.mean())
    if len(a) < 2:
        return ratio, math.nan
    return ratio, float((a - ratio * b).std(ddof=1) / math.sqrt(len(a)) / b.mean())


def at_most(measured: float, error: float, allowed: float) -> str:
    """Verdict on "measured is at most allowed"."""
    if measured <= allowed:
        return HOLDS
    return FAILS if measured - allowed > SURE * error else OPEN


def at_least(measured: float, error: float, allowed: float) -> str:
    """Verdict on "measured is at least allowed"."""
    return at_most(-measured, error, -allowed)


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
                "the cost never rises: steps a run after which it did",
                found.name,
                rises,
                error,
                0.0,
                HOLDS if rises == 0 else FAILS,
                f"{100 * stopped:.4g} % of the runs stopped by themselves",
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
                    "said of every run, so one that ends elsewhere refutes it",
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
