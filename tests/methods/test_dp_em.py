from __future__ import annotations

import math

import numpy as np
import pytest

from dpkmeans import DPKMeans
from dpkmeans.audit.hard_pairs import hard_pairs, replay_pair
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.exact import reveal
from dpkmeans.core.rho import Rho
from dpkmeans.data.source import open_array
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.engines.stream import StreamEngine
from dpkmeans.errors import BudgetError, DataError, DPKMeansError
from dpkmeans.methods.dp_em import MIN_VARIANCE, Components, cholesky, dp_em, inverse, one_component, step
from dpkmeans.methods.mixture_moments import PARTS, REACH, Moments, Units, _share
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.session import FitRequest

BOXES = {
    "square": Bounds.of((0, 1), 2),
    "odd": Bounds.of(([0, -2, 5], [1, 2, 5]), 3),
    "line": Bounds.of((0, 10), 1),
    "thin": Bounds.of(([0, 0], [1, 1e-5]), 2),
    "seven": Bounds.of((-1, 1), 7),
}


def engine_of(records: np.ndarray, box: Bounds) -> MemoryEngine:
    return MemoryEngine.of_records(records, box, n_threads=1)


def a_mixture(rng: np.random.Generator, box: Bounds, k: int) -> Components:
    d = box.n_features
    roots = rng.standard_normal((k, d, d)) * 10 ** rng.uniform(-3, 0)
    return Components(
        rng.uniform(-5, 500, k), rng.random((k, d)) * box.unit_box, roots @ roots.transpose(0, 2, 1) - 1e-4 * np.eye(d)
    )


def added_by(record: np.ndarray, box: Bounds, query: Moments) -> list[int]:
    return reveal(engine_of(record[None], box).answer(query), why="a test")[0].tolist()


def ask_once(box: Bounds) -> None:
    """The first question of a process is that of one component, as in a fit: it reaches its bound in the corner."""
    engine_of(np.array(box.upper)[None], box).answer(Moments(box, one_component(box).mixture()))


@pytest.mark.parametrize("name", BOXES)
def test_no_record_adds_more_than_the_moments_declare_and_a_corner_comes_near_it(name):
    box, rng = BOXES[name], np.random.default_rng(1)
    ask_once(box)
    nearest = 0.0
    for trial in range(150):
        query = Moments(box, a_mixture(rng, box, int(rng.integers(1, 5))).mixture())
        square = query.sensitivity.l2_squared
        low, high = np.array(box.lower), np.array(box.upper)
        record = [rng.uniform(low, high), rng.normal(0, 1e6, len(low)), np.where(rng.random(len(low)) < 0.5, low, high)]
        added = added_by(record[trial % 3], box, query)
        assert sum(a * a for a in added) <= square
        corner = sum(a * a for a in added_by(high, box, query))
        assert corner <= square
        nearest = max(nearest, corner / square)
    assert nearest >= 7 / 8


def test_one_step_less_than_declared_would_be_passed():
    box = BOXES["line"]  # one feature: 25 z⁴ is all there is
    query = Moments(box, one_component(box).mixture())
    assert sum(a * a for a in added_by(np.array([10.0]), box, query)) == query.sensitivity.l2_squared


@pytest.mark.parametrize("d", [1, 2, 5, 16, 64])
def test_units_are_as_fine_as_the_reach_allows(d):
    units = Units.of(Bounds.of((0, 1), d))
    assert units.sum_factor**2 * units.square <= REACH**2
    assert 5 * units.product_factor * units.product_norm <= REACH
    assert min(units.sum_factor, units.product_factor) >= 1


def test_the_parts_of_a_record_are_its_responsibilities_and_never_more_than_the_whole():
    rng, box = np.random.default_rng(2), BOXES["square"]
    for _ in range(300):
        k = int(rng.integers(1, 6))
        given = a_mixture(rng, box, k).mixture()
        place, parts = rng.random(2), np.empty(k, np.int64)
        _share(place, given.log_weights, given.means, given.whitening, PARTS, parts)
        along = np.einsum("cij,cj->ci", given.whitening, place - given.means)
        logs = given.log_weights - 0.5 * (along**2).sum(axis=1)
        shares = np.exp(logs - logs.max())
        assert (parts >= 0).all()
        assert parts.sum() == PARTS
        assert (np.abs(parts - shares / shares.sum() * PARTS) <= k + 1e-6).all()
    far = np.full(2, 1e150)
    _share(far, given.log_weights, given.means, given.whitening, PARTS, parts)
    assert parts.min() >= 0
    assert parts.sum() == PARTS


def test_what_a_record_adds_is_the_same_wherever_it_stands():
    rng, box = np.random.default_rng(3), BOXES["square"]
    ask_once(box)
    X = rng.random((300, 2))
    query = Moments(box, a_mixture(rng, box, 3).mixture())
    whole = reveal(engine_of(X, box).answer(query), why="a test")[0]
    assert np.array_equal(whole, np.sum([added_by(x, box, query) for x in X], axis=0))
    assert np.array_equal(whole, reveal(engine_of(X[::-1], box).answer(query), why="a test")[0])


def test_moments_come_back_in_unit_coordinates():
    rng, box = np.random.default_rng(4), BOXES["square"]
    X = rng.normal([0.3, 0.7], [0.02, 0.1], (4000, 2)).clip(0, 1)
    query = Moments(box, one_component(box).mixture())
    counts, sums, products = query.parts(reveal(engine_of(X, box).answer(query), why="a test")[0])
    assert counts[0] == 4000
    assert np.abs(sums[0] / 4000 + 0.5 - X.mean(axis=0)).max() < 1e-6
    away = X - 0.5
    assert np.abs(products[0] / 4000 - away.T @ away / 4000).max() < 1e-4


def test_a_step_with_hardly_any_noise_is_one_of_expectation_maximisation():
    """Two clear clusters: counts, means and covariances are theirs."""
    rng, box = np.random.default_rng(5), BOXES["square"]
    X = np.vstack([rng.normal([0.2, 0.3], [0.03, 0.05], (600, 2)), rng.normal([0.8, 0.6], [0.05, 0.02], (400, 2))])
    given = Components(np.ones(2), np.array([[0.25, 0.25], [0.75, 0.65]]), np.tile(0.01 * np.eye(2), (2, 1, 1)))
    ledger = Ledger(rho=900.0)
    found = step(engine_of(X, box), given, Rho.of(900.0), "step", ledger=ledger, rng=Randomness.with_seed(0))
    assert np.abs(found.counts - [600, 400]).max() < 2
    assert np.abs(found.means - [X[:600].mean(axis=0), X[600:].mean(axis=0)]).max() < 0.002
    assert np.abs(np.sqrt([np.diag(c) for c in found.covariances]) - [[0.03, 0.05], [0.05, 0.02]]).max() < 0.004


def test_an_indefinite_covariance_is_made_positive_and_a_good_one_is_left_as_it_is():
    good = np.array([[0.04, 0.01], [0.01, 0.09]])
    factor = cholesky(good)
    assert np.allclose(factor @ factor.T, good, atol=1e-15)
    assert np.allclose(inverse(factor) @ factor, np.eye(2), atol=1e-12)
    for bad in (np.array([[-0.5, 0.1], [0.1, 0.2]]), np.zeros((2, 2)), np.array([[0.01, 7.0], [7.0, 0.01]])):
        factor = cholesky(bad)
        assert (np.diag(factor) >= math.sqrt(MIN_VARIANCE / 2)).all()
        assert np.isfinite(factor).all()


@pytest.mark.parametrize("promise", [{"promised": 1.0, "delta": 1e-6}, {"rho": 0.02}, {"rho": 1e-9}], ids=str)
def test_the_shares_of_rho_add_up_and_the_number_of_looks_is_fixed(promise):
    for X in (np.random.default_rng(0).random((500, 2)), np.zeros((1, 2))):
        ledger = Ledger(**promise)
        total = ledger.remaining_rho
        release = dp_em(steps=4).run(engine_of(X, BOXES["square"]), 3, ledger=ledger, rng=Randomness.secure())
        assert [s.label for s in ledger.spends] == ["all records", *(f"step {i}" for i in range(1, 5))]
        assert sum((s.rho or Rho(0) for s in ledger.spends), Rho(0)) == total
        assert release.guarantee.label == "proved"
        assert release.n_passes == 5
        assert ((release.centroids >= 0) & (release.centroids <= 1)).all()


def test_it_finds_clear_clusters():
    rng = np.random.default_rng(6)
    towns = np.array([[0.2, 0.2], [0.8, 0.3], [0.5, 0.8]])
    X = (towns[rng.integers(3, size=60_000)] + 0.04 * rng.standard_normal((60_000, 2))).clip(0.0001, 0.9999)
    release = dp_em().run(engine_of(X, BOXES["square"]), 3, ledger=Ledger(4.0, delta=1e-6), rng=Randomness.with_seed(1))
    gaps = np.linalg.norm(release.centroids[:, None] - towns, axis=2)
    assert gaps.min(axis=0).max() < 0.05
    assert abs(sum(release.sizes) - 60_000) < 3000


def test_a_seeded_mixture_is_the_same_to_the_bit_in_memory_and_streamed():
    X = np.random.default_rng(7).random((900, 3))
    box = Bounds.of((0, 1), 3)
    engines = (engine_of(X, box), StreamEngine(open_array(X), box, batch_rows=200, n_threads=2))
    first, again = (
        dp_em(steps=3).run(engine, 3, ledger=Ledger(2.0, delta=1e-6), rng=Randomness.with_seed(3)).centroids
        for engine in engines
    )
    assert np.array_equal(first, again)
    other = dp_em(steps=3).run(engines[0], 3, ledger=Ledger(2.0, delta=1e-6), rng=Randomness.with_seed(4)).centroids
    assert not np.array_equal(first, other)


def test_a_feature_without_width_stays_put_and_records_beyond_count_as_at_the_bounds():
    box, rng = BOXES["odd"], np.random.default_rng(8)
    inside = np.where(rng.random((80, 3)) < 0.5, box.lower, box.upper)
    beyond = np.where(inside == box.upper, 1e300, -1e300)
    beyond[:, 2] = 5
    found = [
        dp_em(steps=2).run(engine_of(X, box), 2, ledger=Ledger(rho=0.5), rng=Randomness.with_seed(2)).centroids
        for X in (inside, beyond)
    ]
    assert np.array_equal(*found)
    assert (found[0][:, 2] == 5).all()


def test_no_hard_pair_loses_more_than_dp_em_declares():
    request = FitRequest(method=dp_em(steps=3), epsilon=1.0, delta=1e-6)
    replayed = [replay_pair(pair, request, i) for i, pair in enumerate(hard_pairs(10, 0))]
    assert all(found.holds for found in replayed), [found.why_not for found in replayed if not found.holds]
    assert max(found.rho / found.spent_rho for found in replayed) > 0.5


def test_pure_epsilon_too_many_features_and_no_steps_are_refused_before_anything_is_spent():
    with pytest.raises(BudgetError, match="delta"):
        DPKMeans(2, epsilon=1.0, bounds=(0, 1), method="dp-em").fit(np.zeros((90, 2)))
    ledger = Ledger(rho=0.1)
    with pytest.raises(DataError, match="up to 64 features; there are 65"):
        dp_em().run(engine_of(np.zeros((9, 65)), Bounds.of((0, 1), 65)), 2, ledger=ledger, rng=Randomness.secure())
    assert not ledger.spends
    with pytest.raises(DPKMeansError, match="steps"):
        dp_em(steps=0)
