"""The released points of a fit, on which its centroids are a fixed point of k-means. Post-processing.

The start found several parts of each cluster. Where the steps took the cluster, its parts are taken as well, so that
their mean is the centroid. Where a part would lie nearer to another centroid, the parts of its cluster are drawn
together. Source: proofs/many_features.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkmeans._typing import FloatArray, IntArray
from dpkmeans.core.certificate import Certificate
from dpkmeans.synopsis.kmeans import assign, to_fixed_point
from dpkmeans.synopsis.method import separate_duplicates
from dpkmeans.synopsis.verify import make_certificate
from dpkmeans.synopsis.weighted_points import WeightedPoints

ALONG = (0.0, 2.0, 0.5, 1.5, 3.0, 0.75, 1.25, 1.0)
"""Of the way from the middle of the box to a single mean: where the other centroids lie, the most useful ones first."""
HALVINGS = 5  # of the distance of parts from their centroid; then they lie at it


@dataclass(frozen=True, eq=False)
class Parts:
    """Parts of clusters: offsets (m, d) from their cluster, positive weights (m,), and which cluster it is (m,)."""

    offsets: FloatArray
    weights: FloatArray
    member: IntArray


@dataclass(frozen=True, eq=False)
class AtRest:
    """Centroids (k, d), all different, in unit coordinates, and the certificate that they are a fixed point."""

    centroids: FloatArray
    certificate: Certificate


def at_rest(centres: FloatArray, parts: Parts, k: int, box: FloatArray, rng: np.random.Generator) -> AtRest:
    """The fixed point of k-means on the parts around `centres` (K, d), in unit coordinates, K at most k.

    Where there are fewer centres than k, the other centroids lie beside the heaviest, and nothing is theirs. Beside a
    single centre, whose noise may be larger than its distance from the middle of the box, they lie on the line through
    both.
    """
    points = points_around(centres, parts, box)
    end = to_fixed_point(points, means_of(points, parts.member, len(centres)))
    others = np.repeat(end.centroids[[int(np.argmax(end.sizes))]], k - len(centres), axis=0)
    if len(points.weights) == 1:
        along = np.resize(ALONG, len(others))[:, None]
        others = np.clip(box / 2 + along * (others - box / 2), 0.0, box)
    end = to_fixed_point(points, np.concatenate([end.centroids, others]))
    centroids, apart = separate_duplicates(end.centroids, box, rng)
    return AtRest(centroids, make_certificate(points, end, apart))


def points_around(centres: FloatArray, parts: Parts, box: FloatArray) -> WeightedPoints:
    """The parts as points in the box, each nearest to the mean of its cluster where that can be had."""
    reach = np.ones(len(centres))
    for i in range(HALVINGS + 1):
        places = np.clip(centres[parts.member] + reach[parts.member, None] * parts.offsets, 0.0, box)
        points = WeightedPoints(places, parts.weights)
        labels, _ = assign(points, means_of(points, parts.member, len(centres)))
        strayed = np.unique(parts.member[labels != parts.member])
        if len(strayed) == 0:
            break
        reach[strayed] *= 0.5 if i + 1 < HALVINGS else 0.0
    return points


def means_of(points: WeightedPoints, member: IntArray, k: int) -> FloatArray:
    """The mean of the points of each of k clusters, shape (k, d); each has one at least."""
    sums, weights = np.zeros((k, points.points.shape[1])), np.zeros(k)
    np.add.at(sums, member, points.weights[:, None] * points.points)
    np.add.at(weights, member, points.weights)
    return np.asarray(sums / weights[:, None])
