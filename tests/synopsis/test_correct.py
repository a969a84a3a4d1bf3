"""A step on the records that corrects the synopsis before k-means begins: when it is planned, and what it changes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpkmeans.audit.hard_pairs import run_of
from dpkmeans.audit.replay import replay
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import reveal
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.methods.registry import make_method
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.session import FitRequest
from dpkmeans.synopsis import settings
from dpkmeans.synopsis.correct import corrected
from dpkmeans.synopsis.grid import Grid
from dpkmeans.synopsis.hyperplanes import Hyperplanes
from dpkmeans.synopsis.kmeans import FixedPoint, to_fixed_point
from dpkmeans.synopsis.plan import Plan, make_plan
from dpkmeans.synopsis.recentre import Recentred
from dpkmeans.synopsis.tree import Tree
from dpkmeans.synopsis.weighted_points import WeightedPoints

DEVIATION = math.sqrt(4 * 5 / 3)  # of the noise on a count with two features, at a scale of 1


def planned(signal: float, k: int, d: int) -> Plan:
    """With so many records times epsilon per cluster."""
    return make_plan(Epsilon.of(1.0), signal * k, k, d)


def test_a_grid_or_a_tree_is_corrected_where_clusters_are_many_and_their_signal_is_weak():
    for k, d, signal, builder in ((8, 2, 100.0, Grid), (8, 3, 300.0, Grid), (8, 4, 200.0, Tree), (8, 8, 500.0, Tree)):
        weak = planned(signal, k, d)
        assert isinstance(weak.builder, builder)
        assert weak.corrects
        assert weak.asked == int(settings.STEP_OVERCLUSTERING * k)
        few, strong = planned(signal, 4, d), planned(100 * signal, k, d)
        assert not few.corrects
        assert not strong.corrects
        assert strong.recentre_epsilon is not None
        assert strong.extrapolation > 0


def test_hyperplanes_are_corrected_with_any_number_of_clusters_if_a_step_follows():
    for k in (2, 10):
        plan = planned(2000.0, k, 40)
        assert isinstance(plan.builder, Hyperplanes)
        assert plan.corrects
        assert not planned(100.0, k, 40).corrects  # all of the budget is for the means


def test_a_correction_takes_no_more_passes_than_a_step_that_follows_the_fixed_point():
    for d in (2, 3, 6, 8):
        assert planned(35.0 * max(d, 3), 8, d).passes <= planned(500.0 * d * 8, 8, d).passes + 1  # 1: a learned radius


@pytest.mark.parametrize("extra", [0.0, 1.0, 0.43, 7.0], ids=["corner", "other corner", "inside", "outside"])
@pytest.mark.parametrize(
    ("d", "k", "label"),
    [(2, 8, "grid: counts"), (3, 6, "grid: counts"), (6, 5, "tree: leaves"), (30, 9, "signs: means")],
)
def test_one_record_steers_nothing_but_through_the_noise_of_a_correction(extra, d, k, label):
    """Exact losses of whole fits on neighbours, and the same questions on both sides."""
    rng = np.random.default_rng(d)
    n = {2: 500, 3: 600, 6: 1500, 30: 2500}[d]
    X = np.clip(rng.random((k, d))[rng.integers(k, size=n)] + 0.05 * rng.standard_normal((n, d)), 0, 1)
    request = FitRequest(n_clusters=k, epsilon=1.0, bounds=(0, 1), scale=None, nulls="midpoint")
    sides = (run_of(request, X), run_of(request, np.vstack([X, np.full(d, extra)])))
    for seed in range(2):
        replayed = replay(*sides, seed)
        assert replayed.holds, replayed.why_not
        assert {label, "re-centring"} <= {call.label for call in replayed.calls}
    plain = sides[0](Randomness.with_seed(0)).shown
    assert plain["certificate"]["found"] is not None


def a_synopsis() -> tuple[WeightedPoints, FixedPoint]:
    points = WeightedPoints(
        np.array([[0.1, 0.1], [0.3, 0.1], [0.8, 0.9], [0.9, 0.8], [0.1, 0.9]]),
        np.array([500.0, 500.0, 50.0, 50.0, 2.0]),
    )
    return points, to_fixed_point(points, np.array([[0.2, 0.1], [0.85, 0.85], [0.1, 0.9]]))


def after(sizes: list[float], moves: list[float], spread: float = 1.0) -> WeightedPoints:
    """The synopsis where a step found these sizes, and each mean so far to the right."""
    points, cells = a_synopsis()
    means = cells.centroids + np.array(moves)[:, None] * np.array([1.0, 0.0])
    found = Recentred(means, np.ones_like(means), np.array(sizes))
    return corrected(points, cells, found, scale=1.0, entries=3, spread=spread)


def test_points_move_with_the_mean_of_their_cell_and_keep_a_part_of_their_distance_from_it():
    moved, drawn = after([1000.0, 100.0, 10.0], [0.05, -0.1, 0.0]), after([1000.0, 100.0, 10.0], [0.05, -0.1, 0.0], 0.5)
    assert np.allclose(moved.points, [[0.15, 0.1], [0.35, 0.1], [0.7, 0.9], [0.8, 0.8], [0.1, 0.9]])
    assert np.allclose(drawn.points, [[0.2, 0.1], [0.3, 0.1], [0.725, 0.875], [0.775, 0.825], [0.1, 0.9]])


def test_the_points_of_a_cell_weigh_together_what_was_found_in_it():
    weights = after([900.0, 140.0, 10.0], [0.0, 0.0, 0.0]).weights
    assert np.allclose([weights[:2].sum(), weights[2:4].sum()], [900.0, 140.0], rtol=0.02)
    assert weights[0] == weights[1]


def test_noise_does_not_bring_a_cell_to_life_in_which_the_synopsis_has_hardly_any_records():
    """Two deviations are a cell in which the synopsis has records, and noise where it has next to none."""
    found = 2 * DEVIATION
    noise = after([1000.0, 100.0, found], [0.0, 0.0, 0.0]).weights[-1]
    cell = after([1000.0, found, 10.0], [0.0, 0.0, 0.0]).weights[2:4].sum()
    assert noise < 0.45 * found
    assert cell > 0.6 * found
    clear = after([1000.0, 100.0, 20 * DEVIATION], [0.0, 0.0, 0.0]).weights[-1]
    assert clear > 0.95 * 20 * DEVIATION


@given(st.lists(st.floats(0, 1e6), min_size=3, max_size=3))
def test_weights_are_positive_and_finite_whatever_was_found(sizes):
    weights = after(sizes, [0.0, 0.0, 0.0]).weights
    assert len(weights) >= 1
    assert (weights > 0).all()
    assert np.isfinite(weights).all()


def cost(engine: MemoryEngine, centroids: np.ndarray) -> float:
    return reveal(engine.cell_statistics(engine.bounds.unit_of(centroids)), why="a test").cost


def test_a_correction_finds_clusters_that_the_synopsis_has_missed(monkeypatch):
    """Thirty clusters in three features: their cells are as wide as they are. Seeded: it fails always or never."""
    rng = np.random.default_rng(2)
    X = np.clip(rng.random((30, 3))[rng.integers(30, size=6000)] + 0.02 * rng.standard_normal((6000, 3)), 0, 1)
    engine = MemoryEngine.of_records(X, Bounds.of((0, 1), 3), n_threads=1)

    def costs() -> float:
        releases = (
            make_method("synopsis").run(engine, 30, ledger=Ledger(1.0), rng=Randomness.with_seed(seed))
            for seed in range(8)
        )
        return float(np.mean([cost(engine, release.centroids) for release in releases]))

    with_correction = costs()
    monkeypatch.setattr(settings, "CORRECT_CLUSTERS", 31)  # the step follows the fixed point instead
    assert with_correction < 0.9 * costs()
