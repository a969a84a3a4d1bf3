"""Private re-centring: centroids found on a synopsis move to noisy means of records. Proof: proofs/synopsis.md.

One pass. Residuals are clipped to a radius that follows from released values alone; a smaller radius means less noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkmeans.arrays import FloatArray
from dpkmeans.engines.base import Engine
from dpkmeans.privacy.epsilon import Epsilon
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Cube
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis.cluster import FixedPoint
from dpkmeans.synopsis.points import WeightedPoints
from dpkmeans.synopsis.queries import UNIT, Residuals
from dpkmeans.synopsis.tree import cube_variance

DEVIATIONS = 3.0
SMALLEST = 2.0**-10


@dataclass(frozen=True)
class Recentred:
    """New centroids (k, d), the radius (k, d) that bounds each move, and noisy sizes (k,)."""

    centroids: FloatArray
    radius: FloatArray
    sizes: FloatArray


def radius_of(points: WeightedPoints, end: FixedPoint, reach: float) -> FloatArray:
    """How far residuals may reach, shape (k, d): `reach` times the distance to the next centroid, and three deviations.

    Deviations are those of the synopsis, per cluster and feature.
    """
    k, d = end.centroids.shape
    residuals = points.points - end.centroids[end.labels]
    sizes = np.maximum(end.sizes, 1e-12)
    variance = np.stack(
        [np.bincount(end.labels, points.weights * residuals[:, j] ** 2, minlength=k) / sizes for j in range(d)], axis=1
    )
    gaps = np.linalg.norm(end.centroids[:, None, :] - end.centroids[None, :, :], axis=2)
    np.fill_diagonal(gaps, np.inf if k > 1 else 1.0)
    nearest = np.minimum(gaps.min(axis=1), 1.0)[:, None]
    radius: FloatArray = np.maximum(np.minimum(reach * nearest, DEVIATIONS * np.sqrt(variance)), SMALLEST)
    return radius


def recentre(
    engine: Engine,
    centroids: FloatArray,
    radius: FloatArray,
    epsilon: Epsilon,
    *,
    ledger: Ledger,
    rng: Randomness,
    label: str = "re-centring",
) -> Recentred:
    """Move each centroid to the noisy mean of its clipped residuals, shrunk by signal to noise."""
    noisy = Cube(epsilon, UNIT).release(engine.ask(Residuals(centroids, radius)), ledger=ledger, rng=rng, label=label)
    counts, sums = noisy[:, 0] / UNIT, noisy[:, 1:] / UNIT
    deviation = np.sqrt(cube_variance(engine.n_features)) / float(epsilon)
    n = np.maximum(counts, 1.0)[:, None]
    move = np.clip(sums / n, -1.0, 1.0) * radius
    noise = np.sum((radius * deviation / n) ** 2, axis=1)
    signal = np.maximum(np.sum(move**2, axis=1), 1e-300)
    trust = np.maximum(1.0 - noise / signal, 0.0) * (counts > 2 * deviation)
    return Recentred(engine.bounds.clip_unit(centroids + trust[:, None] * move), radius, np.maximum(counts, 0.0))
