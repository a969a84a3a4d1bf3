"""Compiled k-means on weighted points in float64: a synopsis is small, so plain loops will do."""

from __future__ import annotations

import numpy as np

from dpkmeans._typing import FloatArray, LabelArray
from dpkmeans.kernels.jit import compiled


@compiled
def assign(
    points: FloatArray,
    weights: FloatArray,
    centroids: FloatArray,
    labels: LabelArray,
    counts: FloatArray,
    sums: FloatArray,
) -> tuple[float, float]:
    """Label points (m, d), ties to the first centroid, and fill counts and sums. Returns cost and changed weight.

    `labels` holds the labels before; -1 means none.
    """
    counts[:] = 0.0
    sums[:] = 0.0
    cost, changed = 0.0, 0.0
    for i in range(len(points)):
        best, label = np.inf, 0
        for c in range(len(centroids)):
            distance = 0.0
            for j in range(points.shape[1]):
                difference = points[i, j] - centroids[c, j]
                distance += difference * difference
            if distance < best:
                best, label = distance, c
        if labels[i] != label:
            changed += 1.0
            labels[i] = label
        cost += weights[i] * best
        counts[label] += weights[i]
        for j in range(points.shape[1]):
            sums[label, j] += weights[i] * points[i, j]
    return cost, changed


@compiled
def lloyd(points: FloatArray, weights: FloatArray, centroids: FloatArray, costs: FloatArray) -> int:
    """Move `centroids` (k, d) to a fixed point. Writes the cost of each pass; returns passes, the last confirming.

    Returns 0 where `costs` is too short for the assignment to repeat.
    """
    labels = np.full(len(points), -1, np.int32)
    counts, sums = np.empty(len(centroids)), np.empty(centroids.shape)
    for t in range(len(costs)):
        cost, changed = assign(points, weights, centroids, labels, counts, sums)
        costs[t] = cost
        if changed == 0.0:
            return t + 1
        for c in range(len(centroids)):
            if counts[c] > 0.0:
                for j in range(points.shape[1]):
                    centroids[c, j] = sums[c, j] / counts[c]
    return 0
