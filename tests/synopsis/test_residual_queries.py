"""What one record can add to the answers that a synopsis asks for. Everything here is exact: integers, no noise."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest

from dpkmeans.core.bounds import GRID, Bounds
from dpkmeans.core.exact import reveal
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.engines.packing import grid_points
from dpkmeans.kernels.simd_f32 import LANES
from dpkmeans.synopsis.features import columns
from dpkmeans.synopsis.grid_cells import GridCells
from dpkmeans.synopsis.hyperplane_cells import Sides, Spread
from dpkmeans.synopsis.moved_query import MovedQuery
from dpkmeans.synopsis.residual_queries import UNIT, Residuals, ResidualSizes
from dpkmeans.synopsis.settings import RADIUS_EDGES
from dpkmeans.synopsis.tree_cells import Halvings, Leaves
from dpkmeans.synopsis.view import Split, Squeeze
from dpkmeans.synopsis.zoom_cells import Parts, Rings, Shells

BOXES = {
    "unit": Bounds.of((0, 1), 2),
    "one feature": Bounds.of((-4, 4), 1),
    "unequal": Bounds.of(([-3, 1e6, 0], [5, 1e6 + 1, 1e-3]), 3),
    "without width": Bounds.of(([0, 7, -1], [1, 7, 1e-9]), 3),
    "one grid step": Bounds.of(([0, 0], [1, 3 * 2.0**-21]), 2),
    "many": Bounds.of((0, np.linspace(1, 3, 23)), 23),
}
EACH = 35  # records of a data set; each of them is left out once
ROUNDS = 70


def hard_points(rng: np.random.Generator, n: int, box: Bounds) -> np.ndarray:
    """Grid points of records inside, at, just beyond and far beyond the bounds, and between grid points."""
    lower, upper = np.array(box.lower), np.array(box.upper)
    inside = lower + rng.random((n, len(lower))) * (upper - lower)
    between = lower + (np.floor(rng.random(inside.shape) * GRID) + 0.5) / GRID * box.longest_side
    corners = [np.broadcast_to(corner, inside.shape) for corner in (lower, upper, np.nextafter(upper, np.inf))]
    far = np.where(rng.random(inside.shape) < 0.5, -1e300, 1e300)
    middle = np.broadcast_to((lower + upper) / 2, inside.shape)
    cases = [inside, *corners, far, between, middle]
    return grid_points(np.choose(rng.integers(len(cases), size=inside.shape), cases), box)


def table_of(query, points: np.ndarray) -> np.ndarray:
    """The query's table, straight from tiles."""
    n, d = points.shape
    tiles = np.zeros((-(-n // LANES), LANES, d), np.float32)
    tiles.reshape(-1, d)[:n] = points
    table = np.zeros(query.shape, np.int64)
    query.add(np.ascontiguousarray(tiles.transpose(0, 2, 1)), n, table)
    return table


def centroids_in(rng, box: Bounds, k: int) -> np.ndarray:
    points = hard_points(rng, k, box).astype(np.float64)
    return np.where(rng.random(points.shape) < 0.5, points, rng.random(points.shape) * box.unit_box)


def residuals(rng, box):
    k = int(rng.integers(1, 7))
    return Residuals(centroids_in(rng, box, k), rng.choice([2.0**-10, 0.03, 0.7, 1.0], (k, box.n_features)))


def grid_cells(rng, box):
    outer = np.where(rng.random(box.n_features) < 0.2, 2, 1)
    cuts = np.where(rng.random((int(np.prod(outer)), box.n_features)) < 0.2, rng.integers(1, 4), 1)
    return GridCells(box.unit_box, outer, cuts)


def halvings(rng, box):
    return Halvings(box.unit_box, int(rng.integers(1, 9)))


def leaves(rng, box):
    cells = halvings(rng, box)
    depth = int(rng.integers(0, cells.depth + 1))  # a tree whose leaves have one depth
    prefixes = np.arange(2**depth)
    center, half = cells.boxes(np.full(2**depth, depth), prefixes)
    return Leaves(cells, np.repeat(prefixes, 2 ** (cells.depth - depth)).astype(np.int32), center, half)


def directions_in(rng, box):
    m = int(rng.integers(1, min(box.n_features, 5) + 1))
    return np.linalg.qr(rng.standard_normal((box.n_features, m)))[0]


def sides(rng, box):
    directions = directions_in(rng, box)
    return Sides(directions, rng.random(box.n_features) * box.unit_box, 0.1 * rng.standard_normal(directions.shape[1]))


def spread(rng, box):
    origin = rng.random(box.n_features) * box.unit_box
    return Spread(directions_in(rng, box), origin, float(rng.choice([0.05, 0.5])))


def residual_sizes(rng, box):
    return ResidualSizes(centroids_in(rng, box, int(rng.integers(1, 7))), box.unit_box / 2, RADIUS_EDGES)


def near_a_mean(rng, box):
    """Two bins around one place: near it, and farther away."""
    reach = float(rng.choice([2.0**-20, 0.1, 0.5, 3.0]))
    return ResidualSizes(centroids_in(rng, box, 1), box.unit_box / 2, np.array([0.0, reach]))


SIZES = [residual_sizes, near_a_mean]


def part_of(rng, box):
    """A part of the box, in its unit coordinates; no side of it is longer."""
    corners = np.sort(rng.random((2, box.n_features)), axis=0) * box.unit_box
    upper = np.where(corners[1] > corners[0], corners[1], box.unit_box)
    return Bounds(tuple(corners[0].tolist()), tuple(upper.tolist()))


def shells(rng, box):
    scales = 2.0 ** (1 - np.arange(5.0))
    return Shells(rng.random(box.n_features) * box.unit_box, scales[:, None] * box.unit_box)


def rings(rng, box):
    parts = np.where(box.unit_box > 0, int(rng.integers(1, 4)), 1)
    parts[4:] = 1
    return Rings(rng.random(box.n_features) * box.unit_box, 0.1 * box.unit_box, parts, int(rng.integers(1, 4)))


def split(rng, box):
    part = part_of(rng, box)
    return Split(grid_cells(rng, Bounds((0.0,) * box.n_features, tuple(part.unit_box.tolist()))), rings(rng, box), part)


def squeezed(rng, box):
    part = part_of(rng, box)
    center, half = (np.add(part.lower, part.upper) / 2, np.subtract(part.upper, part.lower) / 2)
    squeeze = Squeeze(center, half, int(rng.integers(1, 5)), 1 / 3)
    return MovedQuery(leaves(rng, Bounds((0.0,) * box.n_features, tuple(squeeze.box.tolist()))), squeeze.move)


def of_features(rng, box):
    some = np.sort(rng.permutation(box.n_features)[: int(rng.integers(1, box.n_features + 1))])
    kept = box.unit_box[some]
    if not kept.any():
        some, kept = np.arange(box.n_features), box.unit_box
    corner = Bounds((0.0,) * len(some), tuple((kept / kept.max()).tolist()))
    return MovedQuery(residuals(rng, corner), partial(columns, some))


def parts_of_sides(rng, box):
    return Parts(box.unit_box, int(rng.choice([4, 32])))


QUERIES = {
    "residuals": (residuals, UNIT),
    "grid cells": (grid_cells, 1),
    "halvings": (halvings, 1),
    "leaves": (leaves, UNIT),
    "sides": (sides, 1),
    "spread": (spread, UNIT),
    "shells": (shells, 1),
    "rings": (rings, 1),
    "split": (split, 1),
    "squeezed": (squeezed, UNIT),
    "some features": (of_features, UNIT),
}


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("box", BOXES.values(), ids=BOXES)
def test_no_record_adds_more_than_the_sensitivity_to_one_row_and_nothing_to_others(name, box):
    """35 · 70 · 6 boxes · 11 queries = 161 700 neighbouring pairs, exactly; the two of `SIZES` add 29 400 below."""
    make, sensitivity = QUERIES[name]
    rng = np.random.default_rng([7, len(name), box.n_features])
    largest = 0
    for _ in range(ROUNDS):
        query = make(rng, box)
        points = hard_points(rng, EACH, box)
        whole = table_of(query, points)
        for i in range(EACH):
            change = whole - table_of(query, np.delete(points, i, axis=0))
            rows = np.flatnonzero(change.any(axis=1))
            assert len(rows) <= 1
            assert np.abs(change).max() <= sensitivity
            if name != "spread":
                assert change[:, 0].sum() == sensitivity  # the count: every record is in one cell
            largest = max(largest, int(np.abs(change if name == "spread" else change[:, 1:]).max(initial=0)))
    if name in ("residuals", "leaves") or (name == "spread" and box.n_features < 5):
        assert largest == sensitivity  # and it is reached, by sums as well


@pytest.mark.parametrize("make", SIZES)
@pytest.mark.parametrize("box", BOXES.values(), ids=BOXES)
def test_a_record_adds_one_count_per_feature_to_the_sizes_of_residuals(box, make):
    rng = np.random.default_rng([8, box.n_features])
    for _ in range(ROUNDS):
        query = make(rng, box)
        points = hard_points(rng, EACH, box)
        whole = table_of(query, points)
        for i in range(EACH):
            change = whole - table_of(query, np.delete(points, i, axis=0))
            assert change.min() >= 0
            assert change.sum() == box.n_features  # the sum of absolute changes: the sensitivity


@pytest.mark.parametrize("make", [*(make for make, _ in QUERIES.values()), *SIZES])
def test_what_a_record_adds_does_not_depend_on_its_place_or_on_the_others(make):
    rng = np.random.default_rng(9)
    for box in BOXES.values():
        query = make(rng, box)
        points = hard_points(rng, 50, box)
        alone = sum(table_of(query, point[None]) for point in points)
        assert np.array_equal(alone, table_of(query, points))
        assert np.array_equal(alone, table_of(query, rng.permutation(points)))


@pytest.mark.parametrize("n_threads", [1, 3])
def test_an_engine_asks_every_query_over_all_records_for_any_number_of_threads(n_threads):
    rng = np.random.default_rng(3)
    box = BOXES["unequal"]
    points = hard_points(rng, 333, box)
    engine = MemoryEngine.of_records(box.from_unit(points), box, n_threads=n_threads)
    for make in (*(make for make, _ in QUERIES.values()), *SIZES):
        query = make(rng, box)
        assert np.array_equal(reveal(engine.answer(query), why="a test"), table_of(query, points))


def test_no_records_give_a_table_of_zeros():
    box = BOXES["unit"]
    engine = MemoryEngine.of_records(np.empty((0, 2)), box)
    for make, _ in QUERIES.values():
        assert not reveal(engine.answer(make(np.random.default_rng(0), box)), why="a test").any()


# --- cells ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3, 27, 64, 65, 100])
def test_the_middle_of_every_grid_cell_lies_in_that_cell_for_any_number_of_features(d):
    rng = np.random.default_rng(d)
    outer = np.ones(d, np.int64)
    outer[: min(d, 2)] = 2
    cuts = np.where(rng.random((int(outer.prod()), d)) < 2 / d, 3, 1)
    box = Bounds.of((0, np.linspace(1, 2, d)), d)
    query = GridCells(box.unit_box, outer, cuts)
    centers = query.centers()
    assert centers.shape == (query.shape[0], d)
    for cell in range(0, len(centers), max(1, len(centers) // 50)):
        table = table_of(query, centers[cell : cell + 1].astype(np.float32))
        assert np.flatnonzero(table[:, 0]).tolist() == [cell]


def test_leaves_tile_the_box_and_hold_the_points_of_their_prefix():
    cells = Halvings(np.array([1.0, 0.5, 0.0]), 6)
    prefixes = np.arange(2**6)
    center, half = cells.boxes(np.full(64, 6), prefixes)
    assert np.isclose(np.prod(2 * half[:, :2], axis=1).sum(), 0.5)
    for prefix in prefixes:
        assert np.flatnonzero(table_of(cells, center[prefix : prefix + 1].astype(np.float32))[:, 0]) == [prefix]


@pytest.mark.parametrize("n", [1, 15, 16, 17, 100])
@pytest.mark.parametrize("name", BOXES)
def test_counts_and_offsets_of_leaves_are_those_of_records_taken_one_by_one(name, n):
    rng, box = np.random.default_rng(n), BOXES[name].unit_box
    cells, leaf_of = Halvings(box, 7), rng.integers(5, size=2**7).astype(np.int32)
    center, half = rng.random((5, len(box))) * box, rng.random((5, len(box))) * box
    points = hard_points(rng, n, BOXES[name])
    counts, leaves = np.zeros(cells.shape, np.int64), np.zeros((5, 1 + len(box)), np.int64)
    for x in points.astype(np.float64):
        lower, side, key = np.zeros(len(box)), box.copy(), 0
        for feature in cells.features:
            side[feature] /= 2
            upper = side[feature] > 0 and x[feature] >= lower[feature] + side[feature]
            lower[feature] += side[feature] if upper else 0.0
            key = 2 * key + int(upper)
        counts[key] += 1
        leaf = leaf_of[key]
        wide = half[leaf] > 0
        offset = (x - center[leaf]) / np.where(wide, half[leaf], 1.0) * wide
        leaves[leaf] += [UNIT, *np.rint(np.clip(offset, -1, 1) * UNIT).astype(np.int64)]
    assert np.array_equal(table_of(cells, points), counts)
    assert np.array_equal(table_of(Leaves(cells, leaf_of, center, half), points), leaves)


def test_a_longest_side_is_halved_each_time_and_a_side_without_width_never():
    assert Halvings(np.array([1.0, 0.5, 0.0]), 5).features.tolist() == [0, 0, 1, 0, 1]


def test_residuals_are_those_to_the_nearest_centroid_in_units_of_the_radius():
    query = Residuals(np.array([[0.25], [0.75]]), np.array([[0.25], [0.125]]))
    table = table_of(query, np.array([[0.375], [0.8125], [1.0]], np.float32))
    assert table.tolist() == [[UNIT, UNIT // 2], [2 * UNIT, UNIT // 2 + UNIT]]  # the last residual is clipped


def test_sides_are_bits_of_the_cell_in_order():
    query = Sides(np.eye(3), np.full(3, 0.5), np.zeros(3))
    for cell, bits in enumerate(itertools.product((0.25, 0.75), repeat=3)):
        assert table_of(query, np.array([bits], np.float32))[cell, 0] == 1
