from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpkmeans.synopsis.grid_cells import GridCells
from dpkmeans.synopsis.smoothing import smooth


def grid(*cuts, box=None):
    d = len(cuts)
    return GridCells(np.ones(d) if box is None else np.array(box), np.ones(d, np.int64), np.array([cuts]))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 2**32 - 1), st.integers(0, 5000))
def test_every_cell_keeps_its_weight_and_its_points_stay_in_it(cuts, seed, max_points):
    cells, rng = grid(*cuts), np.random.default_rng(seed)
    weights = rng.exponential(size=int(np.prod(cuts))) * (rng.random(int(np.prod(cuts))) < 0.7)
    weights[0] = 1.0
    points = smooth(cells, weights, max_points)
    found = cells.find(points.points)
    assert np.allclose(np.bincount(found, points.weights, minlength=len(weights)), weights)
    assert len(points.points) <= max(max_points, np.count_nonzero(weights))
    assert (points.weights > 0).all()


def test_a_cell_leans_towards_its_fuller_neighbour():
    points = smooth(grid(3), np.array([1.0, 5.0, 9.0]), 100)
    middle = (points.points[:, 0] > 1 / 3) & (points.points[:, 0] < 2 / 3)
    assert np.average(points.points[middle, 0], weights=points.weights[middle]) > 0.5
    assert (np.diff(points.weights[middle]) > 0).all()


def test_equal_cells_stay_even_and_a_mirrored_grid_gives_mirrored_points():
    even = smooth(grid(4, 3), np.ones(12), 1000)
    assert np.allclose(even.weights, even.weights[0])
    weights = np.array([1.0, 4.0, 2.0, 7.0])
    one, other = (smooth(grid(4), w, 100) for w in (weights, weights[::-1]))
    assert np.allclose(one.weights, other.weights[::-1])
    assert np.allclose(one.points, 1 - other.points[::-1])


def test_a_straight_density_is_found_again_from_counts_over_a_few_cells():
    edges = np.linspace(0, 1, 6)
    counts = np.diff(edges**2)  # density 2x
    points = smooth(grid(5), counts, 1000)
    inner = (points.points[:, 0] > 0.2) & (points.points[:, 0] < 0.8)
    truth = (points.points[:, 0] + 1 / 30) ** 2 - (points.points[:, 0] - 1 / 30) ** 2
    assert np.allclose(points.weights[inner], truth[inner], rtol=1e-9)


@pytest.mark.parametrize("max_points", [0, 1, 8])
def test_one_point_a_cell_is_left_where_there_is_no_room_for_more(max_points):
    points = smooth(grid(3, 3), np.arange(1.0, 10.0), max_points)
    assert np.array_equal(points.weights, np.arange(1.0, 10.0))
    assert np.array_equal(points.points, grid(3, 3).centers())


def test_features_without_width_and_boxes_of_unequal_sides_are_no_trouble():
    cells = grid(3, 1, 2, box=[1.0, 0.0, 0.25])
    points = smooth(cells, np.arange(1.0, 7.0), 1000)
    assert len(points.points) == 6 * 9
    assert (points.points[:, 1] == 0).all()
    assert ((points.points >= 0) & (points.points <= cells.box)).all()
    assert points.weights.sum() == pytest.approx(21)
