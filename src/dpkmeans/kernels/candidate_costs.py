"""Costs of many sets of centroids in one pass. Sets that share centroids share the work.

The distance of a record to a centroid is computed once, however many sets contain it. A centroid that differs from a
shared one in a single feature is updated from it in a single step: if all centroids lie on the grid, every intermediate
value is a multiple of 2^-40 that float64 represents exactly, so both computations give the same bits.
"""

from __future__ import annotations

import numpy as np

from dpkmeans._typing import Float32Array, FloatArray, IntArray
from dpkmeans.core.bounds import GRID
from dpkmeans.kernels.jit import compiled
from dpkmeans.kernels.simd_f32 import LANES
from dpkmeans.kernels.simd_f64 import PARTS, add_nearest, square_distances

ROOT = 1024.0  # square root of the number of grid steps per unit
MAX_FEATURES = 2**12  # up to here, squared distances between grid points are exact in float64


def distinct_centroids(candidates: FloatArray) -> tuple[FloatArray, IntArray]:
    """The different centroids of m sets (m, k, d), shape (u, d), and which of them each set has, shape (m, k)."""
    m, k, d = candidates.shape
    rows = np.ascontiguousarray(candidates, dtype=np.float64).reshape(m * k, d) + 0.0  # no -0
    _, first, index = np.unique(rows.view(f"V{8 * d}").ravel(), return_index=True, return_inverse=True)
    return rows[first], index.reshape(m, k).astype(np.int64)


def on_grid(points: FloatArray) -> bool:
    """Whether squared distances between these points and grid points are exact in float64."""
    steps = points * GRID
    inside = points.shape[1] <= MAX_FEATURES and points.min() >= 0 and points.max() <= 1
    return bool(inside and np.array_equal(steps, np.rint(steps)))


@compiled
def find_origins(points: FloatArray, uses: IntArray, origin: IntArray, feature: IntArray) -> None:
    """For each point of one set alone, a point of several sets that differs from it in one feature, where there is."""
    shared = np.flatnonzero(uses > 1)
    for p in range(len(points)):
        if uses[p] > 1:
            continue
        for q in shared:
            n_different = 0
            for j in range(points.shape[1]):
                if points[p, j] != points[q, j]:
                    n_different += 1
                    feature[p] = j
                    if n_different > 1:
                        break
            if n_different == 1:
                origin[p] = q
                break


@compiled
def add_costs(
    tiles: Float32Array,
    n: int,
    points: FloatArray,
    sets: IntArray,
    feature: IntArray,
    place: FloatArray,
    total: IntArray,
) -> None:
    """Add the cost of each set over the first `n` points of the tiles, in grid steps; see `Costs`.

    With p for `place` and q for where the point is, (x - p)² - (x - q)² = 2(q - p)(x - (p + q)/2).
    """
    points = points * ROOT  # squares of what is ROOT times as long come in grid steps
    back, middle = np.empty(len(sets)), np.empty(len(sets))
    for i in range(len(sets)):
        here, there = place[i] * ROOT, points[sets[i, -1], feature[i]]
        back[i], middle[i] = 2 * (there - here), (there + here) / 2
    x, distances = np.zeros((tiles.shape[1], LANES)), np.empty((len(points), LANES))
    sums, of_zeros = np.zeros((len(sets), PARTS), np.int64), np.zeros((len(sets), PARTS), np.int64)
    for t in range(-1, len(tiles)):
        if t >= 0:
            for j in range(tiles.shape[1]):
                for w in range(LANES):
                    x[j, w] = tiles[t, j, w] * ROOT
        for p in range(len(points)):
            square_distances(x, points, p, distances)
        goal = sums if t >= 0 else of_zeros
        for i in range(len(sets)):
            add_nearest(distances, sets, i, x, feature[i], back[i], middle[i], goal)
    n_missing = len(tiles) * LANES - n  # lanes of zeros in the last tile
    total += sums.sum(axis=1) - of_zeros.sum(axis=1) // LANES * n_missing
