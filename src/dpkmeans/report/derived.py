"""Values derived from a release alone, beyond its own fields: post-processing."""

from __future__ import annotations

import numpy as np

from dpkmeans.core.readable import shortened
from dpkmeans.core.release import Release
from dpkmeans.synopsis.kmeans import Explored, explore
from dpkmeans.synopsis.verify import Verdict, verify
from dpkmeans.synopsis.weighted_points import WeightedPoints

MAX_WORK = 4 * 10**6  # points times clusters times features, for one k
RESTARTS = 5  # k-means++ starts


def named(release: Release) -> tuple[str, ...]:
    """The names of the features, shortened if they are long."""
    return tuple(map(shortened, release.names))


def synopsis_of(release: Release) -> WeightedPoints | None:
    """The released synopsis in the certificate, in unit coordinates; None if there is none."""
    certificate = release.certificate
    return None if certificate is None else WeightedPoints(certificate.points, certificate.weights)


def costs_of(release: Release) -> tuple[list[float], list[float]]:
    """Cost of each pass by zones and of each pass of Lloyd's algorithm, in squared units, see `cost_unit`."""
    certificate, unit = release.certificate, release.bounds.longest_side**2
    if certificate is None:
        return [], []
    return [cost * unit for cost in certificate.zone_costs], [cost * unit for cost in certificate.lloyd_costs]


def cost_unit(release: Release) -> str:
    """What a cost is counted in."""
    return "squared units of the data" if release.bounds.weights is None else "squared units, after scaling"


def verdicts(release: Release) -> list[Verdict]:
    """Every statement of the certificate, recomputed; empty if there is no certificate."""
    return [] if release.certificate is None else verify(release)


def explored(release: Release) -> list[Explored]:
    """Cost and silhouette on the synopsis for several k, around the one of the release. Deterministic.

    If the synopsis is large, fewer k are tried, from fewer starts.
    """
    points = synopsis_of(release)
    if points is None:
        return []
    most = min(max(12, 2 * release.n_clusters), 40, len(points.points))
    work = points.points.size * most
    if work > 20 * MAX_WORK:
        return []
    tried = 18 if work <= MAX_WORK else 8
    ks = np.unique(np.linspace(2, most, tried).astype(int)).tolist() if most >= 2 else []
    rng = np.random.default_rng(0)  # fixed: no secret is involved, and a page should not change when it is made again
    restarts = RESTARTS if work <= MAX_WORK else 2
    return [explore(points, k, release.bounds, rng, restarts) for k in ks]


def evenly_spaced(n: int, most: int) -> list[int]:
    """At most `most` numbers below `n`, evenly spaced, with the first and the last."""
    found: list[int] = np.unique(np.linspace(0, n - 1, min(n, most)).astype(int)).tolist()
    return found
