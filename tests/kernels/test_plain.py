"""Plain versions of kernels, which fits of few records run, give the bits of compiled code."""

from __future__ import annotations

import importlib
import pkgutil
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpkmeans
from dpkmeans.kernels import assign, jit, quantise, weighted_lloyd
from dpkmeans.kernels.simd_f32 import LANES
from dpkmeans.synopsis import grid_cells, posterior, residual_queries, tree_cells, view, zoom_cells

GRID = 2.0**-20


def tiles_of(rng, n, d):
    tiles = np.zeros((-(-n // LANES), d, LANES), np.float32)
    points = rng.integers(0, 2**20 + 1, (n, d)) * GRID
    points[rng.random(n) < 0.2] = points[0] if n else 0.0
    tiles[np.arange(n) // LANES, :, np.arange(n) % LANES] = points
    return tiles


def at_borders(rng, n, box, parts):
    """Points of which all coordinates lie within two grid steps of a border between `parts` of a side of the box."""
    steps = np.rint(rng.integers(0, parts + 1, (n, len(box))) * box / parts / GRID) + rng.integers(-2, 3, (n, len(box)))
    tiles = np.zeros((-(-n // LANES), len(box), LANES), np.float32)
    tiles[np.arange(n) // LANES, :, np.arange(n) % LANES] = np.clip(steps, 0, np.floor(box / GRID)) * GRID
    return tiles


def weighted_points(rng, d):
    m = int(rng.integers(1, 600))
    points = rng.random((m, d))
    points[rng.random(m) < 0.2] = points[0]
    return points, rng.random(m) * (rng.random(m) < 0.9) * 10.0 ** rng.integers(-3, 4)


def centroids(rng, points, d, least=1):
    k = int(rng.integers(least, 11))
    found = rng.random((k, d))
    found[rng.random(k) < 0.3] = points[int(rng.integers(len(points)))]  # duplicates: ties
    return found


def quantise_arguments(rng, d):
    n, feature, start = int(rng.integers(0, 70)), int(rng.integers(0, 3)), int(rng.integers(0, 40))
    low = rng.normal(size=feature + d) * 10
    width = rng.random(feature + d) * 10.0 ** rng.integers(-3, 6)
    grid = np.stack([low, low + width, np.where(width > 0, 2**20 / np.where(width > 0, width, 1.0), 0.0)])
    columns = rng.normal(low[feature:, None], width[feature:, None] + 1.0, (d, n))
    columns[rng.random((d, n)) < 0.1] = np.inf
    tiles = np.zeros((-(-(start + n) // LANES), feature + d, LANES), np.float32)
    return columns, grid, GRID, tiles, start, feature


def grid_arguments(rng, d):
    n = int(rng.integers(0, 70))
    outer = rng.integers(1, 4, d)
    cuts = rng.integers(1, 6, (int(np.prod(outer)), d))
    box = rng.random(d) * (rng.random(d) < 0.8)
    query = grid_cells.GridCells(box, outer, cuts)
    return tiles_of(rng, n, d), n, box, outer, cuts, query.starts, np.zeros(query.shape, np.int64)


def fine_grid_arguments(rng, d):
    """Every record at a border, of so many cells that a side of float32 numbers would put some on the other side."""
    d, n = min(d, 2), 200
    outer, box = rng.integers(64, 200, d), rng.random(d)
    query = grid_cells.GridCells(box, outer, np.ones((int(np.prod(outer)), d), np.int64))
    tiles = at_borders(rng, n, box, outer)
    return tiles, n, box, outer, query.cuts, query.starts, np.zeros(query.shape, np.int64)


def residual_arguments(rng, d):
    n = int(rng.integers(1, 70))
    tiles = tiles_of(rng, n, d)
    points = centroids(rng, tiles.transpose(0, 2, 1).reshape(-1, d), d)
    groups, half_norms = assign.interleave_centroids.built(points)
    radius = rng.random(points.shape) + 1e-3
    return tiles, n, groups, half_norms, points, radius, np.zeros((len(points), 1 + d), np.int64)


def reassign_arguments(rng, d):
    n = int(rng.integers(0, 70))
    tiles = tiles_of(rng, n, d)
    points = centroids(rng, np.zeros((1, d)) if n == 0 else tiles.transpose(0, 2, 1).reshape(-1, d)[:n], d)
    groups, half_norms = assign.interleave_centroids.built(points)
    labels = assign.new_labels(len(tiles), len(points))
    before = labels[:0] if rng.random() < 0.5 else rng.integers(0, len(points), labels.shape).astype(labels.dtype)
    return tiles, n, groups, half_norms, before, labels, np.zeros(len(points)), np.zeros(points.shape)


def shell_arguments(rng, d):
    n = int(rng.integers(0, 70))
    half = np.sort(rng.random((int(rng.integers(1, 9)), d)), axis=0)[::-1].copy()
    return tiles_of(rng, n, d), n, rng.random(d), half, np.zeros((len(half), 1), np.int64)


def shell_border_arguments(rng, d):
    """Records at the ends of the boxes, which halve around their center."""
    n, center = 200, rng.random(d)
    half = rng.random(d) * 0.5 ** np.arange(6)[:, None]
    tiles = np.zeros((-(-n // LANES), d, LANES), np.float32)
    ends = center + rng.choice([-1.0, 1.0], (n, d)) * half[rng.integers(0, 6, n)]
    steps = np.rint(ends / GRID) + rng.integers(-2, 3, (n, d))
    tiles[np.arange(n) // LANES, :, np.arange(n) % LANES] = np.clip(steps, 0, 2**20) * GRID
    return tiles, n, center, half, np.zeros((len(half), 1), np.int64)


def ring_border_arguments(rng, d):
    tiles, n, center, half, _ = shell_border_arguments(rng, d)
    parts = rng.integers(1, 4, d)
    return tiles, n, center, half[-1], parts, 5, np.zeros((5 * parts.prod(), 1), np.int64)


def ring_arguments(rng, d):
    n, n_rings = int(rng.integers(0, 70)), int(rng.integers(1, 5))
    half, parts = rng.random(d) * 0.3 * (rng.random(d) < 0.8), rng.integers(1, 4, d)
    return tiles_of(rng, n, d), n, rng.random(d), half, parts, n_rings, np.zeros((n_rings * parts.prod(), 1), np.int64)


def squeeze_arguments(rng, d):
    tiles = tiles_of(rng, int(rng.integers(1, 70)), d)
    half = rng.random(d) * 0.3 * (rng.random(d) < 0.8)
    return tiles, rng.random(d), half, int(rng.integers(1, 6)), float(rng.random()), 1.5, np.empty_like(tiles)


def part_arguments(rng, d):
    n = int(rng.integers(0, 70))
    tiles, lower = tiles_of(rng, n, d), rng.random(d) * 0.4
    return tiles, n, lower, lower + rng.random(d), 0.7, np.zeros_like(tiles), np.zeros_like(tiles)


def part_of_side_arguments(rng, d):
    n = int(rng.integers(0, 70))
    return (
        tiles_of(rng, n, d),
        n,
        rng.random(d) * (rng.random(d) < 0.8),
        np.zeros((d, int(rng.integers(1, 40))), np.int64),
    )


def part_border_arguments(rng, d):
    """Records on borders of parts, and a float32 to either side of them."""
    parts, n = 32, int(rng.integers(1, 70))
    box = np.maximum(rng.integers(1, 2**20, d), 32) * GRID
    places = (box * rng.integers(0, parts + 1, (n, d)) / parts).astype(np.float32)
    places = np.nextafter(places, places + rng.integers(-1, 2, places.shape).astype(np.float32), dtype=np.float32)
    tiles = np.zeros((-(-n // LANES), d, LANES), np.float32)
    for i, place in enumerate(places):
        tiles[i // LANES, :, i % LANES] = place
    return tiles, n, box, np.zeros((d, parts), np.int64)


def halving_arguments(rng, d):
    n, depth = int(rng.integers(0, 70)), int(rng.integers(1, 9))
    box = rng.random(d) * (rng.random(d) < 0.8)
    return tiles_of(rng, n, d), n, box, rng.integers(0, d, depth), np.zeros((2**depth, 1), np.int64)


def leaf_arguments(rng, d):
    tiles, n, box, features, table = halving_arguments(rng, d)
    leaf_of = np.sort(rng.integers(0, 5, len(table))).astype(np.int32)
    half = rng.random((5, d)) * (rng.random((5, d)) < 0.8)
    return tiles, n, box, features, leaf_of, rng.random((5, d)), half, np.zeros((5, 1 + d), np.int64)


def occupied_arguments(rng, d):
    law = rng.random(9)
    return rng.normal(0, 20, int(rng.integers(1, 40))), np.linspace(-9.0, 9.0, 9), law, 1.5, float(rng.random() * 30)


def lloyd_arguments(rng, d, least=1):
    """Points, weights, centroids, labels and distances to them, as the last pass left them."""
    points, weights = weighted_points(rng, d)
    at = centroids(rng, points, d, least)
    labels, best = np.empty(len(points), np.int64), np.empty(len(points))
    weighted_lloyd.nearest.built(np.ascontiguousarray(points.T), at, best, labels)
    return points, weights, at, labels, best


def add_up_arguments(rng, d):
    points, weights, at, labels, best = lloyd_arguments(rng, d)
    before = np.where(rng.random(len(labels)) < 0.5, labels, -1)
    return points, weights, best, labels, before, np.empty(len(at)), np.empty(at.shape)


def replacement_arguments(rng, d):
    points, weights, at, labels, best = lloyd_arguments(rng, d, least=2)
    return np.ascontiguousarray(points.T), weights, at, best, labels


def try_arguments(rng, d):
    points, weights = weighted_points(rng, d)
    closest = rng.random(len(points)) if rng.random() < 0.5 else np.full(len(points), np.inf)
    return np.ascontiguousarray(points.T), weights, points[-1], closest, np.empty(len(points))


def nearest_arguments(rng, d):
    points, _, at, labels, best = lloyd_arguments(rng, d)
    return np.ascontiguousarray(points.T), at, np.empty_like(best), np.empty_like(labels)


def assign_arguments(rng, d):
    points, weights, at, labels, _ = lloyd_arguments(rng, d)
    return points, weights, at, np.full_like(labels, -1), np.empty(len(at)), np.empty(at.shape)


def means_arguments(rng, d):
    at = rng.random((int(rng.integers(1, 9)), d))
    return at, rng.random(len(at)) * (rng.random(len(at)) < 0.7), rng.random(at.shape)


def start_arguments(rng, d):
    points, weights = weighted_points(rng, d)
    k = int(rng.integers(1, 6))
    return points, weights, rng.random((3, k, 2)), np.empty((k, d)), 50


def swap_arguments(rng, d):
    points, weights, at, _, _ = lloyd_arguments(rng, d)
    return points, weights, at, rng.random((8, 2)), 2


ARGUMENTS = {
    quantise.quantise: quantise_arguments,
    assign.interleave_centroids: lambda rng, d: (rng.normal(size=(int(rng.integers(1, 11)), d)),),
    assign.move_to_means: means_arguments,
    assign.reassign: reassign_arguments,
    grid_cells._add_grid: grid_arguments,
    residual_queries._add_residuals: residual_arguments,
    zoom_cells._add_shells: shell_arguments,
    zoom_cells._add_rings: ring_arguments,
    zoom_cells._add_parts: part_of_side_arguments,
    view._squeeze: squeeze_arguments,
    view._part: part_arguments,
    tree_cells._add_halvings: halving_arguments,
    tree_cells._add_leaves: leaf_arguments,
    posterior.noise_density: lambda rng, d: (
        rng.normal(0, 20, int(rng.integers(1, 40))) * rng.choice([1.0, 60.0]),
        d * int(rng.choice([1, 500])),
    ),
    posterior._occupied: occupied_arguments,
    weighted_lloyd.columns_of: lambda rng, d: (rng.random((int(rng.integers(0, 30)), d)),),
    weighted_lloyd.nearest: nearest_arguments,
    weighted_lloyd.assign: assign_arguments,
    weighted_lloyd.add_up: add_up_arguments,
    weighted_lloyd.lloyd: lambda rng, d: (*lloyd_arguments(rng, d)[:3], np.empty(200)),
    weighted_lloyd.try_point: try_arguments,
    weighted_lloyd.seed_centroids: lambda rng, d: (*weighted_points(rng, d), rng.random((4, 3)), np.empty((4, d))),
    weighted_lloyd.best_start: start_arguments,
    weighted_lloyd.swap: swap_arguments,
    weighted_lloyd.replacement_costs: replacement_arguments,
}


def bits(value):
    """What two calls must have in common: every entry, where the sign of zero says nothing and NaN is itself."""
    if isinstance(value, tuple):
        return [part for one in value for part in bits(one)]
    array = np.asarray(value)
    kept = array + 0.0 if array.dtype.kind == "f" else array
    return [(array.shape, kept.tobytes())]


def outcome(call, arguments):
    given = deepcopy(arguments)
    result = call(*given)
    return bits((result if result is not None else 0, *given))


AT_BORDERS = {
    grid_cells._add_grid: fine_grid_arguments,
    zoom_cells._add_shells: shell_border_arguments,
    zoom_cells._add_rings: ring_border_arguments,
    zoom_cells._add_parts: part_border_arguments,
}


@pytest.mark.parametrize(("kernel", "made"), [*ARGUMENTS.items(), *AT_BORDERS.items()], ids=lambda part: part.__name__)
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), d=st.integers(1, 5))
def test_a_plain_version_gives_the_bits_of_its_kernel(kernel, made, seed, d):
    """At borders of cells too: which code runs depends on the number of records, and one more must not move others."""
    arguments = made(np.random.default_rng(seed), d)
    assert outcome(kernel.plain, arguments) == outcome(kernel.built, arguments)


def test_every_kernel_with_a_plain_version_is_compared():
    found = set()
    for module in pkgutil.walk_packages(dpkmeans.__path__, "dpkmeans."):
        if any(part in module.name for part in ("kernels.", "engines.block", "methods.", "synopsis.", "wide.")):
            found |= {v for v in vars(importlib.import_module(module.name)).values() if isinstance(v, jit.Kernel)}
    assert {kernel for kernel in found if kernel.plain is not None} == set(ARGUMENTS)


@pytest.mark.parametrize("work", [jit.LARGE + 1, jit.LARGE])
def test_a_process_compiles_at_once_for_large_work_and_after_its_credit_for_small(monkeypatch, work):
    monkeypatch.setattr(jit, "_PLAIN", jit._Plain())
    ran = []
    kernel = jit.Kernel(lambda: None, lambda: ran.append("plain"), lambda: work)
    kernel._built = lambda: ran.append("compiled")
    for _ in range(2 * jit.CREDIT // jit.LARGE):
        kernel()
    n_plain = 0 if work > jit.LARGE else jit.CREDIT // (jit.LARGE + jit.OVERHEAD)
    assert ran == ["plain"] * n_plain + ["compiled"] * (len(ran) - n_plain)
    assert jit.compiles()


@pytest.mark.parametrize(("d", "k"), [(2, 1), (2, 8), (4, 3), (10, 3)])
def test_a_fit_in_plain_code_is_that_in_compiled_code(monkeypatch, d, k):
    rng = np.random.default_rng(k)
    X = np.concatenate([rng.normal(c, 0.5, (300, d)) for c in (2, 5, 8)])

    def fit(left):
        monkeypatch.setattr(jit, "_PLAIN", jit._Plain(left))
        model = dpkmeans.DPKMeans(k, bounds=(0, 10), epsilon=1.0, random_state=1, guarantee="none").fit(X)
        return jit.compiles(), model.release_.centroids.tolist(), repr(model.release_.intervals())

    plain, compiled = fit(jit.CREDIT), fit(-1)
    assert (plain[0], compiled[0]) == (False, True)
    assert plain[1:] == compiled[1:]
