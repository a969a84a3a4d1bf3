from __future__ import annotations

import numpy as np
import pytest

from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import reveal
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.methods.registry import make_method
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis.kmeans import to_fixed_point
from dpkmeans.synopsis.recentre import deviation_of, extrapolate, learn_radius, noise_of_means, radius_of, recentre
from dpkmeans.synopsis.settings import EXTRAPOLATION, MIN_RADIUS
from dpkmeans.synopsis.weighted_points import WeightedPoints


def groups(n: int = 20_000, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.array([[0.25, 0.25], [0.75, 0.75]])[rng.integers(2, size=n)] + 0.02 * rng.standard_normal((n, 2))


def engine_of(X) -> MemoryEngine:
    return MemoryEngine.of_records(X, Bounds.of((0, 1), X.shape[1]), n_threads=1)


def test_centroids_move_to_the_means_and_never_past_the_radius():
    start = np.array([[0.27, 0.22], [0.72, 0.78]])
    radius = np.full((2, 2), 0.1)
    ledger = Ledger(1.0)
    moved = recentre(engine_of(groups()), start, radius, Epsilon.of(1.0), ledger=ledger, rng=Randomness.with_seed(0))
    assert np.allclose(moved.centroids, [[0.25, 0.25], [0.75, 0.75]], atol=0.002)
    assert float(ledger.spent) == 1.0
    tight = np.full((2, 2), 0.005)
    moved = recentre(engine_of(groups()), start, tight, Epsilon.of(1.0), ledger=Ledger(), rng=Randomness.with_seed(0))
    assert (np.abs(moved.centroids - start) <= tight + 1e-12).all()


def test_without_a_signal_centroids_stay_where_they_are():
    start = np.array([[0.27, 0.22], [0.72, 0.78]])
    stayed = 0
    for seed in range(20):
        moved = recentre(
            engine_of(groups(3)),
            start,
            np.full((2, 2), 0.2),
            Epsilon.of(0.01),
            ledger=Ledger(),
            rng=Randomness.with_seed(seed),
        )
        stayed += np.array_equal(moved.centroids, start)
        assert ((moved.centroids >= 0) & (moved.centroids <= 1)).all()
    assert stayed >= 8


def test_the_next_step_is_extrapolated_from_the_synopsis_and_no_further():
    points = WeightedPoints(np.array([[0.0], [0.25], [0.5], [0.75], [1.0]]), np.ones(5))
    fixed = np.array([[0.125], [0.75]])
    assert np.array_equal(extrapolate(points, fixed, fixed, EXTRAPOLATION), fixed)
    moved = np.array([[0.25], [0.875]])  # the first takes 0.5 over, so both means grow by 0.125
    assert np.allclose(extrapolate(points, fixed, moved, 1.0), moved + 0.125)
    assert np.allclose(extrapolate(points, fixed, moved, 0.5), moved + 0.0625)
    assert np.array_equal(extrapolate(points, fixed, moved, 0.0), moved)


def test_a_followed_step_ends_nearer_to_the_optimum_where_the_synopsis_is_off_by_the_same_everywhere():
    X = np.random.default_rng(0).random((4000, 1))  # two means, 1/4 and 3/4; a step halves the way
    shifted = WeightedPoints(X + 0.05, np.ones(len(X)))
    fixed = to_fixed_point(shifted, np.array([[0.3], [0.9]])).centroids
    exact = engine_of(X).cell_statistics(fixed)
    moved = reveal(exact, why="a test").means(empty=fixed)
    best = np.array([[0.25], [0.75]])
    gone = extrapolate(shifted, fixed, moved, EXTRAPOLATION)
    assert np.abs(gone - best).max() < 0.7 * np.abs(moved - best).max()


@pytest.mark.parametrize("k", [1, 2, 5])
def test_the_radius_follows_the_distance_to_the_next_centroid_and_the_synopsis_deviations(k):
    points = WeightedPoints(np.random.default_rng(0).random((200, 2)), np.ones(200))
    end = to_fixed_point(points, points.points[:k].copy())
    radius = radius_of(points, end, 0.5, 2.5)
    assert radius.shape == (k, 2)
    assert (radius >= MIN_RADIUS).all()
    gaps = np.linalg.norm(end.centroids[:, None] - end.centroids, axis=2) + 9 * np.eye(k)
    assert (radius <= 0.5 * np.minimum(gaps.min(axis=1), 1.0)[:, None] + 1e-12).all()
    spread = [points.points[end.labels == c].std(axis=0) for c in range(k)]
    assert np.allclose(radius_of(points, end, 9.0, 1.5), 1.5 * np.array(spread))


def test_a_cluster_that_is_one_point_gets_the_smallest_radius():
    points = WeightedPoints(np.array([[0.2, 0.2], [0.8, 0.8]]), np.ones(2))
    assert (radius_of(points, to_fixed_point(points, points.points.copy()), 0.5, 2.5) == MIN_RADIUS).all()


@pytest.mark.parametrize("spread", [0.01, 0.1])
def test_a_learned_radius_is_about_as_large_as_the_residuals(spread):
    rng = np.random.default_rng(0)
    X = 0.5 + spread * rng.standard_normal((50_000, 12))
    ledger = Ledger(1.0)
    radius = learn_radius(
        engine_of(X),
        np.full((1, 12), 0.5),
        np.full(12, 0.5),
        noise_of_means(12, 1, 5e4, Epsilon.of(0.5)),
        Epsilon.of(0.5),
        ledger=ledger,
        rng=Randomness.with_seed(0),
    )
    assert spread < radius[0, 0] < 12 * spread
    assert [spend.label for spend in ledger.spends] == ["radius"]


def test_a_learned_radius_is_in_proportion_to_its_scale():
    X = 0.5 + np.array([0.01, 0.1, 0.0]) * np.random.default_rng(0).standard_normal((50_000, 3))
    radius = learn_radius(
        MemoryEngine.of_records(X, Bounds.of(([0, 0, 0.5], [1, 1, 0.5]), 3), n_threads=1),
        np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]),
        np.array([0.04, 0.4, 0.0]),
        noise_of_means(2, 2, 5e4, Epsilon.of(0.5)),
        Epsilon.of(0.5),
        ledger=Ledger(1.0),
        rng=Randomness.with_seed(0),
    )
    assert (radius[0] == radius[1]).all()
    assert radius[0, 1] == pytest.approx(10 * radius[0, 0])
    assert 0.01 < radius[0, 0] < 0.05
    assert radius[0, 2] == 0.0


def test_more_noise_makes_a_learned_radius_smaller():
    radii = [
        learn_radius(
            engine_of(groups()),
            np.array([[0.27, 0.22], [0.72, 0.78]]),
            np.full(2, 0.5),
            noise,
            Epsilon.of(0.5),
            ledger=Ledger(1.0),
            rng=Randomness.with_seed(0),
        )[0, 0]
        for noise in (0.001, 0.3)
    ]
    assert radii[1] < radii[0]


def test_the_deviation_of_a_synopsis_is_that_of_its_points_around_their_centroids():
    points = WeightedPoints(np.array([[0.0, 0.1], [0.2, 0.1], [0.8, 0.1]]), np.array([1.0, 1.0, 2.0]))
    end = to_fixed_point(points, np.array([[0.1, 0.1], [0.8, 0.1]]))
    assert np.allclose(deviation_of(points, end), [np.sqrt(0.5 * 0.1**2), 0.0])


def test_clusters_that_are_tighter_than_the_leaves_of_a_tree_are_re_centred_within_a_small_radius():
    """Leaves say where records are to about their own size; the records say how far they are from the centroids."""
    X = corners(6, 20_000, 0.002)
    release = make_method("synopsis").run(engine_of(X), 8, ledger=Ledger(0.2), rng=Randomness.with_seed(0))
    assert [s.label for s in release.spends if s.label in ("radius", "re-centring")] == ["radius", "re-centring"]
    certificate = release.certificate
    points = WeightedPoints(certificate.points, certificate.weights)
    spread = deviation_of(points, to_fixed_point(points, certificate.start))
    assert (certificate.correction.bound < 2.5 * spread).all()


def test_hyperplanes_learn_the_radius_on_the_scale_of_the_box_that_a_zoom_has_found():
    """In a box 64 times too wide, residuals are smaller than the smallest part of its sides that is told apart."""
    X = corners(20, 20_000, 0.02) / 64
    release = make_method("synopsis").run(engine_of(X), 8, ledger=Ledger(1.0), rng=Randomness.with_seed(0))
    labels = [s.label for s in release.spends]
    assert {"zoom: box", "signs: means", "radius"} <= set(labels)
    assert release.certificate.correction.bound.max() < 2.0**-9


def corners(d: int, n: int, spread: float) -> np.ndarray:
    """Eight clusters in the unit cube."""
    rng = np.random.default_rng(1)
    return np.clip(rng.random((8, d))[rng.integers(8, size=n)] + spread * rng.standard_normal((n, d)), 0, 1)
