"""Bounds on a record as a whole: what becomes of it depends on itself alone, on every path, and fits the ball."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpkmeans import Ball, Bounds, DPKMeans, Number, Release, make_synopsis
from dpkmeans.core.bounds import GRID
from dpkmeans.engines.packing import grid_points
from dpkmeans.errors import BoundsError, SchemaError
from dpkmeans.synopsis.verify import verify

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
RECORDS = st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=1, max_size=40)
BALLS = st.builds(Ball, st.tuples(*[st.floats(-1e3, 1e3)] * 3), st.floats(1e-3, 1e6), st.booleans())


@given(RECORDS, BALLS)
def test_a_record_lies_in_the_ball_up_to_half_a_grid_step_per_feature(rows: list[list[float]], ball: Ball) -> None:
    box = Bounds.of(ball, 3)
    points = grid_points(np.array(rows), box).astype(np.float64)
    middle = box.unit_of(np.array(ball.center_of(3)))
    far = np.sqrt(((points - middle) ** 2).sum(axis=1))
    assert (far <= 0.5 + np.sqrt(3) / GRID).all()


@given(RECORDS, BALLS)
def test_what_becomes_of_a_record_does_not_depend_on_the_others(rows: list[list[float]], ball: Ball) -> None:
    box = Bounds.of(ball, 3)
    together = grid_points(np.array(rows), box)
    alone = np.concatenate([grid_points(np.array([row]), box) for row in rows])
    assert np.array_equal(together, alone)


@given(RECORDS)
def test_a_record_keeps_its_direction(rows: list[list[float]]) -> None:
    ball = Ball(radius=2.0)
    for row, found in zip(rows, ball.take_in(np.array(rows)), strict=True):
        assert all(np.sign(a) == np.sign(b) or b == 0 for a, b in zip(row, found, strict=True))
        squared = sum(Fraction(x) ** 2 for x in found)
        assert squared <= Fraction(4) * (1 + Fraction(1, 2**40))
        if sum(Fraction(x) ** 2 for x in row) <= 4:
            assert np.allclose(found, row, rtol=1e-12, atol=0)


def test_normalised_records_have_the_norm_1_and_a_record_at_the_centre_stays_there() -> None:
    ball = Ball(normalize=True)
    found = ball.take_in(np.array([[0.0, 0.0], [3.0, 4.0], [1e-300, 0.0], [-1e300, 1e300]]))
    assert np.allclose(found, [[0, 0], [0.6, 0.8], [1, 0], [-(0.5**0.5), 0.5**0.5]])


def test_a_box_alone_would_let_a_corner_through() -> None:
    corner = np.array([[1.0, 1.0, 1.0]])
    in_ball, in_box = grid_points(corner, Bounds.of(Ball(), 3)), grid_points(corner, Bounds.of((-1, 1), 3))
    assert np.allclose(in_box, 1.0)
    assert np.allclose(in_ball, 0.5 + 0.5 / 3**0.5, atol=1e-5)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_max_norm_stands_for_a_ball_around_0_in_every_floating_type(kind: type) -> None:
    X = np.random.default_rng(1).normal(size=(500, 4)).astype(kind)
    fitted = [
        DPKMeans(3, epsilon=1.0, random_state=0, guarantee="none", **bounds).fit(X).cluster_centers_
        for bounds in ({"max_norm": 1.5}, {"bounds": Ball(0, 1.5)}, {"bounds": Ball([0, 0, 0, 0], 1.5)})
    ]
    assert np.array_equal(fitted[0], fitted[1])
    assert np.array_equal(fitted[0], fitted[2])


def test_unit_records_in_unit_centroids_out() -> None:
    X = np.random.default_rng(2).normal(size=(2000, 5)) * np.logspace(-3, 3, 2000)[:, None]
    model = DPKMeans(4, epsilon=2.0, normalize=True).fit(X)
    assert np.allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1.0)
    assert model.release_.guarantee.label == "proved"
    assert all(verdict.holds for verdict in verify(model.release_))
    assert np.array_equal(model.predict(X), model.predict(X * 7.0))


def test_a_model_and_a_synopsis_keep_their_ball(tmp_path: Path) -> None:
    X = np.random.default_rng(3).normal(size=(1000, 3))
    model = DPKMeans(3, epsilon=1.0, bounds=Ball(0.5, 2.0)).fit(X)
    again = Release.from_dict(model.release_.to_dict())
    assert again.bounds.ball == Ball((0.5, 0.5, 0.5), 2.0)
    assert np.array_equal(again.predict(5 * X), model.predict(5 * X))
    model.release_.save(tmp_path / "model.json")
    assert json.loads((tmp_path / "model.json").read_text())["version"] == 3  # a reader of boxes alone refuses it
    synopsis = make_synopsis(X, 1.0, normalize=True)
    assert np.allclose(np.linalg.norm(synopsis.fit(3).centroids, axis=1), 1.0)


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"bounds": (0, 1), "max_norm": 1.0}, BoundsError, "max_norm cannot be given beside bounds"),
        ({"bounds": (0, 1), "normalize": True}, BoundsError, "normalize cannot be given beside bounds"),
        ({"max_norm": 1.0, "normalize": True}, BoundsError, "all have the norm 1"),
        ({"max_norm": 0.0}, BoundsError, "max_norm must be a positive number"),
        ({"max_norm": "1"}, BoundsError, "max_norm must be a positive number"),
        ({"normalize": "yes"}, BoundsError, "normalize must be True or False"),
        ({"bounds": Ball([0, 0], 1)}, BoundsError, "a centre of 2 features; the records have 3"),
        ({"max_norm": 1.0, "bounds_epsilon": 0.1}, BoundsError, "bounds were given"),
        ({"max_norm": 1.0, "scale": {"feature 0": 2.0}}, SchemaError, "cannot weigh columns in a ball"),
        ({"max_norm": 1.0, "schema": {"a": Number(0, 1)}}, SchemaError, "column 'a' of the schema has bounds"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_spent(given: dict, error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        DPKMeans(2, epsilon=1.0, **given).fit(np.ones((10, 3)))


@pytest.mark.parametrize("radius", [0, -1, float("nan"), float("inf"), "1", None, 2.0**600])
def test_a_radius_is_a_positive_number(radius: object) -> None:
    with pytest.raises(BoundsError, match="the radius of a ball must be"):
        Ball(0, radius)


def test_missing_and_infinite_values_are_refused_in_a_ball_too() -> None:
    for value in (np.nan, np.inf, -np.inf):
        for ball in ({"max_norm": 1.0}, {"normalize": True}):
            with pytest.raises(Exception, match=r"NaN|infinity"):
                DPKMeans(2, epsilon=1.0, **ball).fit(np.array([[0.1, 0.2], [0.3, value], [0.5, 0.6]]))
