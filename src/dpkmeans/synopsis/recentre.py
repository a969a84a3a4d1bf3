"""Private re-centring: centroids found on a synopsis move to noisy means of records. Proof: proofs/synopsis.md.

One pass. Residuals are clipped to a radius that follows from released values alone; a smaller radius means less noise.
The next Lloyd step is extrapolated from the synopsis: post-processing, no spend.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Laplace, LInfLaplace
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis.kmeans import FixedPoint, means
from dpkmeans.synopsis.residual_queries import UNIT, Residuals, ResidualSizes
from dpkmeans.synopsis.settings import CLIPPING, MIN_RADIUS, RADIUS_EDGES, RADIUS_THRESHOLD, SHRINK, TRUSTED_DEVIATIONS
from dpkmeans.synopsis.tree import cube_variance
from dpkmeans.synopsis.view import Asked
from dpkmeans.synopsis.weighted_points import WeightedPoints

LABEL = "re-centring"  # of the spend on a step on the records


@dataclass(frozen=True)
class Recentred:
    """New centroids (k, d), the radius (k, d) that bounds each move, and noisy sizes (k,)."""

    centroids: FloatArray
    radius: FloatArray
    sizes: FloatArray


def radius_of(
    points: WeightedPoints, end: FixedPoint, reach: float, deviations: float, least: float = MIN_RADIUS
) -> FloatArray:
    """How far residuals may reach, shape (k, d): `reach` times the distance to the next centroid, so many deviations.

    Deviations are those of the synopsis, per cluster and feature; the radius is at `least` this large.
    """
    k, d = end.centroids.shape
    residuals = residuals_of(points, end)
    sizes = np.maximum(end.sizes, 1e-12)
    variance = np.stack(
        [np.bincount(end.labels, points.weights * residuals[:, j] ** 2, minlength=k) / sizes for j in range(d)], axis=1
    )
    nearest = np.minimum(gaps(end.centroids), 1.0)[:, None]
    return np.asarray(np.maximum(np.minimum(reach * nearest, deviations * np.sqrt(variance)), least))


def residuals_of(points: WeightedPoints, end: FixedPoint) -> FloatArray:
    """Of the points of a synopsis to their centroids, shape (m, d)."""
    return np.asarray(points.points - end.centroids[end.labels])


def deviation_of(points: WeightedPoints, end: FixedPoint) -> FloatArray:
    """The standard deviation of the points of a synopsis around their centroids, in each feature, shape (d,)."""
    return np.asarray(np.sqrt(np.average(residuals_of(points, end) ** 2, axis=0, weights=points.weights)))


def gaps(centroids: FloatArray) -> FloatArray:
    """The distance from each centroid (k, d) to the nearest other one, shape (k,); infinite where there is no other."""
    squares = np.empty(len(centroids))
    for c, centroid in enumerate(centroids):
        apart = ((centroids - centroid) ** 2).sum(axis=1)
        apart[c] = np.inf
        squares[c] = apart.min()
    return np.asarray(np.sqrt(squares))


def recentre(
    engine: Asked,
    centroids: FloatArray,
    radius: FloatArray,
    epsilon: Epsilon,
    *,
    ledger: Ledger,
    rng: Randomness,
    label: str = LABEL,
) -> Recentred:
    """Move each centroid to the noisy mean of its clipped residuals, shrunk by signal to noise."""
    noisy = LInfLaplace(epsilon).release(
        engine.answer(Residuals(centroids, radius)), ledger=ledger, rng=rng, label=label
    )
    counts, sums = noisy[:, 0] / UNIT, noisy[:, 1:] / UNIT
    moves = shrunk_moves(counts, sums, radius, np.sqrt(cube_variance(engine.n_features)) / float(epsilon))
    return Recentred(engine.bounds.clip_unit(centroids + moves), radius, np.maximum(counts, 0.0))


def shrunk_moves(counts: FloatArray, sums: FloatArray, radius: FloatArray, deviation: float) -> FloatArray:
    """Noisy means (k, d) of clipped residuals, shrunk by signal to noise; sums are in radii, with this `deviation`."""
    n = np.maximum(counts, 1.0)[:, None]
    move = np.clip(sums / n, -1.0, 1.0) * radius
    noise = np.sum((radius * deviation / n) ** 2, axis=1)
    signal = np.maximum(np.sum(move**2, axis=1), 1e-300)
    trust = np.maximum(1.0 - SHRINK * noise / signal, 0.0) * (counts > TRUSTED_DEVIATIONS * deviation)
    return np.asarray(trust[:, None] * move)


def extrapolate(points: WeightedPoints, fixed: FloatArray, moved: FloatArray, share: float) -> FloatArray:
    """Continue from `moved` by a `share` of the next step of Lloyd's algorithm, shape (k, d). Post-processing.

    The means of the synopsis differ from those of the records, but by about as much here as at its `fixed` point,
    where they equal the centroids. So the change of its means estimates the next step.
    """
    return moved + share * (means(points, moved) - fixed)


def noise_of_means(n_features: int, k: int, n_records: float, epsilon: Epsilon) -> float:
    """The deviation of the noisy mean of one of k equal clusters, in radii, if all means together cost `epsilon`."""
    return math.sqrt(cube_variance(n_features)) / float(epsilon) * k / n_records


def learn_radius(
    engine: Asked,
    centroids: FloatArray,
    scale: FloatArray,
    noise: float,
    epsilon: Epsilon,
    *,
    ledger: Ledger,
    rng: Randomness,
    label: str = "radius",
) -> FloatArray:
    """One radius for all, shape (k, d), in proportion to a `scale` (d,), from a noisy histogram of residuals.

    It minimises what `noise`, in radii, and clipping do to a mean: (r·noise)² + 3·E[(|residual| - r)+]², where the mean
    of what is clipped off, in one direction, is the most that clipping can move it.
    """
    noisy = Laplace(epsilon).release(
        engine.answer(ResidualSizes(centroids, scale, RADIUS_EDGES)), ledger=ledger, rng=rng, label=label
    )[0]
    mass = np.where(noisy > RADIUS_THRESHOLD * engine.n_features / float(epsilon), noisy, 0.0)
    edges = RADIUS_EDGES
    middles = np.concatenate([[edges[1] / 2], np.sqrt(edges[1:-1] * edges[2:]), [edges[-1]]])
    candidates = edges[1:]
    excess = np.maximum(middles[None, :] - candidates[:, None], 0.0)
    clipped = (excess * mass).sum(axis=1) / max(mass.sum(), 1.0)
    loss = (candidates * noise) ** 2 + CLIPPING * clipped**2
    return np.asarray(np.tile(scale * candidates[np.argmin(loss)], (len(centroids), 1)))
