"""Finer points out of counts over a grid. Post-processing: costs no privacy.

A count says how many records a cell holds, not where. Its neighbours do: the density is taken to change evenly from the
middle of a cell to the middle of the next, so a cell leans towards its fuller neighbours, and one that two clusters
share can be divided between them.
"""

from __future__ import annotations

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.synopsis.grid_cells import GridCells, positions
from dpkmeans.synopsis.weighted_points import WeightedPoints

MAX_PARTS = 3  # per feature and cell; more change nothing
NEXT = 0.75  # sides of a cell, from its middle into the next one


def finer(cells: GridCells, weights: FloatArray, most_points: int) -> WeightedPoints:
    """Points that divide the weight (cells,) of each cell in up to 3^d parts, as many as `most_points` allow."""
    live = np.flatnonzero(weights > 0)
    centers, sides = cells.centers(), cells.sides
    wide = cells.box > 0
    parts = MAX_PARTS
    while parts > 1 and len(live) * float(parts) ** int(wide.sum()) > most_points:
        parts -= 1
    if parts == 1:
        return WeightedPoints.of(centers, weights)
    centers, sides = centers[live, None], sides[live, None]
    spots = np.where(wide, (positions(np.where(wide, parts, 1)) + 0.5) / parts - 0.5, 0.0)  # (spots, d), in sides
    density = weights / np.prod(np.where(cells.sides > 0, cells.sides, 1.0), axis=1)
    here = np.zeros((len(live), len(spots)))
    for across in positions(np.where(wide, 2, 1)):  # 1 for the features in which to look at the next cell
        there = np.clip(centers + across * np.sign(spots) * NEXT * sides, 0.0, cells.box)
        share = np.prod(np.where(across == 1, np.abs(spots), 1 - np.abs(spots)), axis=1)
        here += share * density[cells.find(there.reshape(-1, len(wide)))].reshape(here.shape)
    here /= here.sum(axis=1, keepdims=True)
    points = centers + spots * sides
    return WeightedPoints.of(points.reshape(-1, len(wide)), (weights[live, None] * here).ravel())
