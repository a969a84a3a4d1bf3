"""Claims of the paper that fail, each with the smallest example we have. Most records lie on a line."""

from __future__ import annotations

import numpy as np
import pytest

from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import reveal
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.kernels.zones import distances
from dpkmeans.methods.loop.budgets import StepBudget
from dpkmeans.methods.loop.solver import Run, iterate
from dpkmeans.methods.loop.stopping import Repeats
from dpkmeans.methods.lu_shen.strategies import posterior
from dpkmeans.methods.lu_shen.zone_sampling import Controller, ZoneSampling
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.reproduction.estimators import prior_factor
from dpkmeans.reproduction.lemma_runs import SegmentSampling

WHY = "a test looks"
SIDE = 32


def on_a_line(*places):
    return MemoryEngine.of_records(np.array(places, float)[:, None], Bounds.of((0, SIDE), 1), n_threads=1)


def start_at(*places):
    return np.array(places, float)[:, None] / SIDE


def segment(engine, start, ratio):
    """ALG of Lemma 2: exact means of where it stopped, in the units of the data, and its passes."""
    plan = [StepBudget()] * 100
    rng = Randomness.with_seed(0)
    end = iterate(Run(engine, start, plan, Repeats(), Ledger(), rng), SegmentSampling(ratio))
    assert end.stopped
    return reveal(end.exact, why=WHY).means(empty=end.centroids).ravel() * SIDE, end.passes


def lloyd(engine, start):
    end = reveal(engine.lloyd(start, 100), why=WHY)
    assert end.stopped
    return end.centroids.ravel() * SIDE, end.moves


def test_lemma_1_as_stated_a_centroid_nearer_to_the_mean_than_to_the_previous_one_can_cost_more():
    """Its condition is |Ŝ - S| < |Ŝ - previous|, a half-space; its proof uses the ball |Ŝ - S| < |previous - S|."""
    points, previous, drawn = np.array([0.5, 1.5]), 0.0, 6.0
    mean = points.mean()
    assert abs(drawn - mean) < abs(drawn - previous)
    assert ((points - drawn) ** 2).sum() > ((points - previous) ** 2).sum()


def test_lemma_2_a_draw_on_the_segment_can_end_in_another_local_optimum():
    engine, start = on_a_line(7, 9, 22, 24, 26, 28, 31), start_at(22, 24, 26)
    there, _ = lloyd(engine, start)
    here, _ = segment(engine, start, 0.5)
    np.testing.assert_allclose(there, [8, 24, 29.5])
    np.testing.assert_allclose(here, [8, 23, 85 / 3])
    stays, _ = lloyd(engine, here[:, None] / SIDE)
    np.testing.assert_allclose(stays, here)


def test_lemma_2_a_draw_on_the_segment_can_stop_where_lloyd_would_go_on():
    engine, start = on_a_line(3, 6, 8, 9, 12, 16), start_at(9, 16)
    here, _ = segment(engine, start, 0.5)
    np.testing.assert_allclose(here, [7.6, 16])
    goes_on, _ = lloyd(engine, here[:, None] / SIDE)
    assert not np.allclose(goes_on, here)


def test_lemma_3_the_segment_can_take_more_than_its_factor_of_lloyds_passes():
    engine, start = on_a_line(1, 5, 13, 14, 15, 16), start_at(15, 16)
    there, passes = lloyd(engine, start)
    here, more = segment(engine, start, 0.5)
    np.testing.assert_allclose(here, there)
    assert (passes, more) == (2, 4)
    assert more > passes / (1 - 0.5**2)


def test_theorem_3_a_mean_can_move_farther_in_the_second_pass_than_in_the_first():
    """Its proof takes |S^(t+1) - S^(t)| < |S^(t-1) - S^(t)| as given; prior's zone can leave the convergent one."""
    engine, start = on_a_line(3, 12, 15, 16), start_at(12, 16)
    means = reveal(engine.cell_statistics(start), why=WHY).means(empty=start)
    ahead = reveal(engine.cell_statistics(means), why=WHY).means(empty=means)
    first, second = distances(start, means) * SIDE, distances(means, ahead) * SIDE
    np.testing.assert_allclose(first, [4.5, 0.5])
    np.testing.assert_allclose(second, [4.5, 7 / 6])


def test_theorem_4_prior_takes_more_passes_than_its_factor_allows():
    """Uniform points in a square, 40 starts. No δ and α of a sampling zone give a factor that would do."""
    rng = np.random.default_rng(0)
    engine = MemoryEngine.of_records(rng.random((300, 2)), Bounds.of((0, 1), 2), n_threads=1)
    plan = [StepBudget(zone=Epsilon.of(0.5))] * 500
    ours, theirs, ratios, angles = [], [], [], []
    for seed in range(40):
        start = reveal(engine.sample_rows(5, np.random.default_rng(seed)), why=WHY)
        update, randomness = ZoneSampling(Controller.PRIOR), Randomness.with_seed(seed)
        end = iterate(Run(engine, start, plan, Repeats(), Ledger(), randomness), update)
        ours.append(end.passes)
        theirs.append(lloyd(engine, start)[1])
        previous = start
        for _, move in end.moves:
            means = reveal(engine.cell_statistics(previous), why=WHY).means(empty=previous)
            axis, drawn = move.zones.center - means, move.centroids - means
            reach = np.linalg.norm(axis, axis=1) + move.zones.radius
            real = reach > 0
            ratios += (np.linalg.norm(drawn, axis=1)[real] / reach[real]).tolist()
            cosine = (axis * drawn).sum(axis=1)[real]
            cosine /= np.linalg.norm(axis, axis=1)[real] * np.linalg.norm(drawn, axis=1)[real]
            angles += np.arccos(np.clip(cosine, -1, 1)).tolist()
            previous = move.centroids
    factor = prior_factor(float(np.mean(ratios)), float(np.mean(angles)))
    ratio = np.mean(ours) / np.mean(theirs)
    error = np.std(np.array(ours) - ratio * np.array(theirs), ddof=1) / np.sqrt(len(ours)) / np.mean(theirs)
    assert 1 < factor < 1.15
    assert ratio - 3 * error > factor


@pytest.mark.parametrize("places", [(2, 3, 5, 20, 21), (2, 3, 5, 20, 21, 30)])
def test_theorem_5_a_published_zone_and_the_previous_centroid_give_the_exact_mean_away(places):
    """Posterior, one feature: the zone touches X = 2 mean - previous, so the mean is half way between them."""
    engine = on_a_line(*places)
    start = np.array([[4.0], [19.0]])
    release = posterior(init=start).run(engine, 2, ledger=Ledger(), rng=Randomness.with_seed(3))
    means = reveal(engine.cell_statistics(start / SIDE), why=WHY).means(empty=start / SIDE).ravel() * SIDE
    for zone in (zone for zone in release.transcript if zone.iteration == 1):
        previous = start[zone.cluster, 0]
        touched = zone.center[0] + np.sign(zone.center[0] - previous) * zone.radius
        assert (touched + previous) / 2 == pytest.approx(means[zone.cluster], abs=1e-12)
