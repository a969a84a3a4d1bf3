"""Points held in memory, worked on in fixed chunks by a pool of threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np

from dpkmeans.arrays import AnyArray, FloatArray, LabelArray
from dpkmeans.bounds import Bounds
from dpkmeans.engines.base import CellStatistics
from dpkmeans.engines.kernels import accumulate, nearest, rounded_cost
from dpkmeans.errors import DataError
from dpkmeans.privacy.exact import Exact

T = TypeVar("T")

CHUNK = 2**15
MOST_RECORDS = 2**33  # beyond it, float64 sums of grid points are no longer exact
_NO_WEIGHTS = np.empty(0)


class _Partial(NamedTuple):
    counts: FloatArray
    sums: FloatArray
    cost: float


class MemoryEngine:
    """Engine over `points`, shape (n, d), in unit coordinates, each counted once or by its weight.

    Answers are the same to the bit for any number of threads: chunks are fixed, and their parts are added in order.
    """

    def __init__(
        self,
        points: AnyArray,
        bounds: Bounds,
        *,
        weights: FloatArray | None = None,
        released: bool = False,
        n_threads: int | None = None,
    ) -> None:
        if len(points) > MOST_RECORDS:
            raise DataError(f"at most 2^33 records can be summed exactly; got more. Split the data ({MOST_RECORDS=}).")
        self.bounds = bounds
        self.released = released
        self._points = np.ascontiguousarray(points)
        self._weights = _NO_WEIGHTS if weights is None else np.ascontiguousarray(weights, np.float64)
        self._n_threads = n_threads or len(os.sched_getaffinity(0))
        self._last: tuple[FloatArray, LabelArray] | None = None

    @classmethod
    def of_records(cls, X: AnyArray, bounds: Bounds, *, n_threads: int | None = None) -> MemoryEngine:
        """Clip records `X`, shape (n, d), to the box, put them on its grid, and hold them as float32."""
        return cls(bounds.to_unit(X), bounds, n_threads=n_threads)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self._points.shape[1])

    def count(self) -> Exact[float]:
        """Number of records, or total weight."""
        return Exact(float(self._weights.sum()) if len(self._weights) else float(len(self._points)))

    def labels(self, centroids: FloatArray) -> LabelArray:
        """Nearest centroid of every record, shape (n,). Not private; for the data holder's eyes."""
        return self._assign(centroids)[0]

    def cell_statistics(self, centroids: FloatArray, compare_with: FloatArray | None = None) -> Exact[CellStatistics]:
        """Counts, sums and cost over the cells of `centroids`; see `Engine`."""
        before = None if compare_with is None else self._labels_of(compare_with)
        labels, partials = self._assign(centroids)
        counts, sums = partials[0].counts, partials[0].sums
        for partial in partials[1:]:
            counts += partial.counts
            sums += partial.sums
        changed = np.ones(len(labels), bool) if before is None else labels != before
        n_changed = float(self._weights[changed].sum()) if len(self._weights) else float(changed.sum())
        self._last = (centroids.copy(), labels)
        return Exact(CellStatistics(counts, sums, sum(partial.cost for partial in partials), n_changed))

    def costs(self, candidates: FloatArray) -> Exact[FloatArray]:
        """Cost of each of m centroid sets, shape (m, k, d) -> (m,)."""

        def cost(chunk: slice) -> FloatArray:
            weights = self._weights[chunk]
            return np.array([rounded_cost(self._points[chunk], weights, c) for c in candidates])

        return Exact(np.sum(self._over_chunks(cost), axis=0))

    def cell_reach(self, centroids: FloatArray) -> Exact[FloatArray]:
        """Largest distance from the middle of the box, per cell and feature, shape (k, d)."""
        reach = np.zeros(centroids.shape)
        np.maximum.at(reach, self._labels_of(centroids), np.abs(self._points - self.bounds.unit_box / 2))
        return Exact(reach)

    def blocks(self, n_blocks: int, rng: np.random.Generator) -> Iterator[MemoryEngine]:
        """The records dealt into disjoint blocks, each record independently and uniformly into one of them."""
        block = rng.integers(n_blocks, size=len(self._points))
        order = np.argsort(block, kind="stable")
        for rows in np.split(order, np.cumsum(np.bincount(block, minlength=n_blocks))[:-1]):
            weights = self._weights[rows] if len(self._weights) else None
            yield MemoryEngine(
                self._points[rows],
                self.bounds,
                weights=weights,
                released=self.released,
                n_threads=self._n_threads,
            )

    def sample_rows(self, n: int, rng: np.random.Generator) -> Exact[FloatArray]:
        """`n` different records, shape (n, d); by weight where there are weights."""
        share = self._weights / self._weights.sum() if len(self._weights) else None
        rows = rng.choice(len(self._points), size=n, replace=False, p=share)
        return Exact(self._points[rows].astype(np.float64))

    def _labels_of(self, centroids: FloatArray) -> LabelArray:
        if self._last is not None and np.array_equal(self._last[0], centroids):
            return self._last[1]
        return self.labels(centroids)

    def _assign(self, centroids: FloatArray) -> tuple[LabelArray, list[_Partial]]:
        labels = np.empty(len(self._points), np.int32)
        centroids = np.ascontiguousarray(centroids, np.float64)

        def part(chunk: slice) -> _Partial:
            points, weights = self._points[chunk], self._weights[chunk]
            cost = nearest(points, weights, centroids, labels[chunk])
            counts, sums = np.zeros(len(centroids)), np.zeros(centroids.shape)
            accumulate(points, weights, labels[chunk], counts, sums)
            return _Partial(counts, sums, cost)

        return labels, self._over_chunks(part)

    def _over_chunks(self, function: Callable[[slice], T]) -> list[T]:
        chunks = [slice(start, start + CHUNK) for start in range(0, max(len(self._points), 1), CHUNK)]
        if self._n_threads == 1 or len(chunks) == 1:
            return [function(chunk) for chunk in chunks]
        with ThreadPoolExecutor(self._n_threads) as pool:
            return list(pool.map(function, chunks))
