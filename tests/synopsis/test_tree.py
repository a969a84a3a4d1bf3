from __future__ import annotations

import numpy as np
import pytest

from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import reveal
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis.tree import Tree, cube_variance, leaves_of
from dpkmeans.synopsis.tree_cells import Halvings, leaf_counts
from dpkmeans.synopsis.view import View
from dpkmeans.synopsis.weighted_points import NoisyTotal


def built(X, box, epsilon=1.0, tree=Tree()):  # noqa: B008 (a frozen value)
    ledger = Ledger(epsilon)
    engine = MemoryEngine.of_records(X, box, n_threads=1)
    made = tree.build(
        View.of(engine),
        3,
        Epsilon.of(epsilon),
        NoisyTotal(float(max(len(X), 1)), 0.0),
        ledger=ledger,
        rng=Randomness.with_seed(0),
    )
    return made.points, ledger


@pytest.mark.parametrize("n", [0, 1, 3000])
@pytest.mark.parametrize(
    "box",
    [Bounds.of((0, 1), 1), Bounds.of((0, 1), 6), Bounds.of(([0, 5, -1], [1, 5, 1e-7]), 3), Bounds.of((0, 1), 60)],
    ids=["1", "6", "unequal", "60"],
)
def test_a_tree_spends_its_budget_in_two_entries_and_its_points_lie_in_the_box(n, box):
    X = np.random.default_rng(0).random((n, box.n_features))
    points, ledger = built(X, box)
    assert [spend.label for spend in ledger.spends] == ["tree: shape", "tree: leaves"]
    assert float(ledger.spent) == 1.0
    assert (points.weights > 0).all()
    assert ((points.points >= 0) & (points.points <= box.unit_box)).all()


def test_leaves_are_small_where_records_are_and_their_means_follow_the_offsets():
    rng = np.random.default_rng(0)
    centers = np.full((3, 6), 0.2)
    centers[1] += 0.5
    centers[2, ::2] += 0.5
    X = centers[rng.integers(3, size=60_000)] + 0.01 * rng.standard_normal((60_000, 6))
    points, _ = built(X, Bounds.of((0, 1), 6))
    gaps = np.linalg.norm(points.points[:, None] - centers, axis=2).min(axis=1)
    assert np.average(gaps, weights=points.weights) < 0.06
    assert points.weights.sum() == pytest.approx(60_000, rel=0.01)


def test_a_leaf_without_a_signal_stays_in_its_middle():
    points, _ = built(np.full((5, 2), 0.9), Bounds.of((0, 1), 2), epsilon=0.001)
    assert len(points.points) >= 1
    assert np.isfinite(points.points).all()


def test_no_more_leaves_than_the_cap():
    X = np.random.default_rng(0).random((200_000, 2))
    points, _ = built(X, Bounds.of((0, 1), 2), epsilon=5.0, tree=Tree(min_leaf_limit=100, leaves_per_cluster=1))
    assert len(points.points) <= 100


def test_the_variance_of_an_entry_is_that_of_cube_noise():
    assert cube_variance(1) == pytest.approx((2 + 1) * (2 + 2) / 3)  # D = 2


@pytest.mark.parametrize("n", [0, 1, 3000])
@pytest.mark.parametrize("d", [1, 6, 60])
def test_leaves_that_are_only_counted_lie_in_their_middles_and_cost_the_same(n, d):
    X = 0.2 * np.random.default_rng(0).random((n, d))
    points, ledger = built(X, Bounds.of((0, 1), d), tree=Tree(offsets=False))
    assert [spend.label for spend in ledger.spends] == ["tree: shape", "tree: counts"]
    assert float(ledger.spent) == 1.0
    assert (points.weights > 0).all()
    scaled = points.points * 2**20
    assert (scaled == np.rint(scaled)).all()  # middles of cells of at most 19 halvings
    if n == 3000:
        assert points.weights.sum() == pytest.approx(3000, rel=0.01)


def test_counts_of_leaves_are_those_of_the_records_in_them():
    rng = np.random.default_rng(0)
    X = rng.random((500, 2))
    cells = Halvings(np.ones(2), 4)
    leaves = leaves_of(cells, np.array([1, 2, 2]), np.array([0, 2, 3]))
    engine = MemoryEngine.of_records(X, Bounds.of((0, 1), 2), n_threads=1)
    counts = reveal(leaf_counts(engine.answer(cells), leaves), why="a test")[:, 0]
    left, low = X[:, 0] < 0.5, X[:, 1] < 0.5
    assert counts.tolist() == [left.sum(), (~left & low).sum(), (~left & ~low).sum()]
