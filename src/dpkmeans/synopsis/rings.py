"""Rings of cells around a view: records outside it, counted with the budget of those inside. Proof: proofs/zoom.md."""

from __future__ import annotations

import math

import numpy as np

from dpkmeans._typing import AnyArray, FloatArray
from dpkmeans.synopsis import settings
from dpkmeans.synopsis.grid_cells import positions
from dpkmeans.synopsis.view import View
from dpkmeans.synopsis.weighted_points import WeightedPoints
from dpkmeans.synopsis.zoom_cells import Rings


def rings_around(view: View) -> Rings:
    """As many rings as reach every corner of the engine's box, with fewer cells a side in more features."""
    center, half = view.center, view.half
    wide = half > 0
    reach = np.maximum(center, view.engine.bounds.unit_box - center)[wide] / half[wide]
    n_rings = max(math.ceil(math.log2(float(reach.max()))), 1)
    parts = np.ones(len(half), np.int64)
    few = np.count_nonzero(wide) > settings.MAX_GRID_FEATURES
    parts[np.flatnonzero(wide)[: settings.MAX_RING_FEATURES]] = settings.FEW_RING_PARTS if few else settings.RING_PARTS
    return Rings(center, half, parts, n_rings)


def ring_cells(rings: Rings, box: FloatArray) -> tuple[FloatArray, FloatArray, AnyArray]:
    """Lower and upper corners (cells, d) of all cells, cut with the box (d,), and which of them can hold a record."""
    wide = rings.half > 0
    place = positions(rings.parts)
    lower, upper, possible = [], [], []
    for ring in range(rings.n_rings):
        reach = rings.half * 2 ** (ring + 1)
        low = rings.center - reach + place / rings.parts * 2 * reach
        high = low + 2 * reach / rings.parts
        nearer = np.abs((low + high) / 2 - rings.center)[:, wide] < (reach / 2)[wide]
        low, high = np.clip(low, 0.0, box), np.clip(high, 0.0, box)
        lower.append(low)
        upper.append(high)
        possible.append(~nearer.all(axis=1) & (high > low)[:, wide].all(axis=1))
    return np.concatenate(lower), np.concatenate(upper), np.concatenate(possible)


def ring_points(rings: Rings, weights: FloatArray, box: FloatArray) -> WeightedPoints:
    """Each cell with a weight as points spread over it."""
    lower, upper, _ = ring_cells(rings, box)
    live = np.flatnonzero(weights > 0)
    each = np.where(rings.parts > 1, settings.MAX_PARTS, 1)
    spots = (positions(each) + 0.5) / each
    points = lower[live, None] + spots * (upper - lower)[live, None]
    return WeightedPoints(points.reshape(-1, len(box)), np.repeat(weights[live] / len(spots), len(spots)))
