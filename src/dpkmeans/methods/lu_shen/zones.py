"""Sampling zones as the paper publishes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpkmeans._typing import FloatArray
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.release import PublishedZone

if TYPE_CHECKING:
    from dpkmeans.methods.loop.budgets import StepBudget
    from dpkmeans.methods.loop.solver import Move


@dataclass(frozen=True)
class Zones:
    """Sampling zones: balls around `center`, shape (k, d), with `radius`, shape (k,); `mean` (k, d) lies outside."""

    center: FloatArray
    radius: FloatArray
    mean: FloatArray
    score: str


def transcript_of(
    bounds: Bounds, moves: Sequence[tuple[StepBudget, Move]], *, centroids: bool, means: bool = False
) -> tuple[PublishedZone, ...]:
    """The zones of all moves that have some, in the units of the data, with or without the centroids drawn and the
    means of the cells.
    """
    lines = []
    for iteration, (budget, move) in enumerate(moves, start=1):
        if move.zones is None:
            continue
        zones, k = move.zones, len(move.zones.radius)
        columns = zip(
            bounds.from_unit(zones.center).tolist(),
            (zones.radius * bounds.longest_side).tolist(),
            budget.of_zones(k),
            _places(bounds, move.centroids if centroids else None, k),
            _places(bounds, zones.mean if means else None, k),
            strict=True,
        )
        lines += [
            PublishedZone(iteration, cluster, tuple(center), radius, zones.score, float(epsilon), centroid, mean)
            for cluster, (center, radius, epsilon, centroid, mean) in enumerate(columns)
        ]
    return tuple(lines)


def _places(bounds: Bounds, points: FloatArray | None, k: int) -> list[tuple[float, ...] | None]:
    """Points in the units of the data, or k times none."""
    return [None] * k if points is None else [tuple(place) for place in bounds.from_unit(points).tolist()]
