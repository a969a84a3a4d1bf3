"""Where records are: parts of sides, shells of nested boxes, rings of cells around a box. Proof: proofs/zoom.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpkmeans._typing import Float32Array, FloatArray, IntArray
from dpkmeans.core.query import Sensitivity
from dpkmeans.kernels.jit import compiled_or
from dpkmeans.kernels.simd_f32 import LANES
from dpkmeans.kernels.tile_reference import points_of


@dataclass(frozen=True)
class Parts:
    """How many records lie in each of `parts` equal parts of every side of the `box` (d,): d rows, one count in each.

    All records lie in the first part of a side without a width.
    """

    box: FloatArray
    parts: int

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.box), self.parts

    @property
    def sensitivity(self) -> Sensitivity:
        """A count of 1 in every row."""
        d = len(self.box)
        return Sensitivity(d, d, 1, 1, (1,) * self.parts)

    def add(self, tiles: Float32Array, n: int, table: IntArray) -> None:
        _add_parts(tiles, n, self.box, table)


def _add_parts_plain(tiles: Float32Array, n: int, box: FloatArray, table: IntArray) -> None:
    parts = table.shape[1]
    for j, x in enumerate(points_of(tiles, n).T):
        place = x / box[j] * parts if box[j] > 0.0 else np.zeros(n)
        place = np.minimum(np.maximum(place, 0.0), parts - 1.0)
        table[j] += np.bincount(place.astype(np.int64), minlength=parts)


@compiled_or(_add_parts_plain, lambda tiles, *_: 4 * tiles.size)
def _add_parts(tiles: Float32Array, n: int, box: FloatArray, table: IntArray) -> None:
    parts = table.shape[1]
    for t in range(len(tiles)):
        for w in range(min(LANES, n - t * LANES)):
            for j in range(len(box)):
                place = np.float64(tiles[t, j, w]) / box[j] * parts if box[j] > 0.0 else 0.0
                table[j, np.int64(min(max(place, 0.0), parts - 1.0))] += 1


@dataclass(frozen=True)
class Shells:
    """Which of nested boxes around `center` (d,) is the smallest that holds a record; half sides (m, d), falling.

    The first row takes all that no other box holds.
    """

    sensitivity: ClassVar[Sensitivity] = Sensitivity.of_row((1,))  # one shell, by 1
    center: FloatArray
    half: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.half), 1

    def add(self, tiles: Float32Array, n: int, table: IntArray) -> None:
        _add_shells(tiles, n, self.center, self.half, table)


def _add_shells_plain(tiles: Float32Array, n: int, center: FloatArray, half: FloatArray, table: IntArray) -> None:
    level = np.full(n, len(half) - 1)
    for j, x in enumerate(points_of(tiles, n).T):
        away = np.abs(x - center[j])
        while (outside := (level > 0) & (away > half[level, j])).any():
            level -= outside
    np.add.at(table[:, 0], level, 1)


@compiled_or(_add_shells_plain, lambda tiles, n, center, half, table: 4 * len(half) * tiles.size)
def _add_shells(tiles: Float32Array, n: int, center: FloatArray, half: FloatArray, table: IntArray) -> None:
    for t in range(len(tiles)):
        for w in range(min(LANES, n - t * LANES)):
            level = len(half) - 1
            for j in range(len(center)):
                away = abs(tiles[t, j, w] - center[j])
                while level > 0 and away > half[level, j]:
                    level -= 1
            table[level, 0] += 1


@dataclass(frozen=True)
class Rings:
    """Cells around a box with `center` and `half` sides (d,): each ring is twice as wide and has `parts` (d,) a side.

    A record outside the box is in the smallest of `n_rings` boxes that holds it, or else in the largest, and there in
    one of its cells. Cells that lie in the next smaller box stay empty.
    """

    sensitivity: ClassVar[Sensitivity] = Sensitivity.of_row((1,))  # one cell, by 1
    center: FloatArray
    half: FloatArray
    parts: IntArray
    n_rings: int

    @property
    def cells_per_ring(self) -> int:
        """Cells of one ring, those that stay empty included."""
        return int(np.prod(self.parts))

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rings * self.cells_per_ring, 1

    def add(self, tiles: Float32Array, n: int, table: IntArray) -> None:
        _add_rings(tiles, n, self.center, self.half, self.parts, self.n_rings, table)


def _add_rings_plain(
    tiles: Float32Array, n: int, center: FloatArray, half: FloatArray, parts: IntArray, n_rings: int, table: IntArray
) -> None:
    points = points_of(tiles, n)
    ring, wide = np.zeros(n, np.int64), np.full(n, 2.0)
    for j, x in enumerate(points.T):
        away = np.abs(x - center[j])
        while (outside := (ring < n_rings - 1) & (away > wide * half[j])).any():
            ring += outside
            wide[outside] *= 2.0
    cell = ring
    for j, x in enumerate(points.T):
        place = (x - center[j]) / (wide * half[j]) if half[j] > 0.0 else np.zeros(n)
        place = (np.minimum(np.maximum(place, -1.0), 1.0) + 1.0) / 2.0 * parts[j]
        cell = cell * parts[j] + np.minimum(place.astype(np.int64), parts[j] - 1)
    np.add.at(table[:, 0], cell, 1)


@compiled_or(_add_rings_plain, lambda tiles, n, center, half, parts, n_rings, table: 4 * (4 + n_rings) * tiles.size)
def _add_rings(
    tiles: Float32Array, n: int, center: FloatArray, half: FloatArray, parts: IntArray, n_rings: int, table: IntArray
) -> None:
    d = len(center)
    for t in range(len(tiles)):
        for w in range(min(LANES, n - t * LANES)):
            ring, wide = 0, 2.0
            for j in range(d):
                away = abs(tiles[t, j, w] - center[j])
                while ring < n_rings - 1 and away > wide * half[j]:
                    ring += 1
                    wide *= 2.0
            cell = ring
            for j in range(d):
                reach = wide * half[j]
                place = (tiles[t, j, w] - center[j]) / reach if reach > 0.0 else 0.0
                place = (min(max(place, -1.0), 1.0) + 1.0) / 2.0 * parts[j]
                cell = cell * parts[j] + min(np.int64(place), parts[j] - 1)
            table[cell, 0] += 1
