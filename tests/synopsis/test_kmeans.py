from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

from dpkmeans.kernels import weighted_lloyd
from dpkmeans.synopsis.kmeans import assign, best_start, distinct, pad, simplified_silhouette, to_fixed_point, with_mean
from dpkmeans.synopsis.weighted_points import Near, WeightedPoints


def some_points(m: int, d: int, seed: int = 0, *, kind: str = "random") -> WeightedPoints:
    rng = np.random.default_rng(seed)
    if kind == "grid":  # many ties: equal weights on a symmetric grid
        side = np.linspace(0, 1, max(2, round(m ** (1 / d))))
        points = np.array(list(itertools.product(side, repeat=d)))
        return WeightedPoints(points, np.ones(len(points)))
    points = rng.random((m, d))
    weights = rng.random(m) ** 8 * 1000 + 1e-12 if kind == "uneven" else rng.random(m) + 0.1
    return WeightedPoints(points, weights)


@pytest.mark.parametrize("kind", ["random", "grid", "uneven"])
@pytest.mark.parametrize(("m", "d"), [(5, 1), (40, 1), (64, 2), (125, 3), (300, 5), (60, 30)])
def test_every_start_ends_at_a_fixed_point_and_no_pass_raises_the_cost(kind, m, d):
    if kind == "grid" and d > 3:
        m, d = 81, 4
    for seed, k in itertools.product(range(4), (1, 2, 3, 7)):
        points = pad(some_points(m, d, seed, kind=kind), k, np.ones(d), np.random.default_rng(seed), None)
        end = to_fixed_point(points, best_start(points, k, np.random.default_rng(seed)))
        labels, sizes = assign(points, end.centroids)
        means = np.stack([np.bincount(labels, points.weights * x, minlength=k) for x in points.points.T], axis=1)
        held = sizes > 0
        assert np.allclose(means[held] / sizes[held, None], end.centroids[held], atol=1e-9)
        assert np.array_equal(labels, end.labels)
        assert all(b <= a * (1 + 1e-12) + 1e-15 for a, b in itertools.pairwise(end.costs))
        assert weighted_lloyd.lloyd(points.points, points.weights, end.centroids.copy(), np.empty(2)) == 2


def test_the_best_of_many_starts_is_no_worse_than_one():
    points = some_points(300, 2)
    one, many = (
        np.mean(
            [to_fixed_point(points, best_start(points, 12, np.random.default_rng(s), n)).costs[-1] for s in range(5)]
        )
        for n in (1, 40)
    )
    assert many < one


def test_well_separated_groups_are_found():
    rng = np.random.default_rng(0)
    centers = np.array([[0.1, 0.1], [0.9, 0.1], [0.5, 0.9]])
    points = WeightedPoints(np.repeat(centers, 20, axis=0) + 0.01 * rng.standard_normal((60, 2)), np.ones(60))
    end = to_fixed_point(points, best_start(points, 3, rng))
    found = end.centroids[np.lexsort(end.centroids.T)]
    assert np.allclose(found, centers[np.lexsort(centers.T)], atol=0.01)
    assert simplified_silhouette(points, end) > 0.9


def test_a_weight_counts_like_as_many_points():
    points = some_points(30, 2)
    whole = np.random.default_rng(1).integers(1, 5, 30)
    start = points.points[:3].copy()
    weighted = to_fixed_point(WeightedPoints(points.points, whole.astype(float)), start)
    repeated = to_fixed_point(WeightedPoints(np.repeat(points.points, whole, axis=0), np.ones(whole.sum())), start)
    assert np.allclose(weighted.centroids, repeated.centroids)
    assert weighted.costs == pytest.approx(repeated.costs)


@pytest.mark.parametrize(
    "near", [None, Near(np.array([0.05, 0.01]), np.array([0.5, 0.1])), Near(np.zeros(2), np.ones(2))]
)
@pytest.mark.parametrize("k", [1, 5, 40, 3000])
def test_too_few_places_are_filled_up_to_k_distinct_ones_of_almost_no_weight(k, near):
    box = np.array([1.0, 0.2])
    points = WeightedPoints(np.array([[0.1, 0.1], [0.5, 0.1], [0.1, 0.1]]), np.array([3.0, 4.0, 5.0]))
    filled = pad(points, k, box, np.random.default_rng(0), near)
    assert len(np.unique(filled.points, axis=0)) >= k
    assert filled.weights.sum() == pytest.approx(12.0)
    assert ((filled.points >= 0) & (filled.points <= box)).all()
    start = best_start(filled, k, np.random.default_rng(0))
    assert len(np.unique(start, axis=0)) == k


def test_centroids_to_spare_lie_where_records_may_be_given_the_noise():
    """One noisy mean in 30 features and 19 more places: the nearest is on average closer to the exact mean."""
    rng, gains = np.random.default_rng(0), []
    near = Near(np.full(30, 0.02), np.full(30, 0.05))
    for _ in range(40):
        exact = 0.3 + 0.4 * rng.random(30)
        noisy = WeightedPoints((exact + 0.02 * rng.standard_normal(30))[None, :], np.ones(1))
        squares = ((pad(noisy, 20, np.ones(30), rng, near).points - exact) ** 2).sum(axis=1)
        gains.append(squares.min() / squares[0])
    assert np.mean(gains) < 0.93  # 1 if they lie anywhere


def test_very_many_clusters_take_seconds_and_not_hours():
    points = some_points(2500, 2)
    began = time.perf_counter()
    start = best_start(points, 2000, np.random.default_rng(0))
    assert time.perf_counter() - began < 60
    assert start.shape == (2000, 2)


def test_the_silhouette_of_one_cluster_is_zero_and_others_lie_between_zero_and_one():
    points = some_points(50, 2)
    for k in (1, 2, 5, 50):
        score = simplified_silhouette(points, to_fixed_point(points, best_start(points, k, np.random.default_rng(0))))
        assert score == 0.0 if k == 1 else 0.0 <= score <= 1.0


def test_the_mean_of_one_point_is_no_second_point_a_rounding_error_away():
    """Lloyd's algorithm would move between the two for ever."""
    place = np.random.default_rng(0).random((1, 31))
    for weight in np.random.default_rng(1).random(200) * 700:
        points = WeightedPoints(np.repeat(place, 2, axis=0), np.array([weight, weight / 3]))
        assert len(np.unique(with_mean(points).points, axis=0)) == 1
    apart = WeightedPoints(np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([3.0, 1.0]))
    assert with_mean(apart).points[2].tolist() == [0.25, 0.0]


@pytest.mark.parametrize("different", [1, 3, 7, 40])
def test_different_points_are_counted_up_to_what_is_asked_wherever_they_stand(different):
    rng = np.random.default_rng(different)
    places = rng.random((different, 2))
    for order in (np.arange(200) % different, np.sort(np.arange(200) % different), rng.integers(different, size=200)):
        n = len(set(order.tolist()))
        assert [distinct(places[order], most) for most in (1, 2, 7, 41)] == [min(n, most) for most in (1, 2, 7, 41)]
    assert distinct(np.array([[0.0, -0.0], [-0.0, 0.0]]), 2) == 1
