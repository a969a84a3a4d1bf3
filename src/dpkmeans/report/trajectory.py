"""The trajectory of the centroids, step by step, from a release alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.certificate import Certificate
from dpkmeans.core.release import PublishedZone, Release
from dpkmeans.synopsis.kmeans import means
from dpkmeans.synopsis.weighted_points import WeightedPoints

MAX_LLOYD_FRAMES = 200


@dataclass(frozen=True, eq=False)
class Balls:
    """Balls around `center`, shape (k, d), in the units of the data.

    `radii`, shape (k, d), has the radius in the unit of each feature: where features are weighed, a ball looks like an
    ellipse.
    """

    center: FloatArray
    radii: FloatArray


@dataclass(frozen=True, eq=False)
class AnimationFrame:
    """One step: centroids (k, d) after it, and the zones they were drawn from; None if not in the release."""

    words: str
    centroids: FloatArray | None
    zones: Balls | None = None
    convergent: Balls | None = None


def frames_of(release: Release) -> list[AnimationFrame]:
    """Frames in order; empty if the release records no steps.

    Convergent zones need the mean of each cluster. On a synopsis it is public, and computed here from the points of the
    certificate; the release of an algorithm on records does not contain it.
    """
    if release.certificate is None:
        return _of_transcript(release)
    return _of_certificate(release, release.certificate)


def _of_transcript(release: Release) -> list[AnimationFrame]:
    steps = _by_iteration(release)
    if not steps:
        return []
    frames = []
    for t, zones in steps:
        released = _released_centroids(zones)
        what = "zones" if released is None else "each centroid was drawn from its zone"
        words = f"Step {t} of {steps[-1][0]}: {what}"
        frames.append(AnimationFrame(words, released, _balls(zones, release.bounds)))
    return [*frames, AnimationFrame("Released centroids", release.centroids)]


def _of_certificate(release: Release, certificate: Certificate) -> list[AnimationFrame]:
    points = WeightedPoints(certificate.points, certificate.weights)
    box, centroids = release.bounds, certificate.start
    frames = [AnimationFrame("Start", box.from_unit(centroids))]
    steps = _by_iteration(release)
    for t, zones in steps:
        released = _released_centroids(zones)
        if released is None:
            break
        middles = means(points, centroids)
        radii = np.linalg.norm(middles - centroids, axis=1)[:, None] * box.unit
        words = f"Step {t} of {steps[-1][0]}: each centroid was drawn from its sampling zone"
        frames.append(AnimationFrame(words, released, _balls(zones, box), Balls(box.from_unit(middles), radii)))
        centroids = box.unit_of(released)
    if certificate.lloyd_start is not None:
        centroids = certificate.lloyd_start
        frames.append(
            AnimationFrame("Means of these clusters, where Lloyd's algorithm continues", box.from_unit(centroids))
        )
    passes = min(len(certificate.lloyd_costs) - 1, MAX_LLOYD_FRAMES)
    for t in range(1, passes + 1):
        centroids = means(points, centroids)
        frames.append(AnimationFrame(f"Pass {t} of {passes} of Lloyd's algorithm", box.from_unit(centroids)))
    if certificate.step is None:
        return [*frames, AnimationFrame("Fixed point", release.centroids)]
    if certificate.step.extrapolation == 0:
        return [*frames, AnimationFrame("Released centroids, after one private step on the records", release.centroids)]
    frames.append(AnimationFrame("One private step on the records", box.from_unit(certificate.step.moved_to)))
    return [*frames, AnimationFrame("Released centroids: the next step is extrapolated", release.centroids)]


def _by_iteration(release: Release) -> list[tuple[int, list[PublishedZone]]]:
    """Complete iterations only, each with its zones by cluster."""
    steps: dict[int, dict[int, PublishedZone]] = {}
    for zone in release.transcript:
        steps.setdefault(zone.iteration, {})[zone.cluster] = zone
    k = release.n_clusters
    return [(t, [zones[i] for i in range(k)]) for t, zones in sorted(steps.items()) if len(zones) == k]


def _released_centroids(zones: list[PublishedZone]) -> FloatArray | None:
    places = [zone.centroid for zone in zones if zone.centroid is not None]
    return np.array(places, np.float64) if len(places) == len(zones) else None


def _balls(zones: list[PublishedZone], box: Bounds) -> Balls:
    radius = np.array([[zone.radius] for zone in zones])
    return Balls(np.array([zone.center for zone in zones]), radius * (box.unit / box.longest_side))
