"""Records in blocks, wherever the blocks are: what an engine asks of each, and how the partial answers add up.

A task goes to the blocks, partial answers come back, and only these travel. They are whole numbers (or maxima), so
that any split of the records into blocks gives the same bits. An engine says where the blocks are, in one method.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from dpkmeans.arrays import AnyArray, Float32Array, FloatArray, IntArray
from dpkmeans.bounds import GRID, Bounds
from dpkmeans.engines.base import CellStatistics, Engine, LloydEnd, Query, lloyd_by_passes
from dpkmeans.engines.kernels import compiled, group, reassign, rounded_cost, take
from dpkmeans.engines.tiles import LANES
from dpkmeans.errors import DataError
from dpkmeans.privacy.exact import Exact

A = TypeVar("A")

MOST_RECORDS = 2**33  # beyond it, float64 sums of grid points are no longer exact
TOO_MANY = "at most 2^33 records can be summed exactly; there are more. Split the data."
SQUARE_STEP = 2.0**-40  # squares of grid points are multiples of it
_DEALT_AT_ONCE = 2**24  # numbers held while blocks are dealt from a stream


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


class Task(Protocol[A]):
    """A question to all blocks. A small value that can be sent to other processes; so can its partial answers."""

    def zero(self) -> A:
        """The answer over no blocks."""
        ...

    def take(self, total: A, block: Block) -> A:
        """`total` with the block added; it may be changed in place."""
        ...

    def add(self, a: A, b: A) -> A:
        """Two partial answers as one; the first may be changed in place."""
        ...


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
        """No parts."""
        return {}

    def take(self, total: dict[int, int], block: Block) -> dict[int, int]:
        """Add the block to its part."""
        total[block.part] = total.get(block.part, 0) + block.n
        return total

    def add(self, a: dict[int, int], b: dict[int, int]) -> dict[int, int]:
        """All parts of both."""
        for part, n in b.items():
            a[part] = a.get(part, 0) + n
        return a


@dataclass
class Partial:
    """Counts and sums in grid steps (k, 1 + d), how many records changed, and Σ|x|² in steps of 2^-40. All exact."""

    table: IntArray
    n_changed: int = 0
    squares: int = 0


@dataclass(frozen=True)
class Statistics:
    """Counts and sums over the cells of `centroids`, and how many records are in another cell of `compare_with`."""

    centroids: FloatArray
    compare_with: FloatArray | None = None
    with_squares: bool = False

    def zero(self) -> Partial:
        """Zeros."""
        k, d = self.centroids.shape
        return Partial(np.zeros((k, 1 + d), np.int64))

    def take(self, total: Partial, block: Block) -> Partial:
        """Assign the records of the block, under both sets of centroids in the same pass."""
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
        """Entry by entry."""
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
    groups, halves = group(centroids)
    moved = reassign(block.tiles, block.n, groups, halves, now.labels, labels, now.counts, now.sums)
    return _Assigned(labels, now.counts, now.sums, int(moved))


def new_labels(n_tiles: int, k: int) -> AnyArray:
    """Room for labels below `k`, shape (tiles, LANES), in the smallest type that holds them."""
    return np.zeros((n_tiles, LANES), np.uint8 if k <= 2**8 else np.uint16 if k <= 2**16 else np.uint32)


def statistics_of(partial: Partial, centroids: FloatArray, squares: int) -> CellStatistics:
    """What a method sees. The cost Σ|x - c|² follows from the exact sums, in one order of operations."""
    counts = partial.table[:, 0].astype(np.float64)
    sums = np.ascontiguousarray(partial.table[:, 1:]) / GRID
    return CellStatistics(counts, sums, cost_of(counts, sums, centroids, squares), float(partial.n_changed))


def cost_of(counts: FloatArray, sums: FloatArray, centroids: FloatArray, squares: int) -> float:
    """Σ|x - c|² = Σ|x|² + Σ_c (n_c |c|² - 2 c·s_c), with `squares` in steps of 2^-40."""
    rest = np.sum(counts * np.einsum("ij,ij->i", centroids, centroids)) - 2 * np.sum(sums * centroids)
    return max(squares * SQUARE_STEP + float(rest), 0.0)


@dataclass(frozen=True)
class Ask:
    """A query's table."""

    query: Query

    def zero(self) -> IntArray:
        """Zeros."""
        return np.zeros(self.query.shape, np.int64)

    def take(self, total: IntArray, block: Block) -> IntArray:
        """Add the block's records."""
        self.query.add(block.tiles, block.n, total)
        return total

    def add(self, a: IntArray, b: IntArray) -> IntArray:
        """Entry by entry."""
        a += b
        return a


@dataclass(frozen=True)
class Costs:
    """Cost of each of m centroid sets (m, k, d), in grid steps, each distance rounded."""

    candidates: FloatArray

    def zero(self) -> IntArray:
        """Zeros."""
        return np.zeros(len(self.candidates), np.int64)

    def take(self, total: IntArray, block: Block) -> IntArray:
        """Add the block's records."""
        for i, centroids in enumerate(self.candidates):
            total[i] += int(rounded_cost(block.tiles, block.n, centroids) * GRID)
        return total

    def add(self, a: IntArray, b: IntArray) -> IntArray:
        """Entry by entry."""
        a += b
        return a


@dataclass(frozen=True)
class Reach:
    """Largest distance from the `middle` (d,) of the box, per cell and feature."""

    centroids: FloatArray
    middle: FloatArray

    def zero(self) -> FloatArray:
        """Zeros."""
        return np.zeros(self.centroids.shape)

    def take(self, total: FloatArray, block: Block) -> FloatArray:
        """Look at the block's records."""
        rows = block.rows(np.arange(block.n)).astype(np.float64)
        np.maximum.at(total, block.labels(self.centroids), np.abs(rows - self.middle))
        return total

    def add(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """The larger of both."""
        return np.maximum(a, b, out=a)


@dataclass(frozen=True)
class Rows:
    """The records at `positions` (row numbers) of each part, as (place in the sample, record) pairs."""

    positions: dict[int, tuple[IntArray, IntArray]]

    def zero(self) -> list[tuple[IntArray, Float32Array]]:
        """No records."""
        return []

    def take(self, total: list[tuple[IntArray, Float32Array]], block: Block) -> list[tuple[IntArray, Float32Array]]:
        """Those that lie in the block."""
        if block.part in self.positions:
            rows, places = self.positions[block.part]
            here = (rows >= block.first) & (rows < block.first + block.n)
            if here.any():
                total.append((places[here], block.rows(rows[here] - block.first)))
        return total

    def add(
        self, a: list[tuple[IntArray, Float32Array]], b: list[tuple[IntArray, Float32Array]]
    ) -> list[tuple[IntArray, Float32Array]]:
        """All of both."""
        return a + b


@dataclass(frozen=True)
class Deal:
    """The records of the dealt blocks `first` to `stop`, of `n_blocks`: {number: list of (order, records)}.

    Each record is dealt independently and uniformly, by a generator of its block of records: no matter where, how often
    or in which order the work is done, it goes to the same place.
    """

    seed: int
    n_blocks: int
    first: int
    stop: int

    def zero(self) -> dict[int, list[tuple[tuple[int, int], Float32Array]]]:
        """No records."""
        return {}

    def take(
        self, total: dict[int, list[tuple[tuple[int, int], Float32Array]]], block: Block
    ) -> dict[int, list[tuple[tuple[int, int], Float32Array]]]:
        """Deal the block's records."""
        rng = np.random.default_rng([self.seed, block.part, block.first])
        number = rng.integers(self.n_blocks, size=block.n)
        wanted = np.flatnonzero((number >= self.first) & (number < self.stop))
        order = wanted[np.argsort(number[wanted], kind="stable")]
        found, starts = np.unique(number[order], return_index=True)
        for i, rows in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
            total.setdefault(i, []).append(((block.part, block.first), block.rows(rows)))
        return total

    def add(
        self,
        a: dict[int, list[tuple[tuple[int, int], Float32Array]]],
        b: dict[int, list[tuple[tuple[int, int], Float32Array]]],
    ) -> dict[int, list[tuple[tuple[int, int], Float32Array]]]:
        """All of both."""
        for i, pieces in b.items():
            a.setdefault(i, []).extend(pieces)
        return a


def dealt_block(pieces: Iterable[tuple[tuple[int, int], Float32Array]], n_features: int) -> Block:
    """One dealt block, its records in the order of the whole."""
    ordered = [rows for _, rows in sorted(pieces, key=lambda piece: piece[0])]
    return block_of_points(np.concatenate([np.empty((0, n_features), np.float32), *ordered]))


@dataclass(frozen=True)
class PassReport:
    """One pass over the records, for the eyes of whoever runs it: the number of records is private."""

    number: int
    rows: int
    seconds: float


Watch = Callable[[PassReport], None]


class BlockEngine(ABC):
    """Everything an `Engine` answers, from blocks of records that lie somewhere. Stateless: each answer is one pass."""

    released = False

    def __init__(self, bounds: Bounds, watch: Watch | None = None) -> None:
        self.bounds = bounds
        self._watch = watch
        self._passes = 0
        self._part_sizes: dict[int, int] | None = None
        self._square_steps: int | None = None

    @abstractmethod
    def _run(self, task: Task[A]) -> A:
        """The answer over all blocks, in whatever order and place."""

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.bounds.n_features

    def count(self) -> Exact[float]:
        """Number of records."""
        return Exact(float(self._count()))

    def cell_statistics(self, centroids: FloatArray, compare_with: FloatArray | None = None) -> Exact[CellStatistics]:
        """Counts, sums and cost over the cells of `centroids`; see `Engine`."""
        centroids = np.array(centroids, dtype=np.float64)
        other = None if compare_with is None else np.array(compare_with, dtype=np.float64)
        partial = self._pass(Statistics(centroids, other, with_squares=self._square_steps is None))
        if self._square_steps is None:
            self._square_steps = partial.squares
        return Exact(statistics_of(partial, centroids, self._square_steps))

    def lloyd(self, start: FloatArray, max_iter: int) -> Exact[LloydEnd]:
        """Lloyd's algorithm from `start`, one pass per move."""
        return lloyd_by_passes(self, np.array(start, dtype=np.float64), max_iter)

    def ask(self, query: Query) -> Exact[IntArray]:
        """The query's table, summed over all records."""
        return Exact(self._pass(Ask(query)))

    def costs(self, candidates: FloatArray) -> Exact[FloatArray]:
        """Cost of each of m centroid sets, shape (m, k, d) -> (m,); exact sums of rounded distances."""
        return Exact(self._pass(Costs(np.ascontiguousarray(candidates))) / GRID)

    def cell_reach(self, centroids: FloatArray) -> Exact[FloatArray]:
        """Largest distance from the middle of the box, per cell and feature, shape (k, d)."""
        return Exact(self._pass(Reach(np.array(centroids, dtype=np.float64), self.bounds.unit_box / 2)))

    def blocks(self, n_blocks: int, rng: np.random.Generator) -> Iterator[Engine]:
        """The records dealt into disjoint blocks, as many at once as fit in a bounded memory. One pass for each such lot.

        Which record goes where depends on the order of the rows and on how they are read in pieces.
        """
        from dpkmeans.engines.memory import MemoryEngine

        seed = int(rng.integers(2**63))
        lots = min(n_blocks, -(-self._count() * self.n_features // _DEALT_AT_ONCE)) or 1
        for lot in np.array_split(np.arange(n_blocks), lots):
            dealt = self._pass(Deal(seed, n_blocks, int(lot[0]), int(lot[-1]) + 1))
            for number in lot.tolist():
                yield MemoryEngine.of_block(dealt_block(dealt.pop(number, ()), self.n_features), self.bounds)

    def sample_rows(self, n: int, rng: np.random.Generator) -> Exact[FloatArray]:
        """`n` different records, shape (n, d). The draw is of row numbers, so it depends on the order of the rows."""
        positions = rng.choice(self._count(), size=n, replace=False)
        found = self._pass(Rows(positions_by_part(positions, self._sizes())))
        out = np.empty((n, self.n_features))
        for places, rows in found:
            out[places] = rows
        return Exact(out)

    def close(self) -> None:
        """Let go of what was opened for this engine."""

    def _count(self) -> int:
        return sum(self._sizes().values())

    def _sizes(self) -> dict[int, int]:
        if self._part_sizes is None:
            self._set_sizes(self._run(Sizes()))
        assert self._part_sizes is not None
        return self._part_sizes

    def _set_sizes(self, sizes: dict[int, int]) -> None:
        total = sum(sizes.values())
        if total > MOST_RECORDS:
            raise DataError(TOO_MANY)
        self._part_sizes = sizes

    def _pass(self, task: Task[A]) -> A:
        start = time.perf_counter()
        answer = self._run(task)
        self._passes += 1
        if self._watch is not None:
            self._watch(PassReport(self._passes, self._count(), time.perf_counter() - start))
        return answer


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
            whole = np.int64(square)
            high += whole >> 32
            low += whole & 0xFFFFFFFF
    return high, low


def split_evenly(n_items: int, n_parts: int) -> Sequence[slice]:
    """At most `n_parts` slices of about the same length over `n_items`."""
    edges = np.linspace(0, n_items, min(n_parts, max(n_items, 1)) + 1).astype(int).tolist()
    return [slice(a, b) for a, b in zip(edges, edges[1:], strict=False) if b > a]
