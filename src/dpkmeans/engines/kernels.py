"""Compiled loops over points. Plain functions of arrays; nothing here knows about privacy.

Sums of grid points are exact in float64, so they do not depend on order. Costs are rounded; they are added up in
the fixed order of chunks, so that the number of threads changes no bit. An empty `weights` means one each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba
import numpy as np

from dpkmeans.arrays import AnyArray, FloatArray, LabelArray

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile on first use, cached on disk, or without a cache where no folder for it can be written."""
    try:
        return cast(F, numba.njit(nogil=True, cache=True)(function))
    except RuntimeError:
        return cast(F, numba.njit(nogil=True)(function))


@compiled
def nearest(points: AnyArray, weights: FloatArray, centroids: FloatArray, labels: LabelArray) -> float:
    """Write the nearest centroid of each point, ties to the first, into `labels`; return the weighted cost."""
    n, d = points.shape
    cost = 0.0
    for i in range(n):
        best, label = np.inf, 0
        for c in range(len(centroids)):
            distance = 0.0
            for j in range(d):
                difference = points[i, j] - centroids[c, j]
                distance += difference * difference
            if distance < best:
                best, label = distance, c
        labels[i] = label
        cost += best * (weights[i] if len(weights) else 1.0)
    return cost


@compiled
def accumulate(points: AnyArray, weights: FloatArray, labels: LabelArray, counts: FloatArray, sums: FloatArray) -> None:
    """Add each point to the count and the sum of its cell."""
    n, d = points.shape
    for i in range(n):
        weight = weights[i] if len(weights) else 1.0
        counts[labels[i]] += weight
        for j in range(d):
            sums[labels[i], j] += weight * points[i, j]


@compiled
def rounded_cost(points: AnyArray, weights: FloatArray, centroids: FloatArray) -> float:
    """Weighted cost with every squared distance rounded to a multiple of 2^-20: an exact sum over records."""
    n, d = points.shape
    cost = 0.0
    for i in range(n):
        best = np.inf
        for c in range(len(centroids)):
            distance = 0.0
            for j in range(d):
                difference = points[i, j] - centroids[c, j]
                distance += difference * difference
            best = min(best, distance)
        cost += np.rint(best * 2.0**20) / 2.0**20 * (weights[i] if len(weights) else 1.0)
    return cost
