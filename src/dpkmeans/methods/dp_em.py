"""DP-EM: a mixture of Gaussians by expectation maximisation with noisy moments. Proved: proofs/dp_em.md.

Source: Park, Foulds, Chaudhuri and Welling, DP-EM: differentially private expectation maximization (2017).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.bounds import GRID, Bounds
from dpkmeans.core.checks import check_integer
from dpkmeans.core.engine import Engine
from dpkmeans.core.guarantee import Claim
from dpkmeans.core.release import Release
from dpkmeans.core.rho import Rho
from dpkmeans.errors import DataError
from dpkmeans.kernels.jit import compiled
from dpkmeans.methods.base import Outcome, make_release
from dpkmeans.methods.loop.initializers import SpherePacking
from dpkmeans.methods.mixture_moments import PARTS, REACH, Mixture, Moments
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Gaussian
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.progress import expect

STEPS = 3  # the authors take 10; each further one costs more than it gains, see docs/deviations.md
AMPLE = 1000.0  # rho, on released values: they cost nothing more, so that noise is of no use
MAX_FEATURES = 64  # features; a covariance for each component is more than so many records can tell
MIN_VARIANCE = 2.0**-14  # of the squared side of the unit box: a deviation of 1/128
SPREAD = 2.0  # deviations of all records on either side of their mean, in which the start is packed
START_VARIANCE = 0.25  # of the variance of all records, for each component at the start
MIN_COUNT_DEVIATIONS = 2.0  # deviations of its noise; a component with a smaller noisy count stays as it is


@dataclass(frozen=True, eq=False)
class Components:
    """Released: numbers of records (k,), means (k, d) and covariances (k, d, d), in unit coordinates."""

    counts: FloatArray
    means: FloatArray
    covariances: FloatArray

    def mixture(self) -> Mixture:
        """What the next step asks with: covariances made positive where noise made them indefinite."""
        weights = np.maximum(self.counts, 1.0)
        factors = [cholesky(covariance) for covariance in self.covariances]
        logs = [log(w) - sum(log(x) for x in np.diag(f)) for w, f in zip(weights.tolist(), factors, strict=True)]
        return Mixture(np.array(logs), self.means, np.stack([inverse(factor) for factor in factors]))


@dataclass(frozen=True)
class DpEm:
    """A look at all records as one Gaussian, then `steps` steps of EM, each for the same share of rho.

    Guarantee: the promise of the ledger, (epsilon, delta) or rho. Every spend is one call of the Gaussian mechanism.
    """

    steps: int = STEPS
    name: str = "dp-em"
    claim: ClassVar[Claim] = Claim.PROVED
    needs_epsilon: ClassVar[bool] = True
    spends_rho: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_integer(self.steps, "steps")

    def run(self, engine: Engine, n_clusters: int, *, ledger: Ledger, rng: Randomness) -> Release:
        """The means of the mixture as centroids: a record belongs to the nearest."""
        if engine.n_features > MAX_FEATURES:
            raise DataError(
                f"the method 'dp-em' takes up to {MAX_FEATURES} features; there are {engine.n_features}.",
                hint="Choose another {method}, such as 'gaussian'.",
            )
        if engine.released:
            ledger = Ledger(rho=AMPLE)
        packed = SpherePacking().centroids(engine, n_clusters, rng.generator)
        shares = ledger.remaining_rho.over(1 + self.steps)
        whole = one_component(engine.bounds)
        expect(len(shares))
        found = step(engine, whole, shares[0], "all records", ledger=ledger, rng=rng)
        components = start_from(found, packed, engine.bounds)
        for number, share in enumerate(shares[1:], start=1):
            components = step(engine, components, share, f"step {number}", ledger=ledger, rng=rng)
        outcome = Outcome(
            components.means,
            n_passes=1 + self.steps,
            n_iter=self.steps,
            parameters={"steps": self.steps},
            sizes=np.maximum(components.counts, 0.0),
        )
        return make_release(self, outcome, engine, ledger=ledger, rng=rng)


def step(engine: Engine, before: Components, share: Rho, label: str, *, ledger: Ledger, rng: Randomness) -> Components:
    """One expectation and one maximisation: noisy moments under the mixture, and the Gaussians that have them.

    A component whose noisy count does not stand out of its noise stays as it is. The branch looks at released values.
    """
    query = Moments(engine.bounds, before.mixture())
    row = Gaussian(share).release(engine.answer(query), ledger=ledger, rng=rng, label=label)[0]
    counts, sums, products = query.parts(row)
    square = query.sensitivity.l2_squared
    assert square is not None
    noise = math.sqrt(square / (2 * float(share))) / (REACH * PARTS)
    clear = counts >= max(1.0, MIN_COUNT_DEVIATIONS * noise)
    divisor = np.where(clear, counts, 1.0)
    away = sums / divisor[:, None]
    middle = engine.bounds.side // 2 / GRID
    means = engine.bounds.clip_unit(middle + away)
    covariances = products / divisor[:, None, None] - away[:, :, None] * away[:, None, :]
    return Components(
        counts,
        np.where(clear[:, None], means, before.means),
        np.where(clear[:, None, None], covariances, before.covariances),
    )


def one_component(bounds: Bounds) -> Components:
    """One Gaussian over the whole box: every record belongs to it."""
    d = bounds.n_features
    return Components(np.ones(1), bounds.unit_box[None] / 2, np.eye(d)[None])


def start_from(all_records: Components, packed: FloatArray, bounds: Bounds) -> Components:
    """k equal Gaussians in places (k, d) packed into the box, moved to where most records lie."""
    k, variance = len(packed), np.maximum(np.diag(all_records.covariances[0]), MIN_VARIANCE)
    box = np.where(bounds.unit_box > 0, bounds.unit_box, 1.0)
    reach = np.minimum(2 * SPREAD * np.sqrt(variance), box)
    means = bounds.clip_unit(all_records.means[0] + (packed / box - 0.5) * reach)
    covariance = np.diag(np.maximum(START_VARIANCE * variance, MIN_VARIANCE))
    return Components(np.full(k, 1.0), means, np.tile(covariance, (k, 1, 1)))


def cholesky(covariance: FloatArray) -> FloatArray:
    """The lower factor of a covariance (d, d) with as much added to its diagonal as it needs, by plain arithmetic.

    Noise may make it indefinite. Added are 0, `MIN_VARIANCE`, twice that and so on, until all pivots are large enough.
    """
    added, factor = 0.0, np.zeros_like(covariance)
    while not _factor(covariance + added * np.eye(len(covariance)), MIN_VARIANCE / 2, factor):
        added = max(2 * added, MIN_VARIANCE)
    return factor


@compiled
def _factor(matrix: FloatArray, least: float, factor: FloatArray) -> bool:
    """Whether all pivots of a symmetric matrix are at least `least`; then `factor` is its lower Cholesky factor."""
    for i in range(len(matrix)):
        for j in range(i + 1):
            value = matrix[i, j]
            for m in range(j):
                value -= factor[i, m] * factor[j, m]
            if i == j:
                if not value >= least:
                    return False
                factor[i, i] = np.sqrt(value)
            else:
                factor[i, j] = value / factor[j, j]
    return True


@compiled
def inverse(factor: FloatArray) -> FloatArray:
    """The inverse of a lower triangular matrix, column by column."""
    d = len(factor)
    found = np.zeros((d, d))
    for j in range(d):
        found[j, j] = 1.0 / factor[j, j]
        for i in range(j + 1, d):
            value = 0.0
            for m in range(j, i):
                value -= factor[i, m] * found[m, j]
            found[i, j] = value / factor[i, i]
    return found


def log(x: float) -> float:
    """The natural logarithm of a positive number by a series: the same bits everywhere, unlike a library's.

    >>> abs(log(20.0) - math.log(20.0)) < 1e-14
    True
    """
    mantissa, exponent = math.frexp(x)
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    power, found = ratio, 0.0
    for i in range(1, 60, 2):
        found += power / i
        power *= ratio * ratio
    return 2.0 * found + exponent * 0.6931471805599453


def dp_em(*, steps: int = STEPS) -> DpEm:
    """A mixture of Gaussians with a covariance each. Source: Park et al. (2017)."""
    return DpEm(steps)
