"""What a method may ask about records: counts, sums and costs over public cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpkmeans._typing import Float32Array, FloatArray, IntArray
from dpkmeans.core.bounds import GRID, Bounds
from dpkmeans.core.exact import Exact, reveal


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


class Query(Protocol):
    """A table of whole numbers over public cells, to which each record adds to one row, by itself alone.

    What one record can add is public and stated by the query. Records come in tiles, see `kernels`.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Cells and entries."""
        ...

    def add(self, tiles: Float32Array, n: int, table: IntArray) -> None:
        """Add the first `n` points of the tiles to the table."""
        ...


class Engine(Protocol):
    """Answers about records. A cell belongs to a centroid: the records that are nearest to it, ties to the first.

    All coordinates are unit coordinates of `bounds`. Not private: answers are exact, hence wrapped in `Exact`.
    """

    @property
    def bounds(self) -> Bounds:
        """The public box."""
        ...

    @property
    def released(self) -> bool:
        """Whether it holds released values only, so that its answers are no secret."""
        ...

    @property
    def n_features(self) -> int:
        """Number of features."""
        ...

    def count(self) -> Exact[float]:
        """Number of records (total weight)."""
        ...

    def cell_statistics(self, centroids: FloatArray, compare_with: FloatArray | None = None) -> Exact[CellStatistics]:
        """Counts, sums and cost over the cells of `centroids`, shape (k, d).

        `n_changed` counts records whose cell differs from their cell under `compare_with`; all, where it is None.
        """
        ...

    def lloyd(self, start: FloatArray, max_iter: int) -> Exact[LloydEnd]:
        """Lloyd's algorithm from `start`, shape (k, d), until an assignment repeats or `max_iter` moves are made."""
        ...

    def answer(self, query: Query) -> Exact[IntArray]:
        """The query's table over all records."""
        ...

    def costs(self, candidates: FloatArray) -> Exact[IntArray]:
        """Cost of each of m centroid sets, shape (m, k, d) -> (m,), in whole grid steps of 2^-20.

        Each record's squared distance is rounded to whole steps, so that the sum is exact.
        """
        ...

    def max_abs_deviation(self, centroids: FloatArray) -> Exact[FloatArray]:
        """Largest distance from the middle of the box, per cell and feature, shape (k, d). For local sensitivity."""
        ...

    def blocks(self, n_blocks: int, rng: np.random.Generator) -> Iterator[Engine]:
        """The records dealt into disjoint blocks, each record independently and uniformly into one of them.

        Independent deals matter: a record more changes one block and no other.
        """
        ...

    def sample_rows(self, n: int, rng: np.random.Generator) -> Exact[FloatArray]:
        """`n` different records, shape (n, d)."""
        ...


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
