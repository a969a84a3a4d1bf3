"""k-means on a synopsis: any number of starts, each run to a true fixed point. Post-processing, at no privacy cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpkmeans._typing import FloatArray, IntArray
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.release import PublishedZone
from dpkmeans.kernels import weighted_lloyd
from dpkmeans.synopsis.settings import (
    MAX_PAD,
    MAX_PASSES,
    MAX_SWAP_WORK,
    MAX_WORK,
    MIN_CLEAR,
    MIN_SIZE,
    PAD_GAIN,
    PAD_SPREAD,
    PADDING_WEIGHT,
    PASSES_PER_START,
    PRUNINGS,
    RESTARTS,
    SWAP_PASSES,
    SWAPS_PER_CLUSTER,
    TYPICAL_PASSES,
)
from dpkmeans.synopsis.weighted_points import Near, NoisyCells, WeightedPoints


@dataclass(frozen=True)
class FixedPoint:
    """Centroids (k, d) that Lloyd's algorithm leaves where they are, how it got there, and the assignment of points.

    `before` are the costs of passes by another strategy, from `start` to `lloyd_start`; usually there are none.
    """

    start: FloatArray
    lloyd_start: FloatArray
    centroids: FloatArray
    before: tuple[float, ...]
    lloyd_costs: tuple[float, ...]  # one per pass, the last one confirming
    labels: IntArray
    sizes: FloatArray
    transcript: tuple[PublishedZone, ...] = ()  # of the other strategy, if it draws from zones

    @property
    def costs(self) -> tuple[float, ...]:
        """The cost of every pass."""
        return (*self.before, *self.lloyd_costs)


@dataclass(frozen=True)
class Explored:
    """What a synopsis says about one k: cost and simplified silhouette on itself, and cluster sizes, largest first."""

    k: int
    cost: float
    silhouette: float
    sizes: tuple[float, ...]


def pad(points: WeightedPoints, k: int, box: FloatArray, rng: np.random.Generator, near: Near | None) -> WeightedPoints:
    """Add points of almost no weight if there are too few for k distinct centroids: `near` the others, or anywhere.

    A centroid more can only lower the cost. The best place for it is where records may be, given what is known: a
    point that stands for many records is off by its noise, and they are spread around it. Distances grow in equal
    steps of their logarithm from the noise, shortened by what the nearest of so many directions gains in d features.
    """
    missing = k - distinct(points.points, k)
    if missing <= 0:
        return points
    if near is None:
        return _with_padding(points, rng.random((missing, len(box))) * box)
    wide = near.deviation > 0
    ratio = max([1.0, *(PAD_SPREAD * near.half[wide] / near.deviation[wide]).tolist()])
    longer = np.array([math.pow(ratio, i / max(missing - 1, 1)) for i in range(missing)])[:, None]
    away = np.minimum(longer * near.deviation, np.maximum(PAD_SPREAD * near.half, near.deviation))
    shorter = min(math.sqrt(PAD_GAIN * math.log(max(missing, 2)) / max(int(wide.sum()), 1)), MAX_PAD)
    heaviest = points.points[np.argsort(-points.weights, kind="stable")]
    middles = heaviest[np.arange(missing) % len(heaviest)]
    extra = np.clip(middles + shorter * away * rng.standard_normal((missing, len(box))), 0.0, box)
    return pad(_with_padding(points, extra), k, box, rng, None)  # where some of them fell together


def distinct(points: FloatArray, most: int) -> int:
    """How many different points there are, or `most` where there are more. The first few mostly tell."""
    found = len(np.unique(points[: 4 * most], axis=0))
    return most if found >= most else min(len(np.unique(points, axis=0)), most)


def _with_padding(points: WeightedPoints, extra: FloatArray) -> WeightedPoints:
    weights = np.full(len(extra), PADDING_WEIGHT * points.weights.sum() / len(extra))
    return WeightedPoints(np.concatenate([points.points, extra]), np.concatenate([points.weights, weights]))


def with_mean(points: WeightedPoints) -> WeightedPoints:
    """The points and their mean, with almost no weight, in a place that is free: then a fit is no worse than the mean.

    One point is its own mean; but for rounding, which Lloyd's algorithm would not come to rest on.
    """
    if distinct(points.points, 2) == 1:
        return points
    mean = np.average(points.points, axis=0, weights=points.weights)[None, :]
    weight = PADDING_WEIGHT * float(points.weights.sum())
    return WeightedPoints(np.concatenate([points.points, mean]), np.append(points.weights, weight))


def condense(points: WeightedPoints, k: int, rng: np.random.Generator) -> WeightedPoints:
    """The means of k clusters of the points, with their weights."""
    end = to_fixed_point(points, best_start(points, k, rng))
    return WeightedPoints.of(end.centroids, end.sizes)


def best_start(points: WeightedPoints, k: int, rng: np.random.Generator, restarts: int = RESTARTS) -> FloatArray:
    """Of several k-means++ starts, the one, shape (k, d), whose fixed point has the lowest cost on the synopsis itself.

    Fewer are tried if k or the synopsis is very large. If there are at most k distinct points, all of them are taken.
    """
    if distinct(points.points, k + 1) <= k:
        places = np.unique(points.points, axis=0)
        return np.asarray(places[np.arange(k) % len(places)])
    tries = 2 + int(math.log(k))
    restarts = min(restarts, MAX_WORK // (k * (tries + TYPICAL_PASSES) * points.points.size))
    if restarts == 0:
        restarts, tries = 1, 1
    start = np.empty((k, points.points.shape[1]))
    uniforms = rng.random((restarts, k, tries))
    weighted_lloyd.best_start(points.points, points.weights, uniforms, start, PASSES_PER_START)
    swaps = min(SWAPS_PER_CLUSTER * k, MAX_SWAP_WORK // ((2 + SWAP_PASSES) * k * points.points.size))
    swapped = start.copy()
    weighted_lloyd.swap(points.points, points.weights, swapped, rng.random((swaps, 2)), SWAP_PASSES)
    ends = [to_fixed_point(points, found).lloyd_costs[-1] for found in (start, swapped)]
    return swapped if ends[1] < ends[0] else start  # from a start the way to the fixed point can be seen


def cluster(
    points: WeightedPoints, cells: NoisyCells | None, k: int, rng: np.random.Generator
) -> tuple[WeightedPoints, FloatArray]:
    """The points that can be trusted, and the best start (k, d) on them.

    The noisy counts of all cells next to a centroid, empty cells included, have a sum of known deviation. A light
    cluster that does not stand out of it is noise: it is taken off, the weakest first, and all others are found anew.
    """
    start = best_start(points, k, rng)
    for _ in range(PRUNINGS if k > 1 else 0):
        if cells is None:
            break
        end = to_fixed_point(points, start)
        kept = np.asarray(end.labels != _weakest(end, cells))
        if kept.all() or distinct(points.points[kept], k + 1) <= k:
            break
        points = WeightedPoints(points.points[kept], points.weights[kept])
        start = best_start(points, k, rng)
    return points, start


def _weakest(end: FixedPoint, cells: NoisyCells) -> int:
    """The index of the cluster that stands out least, or -1 if all do."""
    k = len(end.centroids)
    region, _ = assign(WeightedPoints(cells.centers, np.ones(len(cells.centers))), end.centroids)
    count = np.bincount(region, cells.counts, minlength=k)
    deviation = np.sqrt(np.maximum(np.bincount(region, minlength=k), 1) * cells.variance)
    clear = np.maximum(count / deviation / MIN_CLEAR, count / (end.sizes.sum() / k) / MIN_SIZE)
    weakest = int(np.argmin(clear))
    return weakest if clear[weakest] < 1 else -1


def to_fixed_point(points: WeightedPoints, start: FloatArray) -> FixedPoint:
    """Lloyd's algorithm from `start` until the assignment repeats."""
    centroids, costs = np.array(start), np.empty(MAX_PASSES)
    passes = weighted_lloyd.lloyd(points.points, points.weights, centroids, costs)
    if passes == 0:
        raise RuntimeError(f"Lloyd's algorithm did not come to rest in {MAX_PASSES} passes on a synopsis.")
    labels, sizes = assign(points, centroids)
    first = np.array(start)
    return FixedPoint(first, first, centroids, (), tuple(costs[:passes].tolist()), labels, sizes)


def assign(points: WeightedPoints, centroids: FloatArray) -> tuple[IntArray, FloatArray]:
    """Labels (m,) and the weight of each cell (k,)."""
    labels, sizes, _ = _cells(points, centroids)
    return labels, sizes


def means(points: WeightedPoints, centroids: FloatArray) -> FloatArray:
    """The mean of each cell, shape (k, d); an empty one keeps its centroid."""
    _, sizes, sums = _cells(points, centroids)
    filled = sizes[:, None] > 0
    return np.where(filled, sums / np.where(filled, sizes[:, None], 1.0), centroids)


def _cells(points: WeightedPoints, centroids: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    labels = np.full(len(points.points), -1, np.int64)
    sizes, sums = np.empty(len(centroids)), np.empty(centroids.shape)
    weighted_lloyd.assign(points.points, points.weights, centroids, labels, sizes, sums)
    return labels, sizes, sums


def simplified_silhouette(points: WeightedPoints, end: FixedPoint) -> float:
    """Mean of 1 - (distance to the own centroid)/(distance to the next), by weight. Source: Hruschka et al. (2004)."""
    if len(end.centroids) < 2:
        return 0.0
    distances = np.stack([np.sqrt(((points.points - c) ** 2).sum(axis=1)) for c in end.centroids], axis=1)
    own, other = np.partition(distances, 1, axis=1)[:, :2].T
    score = np.where(other > 0, 1 - own / np.where(other > 0, other, 1.0), 0.0)
    return float(np.average(score, weights=points.weights))


def explore(
    points: WeightedPoints, k: int, bounds: Bounds, rng: np.random.Generator, restarts: int = RESTARTS
) -> Explored:
    """What the synopsis says about `k` clusters; the cost is in squared units, after scaling."""
    return explore_from_start(points, k, bounds, rng, restarts)[0]


def explore_from_start(
    points: WeightedPoints, k: int, bounds: Bounds, rng: np.random.Generator, restarts: int = RESTARTS
) -> tuple[Explored, FloatArray]:
    """What the synopsis says about `k` clusters, and the start (k, d) from which Lloyd's algorithm leads there."""
    filled = pad(points, k, bounds.unit_box, rng, None)
    end = to_fixed_point(filled, best_start(filled, k, rng, restarts))
    sizes, cost = tuple(sorted(end.sizes.tolist(), reverse=True)), end.costs[-1] * bounds.longest_side**2
    return Explored(k, cost, simplified_silhouette(filled, end), sizes), end.start
