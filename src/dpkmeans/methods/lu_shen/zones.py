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

SCORE_NAME = "(1 - delta) + (1 - 2|alpha|/pi)"


@dataclass(frozen=True)
class Zones:
    """Sampling zones: balls around `center`, shape (k, d), with `radius`, shape (k,)."""

    center: FloatArray
    radius: FloatArray


def transcript_of(
    bounds: Bounds, moves: Sequence[tuple[StepBudget, Move]], *, centroids: bool
) -> tuple[PublishedZone, ...]:
    """The zones of all moves that have some, in the units of the data, with or without the centroids drawn."""
    lines = []
    for iteration, (budget, move) in enumerate(moves, start=1):
        if move.zones is None:
            continue
        centers = bounds.from_unit(move.zones.center).tolist()
        radii = (move.zones.radius * bounds.longest_side).tolist()
        drawn = map(tuple, bounds.from_unit(move.centroids).tolist()) if centroids else [None] * len(radii)
        lines += [
            PublishedZone(iteration, cluster, tuple(center), radius, SCORE_NAME, float(budget.zone), centroid)
            for cluster, (center, radius, centroid) in enumerate(zip(centers, radii, drawn, strict=True))
        ]
    return tuple(lines)
