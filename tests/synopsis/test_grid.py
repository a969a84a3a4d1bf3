from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis.grid import Grid, pieces
from dpkmeans.synopsis.view import View
from dpkmeans.synopsis.weighted_points import NoisyTotal


def built(X, box, k=3, epsilon=1.0, grid=Grid()):  # noqa: B008 (a frozen value)
    ledger = Ledger(epsilon)
    engine = MemoryEngine.of_records(X, box, n_threads=1)
    made = grid.build(
        View.of(engine),
        k,
        Epsilon.of(epsilon),
        NoisyTotal(float(len(X)), 0.0),
        ledger=ledger,
        rng=Randomness.with_seed(0),
    )
    return made.points, ledger


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=120), st.floats(0.0, 1e5))
def test_pieces_are_at_least_one_and_make_at_most_four_times_the_cells_asked_for(sides, cells):
    parts = pieces(np.array([1.0, *sides]), cells)
    assert (parts >= 1).all()
    assert math.prod(parts.tolist()) <= 4 * max(cells, 1)


def test_pieces_are_nearly_cubes():
    assert pieces(np.array([1.0, 1.0]), 100).tolist() == [10, 10]
    assert pieces(np.array([1.0, 0.1]), 1000).tolist() == [100, 10]
    assert pieces(np.array([1.0, 0.0, 1e-6]), 64).tolist() == [64, 1, 1]


@pytest.mark.parametrize("d", [1, 2, 3, 4, 7, 18, 27, 65, 100])
@pytest.mark.parametrize("n", [0, 1, 5000])
def test_a_grid_over_any_number_of_features_spends_its_budget_and_stays_in_the_box(d, n):
    box = Bounds.of((0, np.linspace(0.5, 2, d)), d)
    for grid in (Grid(), Grid(two_looks=False, unit=10.0, unit_exponent=0.0, cells_per_cluster=0.0, max_cells=2**12)):
        points, ledger = built(np.random.default_rng(0).random((n, d)), box, grid=grid)
        assert float(ledger.spent) == 1.0
        assert 1 <= len(points.points) <= 4 * grid.max_cells
        assert (points.weights > 0).all()
        assert ((points.points >= 0) & (points.points <= box.unit_box)).all()


def test_there_are_two_looks_with_many_records_and_one_with_few():
    box = Bounds.of((0, 1), 2)
    for n, looks in ((50, 1), (20_000, 2)):
        _, ledger = built(np.random.default_rng(0).random((n, 2)), box)
        assert [spend.label for spend in ledger.spends][-1] == "grid: counts"
        assert len(ledger.spends) == looks


def test_the_second_look_is_finer_where_the_first_one_saw_records():
    X = np.random.default_rng(0).random((50_000, 2)) * 0.3
    points, _ = built(X, Bounds.of((0, 1), 2))
    dense = (points.points < 0.3).all(axis=1)
    assert dense.sum() > 5 * (~dense).sum()
    assert points.weights[dense].sum() > 0.98 * points.weights.sum()


def test_neither_look_has_more_cells_than_the_cap_however_many_records_there_are():
    engine = MemoryEngine.of_records(np.random.default_rng(0).random((500, 2)), Bounds.of((0, 1), 2))
    seen = []

    class Counting:
        bounds, n_features, released = engine.bounds, 2, False

        def answer(self, query):
            seen.append(query.shape[0])
            return engine.answer(query)

    Grid().build(
        View.of(Counting()),
        5,
        Epsilon.of(1.0),
        NoisyTotal(2.0**33, 0.0),
        ledger=Ledger(1.0),
        rng=Randomness.with_seed(0),
    )
    assert seen[0] <= 4 * 512
    assert seen[1] <= 4 * 8192


def test_large_weights_are_close_to_the_records():
    X = np.random.default_rng(0).normal(0.5, 0.1, (100_000, 2))
    points, _ = built(X, Bounds.of((0, 1), 2))
    assert points.weights.sum() == pytest.approx(100_000, rel=0.01)
    assert np.average(points.points, axis=0, weights=points.weights) == pytest.approx([0.5, 0.5], abs=0.005)
