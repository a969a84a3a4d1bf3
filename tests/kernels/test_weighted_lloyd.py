from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpkmeans.kernels import weighted_lloyd


def some_points(seed: int, m: int, d: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Points with many equal distances, and their weights."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 5, (m, d)) / 4, rng.random(m) * 10, rng


def plain_pass(points, weights, centroids):
    """One pass point by point, as it is written in books: labels, weights and sums of the cells, cost."""
    labels, counts, sums, cost = [], np.zeros(len(centroids)), np.zeros(centroids.shape), 0.0
    for x, weight in zip(points, weights.tolist(), strict=True):
        squares = []
        for centroid in centroids:
            square = 0.0
            for a, b in zip(x.tolist(), centroid.tolist(), strict=True):
                square += (a - b) * (a - b)
            squares.append(square)
        labels.append(squares.index(min(squares)))
        cost += weight * min(squares)
        counts[labels[-1]] += weight
        sums[labels[-1]] += weight * x
    return labels, counts, sums, cost


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 80), st.integers(1, 12), st.integers(1, 9), st.booleans())
def test_a_pass_is_the_one_in_books_to_the_bit_ties_to_the_first_centroid(seed, m, d, k, ties):
    points, weights, rng = some_points(seed, m, d)
    points, centroids = (points, rng.integers(0, 5, (k, d)) / 4) if ties else (rng.random((m, d)), rng.random((k, d)))
    labels, counts, sums = np.full(m, -1), np.empty(k), np.empty((k, d))
    cost, changed = weighted_lloyd.assign(points, weights, centroids, labels, counts, sums)
    expected = plain_pass(points, weights, centroids)
    assert labels.tolist() == expected[0]
    assert counts.tobytes() == expected[1].tobytes()
    assert sums.tobytes() == expected[2].tobytes()
    assert (cost, changed) == (expected[3], m)
    assert weighted_lloyd.assign(points, weights, centroids, labels, counts, sums) == (cost, 0)


@pytest.mark.parametrize("m", [255, 256, 257, 600])
def test_points_are_labelled_alike_at_the_ends_of_blocks(m):
    points, weights, rng = some_points(m, m, 3)
    centroids = rng.random((5, 3))
    labels, counts, sums = np.full(m, -1), np.empty(5), np.empty((5, 3))
    weighted_lloyd.assign(points, weights, centroids, labels, counts, sums)
    assert labels.tolist() == plain_pass(points, weights, centroids)[0]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 80), st.integers(1, 12), st.integers(1, 9))
def test_lloyd_comes_to_rest_and_every_cost_is_that_of_its_pass(seed, m, d, k):
    points, weights, rng = some_points(seed, m, d)
    start, costs = rng.random((k, d)), np.empty(300)
    end = start.copy()
    passes = weighted_lloyd.lloyd(points, weights, end, costs)
    assert costs[passes - 1] == plain_pass(points, weights, end)[3]
    assert costs[0] == plain_pass(points, weights, start)[3]
    assert weighted_lloyd.lloyd(points, weights, end, np.empty(2)) == 2  # it has come to rest
    assert weighted_lloyd.lloyd(points, weights, start.copy(), np.empty(passes - 1)) == 0


def test_a_cell_that_lost_all_its_points_keeps_its_centroid():
    """Sums that only follow the changes would leave a crumb of weight behind, and a centroid made of crumbs."""
    points = np.array([[0.1], [0.3], [0.7]])
    centroids = np.array([[0.35], [0.36], [0.1]])
    weights = np.array([0.1, 0.2, 0.3])
    end = centroids.copy()
    weighted_lloyd.lloyd(points, weights, end, np.empty(50))
    assert ((end >= 0.1 - 1e-15) & (end <= 0.7 + 1e-15)).all()


def seeded(points, weights, uniforms):
    """Greedy k-means++ in a few plain lines."""
    nearest, total, chosen = np.full(len(points), np.inf), weights.sum(), []
    for c, tries in enumerate(uniforms):
        best: tuple[float, Any, int] = (np.inf, None, 0)
        for u in tries:
            left, shares = u * total, weights if c == 0 else weights * nearest
            pick = len(points) - 1
            for i, share in enumerate(shares):
                left -= share
                if left < 0:
                    pick = i
                    break
            square = np.zeros(len(points))
            for j in range(points.shape[1]):
                square += (points[:, j] - points[pick, j]) ** 2
            trial = np.minimum(nearest, square)
            cost = 0.0
            for term in (weights * trial).tolist():
                cost += term
            if cost < best[0]:
                best = (cost, trial, pick)
        total, nearest = best[0], best[1]
        chosen.append(points[best[2]])
    return np.array(chosen)


@pytest.mark.parametrize(("m", "d", "k"), [(1, 1, 1), (16, 2, 3), (33, 10, 4), (200, 3, 7)])
def test_the_best_start_is_a_seeding_with_the_cheapest_end(m, d, k):
    points, weights, rng = some_points(m, m, d)
    points = points + rng.random((m, d)) / 8  # no two in one place
    uniforms, start = rng.random((6, k, 3)), np.empty((k, d))
    weighted_lloyd.best_start(points, weights, uniforms, start, 300)
    starts, ends = [seeded(points, weights, one) for one in uniforms], []
    for first in starts:
        costs = np.empty(300)
        ends.append(costs[weighted_lloyd.lloyd(points, weights, first.copy(), costs) - 1])
    (chosen,) = [end for first, end in zip(starts, ends, strict=True) if np.array_equal(first, start)][:1]
    assert chosen <= min(ends) * (1 + 1e-12)


def test_a_start_whose_way_is_too_long_is_the_last_resort():
    points, weights, rng = some_points(0, 200, 2)
    uniforms, start = rng.random((3, 9, 3)), np.empty((9, 2))
    weighted_lloyd.best_start(points, weights, uniforms, start, 1)
    assert np.array_equal(start, seeded(points, weights, uniforms[0]))
