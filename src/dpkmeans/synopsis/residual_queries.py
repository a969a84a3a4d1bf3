"""What a synopsis asks about records: whole numbers over public cells, one row per record. Here: about residuals.

Every offset is scaled to [-1, 1], clipped, and rounded to multiples of 1/UNIT, record by record; a count is UNIT too.
So one record adds at most UNIT to each entry of one row. Proof: proofs/synopsis.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkmeans._typing import Float32Array, FloatArray, IntArray
from dpkmeans.core.query import Sensitivity
from dpkmeans.kernels.assign import interleave_centroids
from dpkmeans.kernels.jit import compiled, compiled_or
from dpkmeans.kernels.simd_f32 import LANES, nearest_in_tile
from dpkmeans.kernels.tile_reference import nearest, points_of

UNIT = 2**20


@dataclass(frozen=True)
class Residuals:
    """Per nearest centroid (k, d): the count, and the residuals divided by `radius` (k, d)."""

    centroids: FloatArray
    radius: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        """k cells; a count and d sums."""
        return len(self.centroids), 1 + self.centroids.shape[1]

    @property
    def sensitivity(self) -> Sensitivity:
        """One cell: its count by UNIT, each sum of clipped residuals by at most UNIT."""
        return Sensitivity.of_row((UNIT,) * self.shape[1])

    def add(self, tiles: Float32Array, n: int, table: IntArray) -> None:
        groups, half_norms = interleave_centroids(np.ascontiguousarray(self.centroids))
        _add_residuals(tiles, n, groups, half_norms, self.centroids, self.radius, table)


def _add_residuals_plain(
    tiles: Float32Array,
    n: int,
    groups: Float32Array,
    half_norms: Float32Array,
    centroids: FloatArray,
    radius: FloatArray,
    table: IntArray,
) -> None:
    points = points_of(tiles, n)
    labels = nearest(points, centroids)
    offsets = (points - centroids[labels]) / radius[labels]
    np.add.at(table[:, 0], labels, UNIT)
    np.add.at(table[:, 1:], labels, np.rint(np.minimum(np.maximum(offsets, -1.0), 1.0) * UNIT).astype(np.int64))


@compiled_or(_add_residuals_plain, lambda tiles, n, groups, *_: (24 + 16 * groups.size // tiles.shape[1]) * tiles.size)
def _add_residuals(
    tiles: Float32Array,
    n: int,
    groups: Float32Array,
    half_norms: Float32Array,
    centroids: FloatArray,
    radius: FloatArray,
    table: IntArray,
) -> None:
    labels = np.zeros((1, LANES), np.int32)
    for t in range(len(tiles)):
        nearest_in_tile(tiles, t, groups, half_norms, labels, labels, 0)
        for w in range(min(LANES, n - t * LANES)):
            c = labels[0, w]
            table[c, 0] += UNIT
            for j in range(centroids.shape[1]):
                offset = (tiles[t, j, w] - centroids[c, j]) / radius[c, j]
                table[c, 1 + j] += np.int64(np.rint(min(max(offset, -1.0), 1.0) * UNIT))


@dataclass(frozen=True)
class ResidualSizes:
    """How large the residuals to the nearest centroid are, in half sides: one histogram over all features.

    A record adds one count per feature. `edges` are the lower ends of the bins.
    """

    centroids: FloatArray
    half: FloatArray
    edges: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        return 1, len(self.edges)

    @property
    def sensitivity(self) -> Sensitivity:
        """d counts of 1, in any bins: all of them may fall into one."""
        d = len(self.half)
        return Sensitivity(d, d * d, d, d, (d,) * len(self.edges), one_row=True)

    def add(self, tiles: Float32Array, n: int, table: IntArray) -> None:
        groups, half_norms = interleave_centroids(np.ascontiguousarray(self.centroids))
        _add_sizes(tiles, n, groups, half_norms, self.centroids, self.half, self.edges, table)


@compiled
def _add_sizes(
    tiles: Float32Array,
    n: int,
    groups: Float32Array,
    half_norms: Float32Array,
    centroids: FloatArray,
    half: FloatArray,
    edges: FloatArray,
    table: IntArray,
) -> None:
    labels = np.zeros((1, LANES), np.int32)
    for t in range(len(tiles)):
        nearest_in_tile(tiles, t, groups, half_norms, labels, labels, 0)
        for w in range(min(LANES, n - t * LANES)):
            for j in range(len(half)):
                size = abs(tiles[t, j, w] - centroids[labels[0, w], j]) / half[j] if half[j] > 0.0 else 0.0
                table[0, np.searchsorted(edges, size, side="right") - 1] += 1
