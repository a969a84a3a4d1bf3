"""k-means on a synopsis: as many starts as wanted, each to a true fixed point. Post-processing: costs no privacy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkmeans.arrays import FloatArray, LabelArray
from dpkmeans.synopsis import kernels
from dpkmeans.synopsis.points import WeightedPoints

RESTARTS = 60
MOST_PASSES = 1000
FILL_SHARE = 1e-9


@dataclass(frozen=True)
class FixedPoint:
    """Centroids (k, d) that Lloyd's algorithm leaves where they are, the way there, and who belongs to whom."""

    start: FloatArray
    centroids: FloatArray
    costs: tuple[float, ...]  # one per pass, the last one confirming
    labels: LabelArray
    sizes: FloatArray


def fill(points: WeightedPoints, k: int, box: FloatArray, rng: np.random.Generator) -> WeightedPoints:
    """Add uniform points of almost no weight where there are too few for k distinct centroids."""
    distinct = len(np.unique(points.points, axis=0)) if len(points.points) < 4 * k else k
    if distinct >= k:
        return points
    extra = rng.random((k, len(box))) * box
    weight = FILL_SHARE * points.weights.sum() / k
    return WeightedPoints(np.concatenate([points.points, extra]), np.concatenate([points.weights, np.full(k, weight)]))


def best_start(points: WeightedPoints, k: int, rng: np.random.Generator, restarts: int = RESTARTS) -> FloatArray:
    """The k-means++ start, shape (k, d), of several whose fixed point is the cheapest on the synopsis itself."""
    start = np.empty((k, points.points.shape[1]))
    kernels.best_start(points.points, points.weights, rng.random((restarts, k)), start, np.empty(MOST_PASSES))
    return start


def to_fixed_point(points: WeightedPoints, start: FloatArray, before: tuple[float, ...] = ()) -> FixedPoint:
    """Lloyd's algorithm from `start` until the assignment repeats. `before` are costs of earlier passes."""
    centroids, costs = np.array(start), np.empty(MOST_PASSES)
    passes = kernels.lloyd(points.points, points.weights, centroids, costs)
    if passes == 0:
        raise RuntimeError(f"Lloyd's algorithm did not come to rest in {MOST_PASSES} passes on a synopsis.")
    labels = np.full(len(points.points), -1, np.int32)
    sizes, sums = np.empty(len(centroids)), np.empty(centroids.shape)
    kernels.assign(points.points, points.weights, centroids, labels, sizes, sums)
    return FixedPoint(np.array(start), centroids, (*before, *costs[:passes].tolist()), labels, sizes)


def simplified_silhouette(points: WeightedPoints, end: FixedPoint) -> float:
    """Mean of 1 - (distance to the own centroid)/(distance to the next), by weight. Source: Hruschka et al. (2004)."""
    if len(end.centroids) < 2:
        return 0.0
    distances = np.stack([np.linalg.norm(points.points - c, axis=1) for c in end.centroids], axis=1)
    own, other = np.partition(distances, 1, axis=1)[:, :2].T
    score = np.where(other > 0, 1 - own / np.where(other > 0, other, 1.0), 0.0)
    return float(np.average(score, weights=points.weights))
