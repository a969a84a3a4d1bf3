"""Each lemma and theorem of the paper as a measured statement with its verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from dpkmeans._typing import AnyArray
from dpkmeans.reproduction import estimators as est
from dpkmeans.reproduction.estimators import FAILS, HOLDS, OPEN
from dpkmeans.reproduction.lemma_runs import SEGMENTS

Columns: TypeAlias = Mapping[str, AnyArray]

SAYS = {
    "Cost identity": "J(previous) - J(mean) = n a², relative error",
    "Lemma 1": "the cost never rises: steps per run after which it did",
    "Zones inside": "the sampling zone lies in the convergent zone: share that does not",
    "Ends at a local optimum": "the run ends where Lloyd's algorithm would stay: share that does",
    "Lemma 2": "on the segment, the convergence degree is 1",
    "Lemma 3": "passes / Lloyd's passes is at most 1/(1 - δ²)",
    "Theorem 1": "posterior's convergence degree is at least 1/m",
    "Theorem 2": "posterior's passes / Lloyd's is at most 2",
    "Theorem 2's proof": "posterior's passes / Lloyd's is at most min{2, 1/(1 - δ)²}",
    "Theorem 3": "prior's convergence degree is at least 1 - ½ (m/n)^((d-1)/d)",
    "Theorem 4": "prior's passes / Lloyd's is at most 2/(-δ² + 2δ cos α + 1)",
    "Theorem 5": "the ledger's total is ε_0 + Σ_t max_i ε_i, exactly, in every run",
}


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


@dataclass(frozen=True)
class Measured:
    """The rows of one data set, as columns over runs (and ε)."""

    name: str
    n: int
    d: int
    paths: Mapping[str, Columns]
    theorems: Mapping[str, Columns]

    def statement(
        self, claim: str, measured: float, allowed: float, verdict: bool | str, note: str = "", error: float = 0.0
    ) -> Statement:
        """A statement about this data set; the part of `claim` before a comma names what it says."""
        text = verdict if isinstance(verdict, str) else HOLDS if verdict else FAILS
        return Statement(claim, SAYS[claim.split(",")[0]], self.name, measured, error, allowed, text, note)


def statements(found: Measured) -> Iterator[Statement]:
    """All claims on one data set."""
    lloyd, post, prior = (found.paths[name] for name in ("lloyd", "posterior", "prior"))
    worst = float(found.theorems["identity"]["worst_error"].max())
    yield found.statement("Cost identity", worst, 1e-9, worst <= 1e-9)
    for name in ("posterior", "prior"):
        yield from _costs(found, name)
    yield from _segments(found, lloyd)
    yield from _degrees(found, lloyd, post, prior)
    yield from _passes(found, lloyd, post, prior)
    sums = float(np.mean([post["budgets_add_up"].mean(), prior["budgets_add_up"].mean()]))
    note = "the sum only: that it bounds the privacy loss is refuted, see the counter-example"
    yield found.statement("Theorem 5, sum", sums, 1.0, sums == 1, note)


def _costs(found: Measured, name: str) -> Iterator[Statement]:
    rows = found.paths[name]
    rises, error = est.mean_and_error(rows["cost_rises"])
    note = f"{100 * float(rows['stopped'].mean()):.4g} % of the runs converged"
    yield found.statement(f"Lemma 1, {name}", rises, 0.0, rises == 0, note, error)
    outside = float(rows["zones_outside"].sum() / rows["zones"].sum())
    yield found.statement(f"Zones inside, {name}", outside, 0.0, outside == 0)
    settled, error = est.mean_and_error(rows["fixed_point"])
    yield found.statement(f"Ends at a local optimum, {name}", settled, 1.0, settled == 1, error=error)


def _segments(found: Measured, lloyd: Columns) -> Iterator[Statement]:
    for name in SEGMENTS:
        rows, uniform = found.theorems[name], name == "segment-uniform"
        if uniform:
            degree, error = est.mean_and_error(rows["match"])
            note = "claimed of every run, so one that ends elsewhere refutes it"
            yield found.statement("Lemma 2", degree, 1.0, degree == 1, note, error)
        delta = 0.5 if uniform else float(name.removeprefix("segment-"))
        ratio, error = est.ratio_and_error(rows["passes"], lloyd["passes"][: len(rows["passes"])])
        allowed = 1 / (1 - delta**2)
        claim = "Lemma 3, " + ("uniform δ, E δ = 0.5" if uniform else f"δ = {delta}")
        yield found.statement(claim, ratio, allowed, est.at_most(ratio, error, allowed), error=error)


def _degrees(found: Measured, lloyd: Columns, post: Columns, prior: Columns) -> Iterator[Statement]:
    seen, estimate = est.chao([str(name) for name in lloyd["optimum"].ravel()])
    note = f"m: {seen} seen, about {estimate:.4g} by Chao's estimate"
    degree, error = est.mean_and_error(post["match"])
    verdict = _degree_verdict(degree, error, 1 / seen, 1 / estimate)
    yield found.statement("Theorem 1", degree, 1 / seen, verdict, note, error)
    degree, error = est.mean_and_error(prior["match"])
    strict, lenient = (est.prior_bound(m, found.n, found.d) for m in (seen, estimate))
    needed = est.optima_needed(degree, found.n, found.d)
    note += f"; {strict:.4f} with the m that was seen; true only if m is at least {needed:.4g}"
    verdict = _degree_verdict(degree, error, strict, lenient)
    yield found.statement("Theorem 3", degree, lenient, verdict, note, error)


def _degree_verdict(degree: float, error: float, strict: float, lenient: float) -> str:
    """By the number of optima that were seen and by that which is estimated; not decided between the two."""
    if degree >= strict:
        return HOLDS
    verdict = est.at_least(degree, error, lenient)
    return OPEN if verdict == HOLDS else verdict


def _passes(found: Measured, lloyd: Columns, post: Columns, prior: Columns) -> Iterator[Statement]:
    ratio, error = est.ratio_and_error(post["passes"], lloyd["passes"])
    more = float(np.mean(post["passes"] > 2 * lloyd["passes"]))
    note = f"in expectation; {100 * more:.3g} % of single runs take more"
    yield found.statement("Theorem 2", ratio, 2.0, est.at_most(ratio, error, 2.0), note, error)
    inner = found.theorems["inner-bound"]
    delta = float(inner["sum_inner_ratio"].sum() / max(inner["inner_ratios"].sum(), 1))
    ratio, error = est.ratio_and_error(inner["passes"], lloyd["passes"][: len(inner["passes"])])
    factor, note = est.posterior_factor(delta), f"measured mean: δ = {delta:.3g}"
    yield found.statement("Theorem 2's proof", ratio, factor, est.at_most(ratio, error, factor), note, error)
    ratio, error = est.ratio_and_error(prior["passes"], lloyd["passes"])
    delta, alpha = (float(prior[name].sum() / prior["zones"].sum()) for name in ("sum_ratio", "sum_angle"))
    factor, note = est.prior_factor(delta, alpha), f"measured means: δ = {delta:.3f}, α = {alpha:.3f}"
    yield found.statement("Theorem 4", ratio, factor, est.at_most(ratio, error, factor), note, error)
