"""A grid in two looks: coarse counts decide how finely each coarse cell is cut. Proof: proofs/grid.md.

Two passes over the records. The number of cells grows with N·ε as M = (N·ε/c)^(2d/(2+d)); the exponent balances the
effects of noisy counts and of large cells on the cost (Su et al. 2016). There are at least a few cells per cluster,
which is what a small c achieved for large k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpkmeans._typing import FloatArray, IntArray
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.guarantee import Claim
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Laplace
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis import settings
from dpkmeans.synopsis.consistency import blend, project
from dpkmeans.synopsis.grid_cells import GridCells
from dpkmeans.synopsis.posterior import posterior_means
from dpkmeans.synopsis.rings import ring_cells, ring_points, rings_around
from dpkmeans.synopsis.smoothing import smooth
from dpkmeans.synopsis.view import View
from dpkmeans.synopsis.weighted_points import Built, NoisyCells, NoisyTotal, WeightedPoints
from dpkmeans.synopsis.zoom_cells import Rings


@dataclass(frozen=True)
class Grid:
    """Settings of the grid; `two_looks=False` with `unit=10` is the plain uniform grid of Su et al. (EUGkM)."""

    claim: ClassVar[Claim] = Claim.PROVED

    two_looks: bool = True
    first_share: float = settings.GRID_FIRST_SHARE
    first_unit: float = settings.GRID_FIRST_UNIT
    unit: float = settings.GRID_UNIT
    unit_exponent: float = settings.GRID_UNIT_EXPONENT
    cells_per_cluster: float = settings.GRID_CELLS_PER_CLUSTER
    max_cells: int = settings.MAX_GRID_CELLS
    max_first_cells: int = settings.MAX_FIRST_CELLS
    max_points: int = settings.MAX_POINTS  # of the points that stand for all cells; 0 for one point per cell

    passes = 2  # at most: there is no first look if N·ε is small

    def build(
        self, view: View, k: int, epsilon: Epsilon, total: NoisyTotal, *, ledger: Ledger, rng: Randomness
    ) -> Built:
        """Weighted points in the engine's unit coordinates; several per cell if there are few cells."""
        box, n = view.bounds.unit_box, total.value
        rings = None if view.whole else rings_around(view)
        first = epsilon.share(self.first_share)
        coarsely = min(n * float(first) / self.first_unit, self.max_first_cells) if self.two_looks else 1.0
        outer = pieces(box, coarsely)
        coarse: FloatArray = np.array([n])
        variance = total.variance
        if outer.max() > 1:
            epsilon = epsilon - first
            query = GridCells(box, np.ones_like(outer), outer[None, :])
            counts, outside = _look(view, query, rings, first, n, ledger=ledger, rng=rng, label="grid: first look")
            variance = 2 / float(first) ** 2
            inside = np.array([max(n - outside.sum(), 1.0)])
            coarse = blend(counts, inside, np.zeros(len(counts), np.int64), variance, total.variance)

        d = np.count_nonzero(box)
        unit = self.unit * (3 / k) ** self.unit_exponent
        wanted = (n * float(epsilon) / unit) ** (2 * d / (2 + d))
        wanted = float(min(max(wanted, self.cells_per_cluster * k), self.max_cells))
        share = np.maximum(coarse, 0.0) + settings.MIN_CELL_SHARE
        cuts = pieces_each(box / outer, share / share.sum() * wanted)
        cells = GridCells(box, outer, cuts)
        counts, outside = _look(view, cells, rings, epsilon, n, ledger=ledger, rng=rng, label="grid: counts")
        owner = np.repeat(np.arange(len(cuts)), np.diff(cells.starts))
        blended = blend(counts, coarse, owner, 2 / float(epsilon) ** 2, variance)
        found = smooth(cells, project(blended), self.max_points)
        points, weights = view.place(found.points), found.weights
        centers = view.place(cells.centers())
        if rings is not None and outside.any():
            more = ring_points(rings, outside, view.engine.bounds.unit_box)
            points, weights = np.concatenate([points, more.points]), np.concatenate([weights, more.weights])
            lower, upper, _ = ring_cells(rings, view.engine.bounds.unit_box)
            kept = outside > 0
            centers = np.concatenate([centers, ((lower + upper) / 2)[kept]])
            blended = np.concatenate([blended, outside[kept]])
        return Built(WeightedPoints(points, weights), k, NoisyCells(centers, blended, 2 / float(epsilon) ** 2))


def _look(
    view: View,
    cells: GridCells,
    rings: Rings | None,
    epsilon: Epsilon,
    total: float,
    *,
    ledger: Ledger,
    rng: Randomness,
    label: str,
) -> tuple[FloatArray, FloatArray]:
    """Noisy counts of the cells, and those of the rings that stand out of their noise; others are 0."""
    exact = view.engine.answer(cells) if rings is None else view.answer_split(cells, rings)
    counts = Laplace(epsilon).release(exact, ledger=ledger, rng=rng, label=label)[:, 0].astype(np.float64)
    inside, outside = counts[: cells.shape[0]], counts[cells.shape[0] :]
    if rings is None:
        return inside, outside
    possible = ring_cells(rings, view.engine.bounds.unit_box)[2]
    outside[~possible] = 0.0
    outside[possible] = posterior_means(outside[possible], 1 / float(epsilon), total)
    return inside, np.where(outside > settings.MIN_RING_WEIGHT, outside, 0.0)


def pieces(sides: FloatArray, cells: float) -> IntArray:
    """Into how many parts to cut each side (d,) for about `cells` cells that are as nearly cubes as can be."""
    return np.asarray(pieces_each(sides, np.array([cells]))[0])


def pieces_each(sides: FloatArray, cells: FloatArray) -> IntArray:
    """Into how many parts to cut each side (d,), for each wanted number of `cells` (m,), shape (m, d).

    About that many cells, as nearly cubes as can be. Rounding adds at most a factor of `MAX_ROUNDING`: if more
    features would be halved than that allows, the last ones stay whole.
    """
    wanted = np.maximum(cells, 1.0)
    low = np.full(len(wanted), 1e-12)
    high = np.full(len(wanted), max(float(sides.max()), 1e-12))
    for _ in range(60):
        side = np.sqrt(low * high)
        with np.errstate(over="ignore"):  # more than a float64 holds is more than wanted
            many = np.prod(np.maximum(sides / side[:, None], 1.0), axis=1) > wanted
        low, high = np.where(many, side, low), np.where(many, high, side)
    parts: IntArray = np.maximum(np.rint(sides / high[:, None]), 1).astype(np.int64)
    for row in np.flatnonzero(np.prod(parts.astype(np.float64), axis=1) > settings.MAX_ROUNDING * wanted):
        while math.prod(parts[row].tolist()) > settings.MAX_ROUNDING * wanted[row]:
            parts[row, np.flatnonzero(parts[row] == parts[row].max())[-1]] -= 1
    return parts
