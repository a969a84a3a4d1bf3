"""The certificate of convergence: what a fit did on its synopsis, checkable from released values alone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from dpkmeans.arrays import FloatArray
from dpkmeans.release import Release
from dpkmeans.synopsis.cluster import FixedPoint, to_fixed_point
from dpkmeans.synopsis.points import WeightedPoints
from dpkmeans.synopsis.synopsis import weighted_points_from

TOLERANCE = 1e-9


@dataclass(frozen=True)
class Verdict:
    """One checked statement."""

    statement: str
    holds: bool


def make_certificate(points: WeightedPoints, end: FixedPoint, radius: FloatArray | None) -> dict[str, Any]:
    """Plain values: the synopsis, start and fixed point, the cost of every pass, and the bound on each move.

    All in unit coordinates of the bounds.
    """
    return {
        "points": points.points.tolist(),
        "weights": points.weights.tolist(),
        "start": end.start.tolist(),
        "fixed_point": end.centroids.tolist(),
        "costs": list(end.costs),
        "passes": len(end.costs),
        "move_bound": None if radius is None else radius.tolist(),
    }


def verify(release: Release) -> list[Verdict]:
    """Recompute every statement of the certificate from the release."""
    if release.certificate is None:
        return [Verdict("the release carries a certificate", False)]
    plain = release.certificate
    points = weighted_points_from(plain, release.bounds)
    start, fixed = np.array(plain["start"]), np.array(plain["fixed_point"])
    costs, bound = plain["costs"], plain["move_bound"]
    again = to_fixed_point(points, fixed)
    moves = np.abs(release.bounds.unit_of(release.centroids) - fixed)
    allowed = np.zeros(fixed.shape) if bound is None else np.array(bound)
    slack = TOLERANCE * max(costs[0], 1.0)
    return [
        Verdict("the last assignment repeats", len(again.costs) <= 2 and bool(np.allclose(again.centroids, fixed))),
        Verdict("the cost never rises", all(b <= a + slack for a, b in pairwise(costs))),
        Verdict("the last cost is that of the fixed point", abs(again.costs[0] - costs[-1]) <= slack),
        Verdict("the first cost is that of the start", abs(to_fixed_point(points, start).costs[0] - costs[0]) <= slack),
        Verdict("passes and costs agree", len(costs) == plain["passes"]),
        Verdict("no centroid moved farther than its bound", bool((moves <= allowed + 2.0**-19).all())),
    ]
