"""A private step on the records corrects a synopsis, before k-means converges on it. Proof: proofs/synopsis.md.

A record is in the cell of one centroid, so to ask about more centroids than are wanted costs no more ε. The points of a
synopsis then move with the noisy mean of their cell, and weigh together as much as its noisy count says.
"""

from __future__ import annotations

import math

import numpy as np

from dpkmeans.synopsis import settings
from dpkmeans.synopsis.kmeans import FixedPoint
from dpkmeans.synopsis.posterior import posterior_means
from dpkmeans.synopsis.recentre import Recentred
from dpkmeans.synopsis.weighted_points import WeightedPoints


def corrected(
    points: WeightedPoints, cells: FixedPoint, found: Recentred, *, scale: float, entries: int, spread: float
) -> WeightedPoints:
    """The points, moved and weighed by what was found in their cells, with noise of this `scale` on a count.

    `entries` is how many numbers of a cell share one noise. A cell may be empty, and the more so the fewer records the
    synopsis has in it: as likely as not where they are one deviation of that noise. Points keep a part of their
    distance from the mean of their cell, the `spread`: where they are off by noise they lie too far.
    """
    doubt = settings.EMPTY_DOUBT * scale * math.sqrt((entries + 1) * (entries + 2) / 3)
    occupied = np.minimum(cells.sizes / (cells.sizes + doubt), settings.MOST_OCCUPIED)
    sizes = posterior_means(found.sizes, scale, float(points.weights.sum()), entries, occupied=occupied)
    weights = points.weights * (sizes / np.maximum(cells.sizes, 1e-300))[cells.labels]
    away = points.points - cells.centroids[cells.labels]
    return WeightedPoints.of(found.centroids[cells.labels] + spread * away, weights)
