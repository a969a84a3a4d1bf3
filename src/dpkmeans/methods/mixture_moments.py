"""The question that each step of DP-EM asks: moments under a mixture of Gaussians, exact. Proof: proofs/dp_em.md.

A record is seen from the middle of the box, in grid steps. Each component takes a share of it, a whole number of parts
of `PARTS`, computed from this record and the released mixture alone, by additions, multiplications, divisions and a
polynomial in a fixed order: the same bits on every engine and processor. What it adds are products of whole numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpkmeans._typing import Float32Array, FloatArray, IntArray
from dpkmeans.core.bounds import GRID, Bounds
from dpkmeans.core.query import Sensitivity
from dpkmeans.kernels.jit import compiled
from dpkmeans.kernels.simd_f32 import LANES

PARTS = 256  # of a record, which the components share
REACH = 2**20  # the L2 norm of what a whole record adds to each of the three kinds of moments, at most
DIAGONAL, OFF_DIAGONAL = 5, 7  # weights of products: 49 <= 2 · 25, see `Moments.sensitivity`
STEPS_PER_UNIT = float(GRID)  # for compiled loops


@dataclass(frozen=True, eq=False)
class Mixture:
    """k Gaussians, in unit coordinates: log weights without a common constant (k,), means (k, d), whitening (k, d, d).

    `whitening` is the inverse of the Cholesky factor of a covariance; `log_weights` has its log determinant too.
    """

    log_weights: FloatArray
    means: FloatArray
    whitening: FloatArray


@dataclass(frozen=True)
class Units:
    """In which steps records are seen, from the box alone: a shift and a factor for sums, and for products."""

    sum_shift: int
    sum_factor: int
    product_shift: int
    product_factor: int
    square: int  # of the L2 norm of a record in steps for sums, at most
    product_norm: int  # the squared L2 norm of a record in steps for products, at most

    @classmethod
    def of(cls, bounds: Bounds) -> Units:
        """The finest steps with which a record adds at most `REACH` to the sums, and to the products."""
        most = (bounds.side - bounds.side // 2).tolist()
        sum_shift = next(s for s in range(64) if math.isqrt(_square(most, s)) + 1 <= REACH)
        product_shift = next(s for s in range(64) if DIAGONAL * _square(most, s) <= REACH)
        square, product_norm = _square(most, sum_shift), _square(most, product_shift)
        factors = REACH // (math.isqrt(square) + 1), REACH // max(DIAGONAL * product_norm, 1)
        return cls(sum_shift, factors[0], product_shift, factors[1], square, product_norm)


def _square(most: list[int], shift: int) -> int:
    """The squared L2 norm of a record that lies as far from the middle as it can, in steps of 2^shift."""
    return sum(((h + (1 << shift >> 1)) >> shift) ** 2 for h in most)


@dataclass(frozen=True, eq=False)
class Moments:
    """Of each component: the parts that it takes of the records, their sums, and their products, all as one row.

    The row holds counts (k), sums (k, d), and the upper triangles of products (k, d(d + 1)/2), each with its factor.
    """

    bounds: Bounds
    mixture: Mixture

    @property
    def units(self) -> Units:
        return Units.of(self.bounds)

    @property
    def shape(self) -> tuple[int, int]:
        k, d = self.mixture.means.shape
        return 1, k * (1 + d + d * (d + 1) // 2)

    @property
    def sensitivity(self) -> Sensitivity:
        """The parts q of a record have ‖q‖₂ <= Σ q = PARTS, and what it adds is q times a vector of each kind.

        For products, 25 Σ z_i⁴ + 49 Σ_{i<j} z_i²z_j² <= 25 (Σ z_i²)², because 49 <= 50.
        """
        units = self.units
        squares = REACH**2 + units.sum_factor**2 * units.square
        squares += (DIAGONAL * units.product_factor * units.product_norm) ** 2
        return Sensitivity(l2_squared=PARTS**2 * squares)

    def add(self, tiles: Float32Array, n: int, table: IntArray) -> None:
        units, given = self.units, self.mixture
        shifts, factors = [units.sum_shift, units.product_shift], [REACH, units.sum_factor, units.product_factor]
        numbers = np.array([*shifts, *factors, DIAGONAL, OFF_DIAGONAL, PARTS], np.int64)
        side: IntArray = np.asarray(self.bounds.side, np.int64)
        _add(tiles, n, side, given.log_weights, given.means, given.whitening, numbers, table[0])

    def parts(self, row: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Numbers of records (k,), sums (k, d) and products (k, d, d) of a noisy row, in unit coordinates."""
        (k, d), units = self.mixture.means.shape, self.units
        counts, sums, triangles = np.split(row.astype(np.float64) / PARTS, [k, k + k * d])
        step, fine = 2.0**units.product_shift / GRID, 2.0**units.sum_shift / GRID
        i, j = np.triu_indices(d)
        products = np.zeros((k, d, d))
        scale = max(units.product_factor, 1) * np.where(i == j, DIAGONAL, OFF_DIAGONAL) / step**2
        products[:, i, j] = triangles.reshape(k, -1) / scale
        products[:, j, i] = products[:, i, j]
        return counts / REACH, sums.reshape(k, d) / (units.sum_factor / fine), products


@compiled
def _add(
    tiles: Float32Array,
    n: int,
    side: IntArray,
    log_weights: FloatArray,
    means: FloatArray,
    whitening: FloatArray,
    numbers: IntArray,
    row: IntArray,
) -> None:
    """Add the moments of the first n records to the row. `numbers`: shifts (2), factors (3), weights (2), parts."""
    k, d = means.shape
    shifts, factors, weights = numbers[:2], numbers[2:5], numbers[5:]
    place = np.empty(d)
    fine, coarse, parts = np.empty(d, np.int64), np.empty(d, np.int64), np.empty(k, np.int64)
    triangle = d * (d + 1) // 2
    for r in range(n):
        for j in range(d):
            value = np.float64(tiles[r // LANES, j, r % LANES]) * STEPS_PER_UNIT
            step = np.int64(min(max(value, 0.0), np.float64(side[j])))
            away = step - side[j] // 2
            fine[j] = (away + ((1 << shifts[0]) >> 1)) >> shifts[0]
            coarse[j] = (away + ((1 << shifts[1]) >> 1)) >> shifts[1]
            place[j] = np.float64(step) / STEPS_PER_UNIT
        _share(place, log_weights, means, whitening, weights[2], parts)
        for c in range(k):
            q = parts[c]
            if q == 0:
                continue
            row[c] += factors[0] * q
            at = k + k * d + c * triangle
            for i in range(d):
                row[k + c * d + i] += factors[1] * q * fine[i]
                for j in range(i, d):
                    row[at] += factors[2] * (weights[0] if i == j else weights[1]) * q * coarse[i] * coarse[j]
                    at += 1


@compiled
def _share(
    place: FloatArray, log_weights: FloatArray, means: FloatArray, whitening: FloatArray, whole: int, parts: IntArray
) -> None:
    """How many of `whole` parts each component takes of a record: never more than that in all, checked, not hoped.

    Shares are cut off downwards, and the likeliest component takes what is left.
    """
    k, d = means.shape
    logs = np.empty(k)
    best, likeliest = -np.inf, 0
    for c in range(k):
        square = 0.0
        for i in range(d):
            along = 0.0
            for j in range(i + 1):
                along += whitening[c, i, j] * (place[j] - means[c, j])
            square += along * along
        logs[c] = log_weights[c] - 0.5 * square
        if logs[c] > best:
            best, likeliest = logs[c], c
    total = 0.0
    for c in range(k):
        logs[c] = _exp(logs[c] - best)
        total += logs[c]
    left = whole
    for c in range(k):
        part = np.int64(np.floor(logs[c] / total * whole)) if total > 0.0 else 0
        parts[c] = part if 0 <= part <= left else 0
        left -= parts[c]
    parts[likeliest] += left


@compiled
def _exp(x: float) -> float:
    """e^x for x <= 0 to nine digits, by a polynomial and halvings: the same bits everywhere, unlike a library's."""
    if not x > -60.0:
        return 0.0
    scaled = x * 1.4426950408889634
    whole = np.floor(scaled)
    y = (scaled - whole) * 0.6931471805599453
    term, found = 1.0, 1.0
    for i in range(1, 14):
        term *= y / i
        found += term
    for _ in range(-np.int64(whole)):
        found *= 0.5
    return found
