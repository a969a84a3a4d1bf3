"""Many k-means++ starts on weighted points in float64, each to its fixed point, in one call. Post-processing only.

Points lie in tiles, shape (tiles, d, LANES). Distances are computed for a whole tile at once; a pass of Lloyd's
algorithm then looks at the points whose label changed, and the cost is added up once, at the end.
"""

from __future__ import annotations

import numpy as np

from dpkmeans._typing import FloatArray, IntArray
from dpkmeans.kernels.jit import compiled
from dpkmeans.kernels.simd_f32 import LANES
from dpkmeans.kernels.simd_f64 import first_lowest, square_distances


@compiled
def tiled(points: FloatArray) -> FloatArray:
    """Points (m, d) as tiles, padded with zeros."""
    m, d = points.shape
    tiles = np.zeros(((m + LANES - 1) // LANES, d, LANES))
    for i in range(m):
        for j in range(d):
            tiles[i // LANES, j, i % LANES] = points[i, j]
    return tiles


@compiled
def reassign(
    tiles: FloatArray,
    weights: FloatArray,
    centroids: FloatArray,
    labels: IntArray,
    before: IntArray,
    counts: FloatArray,
    sums: FloatArray,
    best: FloatArray,
) -> int:
    """Label the points, ties to the first centroid, and move those with another label than `before` (-1: none).

    `labels`, `before` and `best`, the squared distances, have shape (tiles, LANES). Returns how many points moved.
    """
    moved, d = 0, tiles.shape[1]
    distances = np.empty((len(centroids), LANES))
    for t in range(len(tiles)):
        for c in range(len(centroids)):
            square_distances(tiles[t], centroids, c, distances)
        first_lowest(distances, best, labels, t)
        for w in range(min(LANES, len(weights) - t * LANES)):
            new, old = labels[t, w], before[t, w]
            if new != old:
                moved += 1
                weight = weights[t * LANES + w]
                counts[new] += weight
                for j in range(d):
                    sums[new, j] += weight * tiles[t, j, w]
                if old >= 0:
                    counts[old] -= weight
                    for j in range(d):
                        sums[old, j] -= weight * tiles[t, j, w]
    return moved


@compiled
def end_cost(tiles: FloatArray, weights: FloatArray, centroids: FloatArray, most_passes: int) -> float:
    """The cost where Lloyd's algorithm from `centroids` (k, d) comes to rest; infinity where it does not."""
    shape = (len(tiles), LANES)
    labels, before, best = np.empty(shape, np.int64), np.full(shape, -1, np.int64), np.empty(shape)
    counts, sums = np.zeros(len(centroids)), np.zeros(centroids.shape)
    for _ in range(most_passes):
        if reassign(tiles, weights, centroids, labels, before, counts, sums, best) == 0:
            return np.sum(weights * best.reshape(-1)[: len(weights)])
        labels, before = before, labels
        for c in range(len(centroids)):
            if counts[c] > 0.0:
                centroids[c] = sums[c] / counts[c]
    return np.inf


@compiled
def seed_centroids(tiles: FloatArray, weights: FloatArray, uniforms: FloatArray, centroids: FloatArray) -> None:
    """Greedy k-means++: each next centroid is the best of several points drawn by weight times squared distance.

    `weights` are padded with zeros to whole tiles; `uniforms` (k, tries) in [0, 1) decide. Source: Arthur and
    Vassilvitskii (2007), section 5.
    """
    nearest, trial, kept = np.full(weights.shape, np.inf), np.empty(weights.shape), np.empty(weights.shape)
    distances, place, sums = np.empty((1, LANES)), np.empty((1, tiles.shape[1])), np.empty(LANES)
    ends = np.cumsum(weights)
    heavy = np.flatnonzero(weights.reshape(-1) > 0.0)
    last = heavy[-1] if len(heavy) else 0
    for c in range(len(centroids)):
        cheapest = np.inf
        for u in uniforms[c]:
            chosen = min(np.searchsorted(ends, u * ends[-1], side="right"), last)
            place[0] = tiles[chosen // LANES, :, chosen % LANES]
            sums[:] = 0.0
            for t in range(len(tiles)):
                square_distances(tiles[t], place, 0, distances)
                for w in range(LANES):
                    trial[t, w] = min(nearest[t, w], distances[0, w])
                    sums[w] += weights[t, w] * trial[t, w]
            if sums.sum() < cheapest:
                cheapest = sums.sum()
                kept[:] = trial
                centroids[c] = place[0]
        nearest[:] = kept
        ends = np.cumsum(weights * nearest)


@compiled
def best_start(points: FloatArray, weights: FloatArray, uniforms: FloatArray, start: FloatArray, most: int) -> None:
    """Write into `start` (k, d) the k-means++ start, of (restarts, k, tries) `uniforms`, with the cheapest end.

    Ends that take more than `most` passes do not count.
    """
    tiles = tiled(points)
    padded = np.zeros((len(tiles), LANES))
    padded.reshape(-1)[: len(weights)] = weights
    cheapest = np.inf
    first = np.empty(start.shape)
    for r in range(len(uniforms)):
        seed_centroids(tiles, padded, uniforms[r], first)
        if r == 0:
            start[:] = first
        cost = end_cost(tiles, weights, first.copy(), most)
        if cost < cheapest:
            cheapest = cost
            start[:] = first
