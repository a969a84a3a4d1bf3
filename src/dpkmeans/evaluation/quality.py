"""Private cost and simplified silhouette of released centroids on records. Proof: proofs/evaluation.md."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np

from dpkmeans._typing import FloatArray, IntArray
from dpkmeans.core.release import Release
from dpkmeans.evaluation.answers import LEVEL, Basis, Estimate, Quality
from dpkmeans.evaluation.asking import Asking, Draw, Question, ask, open_features
from dpkmeans.evaluation.queries import ENTRIES, UNIT, FitQuality
from dpkmeans.privacy.mechanisms import LInfLaplace
from dpkmeans.progress import expect

MOST = 0.99  # of the weight of a synopsis, within whose distances records are expected
MARGIN = 1.25  # times that distance, beyond which a record is cut off: a synopsis is wider than its records
SPREAD_OUT = ("grid", "tree")  # synopses whose points show how far records lie from centroids
_AT_ONCE = 2**22  # distances


def quality(release: Release, X: Any, epsilon: float, how: Asking) -> Quality:
    """See `Release.quality`."""

    def answer(draw: Draw, basis: Callable[[], Basis]) -> Quality:
        epsilon = draw.epsilon
        square = largest_square(release)
        query = FitQuality(release.bounds.unit_of(release.centroids), square)
        with closing(draw.data.engine(release.bounds)) as engine:
            expect(1)
            noisy = LInfLaplace(epsilon).release(
                engine.answer(query), ledger=draw.ledger, rng=draw.rng, label="quality"
            )
        return read(noisy[0], float(epsilon), math.sqrt(square) * release.bounds.longest_side, basis())

    question = Question("quality", lambda door, engine: open_features(release, X, door, engine), answer)
    return ask(release, epsilon, question, how)


def largest_square(release: Release) -> float:
    """The largest squared distance that counts, in unit coordinates, from the release alone: the less, the less noise.

    None in the box is larger than that of its farthest corner from a centroid. Where a synopsis shows how far records
    lie from centroids, a little more than the distance within which 99 % of its weight lie is enough.
    """
    centroids, box = release.bounds.unit_of(release.centroids), release.bounds.unit_box
    whole = float((np.maximum(np.abs(centroids), np.abs(box - centroids)) ** 2).sum(axis=1).min())
    certificate = release.certificate
    if certificate is not None and release.parameters.get("synopsis") in SPREAD_OUT:
        squares = _squares(certificate.points, centroids)
        order = np.argsort(squares, kind="stable")
        held = np.cumsum(certificate.weights[order])
        within = float(squares[order][np.searchsorted(held, MOST * held[-1])])
        if within > 0:
            return min(MARGIN**2 * within, whole)
    return max(whole, 2.0**-40)


def _squares(points: FloatArray, centroids: FloatArray) -> FloatArray:
    """Squared distance of each point to its nearest centroid, shape (m,)."""
    rows = max(_AT_ONCE // max(centroids.size, 1), 1)
    return np.concatenate(
        [
            ((points[i : i + rows, None, :] - centroids[None]) ** 2).sum(axis=2).min(axis=1)
            for i in range(0, len(points), rows)
        ]
    )


def read(noisy: IntArray, epsilon: float, radius: float, basis: Basis) -> Quality:
    """The answer from the noisy entries of `FitQuality`, shape (4,). Post-processing."""
    count, cost, beyond, silhouettes = (noisy / UNIT).tolist()
    one, two = cube_margin(LEVEL) / epsilon, cube_margin((1 + LEVEL) / 2) / epsilon
    few, many = max(count - two, 1.0), max(count + two, 1.0)

    def above_zero(value: float, unit: float = 1.0) -> Estimate:
        return Estimate(*(max(unit * end, 0.0) for end in (value, value - one, value + one)))

    mean, low, high = silhouettes / max(count, 1.0), (silhouettes - two) / many, (silhouettes + two) / few
    return Quality(
        cost=above_zero(cost, radius**2),
        silhouette=Estimate(*(min(max(end, 0.0), 1.0) for end in (mean, min(low, mean), max(high, mean)))),
        records=above_zero(count),
        beyond=above_zero(beyond),
        radius=radius,
        basis=basis,
    )


def cube_margin(level: float) -> float:
    """How far one of the entries of cube noise at ε = 1 is from 0 at most, with probability `level`.

    An entry is R·U with R from a Gamma law of shape D + 1 and U even in (-1, 1), so
    P(|z| > t) = Q(D + 1, t) - t·Q(D, t)/D, with D entries. The noise that is drawn has whole steps of 2^-20.
    """
    from scipy.optimize import brentq
    from scipy.special import gammaincc

    def above(t: float) -> float:
        return float(gammaincc(ENTRIES + 1, t) - t * gammaincc(ENTRIES, t) / ENTRIES)

    return float(brentq(lambda t: above(t) - (1 - level), 0.0, 1000.0))
