from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpkmeans.kernels import weighted_lloyd, weighted_starts


def some_points(seed: int, m: int, d: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Points with many equal distances, and their weights."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 5, (m, d)) / 4, rng.random(m) * 10, rng


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 80), st.integers(1, 12), st.integers(1, 9))
def test_the_end_cost_is_that_of_the_plain_loop(seed, m, d, k):
    """Weights are whole, and so are points in quarters, so that sums are exact and both end in the same place."""
    points, weights, rng = some_points(seed, m, d)
    start, costs = rng.random((k, d)), np.empty(300)
    weights = np.ceil(weights)
    passes = weighted_lloyd.lloyd(points, weights, start.copy(), costs)
    end = start.copy()
    assert weighted_starts.end_cost(weighted_starts.tiled(points), weights, end, 300) == pytest.approx(
        costs[passes - 1], rel=1e-12
    )
    assert weighted_lloyd.lloyd(points, weights, end, np.empty(2)) == 2  # it has come to rest
    assert weighted_starts.end_cost(weighted_starts.tiled(points), weights, start.copy(), passes - 1) == np.inf


def seeded(points, weights, uniforms):
    """Greedy k-means++ in a few plain lines."""
    nearest, total, chosen = np.full(len(points), np.inf), weights.sum(), []
    for c, tries in enumerate(uniforms):
        best = (np.inf, None, None)
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
    weighted_starts.best_start(points, weights, uniforms, start, 300)
    starts, ends = [seeded(points, weights, one) for one in uniforms], []
    for first in starts:
        costs = np.empty(300)
        ends.append(costs[weighted_lloyd.lloyd(points, weights, first.copy(), costs) - 1])
    (chosen,) = [end for first, end in zip(starts, ends, strict=True) if np.array_equal(first, start)][:1]
    assert chosen <= min(ends) * (1 + 1e-12)


def test_a_start_whose_way_is_too_long_is_the_last_resort():
    points, weights, rng = some_points(0, 200, 2)
    uniforms, start = rng.random((3, 9, 3)), np.empty((9, 2))
    weighted_starts.best_start(points, weights, uniforms, start, 1)
    assert np.array_equal(start, seeded(points, weights, uniforms[0]))
