"""Costs of many sets of centroids as a task over blocks of records."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from dpkmeans._typing import FloatArray, IntArray
from dpkmeans.core.bounds import GRID
from dpkmeans.engines.block_tasks import Block, block_of_points
from dpkmeans.engines.corner_check import check_added
from dpkmeans.kernels.candidate_costs import add_costs, distinct_centroids, find_origins, on_grid


@dataclass(frozen=True)
class Costs:
    """Cost of each of m centroid sets, in grid steps, each record's squared distance rounded: an exact sum.

    `points` (u, d) are the centroids whose distances are computed in full; `sets` (m, k) says which of them a set has.
    In set i the last one stands at `place[i]` in `feature[i]`, not necessarily where the point is.
    """

    points: FloatArray
    sets: IntArray
    feature: IntArray
    place: FloatArray

    @classmethod
    def of(cls, candidates: FloatArray) -> Costs:
        """From m sets of k centroids, shape (m, k, d)."""
        points, sets = distinct_centroids(candidates)
        origin, feature = np.full(len(points), -1), np.zeros(len(points), np.int64)
        if on_grid(points):
            find_origins(points, np.bincount(sets.ravel(), minlength=len(points)), origin, feature)
        every, derived = np.arange(len(sets)), np.argmax(origin[sets] >= 0, axis=1)
        sets[every, derived], sets[:, -1] = sets[:, -1], sets[every, derived].copy()
        last = sets[:, -1]
        feature, place = feature[last], points[last, feature[last]]
        sets[:, -1] = np.where(origin[last] >= 0, origin[last], last)
        used, sets = np.unique(sets, return_inverse=True)
        return cls(points[used], sets.reshape(candidates.shape[:2]), feature, place)

    def zero(self) -> IntArray:
        return np.zeros(len(self.sets), np.int64)

    def take(self, total: IntArray, block: Block) -> IntArray:
        check_costs()
        add_costs(block.tiles, block.n, self.points, self.sets, self.feature, self.place, total)
        return total

    def add(self, a: IntArray, b: IntArray) -> IntArray:
        a += b
        return a


@cache
def check_costs() -> None:
    """Once per process: a record at the corner adds its squared distance, on which `cost_sensitivity` rests."""
    task, corner, costs = Costs.of(np.zeros((1, 1, 2))), block_of_points(np.ones((1, 2))), np.zeros(1, np.int64)
    add_costs(corner.tiles, 1, task.points, task.sets, task.feature, task.place, costs)
    check_added("Costs", costs.tolist(), [2 * GRID])
