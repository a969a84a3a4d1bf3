"""Readings and ablations, step by step."""

from __future__ import annotations

import numpy as np
import pytest

from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import reveal
from dpkmeans.engines.packing import grid_points
from dpkmeans.methods.loop.budgets import StepBudget
from dpkmeans.methods.loop.solver import Step
from dpkmeans.methods.lu_shen.zone_sampling import Controller
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.reproduction.baselines import baseline, problem_of
from dpkmeans.reproduction.cells import READINGS
from dpkmeans.reproduction.estimators import posterior_factor
from dpkmeans.reproduction.lemma_runs import inner_ratios
from dpkmeans.reproduction.variants import FinalController, FirstStepsOnly, RecordInZone, TruncatedLaplace
from dpkmeans.reproduction.zone_runs import zone_run

WHY = "a test looks"


@pytest.fixture
def problem(tiny):
    return problem_of(tiny, 3)


def first_step(problem, run, number=1):
    previous = baseline(problem, run, 0).start
    exact = problem.engine.cell_statistics(previous)
    return Step(number, problem.engine, previous, exact, StepBudget(zone=Epsilon.of(0.5)))


def moved(update, step, seed):
    return update.move(step, ledger=Ledger(), rng=Randomness.with_seed(seed))


@pytest.mark.parametrize("controller", [Controller.POSTERIOR, Controller.PRIOR])
def test_a_drawn_record_belongs_to_its_cluster_and_lies_in_its_zone(problem, controller):
    """Inside the convergent zone for posterior; either a record of the cluster or its mean for both."""
    points = grid_points(problem.data.unit_records(), problem.engine.bounds).astype(float)
    drawn_records = 0
    for run in range(20):
        step = first_step(problem, run)
        labels, means = problem.engine.labels(step.previous), reveal(step.exact, why=WHY).means(empty=step.previous)
        for i, place in enumerate(moved(RecordInZone(problem, controller), step, run).centroids):
            if np.array_equal(place, means[i]):
                continue
            drawn_records += 1
            assert any(np.array_equal(place, point) for point in points[labels == i])
            if controller is Controller.POSTERIOR:
                assert np.linalg.norm(place - means[i]) <= np.linalg.norm(step.previous[i] - means[i])
    assert drawn_records > 0


def test_truncated_noise_never_leaves_the_convergent_zone(problem):
    borders = 0
    for run in range(20):
        step = first_step(problem, run)
        means = reveal(step.exact, why=WHY).means(empty=step.previous)
        reach = np.linalg.norm(step.previous - means, axis=1)
        length = np.linalg.norm(moved(TruncatedLaplace(problem), step, run).centroids - means, axis=1)
        assert (length <= reach + 1e-12).all()
        borders += int(np.sum(np.isclose(length, reach) & (reach > 0)))
    assert borders > 0  # which is why the paper rejects it


def test_a_zone_that_points_to_the_final_centroid_counts_every_pass_to_it(problem):
    for run in range(5):
        step = first_step(problem, run)
        means = reveal(step.exact, why=WHY).means(empty=step.previous)
        ahead = reveal(problem.engine.lloyd(means, 300), why=WHY)
        assert moved(FinalController(), step, run).passes == 1 + ahead.moves


def test_noise_in_two_steps_is_followed_by_exact_means(problem):
    update = FirstStepsOnly(Controller.PRIOR)
    differ = 0
    for run in range(20):
        early, late = (moved(update, first_step(problem, run, number), 1) for number in (2, 3))
        means = reveal(first_step(problem, run).exact, why=WHY).means(empty=early.centroids)
        assert (early.passes, late.passes) == (2, 1)
        np.testing.assert_array_equal(late.centroids, means)
        differ += not np.array_equal(early.centroids, means)
    assert differ > 0


@pytest.mark.parametrize("reading", READINGS)
def test_every_reading_runs_and_spends_what_its_steps_say(problem, reading):
    for strategy in set(READINGS[reading]) & {"posterior", "prior"}:
        done = zone_run(problem, strategy, 0.5, baseline(problem, 1, 0).start, 3, reading)
        assert done.trajectory.passes >= done.trajectory.n_steps > 0


def test_the_inner_ratio_of_theorem_2_is_measured_against_the_next_move_of_the_mean(problem):
    found = [inner_ratios(problem, baseline(problem, run, 0).start, 1) for run in range(20)]
    assert sum(row["inner_ratios"] for row in found) > 0
    assert sum(row["sum_inner_ratio"] for row in found) > 0
    assert posterior_factor(0.1) == pytest.approx(1 / 0.81)
    assert posterior_factor(1.0) == posterior_factor(0.9) == 2.0
    assert posterior_factor(3.0) == pytest.approx(0.25)  # a bound below one pass: the proof's inner bound is no bound
