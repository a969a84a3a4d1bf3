"""The end: private steps in all features, each cluster followed by a filter. proofs/many_features.md.

A step measures where the mean of each cell lies, with noise of known size. A running estimate M of variance v per
coordinate takes it in by a gain, as a Kalman filter does; where a cluster still moves, the gain is what James and Stein
would keep of the innovation. The centre at which the next step asks is M, shrunk towards the mean of all records. All
of that is done apart for the subspace, which holds most of the signal, and for the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.rho import Rho
from dpkmeans.progress import expect
from dpkmeans.wide.releases import Desk, Distances, Sight, best_radius, noise_of_means, shrunk
from dpkmeans.wide.settings import STEP_GROWTH, STEP_SPLIT
from dpkmeans.wide.subspace import Subspace


@dataclass(frozen=True, eq=False)
class Filtered:
    """One part of the features, `n_features` of them: estimates (K, d) with variances (K,) per coordinate."""

    estimate: FloatArray
    variance: FloatArray
    n_features: int

    def taking_in(self, measured: FloatArray, variance: FloatArray) -> Filtered:
        """The estimate after one more measurement (K, d) with noise of `variance` (K,) per coordinate."""
        innovation = measured - self.estimate
        squares = np.maximum((innovation * innovation).sum(axis=1), 1e-300)
        moving = np.maximum(1.0 - self.n_features * variance / squares, 0.0)
        gain = np.maximum(moving, self.variance / (self.variance + variance))
        left = (1 - gain) ** 2 * self.variance + gain**2 * variance
        return Filtered(self.estimate + gain[:, None] * innovation, left, self.n_features)

    @property
    def centre(self) -> FloatArray:
        """The estimate, shrunk towards the origin by the noise it holds, shape (K, d)."""
        return shrunk(self.estimate, self.n_features * self.variance)


def parts_of(measured: FloatArray, subspace: Subspace | None) -> list[tuple[FloatArray, int]]:
    """What lies in the subspace and what does not, each (K, d) with its number of dimensions; one part without it."""
    d = measured.shape[1]
    if subspace is None:
        return [(measured, d)]
    inside, p = subspace.within(measured), len(subspace.directions)
    return [(inside, p), (measured - inside, d - p)]


@dataclass(frozen=True)
class Steps:
    """How many steps on about how many records, and what to spend in all.

    `radius_noise` weighs noise against clipping in the choice of a radius; `forget` says how soon distances are old.
    """

    number: int
    radius_noise: float
    forget: float
    n_records: float
    rho: Rho


@dataclass(frozen=True, eq=False)
class End:
    """Where the steps ended: centres (K, d) relative to the origin, noisy sizes (K,), and how far each step moved.

    `deviations` (K,) are of the noise in a coordinate of an estimate, on average; `size_deviation` is that of a size.
    """

    centres: FloatArray
    sizes: FloatArray
    deviations: FloatArray
    size_deviation: float
    moves: tuple[float, ...]


def refine(
    desk: Desk, sight: Sight, start: FloatArray, subspace: Subspace | None, distances: Distances, steps: Steps
) -> End:
    """Spend all that there is on steps from `start` (K, d), relative to the origin."""
    centres, filters, left = start, None, steps.rho
    k, d = start.shape
    growth = [math.pow(STEP_GROWTH, i) for i in range(steps.number)]
    moves, counted, precision = [], np.zeros(k), 0.0
    expect(steps.number)
    for i in range(steps.number):
        part = left.share(growth[i] / sum(growth[i:])) if i + 1 < steps.number else left
        left -= part
        noise = steps.radius_noise * noise_of_means(STEP_SPLIT, part, k, d, steps.n_records)
        radius = best_radius(distances, sight.rings, noise, d)
        seen = desk.look(sight, centres, radius, STEP_SPLIT, part, f"step {i + 1} of {steps.number}")
        counted += seen.counts / seen.count_deviation**2  # all steps count: sizes hardly change from one to the next
        precision += 1 / seen.count_deviation**2
        sizes = np.maximum(counted / precision, max(1 / math.sqrt(precision), 1.0))
        variance = (seen.deviation / sizes) ** 2
        measured = parts_of(seen.centres + seen.sums / sizes[:, None], subspace)
        if filters is None:
            filters = [Filtered(estimate, variance, dims) for estimate, dims in measured]
        else:
            filters = [f.taking_in(m, variance) for f, (m, _) in zip(filters, measured, strict=True)]
        before, centres = centres, np.asarray(sum(f.centre for f in filters))
        moves.append(float(np.sqrt(np.mean(((centres - before) ** 2).sum(axis=1)))))
        distances = distances.taking_in(seen.bins, seen.bin_deviation, steps.forget)
    noisy = np.asarray(sum(f.n_features * f.variance for f in filters or []))
    return End(centres, sizes, np.sqrt(noisy / d), 1 / math.sqrt(precision), tuple(moves))
