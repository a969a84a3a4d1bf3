"""k-means on weighted points in float64: k-means++ starts, Lloyd's algorithm, its costs. Post-processing only.

One pass serves the choice of a start, the fixed point and the check of a certificate, so all three agree to the bit.
Sums run over the points in their order: a mean depends on the members of its cell alone, not on the passes before.
"""

from __future__ import annotations

import numpy as np

from dpkmeans._typing import AnyArray, FloatArray, IntArray
from dpkmeans.kernels.assign import move_to_means
from dpkmeans.kernels.jit import compiled_or, drives_kernels

BLOCK = 256  # points compared together; their distances stay in the fastest cache
PARTIAL_SUMS = 16  # of a cost, so that additions need not wait for each other


def _columns_plain(points: FloatArray) -> FloatArray:
    return np.ascontiguousarray(points.T)


@compiled_or(_columns_plain, lambda points: points.size)
def columns_of(points: FloatArray) -> FloatArray:
    """Points (m, d) feature by feature, shape (d, m): loops along a row become vector instructions."""
    columns = np.empty((points.shape[1], len(points)))
    for i in range(len(points)):
        for j in range(points.shape[1]):
            columns[j, i] = points[i, j]
    return columns


def _nearest_plain(columns: FloatArray, centroids: FloatArray, best: FloatArray, labels: IntArray) -> None:
    squares = _squares(columns, centroids)
    labels[:] = squares.argmin(axis=0)
    best[:] = squares.min(axis=0)


def _squares(columns: FloatArray, centroids: FloatArray) -> FloatArray:
    """Squared distances, shape (k, m), added up feature by feature."""
    squares = np.zeros((len(centroids), columns.shape[1]))
    for j, x in enumerate(columns):
        apart = x - centroids[:, j, None]
        squares += apart * apart
    return squares


def _work_of_distances(columns: FloatArray, centroids: FloatArray, *_: AnyArray) -> int:
    return 4 * columns.size * len(centroids)


@compiled_or(_nearest_plain, _work_of_distances)
def nearest(columns: FloatArray, centroids: FloatArray, best: FloatArray, labels: IntArray) -> None:
    """The squared distance to the nearest centroid (k, d) of each point, and its index, ties to the first; (m,) each.

    Two centroids at a time: half as many reads and writes of what was the best so far.
    """
    (d, m), k = columns.shape, len(centroids)
    first, second = np.empty(BLOCK), np.empty(BLOCK)
    for start in range(0, m, BLOCK):
        n = min(BLOCK, m - start)
        lowest, label = best[start : start + n], labels[start : start + n]
        lowest[:] = np.inf
        label[:] = 0
        for a in range(0, k, 2):
            b = min(a + 1, k - 1)
            first[:n] = 0.0
            second[:n] = 0.0
            for j in range(d - 1):
                x, at, other = columns[j, start : start + n], centroids[a, j], centroids[b, j]
                for w in range(n):
                    first[w] += (x[w] - at) * (x[w] - at)
                    second[w] += (x[w] - other) * (x[w] - other)
            x, at, other = columns[d - 1, start : start + n], centroids[a, d - 1], centroids[b, d - 1]
            for w in range(n):
                square = first[w] + (x[w] - at) * (x[w] - at)
                candidate = second[w] + (x[w] - other) * (x[w] - other)
                which = b if candidate < square else a
                square = candidate if candidate < square else square
                label[w] = which if square < lowest[w] else label[w]
                lowest[w] = square if square < lowest[w] else lowest[w]


@drives_kernels
def assign(
    points: FloatArray,
    weights: FloatArray,
    centroids: FloatArray,
    labels: IntArray,
    counts: FloatArray,
    sums: FloatArray,
) -> tuple[float, float]:
    """Label points (m, d), ties to the first centroid, and fill counts and sums. Returns cost and changed weight.

    `labels` holds the labels before; -1 means none.
    """
    before, best = labels.copy(), np.empty(len(points))
    nearest(columns_of(points), centroids, best, labels)
    return add_up(points, weights, best, labels, before, counts, sums)


def _add_up_plain(
    points: FloatArray,
    weights: FloatArray,
    best: FloatArray,
    labels: IntArray,
    before: IntArray,
    counts: FloatArray,
    sums: FloatArray,
) -> tuple[float, float]:
    k = len(counts)
    counts[:] = np.bincount(labels, weights, k)
    for j in range(points.shape[1]):
        sums[:, j] = np.bincount(labels, weights * points[:, j], k)
    cost = np.cumsum(weights * best)[-1] if len(points) else 0.0
    return float(cost), float(np.count_nonzero(labels != before))


@compiled_or(_add_up_plain, lambda points, *_: 8 * points.size)
def add_up(
    points: FloatArray,
    weights: FloatArray,
    best: FloatArray,
    labels: IntArray,
    before: IntArray,
    counts: FloatArray,
    sums: FloatArray,
) -> tuple[float, float]:
    """Counts (k,) and sums (k, d) of labelled points. Returns their cost and how many labels differ from `before`."""
    counts[:] = 0.0
    sums[:] = 0.0
    cost, changed = 0.0, 0.0
    for i in range(len(points)):
        c = labels[i]
        changed += 1.0 if c != before[i] else 0.0
        cost += weights[i] * best[i]
        counts[c] += weights[i]
        for j in range(points.shape[1]):
            sums[c, j] += weights[i] * points[i, j]
    return cost, changed


@drives_kernels
def lloyd(points: FloatArray, weights: FloatArray, centroids: FloatArray, costs: FloatArray) -> int:
    """Move `centroids` (k, d) to a fixed point. Writes the cost of each pass; returns passes, the last confirming.

    Returns 0 where `costs` is too short for the assignment to repeat.
    """
    m, columns = len(points), columns_of(points)
    labels, before, best = np.empty(m, np.int64), np.full(m, -1, np.int64), np.empty(m)
    counts, sums = np.empty(len(centroids)), np.empty(centroids.shape)
    for t in range(len(costs)):
        nearest(columns, centroids, best, labels)
        costs[t], changed = add_up(points, weights, best, labels, before, counts, sums)
        if changed == 0.0:
            return t + 1
        labels, before = before, labels
        move_to_means(centroids, counts, sums)
    return 0


def _try_point_plain(
    columns: FloatArray, weights: FloatArray, point: FloatArray, closest: FloatArray, trial: FloatArray
) -> float:
    trial[:] = np.minimum(closest, _squares(columns, point[None, :])[0])
    padded = np.zeros(-(-len(trial) // PARTIAL_SUMS) * PARTIAL_SUMS)
    padded[: len(trial)] = weights * trial
    partial = np.cumsum(padded.reshape(-1, PARTIAL_SUMS), axis=0)[-1]
    return float(np.cumsum(partial)[-1])


@compiled_or(_try_point_plain, lambda columns, *_: 6 * columns.size)
def try_point(
    columns: FloatArray, weights: FloatArray, point: FloatArray, closest: FloatArray, trial: FloatArray
) -> float:
    """Write into `trial` (m,) the squared distance to the nearest centroid with `point` (d,) as one more.

    `closest` (m,) holds it without that. Returns the cost.
    """
    m = columns.shape[1]
    trial[:] = 0.0
    for j in range(len(columns)):
        x, at = columns[j], point[j]
        for i in range(m):
            trial[i] += (x[i] - at) * (x[i] - at)
    partial = np.zeros(PARTIAL_SUMS)
    for i in range(0, m, PARTIAL_SUMS):
        for w in range(min(PARTIAL_SUMS, m - i)):
            trial[i + w] = min(closest[i + w], trial[i + w])
            partial[w] += weights[i + w] * trial[i + w]
    cost: float = partial.sum()
    return cost


@drives_kernels
def seed_centroids(points: FloatArray, weights: FloatArray, uniforms: FloatArray, centroids: FloatArray) -> None:
    """Greedy k-means++: each next centroid is the best of several points drawn by weight times squared distance.

    `uniforms` (k, tries) in [0, 1) decide. Source: Arthur and Vassilvitskii (2007), section 5.
    """
    m, columns = len(points), columns_of(points)
    closest, trial, kept = np.full(m, np.inf), np.empty(m), np.empty(m)
    ends = np.cumsum(weights)
    heavy = np.flatnonzero(weights > 0.0)
    last = heavy[-1] if len(heavy) else 0
    for c in range(len(centroids)):
        cheapest = np.inf
        for u in uniforms[c]:
            chosen = min(np.searchsorted(ends, u * ends[-1], side="right"), last)
            cost = try_point(columns, weights, points[chosen], closest, trial)
            if cost < cheapest:
                cheapest = cost
                kept[:] = trial
                centroids[c] = points[chosen]
        closest[:] = kept
        ends = np.cumsum(weights * closest)


@drives_kernels
def best_start(points: FloatArray, weights: FloatArray, uniforms: FloatArray, start: FloatArray, most: int) -> None:
    """Write into `start` (k, d) the k-means++ start, of (restarts, k, tries) `uniforms`, with the cheapest end.

    Of several with the same end the first; ends that take more than `most` passes do not count.
    """
    cheapest, first, costs = np.inf, np.empty(start.shape), np.empty(most)
    for r in range(len(uniforms)):
        seed_centroids(points, weights, uniforms[r], first)
        if r == 0:
            start[:] = first
        passes = lloyd(points, weights, first.copy(), costs)
        if passes > 0 and costs[passes - 1] < cheapest:
            cheapest = costs[passes - 1]
            start[:] = first


@drives_kernels
def swap(points: FloatArray, weights: FloatArray, centroids: FloatArray, uniforms: FloatArray, passes: int) -> None:
    """Try to move one centroid of (k, d) elsewhere, once per row of `uniforms` (trials, 2); keep what costs less.

    The first number chooses a centroid, mostly one that others can replace, the second a point, by weight times squared
    distance. A trial is judged after so many passes of Lloyd's algorithm. Source: Fränti (2018), random swaps.
    """
    m, k, columns = len(points), len(centroids), columns_of(points)
    if k < 2 or m < 1 or len(uniforms) == 0:
        return
    labels, none, best = np.empty(m, np.int64), np.full(m, -1, np.int64), np.empty(m)
    counts, sums = np.empty(k), np.empty(centroids.shape)
    current, trial = centroids.copy(), np.empty(centroids.shape)
    lowest = np.inf
    order, ends = np.arange(k), np.empty(m)
    for t in range(-1, len(uniforms)):
        trial[:] = current
        if t >= 0:
            chosen = min(np.searchsorted(ends, uniforms[t, 1] * ends[-1], side="right"), m - 1)
            u = uniforms[t, 0]
            trial[order[min(int(u * u * u * k), k - 1)]] = points[chosen]
        for p in range(passes + 1):
            nearest(columns, trial, best, labels)
            cost, _ = add_up(points, weights, best, labels, none, counts, sums)
            if p < passes:
                move_to_means(trial, counts, sums)
        if cost < lowest:
            lowest = cost
            current[:] = trial
            order = np.argsort(replacement_costs(columns, weights, trial, best, labels), kind="mergesort")
            ends = np.cumsum(weights * best)
    centroids[:] = current


def _replacement_costs_plain(
    columns: FloatArray, weights: FloatArray, centroids: FloatArray, best: FloatArray, labels: IntArray
) -> FloatArray:
    squares = _squares(columns, centroids)
    squares[labels, np.arange(len(labels))] = np.inf
    extra = np.bincount(labels, weights * (squares.min(axis=0) - best), len(centroids))
    return np.asarray(extra, np.float64)


@compiled_or(_replacement_costs_plain, lambda columns, _, centroids, *__: _work_of_distances(columns, centroids))
def replacement_costs(
    columns: FloatArray, weights: FloatArray, centroids: FloatArray, best: FloatArray, labels: IntArray
) -> FloatArray:
    """What it would cost to leave out each centroid, shape (k,), given the nearest one of each point."""
    extra = np.zeros(len(centroids))
    for i in range(len(weights)):
        second = np.inf
        for c in range(len(centroids)):
            if c != labels[i]:
                square = 0.0
                for j in range(len(columns)):
                    square += (columns[j, i] - centroids[c, j]) ** 2
                second = min(second, square)
        extra[labels[i]] += weights[i] * (second - best[i])
    return extra
