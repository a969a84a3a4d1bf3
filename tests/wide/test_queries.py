"""What a record adds to the questions of the method for many features: whole numbers within the bound, exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpkmeans.core.bounds import GRID, Bounds
from dpkmeans.core.exact import reveal
from dpkmeans.engines.block_tasks import block_of_points
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.synopsis.moved_query import MovedQuery
from dpkmeans.wide.queries import AtCentres, Covariance, Rings
from dpkmeans.wide.settings import BINS, DIAGONAL, OFF_DIAGONAL, PRODUCT_NORM
from dpkmeans.wide.subspace import random_subspace

KINDS = ("at centres", "distances", "covariance", "at projected centres", "projected covariance")


def grid_points(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Points anywhere, at corners, and all but alike, in whole steps (n, d)."""
    anywhere = rng.integers(0, GRID + 1, (n, d))
    corners = np.where(rng.random((n, d)) < 0.5, 0, GRID)
    alike = GRID // 2 + rng.integers(-2, 3, (n, d))
    kind = rng.integers(3, size=(n, 1))
    return np.where(kind == 0, anywhere, np.where(kind == 1, corners, alike))


def a_query(kind: str, rng: np.random.Generator, d: int):
    if kind.startswith(("at projected", "projected")):
        subspace = random_subspace(rng.integers(0, GRID + 1, d), float(rng.integers(1000, GRID)), min(d, 3), rng)
        inner = "covariance" if "covariance" in kind else "at centres"
        return MovedQuery(a_query(inner, rng, len(subspace.directions)), subspace.project)
    origin = rng.integers(0, GRID + 1, d)
    radius = int(2.0 ** rng.uniform(1, 21))
    if kind == "covariance":
        return Covariance(origin, radius)
    centres = grid_points(rng, int(rng.integers(1, 6)), d) - origin
    rings = Rings(float(rng.integers(10, 2 * GRID)))
    if kind == "distances":
        return AtCentres(origin, centres, 0, 0, 0, 1, 1, rings)
    count, cost, bins = (int(x) for x in rng.integers(0, radius + 1, 3))
    return AtCentres(origin, centres, radius, count, cost, int(rng.integers(1, GRID)), bins, rings)


def table_of(query, points: np.ndarray) -> np.ndarray:
    table = np.zeros(query.shape, np.int64)
    block = block_of_points(points / GRID)
    query.add(block.tiles, block.n, table)
    return table


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_more_changes_an_answer_by_at_most_the_declared_square_and_by_its_own_row(kind):
    reached = 0.0

    @settings(max_examples=150, deadline=None, derandomize=True, database=None)
    @given(st.integers(0, 2**32 - 1))
    def one_record_more(seed):
        nonlocal reached
        rng = np.random.default_rng(seed)
        d = int(rng.integers(1, 9))
        query = a_query(kind, rng, d)
        points = grid_points(rng, int(rng.integers(0, 40)), d)
        record = grid_points(rng, 1, d)
        before = table_of(query, points)
        after = table_of(query, np.insert(points, int(rng.integers(len(points) + 1)), record, axis=0))
        change = [int(entry) for entry in (after - before).ravel()]
        assert change == table_of(query, record).ravel().tolist()  # whatever the other records are
        square = sum(entry * entry for entry in change)
        assert square <= query.sensitivity.l2_squared
        reached = max(reached, square / query.sensitivity.l2_squared)

    one_record_more()
    assert reached > 0.9  # and the declaration is not idle


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.lists(st.integers(-GRID, GRID), min_size=1, max_size=30), st.integers(1, 2 * GRID))
def test_a_clipped_residual_has_a_norm_within_the_radius_to_the_last_bit_and_points_the_same_way(residual, radius):
    vector = np.array(residual)
    origin = np.maximum(-vector, 0)
    query = AtCentres(origin, np.zeros((1, len(vector)), np.int64), radius, 0, 0, 1, 0, Rings(1.0))
    added = [int(entry) for entry in table_of(query, (origin + vector)[None, :])[0]]
    square, before = sum(a * a for a in added), sum(int(v) ** 2 for v in vector)
    assert square <= radius * radius
    if before <= radius * radius:
        assert added == vector.tolist()
    else:
        factor = radius / math.sqrt(before)
        assert np.abs(np.array(added) - factor * vector).max() <= 1 + 1e-6
        assert (np.sign(added) * np.sign(vector) >= 0).all()


def test_a_release_at_centres_holds_counts_costs_residuals_and_bins_of_the_nearest_centre():
    rng = np.random.default_rng(1)
    points, origin = rng.integers(0, GRID, (500, 7)), rng.integers(0, GRID, 7)
    centres = rng.integers(0, GRID, (4, 7)) - origin
    rings = Rings(float(GRID))
    query = AtCentres(origin, centres, 10 * GRID, 3, 1000, GRID, 5, rings)
    counts, costs, sums, bins = query.parts(table_of(query, points)[0])
    away = (points - origin)[:, None, :] - centres
    square = (away**2).sum(axis=2)
    nearest = square.argmin(axis=1)
    own = square[np.arange(500), nearest]
    assert counts.tolist() == (3 * np.bincount(nearest, minlength=4)).tolist()
    assert costs.tolist() == [
        int(np.floor(1000 * (np.minimum(own[nearest == c], GRID**2) / GRID**2)).sum()) for c in range(4)
    ]
    expected = np.stack([away[nearest == c, c].sum(axis=0) for c in range(4)])
    assert np.array_equal(sums.reshape(4, 7), expected)
    ends = np.append(rings.upper[1:], 0.0)
    place = [int(np.argmax(np.sqrt(q) > ends)) for q in own]
    assert bins.tolist() == (5 * np.bincount(place, minlength=BINS)).tolist()


def test_the_covariance_is_the_exact_sum_of_products_in_whatever_pieces():
    rng = np.random.default_rng(2)
    points = rng.integers(0, GRID + 1, (9000, 6))
    origin, radius = np.full(6, GRID // 2), GRID // 3
    query = Covariance(origin, radius)
    total = np.zeros((6, 6), object)
    for record in points - origin:
        length = math.sqrt(sum(int(r) ** 2 for r in record))
        factor = PRODUCT_NORM / max(radius, length)
        y = [math.trunc(float(r) * factor) for r in record]
        assert sum(v * v for v in y) <= PRODUCT_NORM**2
        total += np.outer(np.array(y, object), np.array(y, object))
    i, j = np.triu_indices(6)
    expected = [int(v) for v in total[i, j] * np.where(i == j, DIAGONAL, OFF_DIAGONAL)]
    found = table_of(query, points)
    assert found[0].tolist() == expected
    assert np.array_equal(found, table_of(query, points[:3001]) + table_of(query, points[3001:]))
    engine = MemoryEngine.of_records(points / GRID, Bounds.of((0, 1), 6), n_threads=2)
    assert np.array_equal(reveal(engine.answer(query), why="a test"), found)
    scaled = query.matrix(found[0])
    assert np.array_equal(scaled, scaled.T)
    assert scaled[0, 0] == pytest.approx(float(total[0, 0]) * (radius / PRODUCT_NORM) ** 2)


def test_integer_weights_of_a_covariance_keep_the_bound_of_the_frobenius_norm():
    assert OFF_DIAGONAL**2 <= 2 * DIAGONAL**2
    assert OFF_DIAGONAL * PRODUCT_NORM**2 * 2**33 < 2**62  # sums over 2^33 records fit the mechanism
