"""Records held in memory as packed tiles, worked on in fixed chunks by a few threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from dpkmeans.arrays import AnyArray, Float32Array, FloatArray, IntArray, LabelArray
from dpkmeans.bounds import Bounds
from dpkmeans.engines.base import CellStatistics, LloydEnd, Query, lloyd_by_passes
from dpkmeans.engines.kernels import group, lloyd, pack, reassign, rounded_cost, take
from dpkmeans.engines.tiles import LANES
from dpkmeans.errors import DataError
from dpkmeans.privacy.exact import Exact

T = TypeVar("T")

CHUNK = 1024  # tiles
MOST_RECORDS = 2**33  # beyond it, float64 sums of grid points are no longer exact


@dataclass
class _Assignment:
    """An assignment with its statistics, kept so that the next one only has to look at what changed."""

    centroids: FloatArray
    labels: AnyArray
    counts: FloatArray
    sums: FloatArray


class MemoryEngine:
    """Engine over records in unit coordinates.

    Answers are the same to the bit for any number of threads: sums are exact, and the cost follows from them.
    """

    released = False

    def __init__(self, tiles: Float32Array, n: int, squares: float, bounds: Bounds, n_threads: int | None) -> None:
        self.bounds = bounds
        self._tiles = tiles
        self._n = n
        self._squares = squares
        self._n_threads = n_threads or len(os.sched_getaffinity(0))
        self._assignments: list[_Assignment] = []

    @classmethod
    def of_records(cls, X: AnyArray, bounds: Bounds, *, n_threads: int | None = None) -> MemoryEngine:
        """Clip records `X`, shape (n, d), to the box, put them on its grid, and hold them as float32. NaN is an error.

        >>> box = Bounds.of((0, 1), n_features=2)
        >>> engine = MemoryEngine.of_records(np.array([[0.1, 0.2], [0.3, 2.0]]), box)
        >>> engine.cell_statistics(np.array([[0.5, 0.5]]))
        Exact(...)
        """
        n, d = X.shape
        if d != bounds.n_features:
            raise DataError(f"records have {d} features; the bounds have {bounds.n_features}.")
        if n > MOST_RECORDS:
            raise DataError("at most 2^33 records can be summed exactly; there are more. Split the data.")
        tiles = np.zeros((-(-n // LANES), d, LANES), np.float32)
        engine = cls(tiles, n, 0.0, bounds, n_threads)
        lower, upper = np.asarray(bounds.lower), np.asarray(bounds.upper)

        def pack_chunk(chunk: slice) -> float:
            with np.errstate(over="ignore"):  # a long double may be infinite as a float64; it is clipped
                rows = np.ascontiguousarray(X[chunk.start * LANES : chunk.stop * LANES], dtype=np.float64)
            return pack(rows, lower, upper, bounds.scale, tiles[chunk])

        engine._squares = sum(engine._over_chunks(pack_chunk))
        if np.isnan(engine._squares):
            raise DataError("records must not hold NaN; found some. Drop or fill them before fitting.")
        return engine

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self._tiles.shape[1])

    def count(self) -> Exact[float]:
        """Number of records."""
        return Exact(float(self._n))

    def labels(self, centroids: FloatArray) -> LabelArray:
        """Nearest centroid of every record, shape (n,). Not private; for the data holder's eyes."""
        found = self._find(centroids) or self._assign(centroids)[0]
        labels: LabelArray = found.labels.reshape(-1)[: self._n].astype(np.int32)
        return labels

    def cell_statistics(self, centroids: FloatArray, compare_with: FloatArray | None = None) -> Exact[CellStatistics]:
        """Counts, sums and cost over the cells of `centroids`; see `Engine`."""
        base = None
        if compare_with is not None:
            base = self._find(compare_with) or self._assign(compare_with)[0]
        assignment, n_changed = self._assign(centroids, base)
        c, counts, sums = assignment.centroids, assignment.counts, assignment.sums
        # Σ|x - c|² over the cells, from the exact sums
        cost = self._squares + float(np.sum(counts * np.einsum("ij,ij->i", c, c)) - 2 * np.sum(sums * c))
        changed = self._n if compare_with is None else n_changed
        return Exact(CellStatistics(counts.copy(), sums.copy(), max(cost, 0.0), float(changed)))

    def lloyd(self, start: FloatArray, max_iter: int) -> Exact[LloydEnd]:
        """Lloyd's algorithm from `start` until the assignment repeats; compiled whole where one thread works."""
        centroids = np.array(start, dtype=np.float64)
        if self._n_threads == 1 or len(self._tiles) <= CHUNK:
            labels, before = self._new_labels(len(centroids)), self._new_labels(len(centroids))
            moves, stopped = lloyd(self._tiles, self._n, centroids, max_iter, labels, before)
            return Exact(LloydEnd(centroids, moves, stopped))
        return lloyd_by_passes(self, centroids, max_iter)

    def ask(self, query: Query) -> Exact[IntArray]:
        """The query's table, summed over all records."""

        def part(share: IntArray) -> IntArray:
            table = np.zeros(query.shape, np.int64)
            tiles = self._tiles[share[0] : share[-1] + 1]
            query.add(tiles, min(self._n - int(share[0]) * LANES, len(tiles) * LANES), table)
            return table

        shares = [share for share in np.array_split(np.arange(len(self._tiles)), self._n_threads) if len(share)]
        with ThreadPoolExecutor(self._n_threads) as pool:  # one table per thread: a table may be large
            return Exact(sum(pool.map(part, shares), np.zeros(query.shape, np.int64)))

    def costs(self, candidates: FloatArray) -> Exact[FloatArray]:
        """Cost of each of m centroid sets, shape (m, k, d) -> (m,); exact sums of rounded distances."""

        def cost(chunk: slice) -> FloatArray:
            return np.array([rounded_cost(self._tiles[chunk], self._n - chunk.start * LANES, c) for c in candidates])

        return Exact(sum(self._over_chunks(cost), np.zeros(len(candidates))))

    def cell_reach(self, centroids: FloatArray) -> Exact[FloatArray]:
        """Largest distance from the middle of the box, per cell and feature, shape (k, d)."""
        reach = np.zeros(centroids.shape)
        np.maximum.at(reach, self.labels(centroids), np.abs(self._rows(np.arange(self._n)) - self.bounds.unit_box / 2))
        return Exact(reach)

    def blocks(self, n_blocks: int, rng: np.random.Generator) -> Iterator[MemoryEngine]:
        """The records dealt into disjoint blocks, each record independently and uniformly into one of them."""
        block = rng.integers(n_blocks, size=self._n)
        order = np.argsort(block, kind="stable")
        unit = Bounds((0.0,) * self.n_features, (1.0,) * self.n_features)
        for rows in np.split(order, np.cumsum(np.bincount(block, minlength=n_blocks))[:-1]):
            engine = MemoryEngine.of_records(self._rows(rows), unit, n_threads=self._n_threads)
            engine.bounds = self.bounds
            yield engine

    def sample_rows(self, n: int, rng: np.random.Generator) -> Exact[FloatArray]:
        """`n` different records, shape (n, d)."""
        return Exact(self._rows(rng.choice(self._n, size=n, replace=False)))

    def _rows(self, rows: IntArray) -> FloatArray:
        out = np.empty((len(rows), self.n_features))
        take(self._tiles, rows, out)
        return out

    def _new_labels(self, k: int) -> AnyArray:
        return np.zeros((len(self._tiles), LANES), np.uint8 if k <= 2**8 else np.uint16 if k <= 2**16 else np.uint32)

    def _find(self, centroids: FloatArray) -> _Assignment | None:
        for assignment in self._assignments:
            if np.array_equal(assignment.centroids, centroids):
                return assignment
        return None

    def _assign(self, centroids: FloatArray, base: _Assignment | None = None) -> tuple[_Assignment, int]:
        """Assign all records, starting from the statistics of `base`, or else of the latest assignment.

        The last two assignments are kept: the look-ahead of the prior strategy stands between an assignment and the
        one it is compared with.
        """
        centroids = np.array(centroids, dtype=np.float64)
        k = len(centroids)
        latest = self._assignments[-1] if self._assignments else None
        base = base or latest
        if base is not None and len(base.counts) != k:
            base = None
        groups, halves = group(centroids)
        labels = self._new_labels(k)
        before = labels[:0] if base is None else base.labels

        def part(chunk: slice) -> tuple[FloatArray, FloatArray, int]:
            counts, sums = np.zeros(k), np.zeros(centroids.shape)
            n, old = self._n - chunk.start * LANES, before[chunk] if len(before) else before
            moved = reassign(self._tiles[chunk], n, groups, halves, old, labels[chunk], counts, sums)
            return counts, sums, moved

        counts = np.zeros(k) if base is None else base.counts.copy()
        sums = np.zeros(centroids.shape) if base is None else base.sums.copy()
        n_moved = 0
        for part_counts, part_sums, moved in self._over_chunks(part):
            counts += part_counts
            sums += part_sums
            n_moved += moved
        assignment = _Assignment(centroids, labels, counts, sums)
        keep = base if base is not None else latest
        self._assignments = [assignment] if keep is None else [keep, assignment]
        return assignment, n_moved

    def _over_chunks(self, function: Callable[[slice], T]) -> Sequence[T]:
        """`function` over fixed chunks of tiles, the results in order."""
        n_tiles = len(self._tiles)
        chunks = [slice(start, min(start + CHUNK, n_tiles)) for start in range(0, n_tiles, CHUNK)]
        if self._n_threads == 1 or len(chunks) <= 1:
            return [function(chunk) for chunk in chunks]
        with ThreadPoolExecutor(self._n_threads) as pool:
            return list(pool.map(function, chunks))
