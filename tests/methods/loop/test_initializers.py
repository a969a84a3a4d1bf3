from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpkmeans.core.bounds import Bounds
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.errors import DataError, MethodError
from dpkmeans.methods.loop.initializers import (
    INITIALIZERS,
    Given,
    SampledRows,
    SpherePacking,
    UniformInBox,
    as_initializer,
)

BOX = Bounds.of(([-1, 0], [1, 0.5]), 2)


def engine_of(n=50, box=BOX):
    X = np.random.default_rng(0).uniform(box.lower, box.upper, (n, box.n_features))
    return MemoryEngine.of_records(X, box, n_threads=1)


def rows_of(engine, n):
    return {tuple(row) for row in engine._rows(np.arange(n)).tolist()}


def test_sampled_rows_are_different_records():
    engine = engine_of(20)
    found = SampledRows().centroids(engine, 20, np.random.default_rng(1))
    assert {tuple(row) for row in found.tolist()} == rows_of(engine, 20)


def test_more_clusters_than_records_are_refused_without_telling_how_many_there_are():
    with pytest.raises(DataError, match=r"n_clusters=38 is larger than the number of records") as caught:
        SampledRows().centroids(engine_of(37), 38, np.random.default_rng(0))
    assert "37" not in str(caught.value)


def test_given_points_are_taken_in_the_units_of_the_data_and_not_clipped():
    found = Given.of([[-1, 0], [1, 0.5], [3, 0]]).centroids(engine_of(), 3, np.random.default_rng(0))
    assert found.tolist() == [[0, 0], [1, 0.25], [2, 0]]


@pytest.mark.parametrize("points", ["abc", [["a", "b"]], [1, 2], [[1, np.nan]], [[1, np.inf]], [[1], [1, 2]], None, {}])
def test_points_that_are_no_finite_table_are_refused(points):
    with pytest.raises(MethodError, match="init must be"):
        Given.of(points)


@pytest.mark.parametrize("points", [[[0, 0]], [[0], [0]], [[0, 0]] * 3])
def test_given_points_of_another_shape_are_refused(points):
    with pytest.raises(MethodError, match=r"shape \(n_clusters, n_features\) = \(2, 2\)"):
        Given.of(points).centroids(engine_of(), 2, np.random.default_rng(0))


@pytest.mark.parametrize("start", [UniformInBox(), SpherePacking()])
@pytest.mark.parametrize("k", [1, 2, 15])
def test_public_starts_lie_in_the_box(start, k):
    found = start.centroids(engine_of(), k, np.random.default_rng(2))
    assert found.shape == (k, 2)
    assert (found >= 0).all()
    assert (found <= BOX.unit_box).all()


@pytest.mark.parametrize("start", [UniformInBox(), SpherePacking(), Given.of([[0, 0], [1, 0.25]])])
def test_public_starts_do_not_look_at_the_records(start):
    few, many = (start.centroids(engine_of(n), 2, np.random.default_rng(3)) for n in (1, 50))
    assert np.array_equal(few, many)


@given(st.integers(2, 8), st.integers(1, 6), st.integers(0, 2**32))
def test_packed_points_are_apart_and_off_the_border(k, d, seed):
    engine = engine_of(3, Bounds.of((0, 1), d))
    found = SpherePacking().centroids(engine, k, np.random.default_rng(seed))
    assert found.shape == (k, d)
    assert min(np.linalg.norm(a - b) for i, a in enumerate(found) for b in found[:i]) > 1e-3
    assert np.minimum(found, 1 - found).min() > 1e-3


def test_packed_points_lie_farther_apart_than_uniform_ones():
    def closest(start, seed):
        points = start.centroids(engine_of(3, Bounds.of((0, 1), 2)), 8, np.random.default_rng(seed))
        return min(np.linalg.norm(a - b) for i, a in enumerate(points) for b in points[:i])

    packed = np.mean([closest(SpherePacking(), seed) for seed in range(20)])
    assert packed > 2 * np.mean([closest(UniformInBox(), seed) for seed in range(20)])


def test_starts_say_whether_they_leave_the_records_alone():
    starts: dict[str, Any] = dict(INITIALIZERS)
    assert [starts[name].claim.label for name in ("rows", "uniform", "packing")] == ["paper", "proved", "proved"]
    assert Given.of([[0.0]]).claim.label == "proved"


def test_a_start_is_a_name_a_start_or_an_array():
    assert as_initializer("rows") == SampledRows()
    assert as_initializer(UniformInBox()) == UniformInBox()
    assert as_initializer([[1, 2]]) == Given(((1.0, 2.0),))
    assert as_initializer(np.array([[1, 2]])) == Given(((1.0, 2.0),))
    with pytest.raises(MethodError, match=r"packing, rows, uniform, or an array of centroids; got 'k-means\+\+'"):
        as_initializer("k-means++")
