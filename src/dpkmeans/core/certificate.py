"""`Certificate`: what a fit did on its released synopsis, so that anyone can repeat and check it."""

from __future__ import annotations

from dataclasses import dataclass

from dpkmeans._typing import FloatArray

VERSION = 1


@dataclass(frozen=True, eq=False)
class RecentringStep:
    """The private step after the fixed point: where it led (k, d), and how far it could lead at most (k, d).

    `extrapolation` is the share, from 0 to 1, of the next Lloyd step on the synopsis that the release adds to it.
    """

    moved_to: FloatArray
    bound: FloatArray
    extrapolation: float


@dataclass(frozen=True, eq=False)
class Certificate:
    """The synopsis, the start and the fixed point of k-means on it, the cost of every pass, and the private step.

    Public, and in unit coordinates of the bounds. `points` (m, d) and `weights` (m,) are the synopsis; `start`,
    `lloyd_start` (None if it is `start`) and `fixed_point` are (k, d); `sizes` (k,) are the weights of the clusters.
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
    version: int = VERSION

    @property
    def costs(self) -> tuple[float, ...]:
        """The cost of every pass: by zones, then by Lloyd's algorithm."""
        return self.zone_costs + self.lloyd_costs
