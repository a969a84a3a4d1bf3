"""What the method for many features asks: whole numbers, each record by itself. Proof: proofs/many_features.md.

A record is a grid point: d whole numbers of grid steps. It is seen from a public `origin` on the grid, so its residual
from a centre on the grid is a vector of whole numbers. Clipping one in the L2 norm scales it, cuts it off towards zero,
and does so again where its square is still above the bound: what it adds has a norm within the bound to the last bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpkmeans._typing import Float32Array, FloatArray, IntArray
from dpkmeans.core.bounds import GRID
from dpkmeans.core.query import Sensitivity
from dpkmeans.errors import BudgetError
from dpkmeans.kernels.assign import interleave_centroids
from dpkmeans.kernels.jit import compiled
from dpkmeans.kernels.simd_f32 import LANES, nearest_in_tile
from dpkmeans.wide.settings import BINS, BINS_PER_OCTAVE, DIAGONAL, OFF_DIAGONAL, PRODUCT_NORM, RECORDS_AT_ONCE

STEPS_PER_UNIT = float(GRID)  # for compiled loops
TILES_ADDED = 2**20 // LANES  # at a time in float64, before they are added to whole numbers of 64 bits
SHRINK = 1.0 - 2.0**-30  # of the factor of a clipped vector that is still too long


@dataclass(frozen=True)
class Rings:
    """Bins of distances: bin i from `top` · 2^(-(i+1)/6) up to `top` · 2^(-i/6), both ends open at the borders."""

    top: float

    @property
    def upper(self) -> FloatArray:
        """The upper ends, largest first, shape (BINS,)."""
        return np.array([self.top * math.pow(2.0, -i / BINS_PER_OCTAVE) for i in range(BINS)])

    @property
    def middles(self) -> FloatArray:
        """A typical distance of each bin, shape (BINS,); half of its upper end in the last one, which reaches to 0."""
        upper = self.upper
        return np.append(upper[:-1] * math.pow(2.0, -0.5 / BINS_PER_OCTAVE), upper[-1] / 2)

    @property
    def squares(self) -> FloatArray:
        """The ends between bins, squared, in whole steps, smallest first, shape (BINS - 1,)."""
        return np.floor(self.upper[:0:-1] ** 2)


@dataclass(frozen=True, eq=False)
class AtCentres:
    """About the records nearest to each of K centres, all as one row; parts with the weight 0 are left out.

    The row holds `count` per record (K); `cost` times its squared distance over `cost_radius`², at most `cost` (K); its
    residual, clipped to the L2 norm `radius` (K, d); and `bins` in one of the bins of its distance (BINS).

    Centres lie in the box and weights are below 2^30, so squares, and sums over 2^20 records, are exact in float64.
    """

    origin: IntArray
    centres: IntArray
    radius: int
    count: int
    cost: int
    cost_radius: int
    bins: int
    rings: Rings

    def __post_init__(self) -> None:
        places = self.origin + self.centres
        if places.min() < 0 or places.max() > GRID or max(self.radius, self.count, self.cost, self.bins) >= 2**30:
            raise BudgetError("centres must lie in the box, and weights below 2^30, for sums that are exact.")

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """The lengths of the parts: counts, costs, residuals, bins."""
        k, d = self.centres.shape
        return k * (self.count > 0), k * (self.cost > 0), k * d * (self.radius > 0), BINS * (self.bins > 0)

    @property
    def shape(self) -> tuple[int, int]:
        return 1, sum(self.sizes)

    @property
    def sensitivity(self) -> Sensitivity:
        """One count, at most one cost, a residual of at most the radius and one bin: their squares add up."""
        return Sensitivity(l2_squared=self.count**2 + self.cost**2 + self.radius**2 + self.bins**2)

    def parts(self, row: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Counts, costs, residuals and bins of a row, flat; those left out are empty."""
        counts, costs, residuals, bins = np.split(row, np.cumsum(self.sizes)[:3])
        return counts, costs, residuals, bins

    def add(self, tiles: Float32Array, n: int, table: IntArray) -> None:
        k, d = self.centres.shape
        weights = np.array([self.radius, self.count, self.cost, float(self.cost_radius) ** 2, self.bins], np.float64)
        origin, centres = (self.origin / GRID).astype(np.float32), self.centres.astype(np.float64)
        for start in range(0, len(tiles), TILES_ADDED):
            cells, bins = np.zeros((k, 2 + d)), np.zeros(BINS)
            piece, left = tiles[start : start + TILES_ADDED], n - start * LANES
            _look(piece, left, origin, centres, weights, self.rings.squares, cells, bins)
            for part, added in zip(self.parts(table[0]), (cells[:, 0], cells[:, 1], cells[:, 2:], bins), strict=True):
                part += added.ravel()[: len(part)].astype(np.int64)  # sums of whole numbers up to 2^50: exact


@compiled
def _look(
    tiles: Float32Array,
    n: int,
    origin: Float32Array,
    centres: FloatArray,
    weights: FloatArray,
    ends: FloatArray,
    cells: FloatArray,
    bins: FloatArray,
) -> None:
    """Add the count, the cost and the clipped residual of each point to the cell of its nearest centre, (K, 2 + d)."""
    radius, count, cost, cost_square, bin_weight = weights[0], weights[1], weights[2], weights[3], weights[4]
    d = tiles.shape[1]
    groups, half_norms = interleave_centroids(centres / STEPS_PER_UNIT)
    labels = np.zeros((1, LANES), np.int32)
    seen = np.empty((1, d, LANES), np.float32)
    away, clipped = np.empty((LANES, d)), np.empty(d)
    for t in range(len(tiles)):
        for j in range(d):
            for w in range(LANES):
                seen[0, j, w] = tiles[t, j, w] - origin[j]  # multiples of 2^-20 up to 1: exact
        nearest_in_tile(seen, 0, groups, half_norms, labels, labels, 0)
        for j in range(d):
            for w in range(LANES):
                away[w, j] = np.float64(seen[0, j, w]) * STEPS_PER_UNIT
        for w in range(min(LANES, n - t * LANES)):
            c = labels[0, w]
            square = 0.0
            for j in range(d):
                away[w, j] -= centres[c, j]
                square += away[w, j] * away[w, j]
            cells[c, 0] += count
            if cost > 0.0:
                cells[c, 1] += np.floor(cost * (min(square, cost_square) / cost_square))
            if bin_weight > 0.0:
                bins[len(ends) - np.searchsorted(ends, square)] += bin_weight
            if radius > 0.0:
                if square > radius * radius:
                    _clip(away[w], radius, radius / np.sqrt(square), clipped)
                    away[w, :] = clipped
                for j in range(d):
                    cells[c, 2 + j] += away[w, j]


@compiled
def _clip(vector: FloatArray, radius: float, factor: float, clipped: FloatArray) -> None:
    """The vector times `factor`, cut off to whole numbers, with an L2 norm of at most `radius`: checked, not hoped."""
    while True:
        square = 0.0
        for j in range(len(vector)):
            clipped[j] = np.trunc(vector[j] * factor)
            square += clipped[j] * clipped[j]
        if square <= radius * radius:
            return
        factor *= SHRINK


@dataclass(frozen=True, eq=False)
class Covariance:
    """Products y_i·y_j over records, the upper triangle as one row, times 5 on the diagonal and 7 off it.

    y is the record seen from `origin`, clipped to `radius`, in steps of radius/2^13, cut off towards zero. So |y| is at
    most 2^13, and a product of matrices of such numbers is exact in float64, in whatever order BLAS adds.
    """

    origin: IntArray
    radius: int

    @property
    def shape(self) -> tuple[int, int]:
        d = len(self.origin)
        return 1, d * (d + 1) // 2

    @property
    def sensitivity(self) -> Sensitivity:
        """25 Σ y_i⁴ + 49 Σ_{i<j} y_i²y_j² <= 25 (Σ y_i²)², because 49 <= 50."""
        return Sensitivity(l2_squared=(DIAGONAL * PRODUCT_NORM**2) ** 2)

    def add(self, tiles: Float32Array, n: int, table: IntArray) -> None:
        d = len(self.origin)
        origin, size = (self.origin / GRID).astype(np.float32), RECORDS_AT_ONCE // LANES
        total: IntArray = np.zeros((d, d), np.int64)
        for start in range(0, len(tiles), size):
            piece = tiles[start : start + size]
            rows = np.zeros((len(piece) * LANES, d))
            _rows_in_ball(
                piece, min(n - start * LANES, len(rows)), origin, float(self.radius), float(PRODUCT_NORM), rows
            )
            total += (rows.T @ rows).astype(np.int64)  # entries up to 2^12 · 2^26
        row, column = np.triu_indices(d)
        table[0] += total[row, column] * np.where(row == column, DIAGONAL, OFF_DIAGONAL)

    def matrix(self, row: IntArray) -> FloatArray:
        """The symmetric matrix (d, d) of a noisy row, in squared grid steps."""
        d = len(self.origin)
        i, j = np.triu_indices(d)
        step = self.radius / PRODUCT_NORM
        full = np.zeros((d, d))
        full[i, j] = row / np.where(i == j, DIAGONAL, OFF_DIAGONAL) * step**2
        full[j, i] = full[i, j]
        return full


@compiled
def _rows_in_ball(
    tiles: Float32Array, n: int, origin: Float32Array, radius: float, norm: float, rows: FloatArray
) -> None:
    """The first n records, seen from the origin, as rows of whole numbers; a distance of `radius` becomes `norm`."""
    d = tiles.shape[1]
    vector = np.empty(d)
    for i in range(n):
        square = 0.0
        for j in range(d):
            vector[j] = np.float64(tiles[i // LANES, j, i % LANES] - origin[j]) * STEPS_PER_UNIT
            square += vector[j] * vector[j]
        _clip(vector, norm, norm / max(radius, np.sqrt(square)), rows[i])
