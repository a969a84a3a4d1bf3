"""Counts and offsets over the cells of a tree that halves the box. Proof: proofs/tree.md."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkmeans.arrays import Float32Array, FloatArray, IntArray, LabelArray
from dpkmeans.engines.kernels import compiled
from dpkmeans.engines.tiles import LANES
from dpkmeans.synopsis.queries import UNIT


@dataclass(frozen=True)
class Halvings:
    """Cells of `depth` halvings of the box (d,), always of a longest side, ties to the first: 2^depth cells.

    The side that is halved depends on the depth alone, so a cell is a row of bits, and a node of the tree is a prefix.
    """

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
        """A count of 1 per cell: sensitivity 1."""
        return 2**self.depth, 1

    def add(self, tiles: Float32Array, n: int, table: IntArray) -> None:
        """Add the points to the table."""
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
def _key(
    tiles: Float32Array, t: int, w: int, box: FloatArray, features: IntArray, lower: FloatArray, side: FloatArray
) -> int:
    lower[:] = 0.0
    side[:] = box
    key = 0
    for feature in features:
        side[feature] *= 0.5
        middle = lower[feature] + side[feature]
        key *= 2
        if tiles[t, feature, w] >= middle and side[feature] > 0.0:
            lower[feature] = middle
            key += 1
    return key


@compiled
def _add_halvings(tiles: Float32Array, n: int, box: FloatArray, features: IntArray, table: IntArray) -> None:
    lower, side = np.empty(len(box)), np.empty(len(box))
    for t in range(len(tiles)):
        for w in range(min(LANES, n - t * LANES)):
            table[_key(tiles, t, w, box, features, lower, side), 0] += 1


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
        """Leaves; a count and d sums."""
        return len(self.center), 1 + self.center.shape[1]

    def add(self, tiles: Float32Array, n: int, table: IntArray) -> None:
        """Add the points to the table."""
        _add_leaves(tiles, n, self.cells.box, self.cells.features, self.leaf_of, self.center, self.half, table)


@compiled
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
    lower, side = np.empty(len(box)), np.empty(len(box))
    for t in range(len(tiles)):
        for w in range(min(LANES, n - t * LANES)):
            leaf = leaf_of[_key(tiles, t, w, box, features, lower, side)]
            table[leaf, 0] += UNIT
            for j in range(len(box)):
                if half[leaf, j] > 0.0:
                    offset = (tiles[t, j, w] - center[leaf, j]) / half[leaf, j]
                    table[leaf, 1 + j] += np.int64(np.rint(min(max(offset, -1.0), 1.0) * UNIT))
