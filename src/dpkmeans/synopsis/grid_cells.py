"""Counts over the cells of a grid whose parts are cut again. Proof: proofs/grid.md."""

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
class GridCells:
    """A grid of `outer` (d,) parts per feature over `box` (d,), each part cut again into `cuts` (m, d), all in C order.

    A record is in one small cell and adds 1 to it.
    """

    sensitivity: ClassVar[Sensitivity] = Sensitivity.of_row((1,))  # one cell, by 1
    box: FloatArray
    outer: IntArray
    cuts: IntArray

    @property
    def starts(self) -> IntArray:
        """Index of the first small cell of each box, and the number of all at the end, shape (m + 1,)."""
        sizes = np.prod(self.cuts, axis=1)
        return np.asarray(np.concatenate([[0], np.cumsum(sizes)]))

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.starts[-1]), 1

    def add(self, tiles: Float32Array, n: int, table: IntArray) -> None:
        _add_grid(tiles, n, self.box, self.outer, self.cuts, self.starts, table)

    @property
    def sides(self) -> FloatArray:
        """The sides of every small cell, shape (cells, d)."""
        return np.repeat(self.box / self.outer / self.cuts, np.diff(self.starts), axis=0)

    def find(self, points: FloatArray) -> IntArray:
        """The small cell that each of the points (m, d) lies in, shape (m,)."""
        position = points / np.where(self.box > 0, self.box, 1.0) * self.outer
        part = np.minimum(position.astype(np.int64), self.outer - 1)
        outer = np.zeros(len(points), np.int64)
        for j, parts in enumerate(self.outer):
            outer = outer * parts + part[:, j]
        cuts = self.cuts[outer]
        inside = np.minimum(((position - part) * cuts).astype(np.int64), cuts - 1)
        small = np.zeros(len(points), np.int64)
        for j in range(len(self.box)):
            small = small * cuts[:, j] + inside[:, j]
        return np.asarray(self.starts[outer] + small)

    def centers(self) -> FloatArray:
        """The middle of every small cell, shape (cells, d)."""
        part = np.repeat(np.arange(len(self.cuts)), np.diff(self.starts))
        rest, cuts = np.arange(len(part)) - self.starts[part], self.cuts[part]
        inside = np.empty(cuts.shape)
        for j in reversed(range(len(self.box))):
            rest, inside[:, j] = np.divmod(rest, cuts[:, j])
        return np.asarray((positions(self.outer)[part] + (inside + 0.5) / cuts) * (self.box / self.outer))


def positions(parts: IntArray) -> IntArray:
    """Every place in a grid of `parts` (d,) per feature, in C order, shape (cells, d). Most features may be whole."""
    cut = np.flatnonzero(parts > 1)
    places = np.zeros((int(np.prod(parts)), len(parts)), np.int64)
    if len(cut):
        places[:, cut] = np.stack(np.unravel_index(np.arange(len(places)), tuple(parts[cut].tolist())), axis=1)
    return places


def _add_grid_plain(
    tiles: Float32Array, n: int, box: FloatArray, outer: IntArray, cuts: IntArray, starts: IntArray, table: IntArray
) -> None:
    columns = points_of(tiles, n).T
    inside, cell = np.empty(columns.shape), np.zeros(n, np.int64)
    for j, x in enumerate(columns):
        position = x / box[j] * outer[j] if box[j] > 0.0 else np.zeros(n)
        part = np.minimum(position.astype(np.int64), outer[j] - 1)
        inside[j] = position - part
        cell = cell * outer[j] + part
    small = np.zeros(n, np.int64)
    for j, x in enumerate(inside):
        of_cell = cuts[cell, j]
        small = small * of_cell + np.minimum((x * of_cell).astype(np.int64), of_cell - 1)
    np.add.at(table[:, 0], starts[cell] + small, 1)


@compiled_or(_add_grid_plain, lambda tiles, *_: 24 * tiles.size)
def _add_grid(
    tiles: Float32Array, n: int, box: FloatArray, outer: IntArray, cuts: IntArray, starts: IntArray, table: IntArray
) -> None:
    d = tiles.shape[1]
    inside = np.empty(d)
    for t in range(len(tiles)):
        for w in range(min(LANES, n - t * LANES)):
            cell = 0
            for j in range(d):
                position = tiles[t, j, w] / box[j] * outer[j] if box[j] > 0.0 else 0.0
                part = min(np.int64(position), outer[j] - 1)
                inside[j] = position - part
                cell = cell * outer[j] + part
            small = 0
            for j in range(d):
                small = small * cuts[cell, j] + min(np.int64(inside[j] * cuts[cell, j]), cuts[cell, j] - 1)
            table[starts[cell] + small, 0] += 1
