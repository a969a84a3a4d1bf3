"""What the paper's convergence rests on, checked on plain NumPy sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import reveal
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.engines.packing import grid_points
from dpkmeans.kernels.zones import distances
from dpkmeans.methods.loop.budgets import StepBudget
from dpkmeans.methods.loop.solver import Run, iterate
from dpkmeans.methods.loop.stopping import Repeats
from dpkmeans.methods.lu_shen.zone_sampling import Controller, ZoneSampling
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness


def cost(points, centroid):
    return float(((points - centroid) ** 2).sum())


def problem(seed, n, d, k):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    engine = MemoryEngine.of_records(X, Bounds.of((0, 1), d), n_threads=1)
    return engine, grid_points(X, engine.bounds).astype(float), rng.random((k, d))


sizes = st.tuples(st.integers(0, 2**32), st.integers(1, 80), st.integers(1, 8), st.integers(1, 6))


@given(sizes)
def test_moving_from_the_previous_centroid_to_the_mean_saves_n_a_squared(size):
    """Appendix: cost(previous) - cost(mean) = n a², for each cluster."""
    engine, points, previous = problem(*size)
    stats = reveal(engine.cell_statistics(previous), why="a test looks")
    labels, means = engine.labels(previous), stats.means(empty=previous)
    a = distances(previous, means)
    for i in range(len(previous)):
        cell = points[labels == i]
        saved = cost(cell, previous[i]) - cost(cell, means[i])
        assert saved == pytest.approx(stats.counts[i] * a[i] ** 2, abs=1e-10)


@given(sizes, st.floats(0, 0.999))
def test_the_cost_of_a_cluster_falls_exactly_inside_its_convergent_zone(size, share):
    """Lemma 1: a centroid at distance b from the mean costs n (a² - b²) less than the previous one."""
    engine, points, previous = problem(*size)
    labels = engine.labels(previous)
    means = reveal(engine.cell_statistics(previous), why="a test looks").means(empty=previous)
    a = distances(previous, means)
    direction = np.random.default_rng(size[0]).standard_normal(previous.shape)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    inside = means + share * a[:, None] * direction
    outside = means + (2 - share) * a[:, None] * direction
    for i in range(len(previous)):
        cell = points[labels == i]
        gain = len(cell) * a[i] ** 2
        assert cost(cell, previous[i]) - cost(cell, inside[i]) == pytest.approx(gain * (1 - share**2), abs=1e-10)
        assert cost(cell, previous[i]) <= cost(cell, outside[i]) + 1e-10


@pytest.mark.parametrize("controller", [Controller.POSTERIOR, Controller.CLIPPED_PRIOR], ids=["posterior", "clipped"])
@settings(max_examples=40)
@given(sizes)
def test_the_cost_never_rises_on_a_fixed_assignment_nor_over_the_run(controller, size):
    engine, points, start = problem(*size)
    plan = [StepBudget(zone=Epsilon.of(0.1))] * 300
    rng = Randomness.with_seed(size[0])
    update = ZoneSampling(controller)
    end = iterate(Run(engine, start, plan, Repeats(), Ledger(), rng), update)
    assert end.stopped
    previous = start
    for _, move in end.moves:
        labels = engine.labels(previous)
        before = ((points - previous[labels]) ** 2).sum()
        fixed = ((points - move.centroids[labels]) ** 2).sum()
        after = ((points - move.centroids[engine.labels(move.centroids)]) ** 2).sum()
        assert fixed <= before + 1e-10
        # the engine compares in float32, so a record on a border may pay its rounding
        assert after <= fixed + 1e-6 * len(points)
        previous = move.centroids
