"""Density interpolation: several weighted points per cell of a grid. Post-processing, at no privacy cost.

A count says how many records a cell holds, not where in it they lie. The density is interpolated linearly between the
middles of neighbouring cells, so the points of a cell weigh more towards its fuller neighbours, and k-means can divide
a cell between two clusters.
"""

from __future__ import annotations

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.synopsis.grid_cells import GridCells, positions
from dpkmeans.synopsis.settings import MAX_PARTS, MIN_POINTS, NEIGHBOUR_REACH, POINTS_PER_CELL
from dpkmeans.synopsis.weighted_points import WeightedPoints


def smooth(cells: GridCells, weights: FloatArray, max_points: int) -> WeightedPoints:
    """Points that divide the weight (cells,) of each cell in up to 3^d parts, as many as `max_points` allows."""
    live = np.flatnonzero(weights > 0)
    centers, sides = cells.centers(), cells.sides
    wide = cells.box > 0
    parts = MAX_PARTS
    limit = min(max(MIN_POINTS, POINTS_PER_CELL * len(live)), max_points)
    while parts > 1 and len(live) * float(parts) ** int(wide.sum()) > limit:
        parts -= 1
    if parts == 1:
        return WeightedPoints.of(centers, weights)
    centers, sides = centers[live, None], sides[live, None]
    spots = np.where(wide, (positions(np.where(wide, parts, 1)) + 0.5) / parts - 0.5, 0.0)  # (spots, d), in sides
    density = weights / np.prod(np.where(cells.sides > 0, cells.sides, 1.0), axis=1)
    here = np.zeros((len(live), len(spots)))
    for across in positions(np.where(wide, 2, 1)):  # 1 for the features in which to look at the next cell
        there = np.clip(centers + across * np.sign(spots) * NEIGHBOUR_REACH * sides, 0.0, cells.box)
        share = np.prod(np.where(across == 1, np.abs(spots), 1 - np.abs(spots)), axis=1)
        here += share * density[cells.find(there.reshape(-1, len(wide)))].reshape(here.shape)
    here /= here.sum(axis=1, keepdims=True)
    points = centers + spots * sides
    return WeightedPoints.of(points.reshape(-1, len(wide)), (weights[live, None] * here).ravel())
