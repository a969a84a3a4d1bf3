"""The certificate of convergence: what a fit did on its synopsis, checkable from released values alone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.release import DAMAGED, Release
from dpkmeans.errors import FileError
from dpkmeans.kernels import weighted_lloyd
from dpkmeans.storage.codec import number, whole
from dpkmeans.synopsis.kmeans import FixedPoint, assign
from dpkmeans.synopsis.recentre import extrapolate
from dpkmeans.synopsis.settings import MAX_PASSES
from dpkmeans.synopsis.synopsis import weighted_points_from
from dpkmeans.synopsis.weighted_points import WeightedPoints

TOLERANCE = 1e-9  # of what a number may be off on another machine
MAX_APART = 2.0**-8
EDGE = 2.0**-20  # the box in whole grid steps may be half a step wider than the box


@dataclass(frozen=True)
class Verdict:
    """One checked statement."""

    statement: str
    holds: bool


@dataclass(frozen=True)
class Step:
    """The private step after the fixed point: to where (k, d), its bound (k, d), what share of the next one follows."""

    moved_to: FloatArray
    bound: FloatArray
    follow: float


def make_certificate(points: WeightedPoints, end: FixedPoint, step: Step | None, apart: float) -> dict[str, Any]:
    """Plain values: the synopsis, start and fixed point, the cost of every pass, and the private step with its bound.

    All in unit coordinates of the bounds. `apart` is how far equal centroids were moved apart; mostly 0.
    """
    return {
        "points": points.points.tolist(),
        "weights": points.weights.tolist(),
        "start": end.start.tolist(),
        "lloyd_start": end.lloyd_start.tolist() if end.before else None,
        "fixed_point": end.centroids.tolist(),
        "sizes": end.sizes.tolist(),
        "zone_costs": list(end.before),
        "lloyd_costs": list(end.lloyd_costs),
        "moved_to": None if step is None else step.moved_to.tolist(),
        "move_bound": None if step is None else step.bound.tolist(),
        "follow": None if step is None else step.follow,
        "apart": apart,
    }


def verify(release: Release) -> list[Verdict]:
    """Recompute every statement of the certificate from the release. A damaged one is a `FileError`."""
    if release.certificate is None:
        return [Verdict("the release carries a certificate", False)]
    try:
        return _verdicts(release, release.certificate)
    except DAMAGED as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"The certificate is damaged ({type(error).__name__}). Fit again, or restore it.") from None


def _verdicts(release: Release, plain: dict[str, Any]) -> list[Verdict]:
    points = weighted_points_from(plain, release.bounds)
    shape = release.centroids.shape
    start, fixed = _matrix(plain["start"], shape), _matrix(plain["fixed_point"], shape)
    lloyd_start = start if plain["lloyd_start"] is None else _matrix(plain["lloyd_start"], shape)
    before, costs = [list(map(number, plain[name])) for name in ("zone_costs", "lloyd_costs")]
    apart, n_points = number(plain["apart"]), whole(release.parameters["points"])
    step = _step(plain, shape)
    if not 2 <= len(costs) <= MAX_PASSES:
        raise ValueError("numbers that no fit gives")

    again, found = lloyd_start.copy(), np.empty(len(costs))
    passes = weighted_lloyd.lloyd(points.points, points.weights, again, found)
    rest = weighted_lloyd.lloyd(points.points, points.weights, fixed.copy(), np.empty(2))
    sizes = assign(points, fixed)[1]
    every = [*before, *costs]
    slack = TOLERANCE * every[0] + 2.0**-60 * float(points.weights.sum())
    first = _cost(points, start)
    released_sizes = np.array(release.sizes if step is None else plain["sizes"], np.float64)
    moved_to = fixed if step is None else step.moved_to
    last = fixed if step is None else release.bounds.clip_unit(extrapolate(points, fixed, moved_to, step.follow))
    allowed = np.zeros(shape) if step is None else step.bound
    return [
        Verdict("the assignment repeats at the fixed point", rest == 2),
        Verdict(
            "Lloyd's algorithm leads there in as many passes",
            passes == len(costs) and bool(np.allclose(again, fixed, rtol=0.0, atol=TOLERANCE)),
        ),
        Verdict("every cost of it is the one stated", bool(np.allclose(found, costs, rtol=0.0, atol=slack))),
        Verdict("the first cost is that of the start", abs(first - every[0]) <= slack),
        Verdict("the cost never rises", all(b <= a + slack for a, b in pairwise(every))),
        Verdict("the sizes are those of the clusters", _same(sizes, plain["sizes"]) and _same(sizes, released_sizes)),
        Verdict("the release tells the same", release.n_iter == len(every) and n_points == len(points.weights)),
        Verdict("converged, as it says", release.converged is True),
        Verdict(
            "no centroid moved farther than its bound",
            bool((np.abs(moved_to - fixed) <= allowed + EDGE).all()),
        ),
        Verdict(
            "the release is where the synopsis leads from there",
            0 <= apart <= MAX_APART
            and bool((np.abs(release.bounds.unit_of(release.centroids) - last) <= apart + EDGE).all()),
        ),
        Verdict("all centroids differ", len(np.unique(release.centroids, axis=0)) == shape[0]),
    ]


def _step(plain: dict[str, Any], shape: tuple[int, ...]) -> Step | None:
    if plain["move_bound"] is None:
        return None
    bound = _matrix(plain["move_bound"], shape)
    step = Step(_matrix(plain["moved_to"], shape), bound, number(plain["follow"]))
    if (bound < 0).any() or not 0 <= step.follow <= 1:
        raise ValueError("numbers that no fit gives")
    return step


def _same(sizes: FloatArray, stated: Any) -> bool:
    """Whether weights agree; released ones of a re-centred cluster are noisy, and are not compared."""
    given = np.array(stated, np.float64)
    return given.shape == sizes.shape and bool(np.allclose(given, sizes, rtol=TOLERANCE, atol=TOLERANCE))


def _cost(points: WeightedPoints, centroids: FloatArray) -> float:
    cost = np.empty(1)
    weighted_lloyd.lloyd(points.points, points.weights, centroids.copy(), cost)
    return float(cost[0])


def _matrix(rows: Any, shape: tuple[int, ...]) -> FloatArray:
    """An array of this very shape: compiled loops do not check what they are given."""
    found = np.array([[number(value) for value in row] for row in rows], dtype=np.float64)
    if found.shape != shape:
        raise ValueError("wrong shape")
    return found
