"""Neighbouring data sets that are hard for k-means: D, and D' with one record more.

All lie in the unit square. Blobs are synthetic, from a fixed seed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.bounds import Bounds
from dpkmeans.engines.memory import MemoryEngine

N_RECORDS = 60


@dataclass(frozen=True, eq=False)
class Pair:
    """D (`records`, shape (n, d)) and D' (D and `extra`, shape (d,)), the public box, and the k to ask for."""

    name: str
    records: FloatArray
    extra: FloatArray
    n_clusters: int
    bounds: Bounds

    def side(self, with_record: bool) -> FloatArray:
        """The records of D or D'."""
        return np.vstack([self.records, self.extra]) if with_record else self.records

    def engine(self, with_record: bool) -> MemoryEngine:
        """D or D' in memory, with one thread."""
        return MemoryEngine.of_records(self.side(with_record), self.bounds, n_threads=1)


def outlier() -> Pair:
    """A record far from all others forms a cluster of its own."""
    records = _blobs([(0.25, 0.25)], N_RECORDS - 1)
    return _pair("outlier", records, (0.93, 0.97), k=2)


def corner() -> Pair:
    """A record in a corner of the box: it moves sums, residuals and costs as far as one record can."""
    records = _blobs([(0.35, 0.5), (0.65, 0.5)], N_RECORDS - 1)
    return _pair("corner", records, (1.0, 1.0), k=2)


def border() -> Pair:
    """A record in the middle between two clusters, on the border of their cells and of a grid's."""
    records = _blobs([(0.25, 0.5), (0.75, 0.5)], N_RECORDS - 1)
    return _pair("cell border", records, (0.5, 0.5), k=2)


def duplicate() -> Pair:
    """One record twice: only a count changes."""
    records = _blobs([(0.3, 0.7), (0.7, 0.3)], N_RECORDS - 1)
    return _pair("duplicate", records, records[0], k=2)


def empty_cluster() -> Pair:
    """All records in one place; the extra one lies alone where D has an empty cell."""
    records = np.full((11, 2), 0.25)
    return _pair("empty cluster", records, (0.875, 0.75), k=3)


def passes() -> Pair:
    """A record that changes how long the iteration takes: Lloyd needs about four passes without it and one with it.

    Found by search over random points on a line.
    """
    places = np.array([32, 28, 26, 32, 30, 37, 14, 43, 12, 6, 24, 43]) / 64
    return _pair("passes", np.column_stack([places, 0.0 * places + 0.5]), (1.0, 0.5), k=2)


def worst_pairs() -> tuple[Pair, ...]:
    """All of the above."""
    return outlier(), corner(), border(), duplicate(), empty_cluster(), passes()


def _blobs(centers: list[tuple[float, float]], n: int) -> FloatArray:
    rng = np.random.default_rng(6)
    places = np.array(centers)[np.arange(n) % len(centers)]
    return np.asarray(np.clip(places + 0.04 * rng.standard_normal((n, 2)), 0.0, 1.0))


def _pair(name: str, records: FloatArray, extra: tuple[float, float] | FloatArray, k: int) -> Pair:
    return Pair(name, records, np.array(extra, dtype=np.float64), k, Bounds.of((0, 1), records.shape[1]))
