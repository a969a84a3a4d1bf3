"""In which features clusters are looked for, and what becomes of the others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpkmeans.audit.hard_pairs import run_of
from dpkmeans.audit.replay import replay
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.exact import reveal
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.errors import WeakSignalWarning
from dpkmeans.methods.registry import make_method
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.session import FitRequest
from dpkmeans.synopsis.features import Narrowed, worth_their_noise
from dpkmeans.synopsis.method import build, synopsis
from dpkmeans.synopsis.residual_queries import Residuals
from dpkmeans.synopsis.verify import verify

SIDES = np.array([1.0] * 5 + [0.02] * 40)


def clusters(n, k=8, seed=2):
    rng = np.random.default_rng(seed)
    centers = rng.random((k, len(SIDES)))
    return np.clip(centers[rng.integers(k, size=n)] + 0.03 * rng.standard_normal((n, len(SIDES))), 0, 1) * SIDES


def engine_of(X, times=1.0):
    return MemoryEngine.of_records(X, Bounds.of((0, times * SIDES), len(SIDES)), n_threads=1)


def fitted(engine, k, epsilon, seed=0):
    return make_method("synopsis").run(engine, k, ledger=Ledger(epsilon), rng=Randomness.with_seed(seed))


@pytest.mark.parametrize("d", [1, 5, 26, 60])
def test_a_strong_signal_leaves_no_feature_out(d):
    assert len(worth_their_noise(np.ones(d), 100.0 * d * 8, 8)) == d


def test_short_sides_are_left_out_where_the_signal_is_weak_and_only_there():
    assert worth_their_noise(SIDES, 500.0, 20).tolist() == [0, 1, 2, 3, 4]
    assert len(worth_their_noise(SIDES, 1e7, 20)) == len(SIDES)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 2**32 - 1))
def test_the_longest_sides_are_kept_with_most_of_their_squares_and_never_so_many_that_no_tree_is_built(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 90))
    box = np.where(rng.random(d) < 0.1, 0.0, 10.0 ** rng.uniform(-2, 0, d))
    box[0] = 1.0
    kept = worth_their_noise(box, float(10 ** rng.uniform(0, 6)), int(rng.integers(1, 100)))
    rest = np.setdiff1d(np.arange(d), kept)
    if len(rest):
        assert box[kept].min() >= box[rest].max()
        assert np.sum(box[kept] ** 2) >= 0.7 * np.sum(box**2)
        assert len(kept) < 27


@pytest.mark.filterwarnings("ignore::dpkmeans.errors.WeakSignalWarning")
@pytest.mark.parametrize(("times", "fits"), [(1.0, True), (8.0, False)])
def test_features_are_left_out_in_a_box_that_fits_and_in_no_other(times, fits):
    """Six seeded runs with N·ε = 300: the noise of the answer misleads about one in fifty."""
    engine = engine_of(clusters(3000), times)
    assert len(worth_their_noise(engine.bounds.unit_box, 300.0, 20)) == 5
    for seed in range(6):
        ledger, rng = Ledger(0.1), Randomness.with_seed(seed)
        _, plan = build(engine, 20, synopsis(n_records=3000), ledger=ledger, rng=rng)
        assert ledger.spends[0].label == "box: outside half"
        assert (plan.features is not None) == fits
        assert not fits or plan.features.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.filterwarnings("ignore::dpkmeans.errors.WeakSignalWarning")
@pytest.mark.parametrize(("n", "epsilon"), [(100, 0.2), (20_000, 1e3)])
def test_no_feature_is_left_out_where_the_box_is_not_known_to_fit_or_the_signal_is_strong(n, epsilon):
    """Twenty records times ε are too few to ask; with 2e7 every feature is worth its noise."""
    release = fitted(engine_of(clusters(n)), 2, epsilon)
    assert "features" not in release.parameters
    assert ("box: outside half" in [spend.label for spend in release.spends]) == (n > 100)


def test_a_question_about_some_features_is_the_question_about_records_that_have_no_others():
    rng = np.random.default_rng(0)
    X = rng.random((300, 4)) * [4.0, 1.0, 2.0, 0.5]
    some = np.array([0, 2])
    narrow = Narrowed(MemoryEngine.of_records(X, Bounds.of((0, [4.0, 1.0, 2.0, 0.5]), 4), n_threads=1), some)
    alone = MemoryEngine.of_records(X[:, some], Bounds.of((0, [4.0, 2.0]), 2), n_threads=1)
    query = Residuals(rng.random((3, 2)) * narrow.bounds.unit_box, np.full((3, 2), 0.3))
    assert np.array_equal(reveal(narrow.answer(query), why="a test"), reveal(alone.answer(query), why="a test"))


def test_clusters_in_a_few_long_sides_are_found_among_many_short_ones():
    """With all features such a fit ends with one mean, or with few; here all of ε is spent, and it can be verified."""
    X, epsilon = clusters(2000), 0.5
    engine = engine_of(X)
    with pytest.warns(WeakSignalWarning):  # the rule of thumb counts all features
        release = fitted(engine, 8, epsilon)
    places = engine.bounds.unit_of(release.centroids)
    cost = reveal(engine.cell_statistics(places), why="a test").cost
    one = reveal(engine.cell_statistics(engine.bounds.unit_of(X.mean(axis=0)[None])), why="a test").cost
    assert cost < 0.5 * one
    asked = release.parameters["features"]
    assert 5 <= asked < 27
    heavy = release.certificate.points[release.certificate.weights > 1]
    assert np.allclose(heavy[:, asked:], 0.01, atol=2.0**-20)  # the middle of the sides that were left out
    assert sum(float(spend.epsilon) for spend in release.spends) == pytest.approx(epsilon, abs=1e-12)
    assert all(verdict.holds for verdict in verify(release)), [v for v in verify(release) if not v.holds]
    found = release.intervals()  # which claim nothing about features that nothing was asked about
    assert (found.lower[:, asked:] <= 1e-6).all()
    assert (found.upper[:, asked:] >= SIDES[asked:] - 1e-6).all()
    assert (found.upper - found.lower)[:, :5].min() < 0.5


@pytest.mark.parametrize("times", [1.0, 8.0], ids=["a box that fits", "a loose box"])
@pytest.mark.parametrize("extra", [0.0, 1e300, 0.25])
def test_one_record_steers_nothing_but_through_the_noise_where_features_are_chosen(extra, times):
    X = clusters(600)
    asked = {"method": "synopsis", "n_clusters": 8, "epsilon": 1.0, "scale": None, "nulls": "midpoint"}
    request = FitRequest(bounds=(0, times * SIDES), **asked)
    sides = (run_of(request, X), run_of(request, np.vstack([X, extra * SIDES])))
    for seed in range(2):
        replayed = replay(*sides, seed)
        assert replayed.holds, replayed.why_not
        assert "box: outside half" in {call.label for call in replayed.calls}
