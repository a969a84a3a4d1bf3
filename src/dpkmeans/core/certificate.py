"""`Certificate`: what a fit did on its released synopsis, so that anyone can repeat and check it."""

from __future__ import annotations

from dataclasses import dataclass

from dpkmeans._typing import FloatArray

VERSION = 2  # 2: a correction; without one it is still 1, and so is its digest


@dataclass(frozen=True, eq=False)
class RecentringStep:
    """A private step after the fixed point: where it led (k, d), and how far it could lead at most (k, d).

    `extrapolation` is the share, from 0 to 1, of the next Lloyd step on the synopsis that the release adds to it.
    """

    moved_to: FloatArray
    bound: FloatArray
    extrapolation: float


@dataclass(frozen=True, eq=False)
class Correction:
    """One private step on the records, before k-means began, that moved the points of the synopsis.

    It asked about the cells of `centroids` (m, d), and found noisy means (m, d), no farther away than `bound` (m, d).
    """

    centroids: FloatArray
    means: FloatArray
    bound: FloatArray


@dataclass(frozen=True, eq=False)
class Certificate:
    """The synopsis, the start and the fixed point of k-means on it, and the cost of every pass.

    Public, and in unit coordinates of the bounds. `points` (m, d) and `weights` (m,) are the synopsis; `start`,
    `lloyd_start` (None if it is `start`) and `fixed_point` are (k, d); `sizes` (k,) are the weights of the clusters.
    `correction` is the private step that is contained in the synopsis, and `step` one that followed the fixed point.
    `apart` says how far equal centroids were moved apart; usually 0. `dpkmeans.synopsis.verify` checks it.
    """

    points: FloatArray
    weights: FloatArray
    start: FloatArray
    lloyd_start: FloatArray | None
    fixed_point: FloatArray
    sizes: FloatArray
    zone_costs: tuple[float, ...]
    lloyd_costs: tuple[float, ...]
    step: RecentringStep | None
    apart: float
    correction: Correction | None = None

    @property
    def version(self) -> int:
        """The oldest that says all of it."""
        return 1 if self.correction is None else VERSION

    @property
    def costs(self) -> tuple[float, ...]:
        """The cost of every pass: by zones, then by Lloyd's algorithm."""
        return self.zone_costs + self.lloyd_costs
