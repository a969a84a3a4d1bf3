"""Counts and offsets over the cells of a tree that halves the box. Proof: proofs/tree.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpkmeans._typing import Float32Array, FloatArray, IntArray, LabelArray
from dpkmeans.core.exact import Exact, reveal
from dpkmeans.core.query import Sensitivity
from dpkmeans.kernels.jit import compiled, compiled_or
from dpkmeans.kernels.simd_f32 import LANES
from dpkmeans.kernels.tile_reference import points_of
from dpkmeans.synopsis.residual_queries import UNIT


@dataclass(frozen=True)
class Halvings:
    """Cells of `depth` halvings of the box (d,), always of a longest side, ties to the first: 2^depth cells.

    The side that is halved depends on the depth alone, so a cell is a row of bits, and a node of the tree is a prefix.
    """

    sensitivity: ClassVar[Sensitivity] = Sensitivity.of_row((1,))  # one cell, by 1
    box: FloatArray
    depth: int

    @property
    def features(self) -> IntArray:
        """Which feature each halving cuts, shape (depth,)."""
        sides, features = self.box.copy(), []
        for _ in range(self.depth):
            longest = int(np.argmax(sides))
            features.append(longest)
            sides[longest] /= 2
        return np.array(features, dtype=np.int64)

    @property
    def shape(self) -> tuple[int, int]:
        return 2**self.depth, 1

    def add(self, tiles: Float32Array, n: int, table: IntArray) -> None:
        _add_halvings(tiles, n, self.box, self.features, table)

    def boxes(self, depths: IntArray, prefixes: IntArray) -> tuple[FloatArray, FloatArray]:
        """Centers and half sides, each (m, d), of the nodes with these prefixes of `depths` bits."""
        lower, side = np.zeros((len(depths), len(self.box))), np.tile(self.box, (len(depths), 1))
        for level, feature in enumerate(self.features):
            deep = depths > level
            side[deep, feature] /= 2
            upper = deep & ((prefixes >> np.maximum(depths - 1 - level, 0)) & 1 == 1)
            lower[upper, feature] += side[upper, feature]
        return lower + side / 2, side / 2


@compiled
def _keys(
    tiles: Float32Array,
    t: int,
    box: FloatArray,
    features: IntArray,
    lower: FloatArray,
    side: FloatArray,
    keys: IntArray,
) -> None:
    """The smallest cell of each point of a tile, `keys` (LANES,). `lower` (d, LANES) and `side` (d,) are scratch.

    All points of a tile at once, without a branch: which half a point lies in cannot be foreseen.
    """
    lower[:] = 0.0
    side[:] = box
    keys[:] = 0
    for feature in features:
        side[feature] *= 0.5
        half = side[feature]
        for w in range(LANES):
            middle = lower[feature, w] + half
            above = tiles[t, feature, w] >= middle
            lower[feature, w] = middle if above else lower[feature, w]
            keys[w] = 2 * keys[w] + np.int64(above and half > 0.0)


def _keys_plain(points: FloatArray, box: FloatArray, features: IntArray) -> IntArray:
    """The smallest cell of each of the points (n, d), shape (n,)."""
    lower, side, keys = np.zeros(points.shape), box.copy(), np.zeros(len(points), np.int64)
    for feature in features:
        side[feature] *= 0.5
        middle = lower[:, feature] + side[feature]
        above = points[:, feature] >= middle
        lower[:, feature] = np.where(above, middle, lower[:, feature])
        keys = 2 * keys + (above & (side[feature] > 0.0))
    return keys


def _add_halvings_plain(tiles: Float32Array, n: int, box: FloatArray, features: IntArray, table: IntArray) -> None:
    np.add.at(table[:, 0], _keys_plain(points_of(tiles, n), box, features), 1)


@compiled_or(_add_halvings_plain, lambda tiles, n, box, features, table: 8 * n * (1 + len(features)))
def _add_halvings(tiles: Float32Array, n: int, box: FloatArray, features: IntArray, table: IntArray) -> None:
    lower, side, keys = np.empty((len(box), LANES)), np.empty(len(box)), np.empty(LANES, np.int64)
    for t in range(len(tiles)):
        _keys(tiles, t, box, features, lower, side, keys)
        for w in range(min(LANES, n - t * LANES)):
            table[keys[w], 0] += 1


@dataclass(frozen=True)
class Leaves:
    """Per leaf of a tree over `cells`: the count, and the offsets from its center divided by its half sides.

    `leaf_of` (2^depth,) names the leaf of each smallest cell; `center` and `half` have shape (leaves, d).
    """

    cells: Halvings
    leaf_of: LabelArray
    center: FloatArray
    half: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.center), 1 + self.center.shape[1]

    @property
    def sensitivity(self) -> Sensitivity:
        """One leaf: its count by UNIT, each sum of clipped offsets by at most UNIT."""
        return Sensitivity.of_row((UNIT,) * self.shape[1])

    def add(self, tiles: Float32Array, n: int, table: IntArray) -> None:
        _add_leaves(tiles, n, self.cells.box, self.cells.features, self.leaf_of, self.center, self.half, table)


def _add_leaves_plain(
    tiles: Float32Array,
    n: int,
    box: FloatArray,
    features: IntArray,
    leaf_of: LabelArray,
    center: FloatArray,
    half: FloatArray,
    table: IntArray,
) -> None:
    points = points_of(tiles, n)
    leaves = leaf_of[_keys_plain(points, box, features)]
    offsets = (points - center[leaves]) / np.where(half > 0.0, half, np.inf)[leaves]
    np.add.at(table[:, 0], leaves, UNIT)
    np.add.at(table[:, 1:], leaves, np.rint(np.minimum(np.maximum(offsets, -1.0), 1.0) * UNIT).astype(np.int64))


@compiled_or(_add_leaves_plain, lambda tiles, n, box, features, *_: 8 * n * (1 + len(features)) + 16 * tiles.size)
def _add_leaves(
    tiles: Float32Array,
    n: int,
    box: FloatArray,
    features: IntArray,
    leaf_of: LabelArray,
    center: FloatArray,
    half: FloatArray,
    table: IntArray,
) -> None:
    d = len(box)
    lower, side, keys = np.empty((d, LANES)), np.empty(d), np.empty(LANES, np.int64)
    divisor = np.where(half > 0.0, half, np.inf)  # a feature without a width has no offset
    leaves, steps = np.zeros(LANES, np.int64), np.empty(LANES)
    for t in range(len(tiles)):
        n_real = min(LANES, n - t * LANES)
        _keys(tiles, t, box, features, lower, side, keys)
        for w in range(LANES):
            leaves[w] = leaf_of[keys[w]]
        for w in range(n_real):
            table[leaves[w], 0] += UNIT
        for j in range(d):
            for w in range(LANES):
                offset = (tiles[t, j, w] - center[leaves[w], j]) / divisor[leaves[w], j]
                steps[w] = np.rint(min(max(offset, -1.0), 1.0) * UNIT)
            for w in range(n_real):
                table[leaves[w], 1 + j] += np.int64(steps[w])


def leaf_counts(table: Exact[IntArray], leaves: Leaves) -> Exact[IntArray]:
    """How many records each leaf holds, (leaves, 1), from the counts of the smallest cells.

    A record is in one cell, and a cell in one leaf: one count changes, by 1.
    """
    counts = np.zeros((len(leaves.center), 1), np.int64)
    np.add.at(counts[:, 0], leaves.leaf_of, reveal(table, why="stays exact")[:, 0])
    return Exact(counts, Sensitivity.of_row((1,)))
