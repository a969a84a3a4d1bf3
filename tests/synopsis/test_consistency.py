from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpkmeans.synopsis.consistency import blend, project
from dpkmeans.synopsis.weighted_points import WeightedPoints

noisy_counts = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40).map(np.array)


@given(noisy_counts)
def test_projected_weights_are_not_negative_and_keep_a_positive_total(noisy):
    weights = project(noisy)
    assert (weights >= 0).all()
    assert weights.sum() > 0
    if noisy.sum() > 1e-3:
        assert weights.sum() == pytest.approx(noisy.sum(), rel=1e-6)


def test_the_projection_takes_one_threshold_off_all_weights():
    assert project(np.array([10.0, 4.0, -2.0])).tolist() == [9.0, 3.0, 0.0]


def test_without_any_total_cells_weigh_the_same_or_as_their_positive_parts():
    assert project(np.array([-1.0, -5.0])).tolist() == [1.0, 1.0]
    assert project(np.array([2.0, -5.0])).tolist() == [2.0, 0.0]


def test_the_gap_to_the_parent_is_shared_evenly_by_inverse_variances():
    owner = np.array([0, 0, 1])
    moved = blend(np.array([1.0, 2.0, 5.0]), np.array([7.0, 5.0]), owner, 1.0, 2.0)
    assert moved.tolist() == [2.0, 3.0, 5.0]
    certain = blend(np.array([1.0, 2.0, 5.0]), np.array([7.0, 6.0]), owner, 1.0, 0.0)
    assert certain.tolist() == [3.0, 4.0, 6.0]


def test_points_without_weight_are_left_out_and_one_always_stays():
    points = np.arange(6.0).reshape(3, 2)
    assert WeightedPoints.of(points, np.array([0.0, 2.0, 0.0])).points.tolist() == [[2.0, 3.0]]
    assert WeightedPoints.of(points, np.zeros(3)).weights.tolist() == [1.0]
