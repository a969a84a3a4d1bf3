"""What is seen along random directions: sides of hyperplanes, and how far records spread. Proof: proofs/signs.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpkmeans._typing import Float32Array, FloatArray, IntArray
from dpkmeans.core.query import Sensitivity
from dpkmeans.kernels.jit import compiled
from dpkmeans.kernels.simd_f32 import LANES
from dpkmeans.synopsis.residual_queries import UNIT


@dataclass(frozen=True)
class Sides:
    """On which side of m hyperplanes a record lies: directions (d, m), `origin` (d,), thresholds (m,). 2^m cells.

    A count is 1. Products are added up in a fixed order, so a record's cell depends on it alone.
    """

    sensitivity: ClassVar[Sensitivity] = Sensitivity.of_row((1,))  # one cell, by 1
    directions: FloatArray
    origin: FloatArray
    thresholds: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        return 2 ** len(self.thresholds), 1

    def add(self, tiles: Float32Array, n: int, table: IntArray) -> None:
        _add_sides(tiles, n, self.directions, self.origin, self.thresholds, table)


@compiled
def _add_sides(
    tiles: Float32Array, n: int, directions: FloatArray, origin: FloatArray, thresholds: FloatArray, table: IntArray
) -> None:
    m = directions.shape[1]
    along = np.empty((m, LANES))
    for t in range(len(tiles)):
        _project(tiles, t, directions, origin, along)
        for w in range(min(LANES, n - t * LANES)):
            cell = 0
            for i in range(m):
                cell = 2 * cell + (1 if along[i, w] > thresholds[i] else 0)
            table[cell, 0] += 1


@compiled
def _project(tiles: Float32Array, t: int, directions: FloatArray, origin: FloatArray, along: FloatArray) -> None:
    along[:] = 0.0
    for j in range(directions.shape[0]):
        for i in range(directions.shape[1]):
            for w in range(LANES):
                along[i, w] += (tiles[t, j, w] - origin[j]) * directions[j, i]


@dataclass(frozen=True)
class Spread:
    """The mean over m directions of the distance from `origin`, divided by `most` and clipped to 1: one number."""

    sensitivity: ClassVar[Sensitivity] = Sensitivity.of_row((UNIT,))  # a record adds from 0 to UNIT
    directions: FloatArray
    origin: FloatArray
    most: float

    @property
    def shape(self) -> tuple[int, int]:
        return 1, 1

    def add(self, tiles: Float32Array, n: int, table: IntArray) -> None:
        _add_spread(tiles, n, self.directions, self.origin, self.most, table)


@compiled
def _add_spread(
    tiles: Float32Array, n: int, directions: FloatArray, origin: FloatArray, most: float, table: IntArray
) -> None:
    m = directions.shape[1]
    along = np.empty((m, LANES))
    for t in range(len(tiles)):
        _project(tiles, t, directions, origin, along)
        for w in range(min(LANES, n - t * LANES)):
            total = 0.0
            for i in range(m):
                total += abs(along[i, w])
            table[0, 0] += np.int64(np.rint(min(total / (m * most), 1.0) * UNIT))
