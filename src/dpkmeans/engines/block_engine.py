"""Records in blocks, wherever the blocks are.

A task goes to the blocks, partial answers come back, and only these travel; see `block_tasks`. An engine says where the
blocks are, in one method.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from dpkmeans._typing import AnyArray, FloatArray, IntArray
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.engine import CellStatistics, Engine, LloydEnd, cell_sensitivity, lloyd_by_passes
from dpkmeans.core.exact import Exact
from dpkmeans.core.query import Query, Sensitivity
from dpkmeans.engines.block_tasks import (
    Ask,
    MaxAbsDeviation,
    RandomPartition,
    Rows,
    Sizes,
    Statistics,
    Task,
    positions_by_part,
    sorted_block,
    statistics_of,
)
from dpkmeans.engines.cost_task import Costs
from dpkmeans.errors import DataError
from dpkmeans.interrupts import check
from dpkmeans.kernels.score_range import cost_sensitivity
from dpkmeans.progress import one_pass

A = TypeVar("A")

MAX_RECORDS = 2**33  # beyond it, float64 sums of grid points are no longer exact
TOO_MANY = "at most 2^33 records can be summed exactly; there are more. Split the data."
MAX_COST = 2**42  # numbers (records x features) whose squares, doubled, add up within 64 bits
_NUMBERS_AT_ONCE = 2**24  # of blocks of a partition that are held at once


@dataclass(frozen=True)
class PassReport:
    """One pass over the records, for the data holder: the number of records is private."""

    number: int
    rows: int
    seconds: float


Watch = Callable[[PassReport], None]


class BlockEngine(ABC):
    """Everything an `Engine` answers, from blocks of records that lie somewhere. Stateless: each answer is one pass."""

    released = False
    _n_threads: int = 0  # of blocks of a partition; 0 for one per core

    def __init__(self, bounds: Bounds, watch: Watch | None = None) -> None:
        self.bounds = bounds
        self._watch = watch
        self._passes = 0
        self._part_sizes: dict[int, int] | None = None
        self._square_steps: int | None = None

    @abstractmethod
    def _run(self, task: Task[A]) -> A:
        """The answer over all blocks, in whatever order and place."""

    @abstractmethod
    def label_batches(self, centroids: FloatArray) -> Iterator[AnyArray]:
        """Nearest centroid of each record, some at a time, in the order of the rows. Not private."""

    @property
    def n_features(self) -> int:
        return self.bounds.n_features

    def count(self) -> Exact[IntArray]:
        return Exact(np.array(self._count(), np.int64), Sensitivity.of_row((1,)))

    def cell_statistics(self, centroids: FloatArray, compare_with: FloatArray | None = None) -> Exact[CellStatistics]:
        """Counts, sums and cost over the cells of `centroids`; see `Engine`."""
        centroids = np.array(centroids, dtype=np.float64)
        other = None if compare_with is None else np.array(compare_with, dtype=np.float64)
        partial = self._pass(Statistics(centroids, other, with_squares=self._square_steps is None))
        _check_sum(int(partial.table[:, 0].sum()))
        if self._square_steps is None:
            self._square_steps = partial.squares
        return Exact(statistics_of(partial, centroids, self._square_steps), cell_sensitivity(self.bounds))

    def lloyd(self, start: FloatArray, max_iter: int) -> Exact[LloydEnd]:
        """Lloyd's algorithm from `start`, one pass per move."""
        return lloyd_by_passes(self, np.array(start, dtype=np.float64), max_iter)

    def answer(self, query: Query) -> Exact[IntArray]:
        """The query's table, summed over all records."""
        return Exact(self._pass(Ask(query)), query.sensitivity)

    def over(self, task: Task[A]) -> A:
        """The answer of a task over all blocks, as it is."""
        return self._pass(task)

    def costs(self, candidates: FloatArray) -> Exact[IntArray]:
        """Cost of each of m centroid sets, shape (m, k, d) -> (m,), in whole grid steps; see `Engine`."""
        if self.n_features > MAX_COST // MAX_RECORDS and self._count() > MAX_COST // self.n_features:
            raise DataError("costs are exact for at most 2^42 numbers; there are more. Split the data.")
        return Exact(self._pass(Costs.of(candidates)), cost_sensitivity(candidates, self.bounds.unit_box))

    def max_abs_deviation(self, centroids: FloatArray) -> Exact[FloatArray]:
        """Largest distance from the middle of the box, per cell and feature, shape (k, d)."""
        return Exact(self._pass(MaxAbsDeviation(np.array(centroids, dtype=np.float64), self.bounds.unit_box / 2)))

    def partition(self, n_blocks: int, key: bytes) -> Iterator[Engine]:
        """The records in disjoint blocks; see `Engine`. In lots that fit in bounded memory, a pass each."""
        from dpkmeans.engines.memory import MemoryEngine

        lots = min(n_blocks, -(-self._count() * self.n_features // _NUMBERS_AT_ONCE)) or 1
        for lot in np.array_split(np.arange(n_blocks), lots):
            pieces = self._pass(RandomPartition(key, n_blocks, int(lot[0]), int(lot[-1]) + 1))
            for number in lot.tolist():
                block = sorted_block(pieces.pop(number, ()), self.n_features)
                yield MemoryEngine.of_block(block, self.bounds, n_threads=self._n_threads)

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
        return

    def _count(self) -> int:
        return sum(self._sizes().values())

    def _sizes(self) -> dict[int, int]:
        if self._part_sizes is None:
            self._set_sizes(self._run(Sizes()))
        assert self._part_sizes is not None
        return self._part_sizes

    def _set_sizes(self, sizes: dict[int, int]) -> None:
        _check_sum(sum(sizes.values()))
        self._part_sizes = sizes

    def _pass(self, task: Task[A]) -> A:
        start = time.perf_counter()
        check()
        with one_pass():
            answer = self._run(task)
        self._passes += 1
        if self._watch is not None:
            self._watch(PassReport(self._passes, self._count(), time.perf_counter() - start))
        return answer


def _check_sum(n: int) -> None:
    if n > MAX_RECORDS:
        raise DataError(TOO_MANY)
