"""The certificate of convergence: what a fit did on its synopsis, checkable from released values alone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.ball import Ball
from dpkmeans.core.certificate import Certificate, Correction, RecentringStep
from dpkmeans.core.release import Release
from dpkmeans.kernels import weighted_lloyd
from dpkmeans.synopsis.kmeans import FixedPoint, assign
from dpkmeans.synopsis.recentre import LABEL, extrapolate
from dpkmeans.synopsis.weighted_points import WeightedPoints

TOLERANCE = 1e-9  # of what a number may be off on another machine
MAX_APART = 2.0**-8
EDGE = 2.0**-20  # the box in whole grid steps may be half a step wider than the box


@dataclass(frozen=True)
class Verdict:
    """One checked statement."""

    statement: str
    holds: bool


def make_certificate(
    points: WeightedPoints,
    end: FixedPoint,
    apart: float,
    *,
    correction: Correction | None = None,
    step: RecentringStep | None = None,
) -> Certificate:
    """The certificate of a fit on points with this `correction`, that ended at `end`, and took `step` from there."""
    return Certificate(
        points.points,
        points.weights,
        start=end.start,
        lloyd_start=end.lloyd_start if end.before else None,
        fixed_point=end.centroids,
        sizes=end.sizes,
        zone_costs=end.before,
        lloyd_costs=end.lloyd_costs,
        step=step,
        apart=apart,
        correction=correction,
    )


def verify(release: Release) -> list[Verdict]:
    """Recompute every statement of the certificate from the release."""
    certificate = release.certificate
    if certificate is None:
        return [Verdict("the release carries a certificate", False)]
    points = WeightedPoints(certificate.points, certificate.weights)
    start, fixed, step = certificate.start, certificate.fixed_point, certificate.step
    lloyd_start = start if certificate.lloyd_start is None else certificate.lloyd_start
    costs, every, apart = certificate.lloyd_costs, certificate.costs, certificate.apart

    again, found = lloyd_start.copy(), np.full(len(costs), np.nan)
    passes = weighted_lloyd.lloyd(points.points, points.weights, again, found)
    rest = weighted_lloyd.lloyd(points.points, points.weights, fixed.copy(), np.empty(2))
    sizes = assign(points, fixed)[1]
    slack = TOLERANCE * every[0] + 2.0**-60 * float(points.weights.sum())
    first = _cost(points, start)
    released_sizes = np.array(release.sizes if step is None else certificate.sizes, np.float64)
    moved_to = fixed if step is None else step.moved_to
    last = fixed if step is None else release.bounds.clip_unit(extrapolate(points, fixed, moved_to, step.extrapolation))
    ball, reach = release.bounds.ball, np.ones((len(last), 1))
    if ball is not None:  # what is released lies in it; moves grow with those of directions
        places = release.bounds.from_unit(last)
        reach = np.maximum(reach, ball.radius / _distances(places, ball) if ball.normalize else 1.0)
        last = release.bounds.unit_of(ball.take_in(places))
    allowed = np.zeros(fixed.shape) if step is None else step.bound
    return [
        Verdict("the assignment repeats at the fixed point", rest == 2),
        Verdict(
            "Lloyd's algorithm leads there in the stated number of passes",
            passes == len(costs) and bool(np.allclose(again, fixed, rtol=0.0, atol=TOLERANCE)),
        ),
        Verdict("its costs are those stated", bool(np.allclose(found, costs, rtol=0.0, atol=slack))),
        Verdict("the first cost is that of the start", abs(first - every[0]) <= slack),
        Verdict("the cost never rises", all(b <= a + slack for a, b in pairwise(every))),
        Verdict(
            "the sizes are those of the clusters", _same(sizes, certificate.sizes) and _same(sizes, released_sizes)
        ),
        Verdict(
            "the release states the same numbers of passes and points",
            release.n_iter == len(every) and release.parameters.get("points") == len(points.weights),
        ),
        Verdict("converged, as it says", release.converged is True),
        Verdict("no centroid moved farther than its bound", bool((np.abs(moved_to - fixed) <= allowed + EDGE).all())),
        Verdict("no mean of the correction is farther away than its bound", _is_near(certificate.correction)),
        Verdict("a step on the records is among its spends", _is_paid(release)),
        Verdict(
            "the release is where the synopsis leads from there",
            0 <= apart <= MAX_APART
            and bool((np.abs(release.bounds.unit_of(release.centroids) - last) <= (apart + EDGE) * reach).all()),
        ),
        Verdict("all centroids differ", len(np.unique(release.centroids, axis=0)) == release.n_clusters),
    ]


def _is_paid(release: Release) -> bool:
    certificate = release.certificate
    if certificate is None or (certificate.step is None and certificate.correction is None):
        return True
    return any(spend.label == LABEL for spend in release.spends)


def _is_near(correction: Correction | None) -> bool:
    if correction is None:
        return True
    return bool((np.abs(correction.means - correction.centroids) <= correction.bound + EDGE).all())


def _same(sizes: FloatArray, stated: FloatArray) -> bool:
    """Whether weights agree; released ones of a re-centred cluster are noisy, and are not compared."""
    return stated.shape == sizes.shape and bool(np.allclose(stated, sizes, rtol=TOLERANCE, atol=TOLERANCE))


def _distances(places: FloatArray, ball: Ball) -> FloatArray:
    """How far each of the places (k, d) is from the centre, shape (k, 1); never 0."""
    away = places - np.array(ball.center_of(places.shape[1]))
    return np.asarray(np.sqrt(np.maximum((away * away).sum(axis=1, keepdims=True), 1e-300)))


def _cost(points: WeightedPoints, centroids: FloatArray) -> float:
    cost = np.empty(1)
    weighted_lloyd.lloyd(points.points, points.weights, centroids.copy(), cost)
    return float(cost[0])
