"""Questions to blocks of records, and how partial answers add up: whole numbers (or maxima), exact for any split."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Protocol, TypeAlias, TypeVar

import numpy as np

from dpkmeans._typing import AnyArray, Float32Array, FloatArray, IntArray
from dpkmeans.core.bounds import GRID
from dpkmeans.core.engine import CellStatistics
from dpkmeans.core.query import Query
from dpkmeans.engines.corner_check import add_checked, check_added
from dpkmeans.kernels.assign import cost_of, interleave_centroids, new_labels, reassign, take
from dpkmeans.kernels.jit import compiled
from dpkmeans.kernels.simd_f32 import LANES
from dpkmeans.kernels.siphash import hash_points

A = TypeVar("A")

Sample: TypeAlias = list[tuple[IntArray, Float32Array]]
Pieces: TypeAlias = dict[int, list[Float32Array]]


@dataclass(frozen=True, repr=False)
class Block:
    """`n` records as tiles, see `kernels`. `part` and `first` say where they stand: row `first` of that part."""

    tiles: Float32Array
    n: int
    part: int = 0
    first: int = 0

    def rows(self, positions: IntArray) -> Float32Array:
        """The records at these positions of the block, shape (rows, d)."""
        out = np.empty((len(positions), self.tiles.shape[1]))
        take(self.tiles, positions, out)
        return out.astype(np.float32)

    def labels(self, centroids: FloatArray) -> AnyArray:
        """Nearest centroid of each record, shape (n,)."""
        return _assign(self, np.ascontiguousarray(centroids, dtype=np.float64)).labels.reshape(-1)[: self.n]


def block_of_points(points: AnyArray) -> Block:
    """Grid points in unit coordinates, shape (n, d), as a block."""
    n, d = points.shape
    tiles = np.zeros((-(-n // LANES), d, LANES), np.float32)
    for j in range(d):
        whole = n // LANES * LANES
        tiles[: n // LANES, j, :] = points[:whole, j].reshape(-1, LANES)
        tiles[n // LANES :, j, : n - whole] = points[whole:, j]
    return Block(tiles, n)


class Adds(Protocol[A]):
    """Partial answers that add up, in any order."""

    def zero(self) -> A:
        """The answer over no records."""

    def add(self, a: A, b: A) -> A:
        """Two partial answers as one; the first may be changed in place."""


class Task(Adds[A], Protocol[A]):
    """A question to all blocks. A small value that can be sent to other processes; so can its partial answers."""

    def take(self, total: A, block: Block) -> A:
        """`total` with the block added; it may be changed in place. The block is not kept; its buffer is reused."""


def over_blocks(task: Task[A], blocks: Iterable[Block]) -> A:
    """The answer over these blocks."""
    total = task.zero()
    for block in blocks:
        total = task.take(total, block)
    return total


@dataclass(frozen=True)
class Sizes:
    """The number of records of each part: {part: n}."""

    def zero(self) -> dict[int, int]:
        return {}

    def take(self, total: dict[int, int], block: Block) -> dict[int, int]:
        total[block.part] = total.get(block.part, 0) + block.n
        return total

    def add(self, a: dict[int, int], b: dict[int, int]) -> dict[int, int]:
        for part, n in b.items():
            a[part] = a.get(part, 0) + n
        return a


@dataclass
class Partial:
    """Counts and sums in grid steps (k, 1 + d), how many records changed, and Σ|x|² in steps of 2^-40. All exact."""

    table: IntArray
    n_changed: int = 0
    squares: int = 0


@cache
def check_statistics() -> None:
    """Once per process: the compiled assignment adds for a record at the corner what `cell_sensitivity` declares."""
    found = _assign(block_of_points(np.ones((1, 2))), np.zeros((1, 2)))
    check_added("Statistics", [*found.counts, *found.sums.ravel()], [1, 1, 1])


@dataclass(frozen=True)
class Statistics:
    """Counts and sums over the cells of `centroids`, and how many records are in another cell of `compare_with`."""

    centroids: FloatArray
    compare_with: FloatArray | None = None
    with_squares: bool = False

    def zero(self) -> Partial:
        k, d = self.centroids.shape
        return Partial(np.zeros((k, 1 + d), np.int64))

    def take(self, total: Partial, block: Block) -> Partial:
        """Assign the records of the block, under both sets of centroids in the same pass."""
        check_statistics()
        other = self.compare_with
        before = None if other is None or len(other) != len(self.centroids) else _assign(block, other)
        now = _assign(block, self.centroids, before)
        total.table[:, 0] += now.counts.astype(np.int64)
        total.table[:, 1:] += (now.sums * GRID).astype(np.int64)
        total.n_changed += now.moved
        if self.with_squares:
            total.squares += sum_of_squares(block.tiles)
        return total

    def add(self, a: Partial, b: Partial) -> Partial:
        a.table += b.table
        a.n_changed += b.n_changed
        a.squares += b.squares
        return a


@dataclass
class _Assigned:
    """Labels (tiles, LANES), counts (k,) and sums (k, d) of one block, and how many records moved."""

    labels: AnyArray
    counts: FloatArray
    sums: FloatArray
    moved: int = 0


def _assign(block: Block, centroids: FloatArray, before: _Assigned | None = None) -> _Assigned:
    """Assign the records of a block; from the statistics `before`, which are used up, only what changed is moved."""
    labels = new_labels(len(block.tiles), len(centroids))
    now = before or _Assigned(labels[:0], np.zeros(len(centroids)), np.zeros(centroids.shape))
    groups, half_norms = interleave_centroids(centroids)
    moved = reassign(block.tiles, block.n, groups, half_norms, now.labels, labels, now.counts, now.sums)
    return _Assigned(labels, now.counts, now.sums, int(moved))


def statistics_of(partial: Partial, centroids: FloatArray, squares: int) -> CellStatistics:
    """What a method sees. The cost Σ|x - c|² follows from the exact sums, in one order of operations."""
    counts = partial.table[:, 0].astype(np.float64)
    sums = np.ascontiguousarray(partial.table[:, 1:]) / GRID
    return CellStatistics(counts, sums, cost_of(counts, sums, centroids, squares), float(partial.n_changed))


@dataclass(frozen=True)
class Ask:
    """A query's table."""

    query: Query

    def zero(self) -> IntArray:
        return np.zeros(self.query.shape, np.int64)

    def take(self, total: IntArray, block: Block) -> IntArray:
        add_checked(self.query, block.tiles, block.n, total)
        return total

    def add(self, a: IntArray, b: IntArray) -> IntArray:
        a += b
        return a


@dataclass(frozen=True)
class MaxAbsDeviation:
    """Largest distance from the `middle` (d,) of the box, per cell and feature."""

    centroids: FloatArray
    middle: FloatArray

    def zero(self) -> FloatArray:
        return np.zeros(self.centroids.shape)

    def take(self, total: FloatArray, block: Block) -> FloatArray:
        _reach(block.tiles, block.labels(self.centroids), self.middle, total)
        return total

    def add(self, a: FloatArray, b: FloatArray) -> FloatArray:
        return np.maximum(a, b, out=a)


@compiled
def _reach(tiles: Float32Array, labels: AnyArray, middle: FloatArray, total: FloatArray) -> None:
    """Raise total[label] (d,) to the distance of each point from the middle, feature by feature."""
    for j in range(tiles.shape[1]):
        for i in range(len(labels)):
            away = abs(tiles[i // LANES, j, i % LANES] - middle[j])
            if away > total[labels[i], j]:
                total[labels[i], j] = away


@dataclass(frozen=True)
class Rows:
    """The records at `positions` (row numbers) of each part, as (place in the sample, record) pairs."""

    positions: dict[int, tuple[IntArray, IntArray]]

    def zero(self) -> Sample:
        return []

    def take(self, total: Sample, block: Block) -> Sample:
        if block.part in self.positions:
            rows, places = self.positions[block.part]
            here = (rows >= block.first) & (rows < block.first + block.n)
            if here.any():
                total.append((places[here], block.rows(rows[here] - block.first)))
        return total

    def add(self, a: Sample, b: Sample) -> Sample:
        return a + b


@dataclass(frozen=True, repr=False)
class RandomPartition:
    """The records of the blocks `first` to `stop`, of `n_blocks`: {number of the block: pieces of it}.

    Which block a record belongs to depends on the record and the key alone: no matter where, how often or in which
    order the work is done, it goes to the same one.
    """

    key: bytes
    n_blocks: int
    first: int
    stop: int

    def zero(self) -> Pieces:
        return {}

    def take(self, total: Pieces, block: Block) -> Pieces:
        """Add each of the records to its block."""
        number = (hash_points(block.tiles, block.n, self.key) % np.uint64(self.n_blocks)).astype(np.int64)
        wanted = np.flatnonzero((number >= self.first) & (number < self.stop))
        order = wanted[np.argsort(number[wanted], kind="stable")]
        found, starts = np.unique(number[order], return_index=True)
        parts = np.split(order, starts[1:])  # of nothing, one empty part
        for i, rows in zip(found.tolist(), parts, strict=False):
            total.setdefault(i, []).append(block.rows(rows))
        return total

    def add(self, a: Pieces, b: Pieces) -> Pieces:
        for i, pieces in b.items():
            a.setdefault(i, []).extend(pieces)
        return a


def sorted_block(pieces: Iterable[Float32Array], n_features: int) -> Block:
    """One block from its pieces, in whatever order they come: its records sorted by their coordinates."""
    points = np.concatenate([np.empty((0, n_features), np.float32), *pieces])
    return block_of_points(points[np.lexsort(points.T[::-1])])


def positions_by_part(positions: IntArray, sizes: dict[int, int]) -> dict[int, tuple[IntArray, IntArray]]:
    """Row numbers of the whole as row numbers of each part, with their places in the sample."""
    parts = sorted(sizes)
    ends = np.cumsum([sizes[part] for part in parts])
    index = np.searchsorted(ends, positions, side="right")
    local = positions - (ends - [sizes[part] for part in parts])[index]
    return {parts[i]: (local[index == i], np.flatnonzero(index == i)) for i in np.unique(index).tolist()}


def sum_of_squares(tiles: Float32Array) -> int:
    """Σ|x|² of grid points in steps of 2^-40: a whole number, so it does not matter how the points are split."""
    high, low = _sum_of_squares(tiles)
    return (int(high) << 32) + int(low)


@compiled
def _sum_of_squares(tiles: Float32Array) -> tuple[int, int]:
    high, low = 0, 0
    for t in range(len(tiles)):
        for j in range(tiles.shape[1]):
            square = 0.0  # at most LANES * 2^40: exact
            for w in range(LANES):
                steps = np.float64(tiles[t, j, w]) * 1048576.0
                square += steps * steps
            whole = int(square)
            high += whole >> 32
            low += whole & 0xFFFFFFFF
    return high, low
