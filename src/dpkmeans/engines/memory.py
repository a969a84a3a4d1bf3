"""Records held in memory as packed tiles, worked on in fixed chunks by a few threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from dpkmeans._typing import AnyArray, Float32Array, FloatArray, IntArray, LabelArray
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.engine import CellStatistics, LloydEnd, cell_sensitivity
from dpkmeans.core.exact import Exact
from dpkmeans.data.source import Batch, Source, open_array
from dpkmeans.engines.block_engine import BlockEngine
from dpkmeans.engines.block_tasks import Block, Task, check_statistics, over_blocks, sum_of_squares
from dpkmeans.engines.packing import write_batch
from dpkmeans.kernels.assign import cost_of, interleave_centroids, new_labels, reassign, take
from dpkmeans.kernels.lloyd import lloyd_over_tiles
from dpkmeans.kernels.simd_f32 import LANES
from dpkmeans.kernels.work_queue import SharedIterator, drain, interleave, split_evenly
from dpkmeans.kernels.zones import ZoneHistory, zone_run
from dpkmeans.progress import one_pass

T = TypeVar("T")
A = TypeVar("A")

CHUNK = 1024  # tiles


@dataclass
class _Assignment:
    """An assignment with its statistics, kept so that the next one only has to look at what changed."""

    centroids: FloatArray
    labels: AnyArray
    counts: FloatArray
    sums: FloatArray


class MemoryEngine(BlockEngine):
    """Engine over records in unit coordinates.

    Answers are the same to the bit for any number of threads: sums are exact, and the cost follows from them.
    """

    def __init__(self, tiles: Float32Array, n: int, bounds: Bounds, n_threads: int | None = None) -> None:
        super().__init__(bounds)
        self._tiles = tiles
        self._n = n
        self._set_sizes({0: n})
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
        return cls.of_source(open_array(X), bounds, n_threads=n_threads)

    @classmethod
    def of_source(cls, source: Source, bounds: Bounds, *, n_threads: int | None = None) -> MemoryEngine:
        """Read a source whole: every record is put on the grid of the box and held as float32."""
        batches: Iterable[Batch] = source.batches(CHUNK * LANES)
        known = [piece.n_rows for piece in source.pieces]
        if None in known:
            batches = list(batches)
            known = [batch.n for batch in batches]
        n = sum(rows or 0 for rows in known)
        tiles = np.zeros((-(-n // LANES), bounds.n_features, LANES), np.float32)
        engine = cls(tiles, n, bounds, n_threads)

        def pack(placed: Iterable[tuple[int, Batch]]) -> None:
            for start, batch in placed:
                write_batch(batch, bounds, source.nulls, tiles, start)

        if engine._n_threads == 1 or len(tiles) <= CHUNK:
            pack(_with_start(batches))
        else:
            with ThreadPoolExecutor(engine._n_threads) as pool:
                list(pool.map(pack, [SharedIterator(_with_start(batches))] * engine._n_threads))
        return engine

    @classmethod
    def of_block(cls, block: Block, bounds: Bounds, *, n_threads: int | None = None) -> MemoryEngine:
        """The records of one block, which are grid points already."""
        return cls(block.tiles, block.n, bounds, n_threads)

    def mapped(self, move: Callable[[Float32Array], Float32Array], bounds: Bounds) -> MemoryEngine:
        """The same records after a public map of tiles (t, d, LANES) to tiles of grid points of `bounds`."""
        tiles = np.empty((len(self._tiles), bounds.n_features, LANES), np.float32)

        def part(chunk: slice) -> None:
            tiles[chunk] = move(self._tiles[chunk])

        self._over_chunks(part)
        return MemoryEngine(tiles, self._n, bounds, self._n_threads)

    def labels(self, centroids: FloatArray) -> LabelArray:
        """Nearest centroid of every record, shape (n,). Not private; for the data holder's eyes."""
        found = self._find(centroids) or self._assign(centroids)[0]
        labels: LabelArray = found.labels.reshape(-1)[: self._n].astype(np.int32)
        return labels

    def label_batches(self, centroids: FloatArray) -> Iterator[AnyArray]:
        """The labels of all records at once."""
        yield self.labels(centroids)

    def cell_statistics(self, centroids: FloatArray, compare_with: FloatArray | None = None) -> Exact[CellStatistics]:
        """Counts, sums and cost over the cells of `centroids`; see `Engine`."""
        check_statistics()
        with one_pass():
            base = None
            if compare_with is not None:
                base = self._find(compare_with) or self._assign(compare_with)[0]
            assignment, n_changed = self._assign(centroids, base)
        c, counts, sums = assignment.centroids, assignment.counts, assignment.sums
        cost = cost_of(counts, sums, c, self._squares())
        changed = self._n if compare_with is None else n_changed
        stats = CellStatistics(counts.copy(), sums.copy(), cost, float(changed))
        return Exact(stats, cell_sensitivity(self.bounds))

    def lloyd(self, start: FloatArray, max_iter: int) -> Exact[LloydEnd]:
        """Lloyd's algorithm from `start` until the assignment repeats."""
        return Exact(lloyd_over_tiles(self._tiles, self._n, start, max_iter, self._n_threads))

    @property
    def runs_zones(self) -> bool:
        """Whether `zone_run`, which is the work of one thread, is faster than steps that share the records out."""
        return self._n_threads == 1 or len(self._tiles) <= CHUNK

    def zone_run(
        self, start: FloatArray, before: FloatArray, controller: int, epsilons: FloatArray, rng: np.random.Generator
    ) -> tuple[Exact[ZoneHistory], Exact[CellStatistics] | None]:
        """Steps of a zone strategy, see `kernels.zones`; and the repeated cells' statistics, where they repeat."""
        labels = new_labels(3 * len(self._tiles), len(start)).reshape(3, -1, LANES)
        history = zone_run(self._tiles, self._n, start, before, labels, controller, epsilons, rng)
        if not history.stopped:
            return Exact(history), None
        last = history.n_steps
        counts, sums, centroids = history.counts[last], history.sums[last], history.drawn[last - 1] if last else start
        cost = cost_of(counts, sums, centroids, self._squares())
        return Exact(history), Exact(CellStatistics(counts, sums, cost, 0.0))

    def sample_rows(self, n: int, rng: np.random.Generator) -> Exact[FloatArray]:
        """`n` different records, shape (n, d)."""
        return Exact(self._rows(rng.choice(self._n, size=n, replace=False)))

    def _squares(self) -> int:
        """Σ|x|² in steps of 2^-40."""
        if self._square_steps is None:
            self._square_steps = sum(self._over_chunks(lambda chunk: sum_of_squares(self._tiles[chunk])))
        return self._square_steps

    def _rows(self, rows: IntArray) -> FloatArray:
        out = np.empty((len(rows), self.n_features))
        take(self._tiles, rows, out)
        return out

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
        groups, half_norms = interleave_centroids(centroids)
        labels = new_labels(len(self._tiles), k)
        before = labels[:0] if base is None else base.labels

        def part(chunk: slice) -> tuple[FloatArray, FloatArray, int]:
            counts, sums = np.zeros(k), np.zeros(centroids.shape)
            n, old = self._n - chunk.start * LANES, before[chunk] if len(before) else before
            moved = reassign(self._tiles[chunk], n, groups, half_norms, old, labels[chunk], counts, sums)
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

    def _run(self, task: Task[A]) -> A:
        """One partial answer per thread: a table may be large."""

        def part(share: slice) -> A:
            tiles = self._tiles[share]
            return over_blocks(task, [Block(tiles, min(self._n - share.start * LANES, len(tiles) * LANES))])

        shares = split_evenly(len(self._tiles), self._n_threads)
        total = task.zero()
        if len(shares) <= 1:
            parts = [part(share) for share in shares]
        else:
            with ThreadPoolExecutor(len(shares)) as pool:
                parts = list(pool.map(part, shares))
        for answer in parts:
            total = task.add(total, answer)
        return total

    def _over_chunks(self, function: Callable[[slice], T]) -> Sequence[T]:
        """`function` over fixed chunks of tiles; the results come in any order."""
        n_tiles = len(self._tiles)
        if n_tiles <= CHUNK:
            return [function(slice(0, n_tiles))]
        chunks = [slice(start, min(start + CHUNK, n_tiles)) for start in range(0, n_tiles, CHUNK)]
        if self._n_threads == 1:
            return [function(chunk) for chunk in chunks]
        left = interleave(chunks, self._n_threads)
        with ThreadPoolExecutor(self._n_threads) as pool:
            at_work = [pool.submit(drain, left, function) for _ in range(self._n_threads)]
            return [result for task in at_work for result in task.result()]


def _with_start(batches: Iterable[Batch]) -> Iterator[tuple[int, Batch]]:
    """Each batch with the number of records before it."""
    start = 0
    for batch in batches:
        yield start, batch
        start += batch.n
