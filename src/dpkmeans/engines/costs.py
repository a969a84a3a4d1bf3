"""Costs of many sets of centroids in one pass. Sets that share centroids share the work.

The distance of a record to a centroid is computed once, however many sets have it. And a centroid that differs from
a shared one in a single feature takes a single step from there: where all centroids lie on the grid, every number on
the way is a whole multiple of 2^-40 that float64 holds, so both ways give the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkmeans.arrays import Float32Array, FloatArray, IntArray
from dpkmeans.bounds import GRID
from dpkmeans.engines.kernels import compiled
from dpkmeans.engines.tasks import Block
from dpkmeans.engines.tiles import LANES
from dpkmeans.engines.vectors import rounded_nearest, shifted_distances, square_distances

MOST_FEATURES = 2**12  # up to here, squared distances between grid points are exact in float64


@dataclass(frozen=True)
class Costs:
    """Cost of each of m centroid sets, in grid steps, each record's squared distance rounded: an exact sum.

    `points` (u, d) are the different centroids, `sets` (m, k) says which of them a set has. Point p differs from
    `origin[p]` in `feature[p]` alone, or origin[p] is -1; such points come last.
    """

    points: FloatArray
    sets: IntArray
    origin: IntArray
    feature: IntArray

    @classmethod
    def of(cls, candidates: FloatArray) -> Costs:
        """From m sets of k centroids, shape (m, k, d)."""
        points, sets = distinct(candidates)
        origin, feature = np.full(len(points), -1), np.zeros(len(points), np.int64)
        if _on_grid(points):
            _find_origins(points, np.bincount(sets.ravel(), minlength=len(points)), origin, feature)
        order = np.argsort(origin >= 0, kind="stable")
        place = np.argsort(order)
        origin = np.where(origin >= 0, place[origin], -1)
        return cls(points[order], place[sets], origin[order], feature[order])

    def zero(self) -> IntArray:
        """Zeros."""
        return np.zeros(len(self.sets), np.int64)

    def take(self, total: IntArray, block: Block) -> IntArray:
        """Add the block's records."""
        add_costs(block.tiles, block.n, self.points, self.sets, self.origin, self.feature, total)
        return total

    def add(self, a: IntArray, b: IntArray) -> IntArray:
        """Entry by entry."""
        a += b
        return a


def distinct(candidates: FloatArray) -> tuple[FloatArray, IntArray]:
    """The different centroids of m sets (m, k, d), shape (u, d), and which of them each set has, shape (m, k)."""
    m, k, d = candidates.shape
    rows = np.ascontiguousarray(candidates, dtype=np.float64).reshape(m * k, d) + 0.0  # no -0
    _, first, index = np.unique(rows.view(f"V{8 * d}").ravel(), return_index=True, return_inverse=True)
    return rows[first], index.reshape(m, k).astype(np.int64)


def _on_grid(points: FloatArray) -> bool:
    steps = points * GRID
    inside = points.shape[1] <= MOST_FEATURES and points.min() >= 0 and points.max() <= 1
    return bool(inside and np.array_equal(steps, np.rint(steps)))


@compiled
def _find_origins(points: FloatArray, uses: IntArray, origin: IntArray, feature: IntArray) -> None:
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
    origin: IntArray,
    feature: IntArray,
    total: IntArray,
) -> None:
    """Add the cost of each set over the first `n` points of the tiles, in grid steps."""
    back, both = np.zeros(len(points)), np.zeros(len(points))
    n_whole = 0
    for p in range(len(points)):
        if origin[p] < 0:
            n_whole += 1
        else:
            here, there = points[p, feature[p]], points[origin[p], feature[p]]
            back[p], both[p] = there - here, there + here
    x, distances = np.empty((tiles.shape[1], LANES)), np.empty((len(points), LANES))
    for t in range(len(tiles)):
        for j in range(tiles.shape[1]):
            for w in range(LANES):
                x[j, w] = tiles[t, j, w]
        for p in range(n_whole):
            square_distances(x, points, p, distances)
        for p in range(n_whole, len(points)):
            shifted_distances(x, feature[p], distances, origin[p], p, back[p], both[p])
        n_here = min(LANES, n - t * LANES)
        if n_here < LANES:  # lanes without a record cost nothing
            distances[:, n_here:] = 0.0
        for i in range(len(sets)):
            total[i] += int(rounded_nearest(distances, sets, i))
