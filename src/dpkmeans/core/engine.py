"""What a method may ask about records: counts, sums and costs over public cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpkmeans._typing import FloatArray, IntArray
from dpkmeans.core.bounds import GRID, Bounds
from dpkmeans.core.exact import Exact, reveal
from dpkmeans.core.query import Query, Sensitivity
from dpkmeans.errors import BudgetError


@dataclass(frozen=True)
class CellStatistics:
    """Counts (k,), sums (k, d) in unit coordinates, cost, and how many records changed their cell.

    Over records, counts are whole and sums are multiples of 2^-20, both exact. Over a synopsis they are weights.
    """

    counts: FloatArray
    sums: FloatArray
    cost: float
    n_changed: float

    def means(self, empty: FloatArray) -> FloatArray:
        """Mean of each cell, shape (k, d); an empty cell keeps its row of `empty`."""
        occupied = self.counts > 0
        safe = np.where(occupied, self.counts, 1.0)[:, None]
        return np.where(occupied[:, None], self.sums / safe, empty)

    def integers(self) -> IntArray:
        """Counts and sums side by side in whole grid steps, shape (k, 1 + d). Exact over records."""
        table: IntArray = np.empty((len(self.counts), 1 + self.sums.shape[1]), dtype=np.int64)
        table[:, 0] = self.counts
        table[:, 1:] = self.sums * GRID
        return table


@dataclass(frozen=True)
class LloydEnd:
    """Where Lloyd's algorithm ended: centroids (k, d), moves made, and whether the assignment repeated."""

    centroids: FloatArray
    moves: int
    stopped: bool


def cell_sensitivity(bounds: Bounds) -> Sensitivity:
    """A record lies in one cell, adds 1 to its count, and in feature j from 0 to `bounds.side[j]` to its sum."""
    return Sensitivity.of_row((1, *bounds.side.tolist()))


def cell_counts(exact: Exact[CellStatistics], steps: int = 1) -> Exact[IntArray]:
    """Counts of the cells in so many steps a record, shape (k,). A record is in one cell."""
    stats = reveal(exact, why="stays exact")
    return Exact(np.rint(stats.counts * steps).astype(np.int64), Sensitivity.of_row((steps,)))


def centred_sums(exact: Exact[CellStatistics]) -> Exact[IntArray]:
    """Sums of the cells with the middle of the box as origin, in grid steps, shape (k, features with a width).

    With s for a side and m = ⌊s/2⌋, a record adds from -m to s - m, so at most s - m, to one row.
    """
    if exact.sensitivity.columns is None:
        raise BudgetError("the cell statistics declare no sensitivity. Take them from an engine.")
    sides = np.array(exact.sensitivity.columns[1:])
    wide, middle = np.flatnonzero(sides), sides // 2
    table = reveal(exact, why="stays exact").integers()
    centred = (table[:, 1:] - middle * table[:, :1])[:, wide]
    return Exact(np.ascontiguousarray(centred), Sensitivity.of_row((sides - middle)[wide].tolist() or (0,)))


class Engine(Protocol):
    """Answers about records. A cell belongs to a centroid: the records that are nearest to it, ties to the first.

    All coordinates are unit coordinates of `bounds`. Not private: answers are exact, hence wrapped in `Exact`.
    """

    @property
    def bounds(self) -> Bounds:
        """The public box."""

    @property
    def released(self) -> bool:
        """Whether it holds released values only, so that its answers are no secret."""

    @property
    def n_features(self) -> int:
        """Number of features."""

    def count(self) -> Exact[IntArray]:
        """Number of records (total weight, rounded), shape (). One record changes it by 1."""

    def cell_statistics(self, centroids: FloatArray, compare_with: FloatArray | None = None) -> Exact[CellStatistics]:
        """Counts, sums and cost over the cells of `centroids`, shape (k, d).

        `n_changed` counts records whose cell differs from their cell under `compare_with`; all, where it is None. The
        answer declares what a record adds to a row of `integers`: `cell_sensitivity(bounds)`.
        """

    def lloyd(self, start: FloatArray, max_iter: int) -> Exact[LloydEnd]:
        """Lloyd's algorithm from `start`, shape (k, d), until an assignment repeats or `max_iter` moves are made."""

    def answer(self, query: Query) -> Exact[IntArray]:
        """The query's table over all records."""

    def costs(self, candidates: FloatArray) -> Exact[IntArray]:
        """Cost of each of m centroid sets, shape (m, k, d) -> (m,), in whole grid steps of 2^-20.

        Each record's squared distance is rounded to whole steps, so that the sum is exact. The answer declares a `gap`.
        """

    def max_abs_deviation(self, centroids: FloatArray) -> Exact[FloatArray]:
        """Largest distance from the middle of the box, per cell and feature, shape (k, d). For local sensitivity."""

    def partition(self, n_blocks: int, key: bytes) -> Iterator[Engine]:
        """The records in disjoint blocks, each record in the one that a keyed function of itself names (`siphash`).

        So a record more changes one block and no other, in any order of the records and on any engine. Equal records
        share a block. Within a block the records are sorted.
        """

    def sample_rows(self, n: int, rng: np.random.Generator) -> Exact[FloatArray]:
        """`n` different records, shape (n, d)."""


def lloyd_by_passes(engine: Engine, start: FloatArray, max_iter: int) -> Exact[LloydEnd]:
    """Lloyd's algorithm by asking an engine pass after pass: what every engine can do."""
    centroids, before = start, None
    for moves in range(max_iter):
        exact = engine.cell_statistics(centroids, compare_with=before)
        stats = reveal(exact, why="stays inside the engine's own answer")
        if stats.n_changed == 0:
            return Exact(LloydEnd(centroids, moves, True))
        before, centroids = centroids, stats.means(empty=centroids)
    return Exact(LloydEnd(centroids, max_iter, False))
