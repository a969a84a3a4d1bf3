"""Compiled k-means on weighted points in float64: a synopsis is small, so plain loops will do."""

from __future__ import annotations

import numpy as np

from dpkmeans.arrays import FloatArray, LabelArray
from dpkmeans.engines.kernels import compiled


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


@compiled
def seed_centroids(points: FloatArray, weights: FloatArray, uniforms: FloatArray, centroids: FloatArray) -> None:
    """Greedy k-means++: each next centroid is the best of several points drawn by weight times squared distance.

    `uniforms` (k, tries) in [0, 1) decide. Source: Arthur and Vassilvitskii (2007), section 5.
    """
    m, d = points.shape
    nearest, trial, kept = np.full(m, np.inf), np.empty(m), np.empty(m)
    total = weights.sum()
    for c in range(len(centroids)):
        cheapest = np.inf
        for left in uniforms[c]:
            left *= total
            chosen = m - 1
            for i in range(m):
                left -= weights[i] if c == 0 else weights[i] * nearest[i]
                if left < 0.0:
                    chosen = i
                    break
            cost = 0.0
            for i in range(m):
                distance = 0.0
                for j in range(d):
                    difference = points[i, j] - points[chosen, j]
                    distance += difference * difference
                trial[i] = min(nearest[i], distance)
                cost += weights[i] * trial[i]
            if cost < cheapest:
                cheapest = cost
                kept[:] = trial
                centroids[c] = points[chosen]
        nearest[:] = kept
        total = cheapest


@compiled
def best_start(
    points: FloatArray, weights: FloatArray, uniforms: FloatArray, start: FloatArray, costs: FloatArray
) -> None:
    """Write into `start` (k, d) the k-means++ start, of (restarts, k, tries) `uniforms`, with the cheapest end."""
    cheapest = np.inf
    first, centroids = np.empty(start.shape), np.empty(start.shape)
    for r in range(len(uniforms)):
        seed_centroids(points, weights, uniforms[r], first)
        centroids[:] = first
        if r == 0:
            start[:] = first
        passes = lloyd(points, weights, centroids, costs)
        if passes > 0 and costs[passes - 1] < cheapest:
            cheapest = costs[passes - 1]
            start[:] = first
