from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dpkmeans.core.bounds import GRID, LIMIT, Bounds
from dpkmeans.engines.packing import grid_points
from dpkmeans.errors import BoundsError, DataError

ordinary = st.floats(-1e6, 1e6)


@st.composite
def boxes(draw, max_features=5):
    d = draw(st.integers(1, max_features))
    lower = draw(st.lists(ordinary, min_size=d, max_size=d))
    width = draw(st.lists(st.floats(0, 1e6), min_size=d, max_size=d))
    width[0] = max(width[0], 1e-3)
    return Bounds.of((lower, [lo + w for lo, w in zip(lower, width, strict=True)]), d)


@st.composite
def boxes_and_records(draw):
    box = draw(boxes())
    n = draw(st.integers(1, 6))
    values = st.one_of(ordinary, st.just(1e308), st.just(-1e308))
    return box, draw(hnp.arrays(np.float64, (n, box.n_features), elements=values))


def test_one_pair_serves_all_features():
    assert Bounds.of((0, 1), 3) == Bounds((0.0,) * 3, (1.0,) * 3)


def test_each_feature_may_have_its_own_pair():
    assert Bounds.of(([0, -1], [10, 5]), 2) == Bounds((0.0, -1.0), (10.0, 5.0))


def test_a_number_and_a_list_may_be_mixed():
    assert Bounds.of((0, [10, 5]), 2) == Bounds((0.0, 0.0), (10.0, 5.0))


def test_an_array_of_two_rows_is_a_pair():
    assert Bounds.of(np.array([[0, 1], [2, 3]]), 2) == Bounds((0.0, 1.0), (2.0, 3.0))


def test_bounds_pass_through():
    box = Bounds((0.0,), (1.0,))
    assert Bounds.of(box, 1) is box


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        (None, "missing"),
        ("auto", "pair"),
        ((0, 1, 2), "pair"),
        (5, "pair"),
        ({"a": 1}, "pair"),
        (("a", "b"), "pair"),
        (([0, 0, 0], 1), "given for 3 features; the records have 2"),
        ((1, 0), "feature 0 has lower=1.0, upper=0.0. Did you mean 0 to 1"),
        ((0, [1, -1]), "feature 1 has lower=0.0, upper=-1.0"),
        ((math.nan, 1), "finite"),
        ((0, math.inf), "finite"),
        ((-math.inf, 1), "finite"),
        ((0, 2 * LIMIT), "2\\^500"),
        ((3, 3), "every feature has lower=upper"),
        (([1, 2], [1, 2]), "every feature has lower=upper"),
        ([(0, 100), (0, 100)], r"bounds are \(all lower, all upper\), not one pair per feature"),
    ],
)
def test_wrong_bounds_are_refused_with_what_is_wrong(bounds, message):
    with pytest.raises(BoundsError, match=message):
        Bounds.of(bounds, 2)


@pytest.mark.parametrize("bounds", [None, "auto", 5, (1, 0), (0, math.inf), (0, 0)])
def test_a_refusal_says_what_to_do(bounds):
    with pytest.raises(BoundsError, match="Give bounds that are known without looking at the data"):
        Bounds.of(bounds, 2)


def test_a_box_of_another_number_of_features_is_refused():
    with pytest.raises(BoundsError, match="1 features; the records have 2"):
        Bounds.of(Bounds((0.0,), (1.0,)), 2)


def test_a_box_that_is_a_point_is_refused_as_a_value_too():
    with pytest.raises(BoundsError, match="lower=upper"):
        Bounds.of(Bounds((1.0,), (1.0,)), 1)


@pytest.mark.parametrize(("lower", "upper"), [((), ()), ((0.0,), (1.0, 2.0))])
def test_sides_of_different_length_are_refused(lower, upper):
    with pytest.raises(BoundsError, match="same, positive length"):
        Bounds(lower, upper)


def test_a_feature_may_be_constant_if_another_is_not():
    box = Bounds.of(([0, 7], [1, 7]), 2)
    assert box.side.tolist() == [GRID, 0]
    assert grid_points(np.array([[0.5, 99.0]]), box).tolist() == [[0.5, 0.0]]


def test_bounds_read_from_records_say_so():
    box = Bounds.read_from(np.array([[1, 5], [3, 4]]))
    assert box == Bounds((1.0, 4.0), (3.0, 5.0), from_data=True)


def test_bounds_read_from_equal_records_are_a_point_with_unit_length():
    box = Bounds.read_from(np.full((3, 2), 7.0))
    assert box.longest_side == 1.0
    assert grid_points(np.full((3, 2), 7.0), box).tolist() == [[0.0, 0.0]] * 3
    assert box.from_unit(np.zeros((1, 2))).tolist() == [[7.0, 7.0]]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_bounds_cannot_be_read_from_nan_or_infinity(bad):
    with pytest.raises(BoundsError, match="NaN or infinity"):
        Bounds.read_from(np.array([[0.0], [bad]]))


def test_bounds_that_cannot_be_read_from_records_show_none_of_them():
    with pytest.raises(BoundsError, match=r"2\^500") as caught:
        Bounds.read_from(np.array([[0.0], [1.2345e200]]))
    assert "1.2345" not in str(caught.value)


def test_nan_is_refused_without_saying_where():
    with pytest.raises(DataError, match="NaN") as caught:
        grid_points(np.array([[0.123456, 1.0], [math.nan, 0.0]]), Bounds.of((0, 1), 2))
    assert "0.123456" not in str(caught.value)


def test_nan_is_found_in_a_late_chunk():
    records = np.zeros((2**16 + 5, 1))
    records[-1] = math.nan
    with pytest.raises(DataError, match="NaN"):
        grid_points(records, Bounds.of((0, 1), 1))


def test_a_wrong_number_of_features_is_refused():
    with pytest.raises(DataError, match="2 features; the bounds have 1"):
        grid_points(np.zeros((3, 2)), Bounds.of((0, 1), 1))


def test_a_record_far_away_clips_to_the_border():
    box = Bounds.of((-2, [2, 0]), 2)
    assert grid_points(np.array([[1e308, 1e308], [-1e308, -1e308]]), box).tolist() == [[1.0, 0.5], [0.0, 0.0]]


@pytest.mark.parametrize("huge", [math.inf, -math.inf, np.longdouble("1e400"), -np.longdouble("1e400")])
def test_infinity_is_refused_like_nan(huge):
    with pytest.raises(DataError, match="column number 0 of the records holds infinity"):
        grid_points(np.array([[0.5], [huge]]), Bounds.of((0, 1), 1))


def test_weights_stretch_features_and_keep_the_units_of_the_data():
    box = Bounds((0.0, 10.0), (100.0, 20.0), weights=(0.01, 0.2))
    assert box.longest_side == 2.0
    assert box.unit_box.tolist() == [0.5, 1.0]
    points = grid_points(np.array([[50.0, 15.0], [100.0, 20.0]]), box)
    assert points.tolist() == [[0.25, 0.5], [0.5, 1.0]]
    assert box.from_unit(points).tolist() == [[50.0, 15.0], [100.0, 20.0]]
    assert box.unit_of([[50.0, 15.0]]).tolist() == [[0.25, 0.5]]
    assert Bounds((0.0,), (8.0,), weights=(1.0,)).side.tolist() == Bounds((0.0,), (8.0,)).side.tolist()


@pytest.mark.parametrize("weights", [(1.0,), (1.0, 0.0), (1.0, -1.0), (1.0, math.nan), (1.0, math.inf), (1e200, 1.0)])
def test_weights_must_be_positive_and_one_per_feature(weights):
    with pytest.raises(BoundsError, match=r"weight|2\^501"):
        Bounds((0.0, 0.0), (1.0, 1.0), weights=weights)


def test_the_largest_box_keeps_finite_numbers():
    box = Bounds.of((-LIMIT, LIMIT), 2)
    points = grid_points(np.array([[LIMIT, 0.0], [-LIMIT, 1e308]]), box)
    assert points.tolist() == [[1.0, 0.5], [0.0, 1.0]]
    assert np.isfinite(box.from_unit(points)).all()
    assert math.isfinite(box.longest_side**2)


def test_the_smallest_box_keeps_its_two_ends():
    tiny = 1 / LIMIT
    assert grid_points(np.array([[0.0], [tiny], [1.0]]), Bounds.of((0, tiny), 1)).tolist() == [[0.0], [1.0], [1.0]]


@pytest.mark.parametrize("side", [math.ulp(0.0), 1e-310, 0.5 / LIMIT])
def test_a_box_too_small_for_its_grid_is_refused(side):
    with pytest.raises(BoundsError, match=r"2\^-500"):
        Bounds.of((0, side), 1)
    with pytest.raises(BoundsError, match=r"2\^-500"):
        Bounds.read_from(np.array([[0.0], [side]]))


@given(boxes_and_records())
def test_grid_points_are_whole_steps_between_zero_and_the_sensitivity(case):
    box, records = case
    points = grid_points(records, box)
    assert points.dtype == np.float32
    steps = points.astype(np.float64) * GRID
    assert np.array_equal(steps, np.rint(steps))
    assert (steps >= 0).all()
    assert (steps <= box.side).all()


@given(boxes())
def test_the_sensitivity_is_reached_and_never_passed(box):
    corners = np.array([[-1e308] * box.n_features, [1e308] * box.n_features])
    steps = grid_points(corners, box).astype(np.float64) * GRID
    assert np.array_equal(steps[1] - steps[0], box.side)
    assert np.array_equal(box.unit_box * GRID, box.side)


@given(boxes_and_records())
def test_a_record_moves_by_at_most_half_a_step_and_rounding(case):
    box, records = case
    for row, point in zip(records, grid_points(records, box), strict=True):
        for x, lo, hi, p in zip(row, box.lower, box.upper, point, strict=True):
            exact = (Fraction(min(max(x, lo), hi)) - Fraction(lo)) / Fraction(box.longest_side)
            assert abs(Fraction(float(p)) - exact) <= Fraction(1, 2 * GRID) + Fraction(1, 2**40)


@given(boxes_and_records())
def test_gridding_twice_changes_little_and_stays_inside(case):
    box, records = case
    once = grid_points(records, box)
    back = box.from_unit(once)
    assert np.abs(box.unit_of(back) - once).max() <= 1e-6
    assert np.array_equal(box.clip_unit(once.astype(np.float64)), once)


@given(boxes_and_records(), st.sampled_from([np.float32, np.float16, np.int32, np.int8, np.uint64, np.bool_]))
def test_other_dtypes_give_what_their_float64_values_give(case, dtype):
    box, records = case
    small = np.clip(np.where(np.isfinite(records), records, 0), 0, 100).astype(dtype)
    assert np.array_equal(grid_points(small, box), grid_points(small.astype(np.float64), box))


def test_records_are_not_changed_in_place():
    records = np.array([[5.0], [-5.0]])
    grid_points(records, Bounds.of((0, 1), 1))
    assert records.tolist() == [[5.0], [-5.0]]
