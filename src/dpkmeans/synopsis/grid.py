"""A grid in two looks: coarse counts decide how finely each coarse cell is cut. Proof: proofs/grid.md.

Two passes over the records. The number of cells grows with N·ε as M = (N·ε/c)^(2d/(2+d)); the exponent balances what
noise in the counts and what the size of the cells do to the cost (Su et al. 2016), and at least a few cells per
cluster are kept, which is what small c did for large k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpkmeans._typing import FloatArray, IntArray
from dpkmeans.core.engine import Engine
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import Exact
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Laplace
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis.consistency import blend, project
from dpkmeans.synopsis.grid_cells import GridCells
from dpkmeans.synopsis.smoothing import finer
from dpkmeans.synopsis.weighted_points import NoisyTotal, WeightedPoints


@dataclass(frozen=True)
class Grid:
    """Settings of the grid; `two_looks=False` with `unit=10` is the plain uniform grid of Su et al. (EUGkM)."""

    two_looks: bool = True
    first_share: float = 0.10
    first_unit: float = 10.0
    unit: float = 4.0
    unit_falls: float = 0.2
    cells_per_cluster: float = 7.0
    most_cells: int = 2048
    most_first_cells: int = 512
    most_points: int = 4096  # of the finer points that stand for the cells; 0 for one point a cell

    passes = 2  # at most: where N·ε is small there is no first look

    def build(
        self, engine: Engine, k: int, epsilon: Epsilon, total: NoisyTotal, *, ledger: Ledger, rng: Randomness
    ) -> WeightedPoints:
        """Weighted points: several a cell where there are few cells."""
        box, n = engine.bounds.unit_box, total.value
        first = epsilon.share(self.first_share)
        coarsely = min(n * float(first) / self.first_unit, self.most_first_cells) if self.two_looks else 1.0
        outer = pieces(box, coarsely)
        coarse: FloatArray = np.array([n])
        variance = total.variance
        if outer.max() > 1:
            epsilon = epsilon - first
            query = GridCells(box, np.ones_like(outer), outer[None, :])
            counts = _release(engine.answer(query), first, ledger, rng, "grid: first look")
            variance = 2 / float(first) ** 2
            coarse = blend(counts, np.array([n]), np.zeros(len(counts), np.int64), variance, total.variance)

        d = np.count_nonzero(box)
        unit = self.unit * (3 / k) ** self.unit_falls
        wanted = (n * float(epsilon) / unit) ** (2 * d / (2 + d))
        wanted = float(min(max(wanted, self.cells_per_cluster * k), self.most_cells))
        share = np.maximum(coarse, 0.0) + 1e-9  # each coarse cell gets a part
        cuts = pieces_each(box / outer, share / share.sum() * wanted)
        cells = GridCells(box, outer, cuts)
        counts = _release(engine.answer(cells), epsilon, ledger, rng, "grid: counts")
        owner = np.repeat(np.arange(len(cuts)), np.diff(cells.starts))
        weights = project(blend(counts, coarse, owner, 2 / float(epsilon) ** 2, variance))
        return finer(cells, weights, self.most_points)


def _release(exact: Exact[IntArray], epsilon: Epsilon, ledger: Ledger, rng: Randomness, label: str) -> FloatArray:
    counts = Laplace(epsilon, 1).release(exact.map(lambda t: t[:, 0]), ledger=ledger, rng=rng, label=label)
    return counts.astype(np.float64)


def pieces(sides: FloatArray, cells: float) -> IntArray:
    """Into how many parts to cut each side (d,) for about `cells` cells that are as nearly cubes as can be."""
    one: IntArray = pieces_each(sides, np.array([cells]))[0]
    return one


def pieces_each(sides: FloatArray, cells: FloatArray) -> IntArray:
    """Into how many parts to cut each side (d,), for each wanted number of `cells` (m,), shape (m, d).

    About that many cells, as nearly cubes as can be. Rounding adds at most a factor of 4: where more features would be
    halved than that allows, the last ones stay whole.
    """
    wanted = np.maximum(cells, 1.0)
    low = np.full(len(wanted), 1e-12)
    high = np.full(len(wanted), max(float(sides.max()), 1e-12))
    for _ in range(60):
        side = np.sqrt(low * high)
        many = np.sum(np.log(np.maximum(sides / side[:, None], 1.0)), axis=1) > np.log(wanted)
        low, high = np.where(many, side, low), np.where(many, high, side)
    parts: IntArray = np.maximum(np.rint(sides / high[:, None]), 1).astype(np.int64)
    for row in np.flatnonzero(np.prod(parts.astype(np.float64), axis=1) > 4 * wanted):
        while math.prod(parts[row].tolist()) > 4 * wanted[row]:
            parts[row, np.flatnonzero(parts[row] == parts[row].max())[-1]] -= 1
    return parts
