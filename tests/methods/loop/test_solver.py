"""The loop with the updates of Lloyd and of Lu and Shen, on ordinary data and at the edges."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import reveal
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.kernels.zones import distances
from dpkmeans.methods.loop.budgets import StepBudget
from dpkmeans.methods.loop.final_steps import AsIs, NoisyCountMean
from dpkmeans.methods.loop.solver import Run, iterate
from dpkmeans.methods.loop.stopping import AfterPlan, Repeats
from dpkmeans.methods.loop.updates import ExactMean, NoisyMean
from dpkmeans.methods.lu_shen.zone_sampling import Controller, ZoneSampling
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness

STEP = Epsilon.of(0.1)
UPDATES = {
    "lloyd": ExactMean(),
    "posterior": ZoneSampling(Controller.POSTERIOR),
    "prior": ZoneSampling(Controller.PRIOR),
    "clipped prior": ZoneSampling(Controller.CLIPPED_PRIOR),
}
every_update = pytest.mark.parametrize("update", UPDATES.values(), ids=list(UPDATES))
zone_updates = pytest.mark.parametrize("update", list(UPDATES.values())[1:], ids=list(UPDATES)[1:])


def engine_of(X):
    X = np.asarray(X, float)
    return MemoryEngine.of_records(X, Bounds.of((0, 1), X.shape[1]), n_threads=1)


def run(engine, start, update, *, steps=300, seed=0, ledger=None, stop=None):
    ledger = ledger if ledger is not None else Ledger()
    plan, rng = [StepBudget(zone=STEP)] * steps, Randomness.with_seed(seed)
    return iterate(Run(engine, np.asarray(start, float), plan, stop or Repeats(), ledger, rng), update)


def random_problem(seed, n=200, d=2, k=5):
    rng = np.random.default_rng(seed)
    return rng.random((n, d)), rng.random((k, d))


@every_update
@pytest.mark.parametrize("d", [1, 2, 6])
def test_a_run_stops_by_itself_at_a_repeated_assignment(update, d):
    X, start = random_problem(d, d=d)
    engine = engine_of(X)
    end = run(engine, start, update)
    assert end.stopped
    last_but_one = end.moves[-2][1].centroids if len(end.moves) > 1 else start
    assert np.array_equal(engine.labels(end.centroids), engine.labels(last_but_one))
    assert end.passes == len(end.moves) * end.moves[0][1].passes


def test_lloyd_ends_on_the_means_of_its_cells():
    X, start = random_problem(1)
    end = run(engine_of(X), start, ExactMean())
    means = reveal(end.exact, why="a test looks").means(empty=end.centroids)
    assert means == pytest.approx(end.centroids, abs=1e-15)


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 8), st.integers(1, 8), st.sampled_from(list(UPDATES)[1:]))
def test_every_released_centroid_lies_in_its_published_zone(seed, d, k, name):
    X, start = random_problem(seed, n=60, d=d, k=k)
    end = run(engine_of(X), start, UPDATES[name], steps=20, seed=seed)
    for _, move in end.moves:
        away = np.linalg.norm(move.centroids - move.zones.center, axis=1)
        assert (away <= move.zones.radius + 1e-12).all()


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 8), st.integers(1, 8), st.sampled_from(["posterior", "clipped prior"]))
def test_posterior_and_clipped_zones_lie_in_their_convergent_zones(seed, d, k, name):
    X, start = random_problem(seed, n=60, d=d, k=k)
    engine = engine_of(X)
    end = run(engine, start, UPDATES[name], steps=20, seed=seed)
    previous = start
    for _, move in end.moves:
        means = reveal(engine.cell_statistics(previous), why="a test looks").means(empty=previous)
        farthest = np.linalg.norm(move.zones.center - means, axis=1) + move.zones.radius
        assert (farthest <= distances(previous, means) + 1e-12).all()
        previous = move.centroids


def test_the_papers_prior_zones_do_leave_their_convergent_zones():
    left = total = 0
    for seed in range(5):
        X, start = random_problem(seed, k=8)
        engine = engine_of(X)
        previous = start
        for _, move in run(engine, start, UPDATES["prior"], seed=seed).moves:
            means = reveal(engine.cell_statistics(previous), why="a test looks").means(empty=previous)
            radius = distances(previous, means)
            farthest = np.linalg.norm(move.zones.center - means, axis=1) + move.zones.radius
            left += int((farthest > radius + 1e-12)[radius > 0].sum())
            total += int((radius > 0).sum())
            previous = move.centroids
    assert 0.05 < left / total < 0.6


@zone_updates
def test_each_step_spends_the_largest_budget_of_its_clusters(update):
    X, start = random_problem(2)
    ledger = Ledger()
    end = run(engine_of(X), start, update, ledger=ledger)
    assert ledger.spent == Epsilon(STEP.nano * len(end.moves))
    assert {spend.composition for spend in ledger.spends} == {"parallel"}
    assert all(len(spend.parts) == len(start) for spend in ledger.spends)


@every_update
def test_a_cluster_that_does_not_move_stays_on_its_mean(update):
    X = np.array([[0.25, 0.25], [0.75, 0.75]])
    end = run(engine_of(X), X, update)
    assert end.centroids.tolist() == X.tolist()
    assert end.stopped
    assert len(end.moves) == 1
    if end.moves[0][1].zones is not None:
        assert end.moves[0][1].zones.radius.tolist() == [0, 0]


@every_update
def test_an_empty_cluster_stays_where_it_is(update):
    X, _ = random_problem(3, n=50)
    start = np.array([[0.5, 0.5], [40.0, 40.0]])
    end = run(engine_of(X), start, update)
    assert end.stopped
    assert end.centroids[1].tolist() == [40.0, 40.0]


@every_update
@pytest.mark.parametrize("d", [1, 3])
def test_one_record_and_one_cluster(update, d):
    end = run(engine_of(np.full((1, d), 0.25)), np.full((1, d), 0.75), update)
    assert end.stopped
    stats = reveal(end.exact, why="a test looks")
    assert stats.means(empty=end.centroids).tolist() == [[0.25] * d]


@every_update
def test_as_many_clusters_as_records(update):
    X, _ = random_problem(4, n=12)
    engine = engine_of(X)
    start = reveal(engine.sample_rows(12, np.random.default_rng(0)), why="a test looks")
    end = run(engine, start, update)
    assert end.stopped
    assert np.array_equal(end.centroids, start)


@every_update
def test_duplicates_of_one_record(update):
    end = run(engine_of(np.full((30, 2), 0.5)), [[0.5, 0.5], [0.5, 0.5], [0.1, 0.1]], update)
    assert end.stopped
    assert end.centroids.tolist() == [[0.5, 0.5], [0.5, 0.5], [0.1, 0.1]]


@every_update
def test_constant_columns(update):
    X, start = random_problem(5, d=3)
    X[:, 1] = 0.25
    end = run(engine_of(X), start, update)
    assert end.stopped
    occupied = reveal(end.exact, why="a test looks").counts > 0
    assert reveal(end.exact, why="a test looks").means(empty=start)[occupied, 1] == pytest.approx(0.25, abs=1e-6)


@every_update
def test_a_plan_that_is_too_short_ends_without_a_stop(update):
    X, start = random_problem(6)
    end = run(engine_of(X), start, update, steps=2)
    assert (end.stopped, end.exact, len(end.moves)) == (False, None, 2)


def test_a_rule_that_never_stops_uses_the_whole_plan():
    X, start = random_problem(7)
    end = run(engine_of(X), start, ExactMean(), steps=60, stop=AfterPlan())
    assert len(end.moves) == 60


@every_update
def test_the_same_seed_gives_the_same_run(update):
    X, start = random_problem(8)
    first, second = (run(engine_of(X), start, update, seed=5) for _ in range(2))
    assert np.array_equal(first.centroids, second.centroids)


def test_nothing_at_the_edges_divides_by_zero():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for update in UPDATES.values():
            run(engine_of([[0.0], [0.0], [1.0]]), [[0.0], [1.0], [1.0]], update)


@pytest.mark.parametrize("stopped", [True, False])
def test_the_last_step_divides_exact_sums_by_noisy_counts(stopped):
    X, start = random_problem(9, n=500)
    engine = engine_of(X)
    end = run(engine, start, ExactMean(), steps=300 if stopped else 1)
    ledger = Ledger()
    final = NoisyCountMean(Epsilon.of(1.0)).centroids(engine, end, ledger=ledger, rng=Randomness.with_seed(0))
    exact = reveal(engine.cell_statistics(end.centroids), why="a test looks")
    noisy = exact.sums / final
    assert noisy == pytest.approx(np.tile(noisy[:, :1], (1, 2)))  # on the ray of the exact sum
    assert 0 < np.abs(noisy[:, 0] - exact.counts).max() < 40
    assert ledger.spent == Epsilon.of(1.0)


def test_a_noisy_count_below_one_counts_as_one():
    engine = engine_of([[0.25]])
    end = run(engine, [[0.25]], ExactMean())
    final = NoisyCountMean(Epsilon.of(1e-3))
    found = [final.centroids(engine, end, ledger=Ledger(), rng=Randomness.with_seed(s))[0, 0] for s in range(30)]
    assert max(found) == 0.25
    assert min(found) < 0.01


def test_the_noise_of_the_last_step_is_laplace_of_scale_one_over_epsilon():
    """Mean of |noise| over 4000 draws at ε = 0.5 is 2 ± 0.032; the band is 5 deviations, false alarms 6e-7."""
    engine = engine_of(np.full((4000, 1), 0.5))
    end = run(engine, [[0.5]], ExactMean())
    rng, final = Randomness.with_seed(1), NoisyCountMean(Epsilon.of(0.5))
    noise = [2000 / final.centroids(engine, end, ledger=Ledger(), rng=rng)[0, 0] - 4000 for _ in range(4000)]
    assert abs(np.mean(np.abs(noise)) - 2) < 0.16
    assert not abs(np.mean(np.abs(noise)) * 1.5 - 2) < 0.16
    assert not abs(np.mean(np.abs(noise)) / 1.5 - 2) < 0.16


def test_as_is_releases_where_the_loop_ended():
    X, start = random_problem(10)
    engine = engine_of(X)
    end = run(engine, start, ExactMean())
    assert AsIs().centroids(engine, end, ledger=Ledger(), rng=Randomness.with_seed(0)) is end.centroids


def test_a_noisy_mean_on_a_box_that_is_a_point_needs_no_sums():
    engine = MemoryEngine.of_records(np.full((5, 2), 3.0), Bounds.read_from(np.full((5, 2), 3.0)))
    ledger = Ledger(1.0)
    budget = StepBudget(counts=Epsilon.of(0.5), sums=Epsilon.of(0.5))
    rng = Randomness.with_seed(0)
    end = iterate(Run(engine, np.zeros((1, 2)), [budget], AfterPlan(), ledger, rng), NoisyMean())
    assert end.centroids.tolist() == [[0.0, 0.0]]
