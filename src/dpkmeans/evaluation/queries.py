"""What is asked about records once centroids are released: whole numbers, each record by itself.

Proof: proofs/evaluation.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkmeans._typing import Float32Array, FloatArray, IntArray
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.query import Sensitivity
from dpkmeans.data.source import Batch, Nulls
from dpkmeans.engines.packing import pack_batch
from dpkmeans.evaluation.bins import Binned
from dpkmeans.kernels.jit import compiled
from dpkmeans.kernels.simd_f32 import LANES

UNIT = 2**20
"""What a record adds to its count, and at most to anything else."""

ENTRIES = 4


@dataclass(frozen=True, eq=False)
class FitQuality:
    """One row about all records, under `centroids` (k, d) in unit coordinates, with entries of at most UNIT a record.

    Their number; squared distances to the nearest centroid over `square`, those above it as 1; how many lie above it;
    and simplified silhouettes, 1 - (distance to the nearest centroid)/(distance to the next), 0 where k is 1.
    """

    centroids: FloatArray
    square: float

    @property
    def shape(self) -> tuple[int, int]:
        return 1, ENTRIES

    @property
    def sensitivity(self) -> Sensitivity:
        """Each entry lies between 0 and UNIT for one record."""
        return Sensitivity.of_row((UNIT,) * ENTRIES)

    def add(self, tiles: Float32Array, n: int, table: IntArray) -> None:
        _add_quality(tiles, n, np.ascontiguousarray(self.centroids, np.float64), self.square, table)


@compiled
def _add_quality(tiles: Float32Array, n: int, centroids: FloatArray, most: float, table: IntArray) -> None:
    for i in range(n):
        t, w = i // LANES, i % LANES
        nearest, following = np.inf, np.inf
        for c in range(len(centroids)):
            square = 0.0
            for j in range(centroids.shape[1]):
                away = np.float64(tiles[t, j, w]) - centroids[c, j]
                square += away * away
            if square < nearest:
                nearest, following = square, nearest
            elif square < following:
                following = square
        table[0, 0] += UNIT
        table[0, 1] += np.int64(np.rint(UNIT * (min(nearest, most) / most)))
        if nearest > most:
            table[0, 2] += UNIT
        if 0.0 < following < np.inf:
            table[0, 3] += np.int64(np.rint(UNIT * (1.0 - np.sqrt(nearest / following))))


@dataclass(frozen=True, eq=False)
class ClusterHistograms:
    """Records per cluster and bin of each column, all columns behind each other, shape (cells,).

    The first coordinates of a batch are the features of the centroids (k, d), which are in unit coordinates of
    `bounds`; `columns` say where the others are. A record adds 1 in one cell for each column.
    """

    bounds: Bounds
    centroids: FloatArray
    nulls: Nulls
    columns: tuple[Binned, ...]

    @property
    def starts(self) -> tuple[int, ...]:
        """The first cell of each column, and the number of all cells."""
        sizes = [len(self.centroids) * len(column.bins) for column in self.columns]
        return (0, *np.cumsum(sizes).tolist())

    @property
    def sensitivity(self) -> Sensitivity:
        """One record adds 1 in one cell for each column."""
        c = len(self.columns)
        return Sensitivity(l1=c, l2_squared=c, linf=1, gap=1)

    @property
    def n_columns(self) -> int:
        """A cell for each column."""
        return len(self.columns)

    def zero(self) -> IntArray:
        return np.zeros(self.starts[-1], np.int64)

    def take(self, total: IntArray, batch: Batch) -> IntArray:
        return self.take_cells(total, self.cells(batch))

    def cells(self, batch: Batch) -> IntArray:
        """The cell of each record in each column, shape (n, columns). Features must not be missing."""
        features = Batch(batch.columns[: self.bounds.n_features], batch.place)
        labels = pack_batch(features, self.bounds, self.nulls).labels(self.centroids).astype(np.int64)
        cells = [
            start + labels * len(column.bins) + column.bins_of(batch.columns)
            for start, column in zip(self.starts, self.columns, strict=False)
        ]
        return np.stack(cells, axis=1)

    def take_cells(self, total: IntArray, cells: IntArray) -> IntArray:
        """`total` with records added whose cells are known."""
        total += np.bincount(cells.ravel(), minlength=len(total))
        return total

    def add(self, a: IntArray, b: IntArray) -> IntArray:
        a += b
        return a
