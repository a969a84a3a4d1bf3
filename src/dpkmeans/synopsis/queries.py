"""What a synopsis asks about records: whole numbers over public cells, one row per record.

Every offset is scaled to [-1, 1], clipped, and rounded to multiples of 1/UNIT, record by record; a count is UNIT too.
So one record adds at most UNIT to each entry of one row: sensitivity UNIT in the max norm. Proof: proofs/synopsis.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkmeans.arrays import Float32Array, FloatArray, IntArray, LabelArray
from dpkmeans.engines.kernels import compiled, group
from dpkmeans.engines.tiles import LANES, nearest_in_tile

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

    def add(self, tiles: Float32Array, n: int, table: IntArray) -> None:
        """Add the points to the table."""
        groups, halves = group(np.ascontiguousarray(self.centroids))
        _add_residuals(tiles, n, groups, halves, self.centroids, self.radius, table)


@compiled
def _add_residuals(
    tiles: Float32Array,
    n: int,
    groups: Float32Array,
    halves: Float32Array,
    centroids: FloatArray,
    radius: FloatArray,
    table: IntArray,
) -> None:
    labels = np.zeros((1, LANES), np.int32)
    for t in range(len(tiles)):
        nearest_in_tile(tiles, t, groups, halves, labels, labels, 0)
        for w in range(min(LANES, n - t * LANES)):
            c = labels[0, w]
            table[c, 0] += UNIT
            for j in range(centroids.shape[1]):
                offset = (tiles[t, j, w] - centroids[c, j]) / radius[c, j]
                table[c, 1 + j] += np.int64(np.rint(min(max(offset, -1.0), 1.0) * UNIT))


@dataclass(frozen=True)
class GridCells:
    """A grid of `outer` (d,) parts per feature over `box` (d,), each part cut again into `cuts` (m, d), all in C order.

    A record is in one small cell and adds 1 to it: sensitivity 1.
    """

    box: FloatArray
    outer: IntArray
    cuts: IntArray

    @property
    def starts(self) -> IntArray:
        """Index of the first small cell of each box, and the number of all at the end, shape (m + 1,)."""
        sizes = np.prod(self.cuts, axis=1)
        starts: IntArray = np.concatenate([[0], np.cumsum(sizes)])
        return starts

    @property
    def shape(self) -> tuple[int, int]:
        """All small cells; a count each. Here a count is 1: sensitivity 1."""
        return int(self.starts[-1]), 1

    def add(self, tiles: Float32Array, n: int, table: IntArray) -> None:
        """Add the points to the table."""
        _add_grid(tiles, n, self.box, self.outer, self.cuts, self.starts, table)

    def centers(self) -> FloatArray:
        """The middle of every small cell, shape (cells, d)."""
        wide = self.box / self.outer
        corners = _positions(self.outer)
        middles = [(p + (_positions(c) + 0.5) / c) * wide for p, c in zip(corners, self.cuts, strict=True)]
        return np.concatenate(middles)


def _positions(parts: IntArray) -> IntArray:
    """Every place in a grid of `parts` (d,) per feature, in C order, shape (cells, d). Most features may be whole."""
    cut = np.flatnonzero(parts > 1)
    places = np.zeros((int(np.prod(parts)), len(parts)), np.int64)
    if len(cut):
        places[:, cut] = np.stack(np.unravel_index(np.arange(len(places)), tuple(parts[cut].tolist())), axis=1)
    return places


@compiled
def _add_grid(
    tiles: Float32Array,
    n: int,
    box: FloatArray,
    outer: IntArray,
    cuts: IntArray,
    starts: IntArray,
    table: IntArray,
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


@dataclass(frozen=True)
class Sides:
    """On which side of m hyperplanes a record lies: directions (d, m), `origin` (d,), thresholds (m,). 2^m cells.

    A count is 1: sensitivity 1. Products are added up in a fixed order, so a record's cell depends on it alone.
    """

    directions: FloatArray
    origin: FloatArray
    thresholds: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        """2^m cells; a count each."""
        return 2 ** len(self.thresholds), 1

    def add(self, tiles: Float32Array, n: int, table: IntArray) -> None:
        """Add the points to the table."""
        _add_sides(tiles, n, self.directions, self.origin, self.thresholds, table)


@compiled
def _add_sides(
    tiles: Float32Array,
    n: int,
    directions: FloatArray,
    origin: FloatArray,
    thresholds: FloatArray,
    table: IntArray,
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
    """The mean over m directions of the distance from `origin`, divided by `most` and clipped to 1: one number.

    A record adds at most UNIT.
    """

    directions: FloatArray
    origin: FloatArray
    most: float

    @property
    def shape(self) -> tuple[int, int]:
        """One number."""
        return 1, 1

    def add(self, tiles: Float32Array, n: int, table: IntArray) -> None:
        """Add the points to the table."""
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


@dataclass(frozen=True)
class ResidualSizes:
    """How large the residuals to the nearest centroid are, in half sides: one histogram over all features.

    A record adds one count per feature: sensitivity d in the sum. `edges` are the lower ends of the bins.
    """

    centroids: FloatArray
    half: FloatArray
    edges: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        """One row of bins."""
        return 1, len(self.edges)

    def add(self, tiles: Float32Array, n: int, table: IntArray) -> None:
        """Add the points to the table."""
        groups, halves = group(np.ascontiguousarray(self.centroids))
        _add_sizes(tiles, n, groups, halves, self.centroids, self.half, self.edges, table)


@compiled
def _add_sizes(
    tiles: Float32Array,
    n: int,
    groups: Float32Array,
    halves: Float32Array,
    centroids: FloatArray,
    half: FloatArray,
    edges: FloatArray,
    table: IntArray,
) -> None:
    labels = np.zeros((1, LANES), np.int32)
    for t in range(len(tiles)):
        nearest_in_tile(tiles, t, groups, halves, labels, labels, 0)
        for w in range(min(LANES, n - t * LANES)):
            for j in range(len(half)):
                size = abs(tiles[t, j, w] - centroids[labels[0, w], j]) / half[j] if half[j] > 0.0 else 0.0
                table[0, np.searchsorted(edges, size, side="right") - 1] += 1
