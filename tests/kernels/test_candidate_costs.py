from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpkmeans.core.bounds import GRID, Bounds
from dpkmeans.core.exact import reveal
from dpkmeans.engines import block_engine as blocks
from dpkmeans.engines.cost_task import Costs
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.errors import DataError
from dpkmeans.kernels.candidate_costs import distinct_centroids


def family(rng: np.random.Generator, m: int, k: int, d: int) -> np.ndarray:
    """Sets on the grid that share centroids, most of them with one coordinate changed, as PrivGene breeds them."""
    parents = rng.integers(0, GRID + 1, (3, k, d)) / GRID
    children = parents[rng.integers(3, size=(m, k)), np.arange(k)]
    moved = rng.random(m) < 0.8
    place = np.flatnonzero(moved), rng.integers(k, size=moved.sum()), rng.integers(d, size=moved.sum())
    children[place] = rng.integers(0, GRID + 1, moved.sum()) / GRID
    return children


def whole_number_costs(X: np.ndarray, candidates: np.ndarray) -> list[int]:
    """By Python's integers: squared distances in steps of 2^-40, the nearest rounded to 2^-20, half to even."""
    records = np.rint(X * GRID).astype(np.int64)
    out = []
    for centroids in np.rint(candidates * GRID).astype(np.int64):
        nearest = ((records[:, None] - centroids) ** 2).sum(axis=2).min(axis=1)
        whole, rest = nearest >> 20, nearest & (GRID - 1)
        out.append(int((whole + ((rest > GRID // 2) | ((rest == GRID // 2) & (whole % 2 == 1)))).sum()))
    return out


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 200), st.integers(1, 12), st.integers(1, 6))
def test_costs_of_relatives_are_those_of_whole_number_arithmetic(seed, n, d, k):
    rng = np.random.default_rng(seed)
    X, candidates = rng.integers(0, GRID + 1, (n, d)) / GRID, family(rng, 30, k, d)
    engine = MemoryEngine.of_records(X, Bounds.of((0, 1), d), n_threads=1 + seed % 2)
    assert reveal(engine.costs(candidates), why="a test").tolist() == whole_number_costs(X, candidates)


def rebuilt(task: Costs) -> np.ndarray:
    """The sets that a task stands for, shape (m, k, d)."""
    sets = task.points[task.sets]
    sets[np.arange(len(sets)), -1, task.feature] = task.place
    return sets


def as_sets(candidates: np.ndarray) -> list[list[tuple[float, ...]]]:
    """Centroids of each set in some fixed order."""
    return [sorted(map(tuple, one.tolist())) for one in candidates]


def test_a_centroid_that_differs_in_one_feature_from_a_shared_one_is_not_computed_in_full():
    candidates = family(np.random.default_rng(0), 100, 4, 5)
    task = Costs.of(candidates)
    assert as_sets(rebuilt(task)) == as_sets(candidates)
    assert len(distinct_centroids(candidates)[0]) > 60
    assert len(task.points) <= 3 * 4


@pytest.mark.parametrize("shift", [2.0**-22, 1.0])
def test_no_way_is_shortened_off_the_grid_or_outside_the_box(shift):
    candidates = family(np.random.default_rng(0), 100, 4, 5) + shift
    task = Costs.of(candidates)
    assert np.array_equal(rebuilt(task), task.points[task.sets])
    assert as_sets(rebuilt(task)) == as_sets(candidates)


def test_distinct_centroids_are_found_once_and_zero_has_no_sign():
    points, sets = distinct_centroids(np.array([[[0.0, 0.5], [1.0, 1.0]], [[-0.0, 0.5], [0.0, 0.5]]]))
    assert len(points) == 2
    assert sets[0, 0] == sets[1, 0] == sets[1, 1] != sets[0, 1]


def test_more_numbers_than_can_be_added_up_are_refused(monkeypatch):
    engine = MemoryEngine.of_records(np.zeros((9, 3)), Bounds.of((0, 1), 3), n_threads=1)
    assert reveal(engine.costs(np.ones((1, 1, 3))), why="a test").tolist() == [27 * GRID]
    monkeypatch.setattr(blocks, "MAX_COST", 26)
    with pytest.raises(DataError, match="costs are exact"):
        engine.costs(np.ones((1, 1, 3)))
