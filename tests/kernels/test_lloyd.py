"""Lloyd's algorithm against a reference in plain NumPy, to the bit: every way, dtype, memory order and thread count."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpkmeans.core.bounds import GRID, Bounds
from dpkmeans.core.exact import reveal
from dpkmeans.engines.block_tasks import block_of_points
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.engines.packing import grid_points
from dpkmeans.kernels import lloyd as strategies
from dpkmeans.kernels import llvm_f32
from dpkmeans.kernels.assign import interleave_centroids, move_to_means, new_labels, reassign, score_error
from dpkmeans.kernels.block_pruning import BLOCK, bounding_balls, morton_sorted, select_candidates
from dpkmeans.kernels.hamerly import distances_moved, new_bounds, reassign_hamerly
from dpkmeans.kernels.moved_centroids import only, reassign_moved, unknown_scores, which_moved
from dpkmeans.kernels.simd_f32 import GROUP, LANES
from dpkmeans.kernels.tile_reference import fused, nearest

WHY = "a test looks"


def reference(points, start, max_iter):
    """Lloyd's algorithm with whole numbers for sums: centroids, moves, and whether the assignment repeated."""
    steps = np.rint(points.astype(np.float64) * GRID).astype(np.int64)
    centroids, before = start.astype(np.float64), None
    for t in range(max_iter):
        labels = nearest(points, centroids)
        if before is not None and np.array_equal(labels, before):
            return centroids, t, True
        before, centroids = labels, centroids.copy()
        for c in np.unique(labels):
            members = steps[labels == c]
            centroids[c] = members.sum(axis=0) / GRID / len(members)
    return centroids, max_iter, False


def records(kind, n, d, k, seed):
    rng = np.random.default_rng(seed)
    if kind == "uniform":
        return rng.random((n, d))
    if kind == "whole numbers":  # many equal records and many ties
        return rng.integers(0, 5, (n, d))
    return np.clip(rng.random((k, d))[rng.integers(k, size=n)] + 0.05 * rng.standard_normal((n, d)), 0, 1)


def assert_is_the_reference(X, start, max_iter, n_threads, high=1):
    box = Bounds.of((0, high), X.shape[1])
    end = reveal(MemoryEngine.of_records(X, box, n_threads=n_threads).lloyd(start, max_iter), why=WHY)
    centroids, moves, stopped = reference(grid_points(X, box), start, max_iter)
    assert np.array_equal(end.centroids, centroids)
    assert (end.moves, end.stopped) == (moves, stopped)


SHAPES = {
    "plain": (1500, 5, 7),
    "bounded": (900, 40, 64),
    "bounded, few centroids": (700, 700, 3),
    "nearby in one dimension": (4000, 1, 70),
    "nearby in two dimensions": (4000, 2, 90),
    "nearby in three dimensions": (4000, 3, 65),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["uniform", "blobs", "whole numbers"])
@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_centroids_are_the_references_to_the_bit(monkeypatch, shape, kind, n_threads):
    monkeypatch.setattr(strategies, "MAX_TILES_ALONE", 8)
    n, d, k = SHAPES[shape]
    X = records(kind, n, d, k, seed=d)
    high = 4 if kind == "whole numbers" else 1
    assert_is_the_reference(X, X[:k] / high, 15, n_threads, high)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, np.uint8, np.bool_])
@pytest.mark.parametrize("shape", ["plain", "bounded", "nearby in two dimensions"])
def test_dtype_and_memory_order_leave_the_references_centroids(shape, dtype, order):
    n, d, k = SHAPES[shape]
    X = np.asarray(records("blobs", n, d, k, seed=1) * (1 if np.dtype(dtype).kind == "f" else 2), dtype, order=order)
    assert_is_the_reference(X, records("uniform", k, d, k, seed=2), 8, 2)


@st.composite
def problems(draw):
    n, d, k = draw(st.integers(1, 900)), draw(st.integers(1, 6)), draw(st.integers(1, 12))
    kind = draw(st.sampled_from(["uniform", "blobs", "whole numbers"]))
    X = records(kind, n, d, k, draw(st.integers(0, 2**32)))
    start = np.random.default_rng(draw(st.integers(0, 2**32))).uniform(-0.5, 1.5, (k, d))
    if draw(st.booleans()):
        start[-1] = np.nextafter(start[0], 9.0)  # two centroids that float32 cannot tell apart
    return X / 4 if kind == "whole numbers" else X, start


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    problems(), st.sampled_from(["bounded", "moved", "nearby", "plain"]), st.sampled_from([1, 2, 4]), st.integers(1, 25)
)
def test_every_way_gives_the_references_centroids_from_any_start(monkeypatch, problem, way, n_threads, max_iter):
    X, start = problem
    for name, value in {
        "MAX_TILES_ALONE": 1,
        "MIN_HAMERLY_SIZE": 0 if way in ("bounded", "moved") else 10**9,
        "HamerlyPass": strategies.MovedPass if way == "moved" else strategies.HamerlyPass,
        "MAX_MOVED": 10**9 if way == "moved" else strategies.MAX_MOVED,
        "MIN_PRUNED_CENTROIDS": 0 if way == "nearby" else 10**9,
        "MAX_PRUNED_FEATURES": 6,
    }.items():
        monkeypatch.setattr(strategies, name, value)
    assert_is_the_reference(X, start, max_iter, n_threads)


def test_points_far_from_a_change_are_not_looked_at_again():
    points = records("blobs", 5000, 16, 8, seed=3).astype(np.float32)
    block = block_of_points(np.rint(points * GRID) / GRID)
    centroids = points[:8].astype(np.float64)
    labels, counts, sums = new_labels(len(block.tiles), 8), np.zeros(8), np.zeros((8, 16))
    bounds, before, seen = new_bounds(len(block.tiles)), np.zeros(0), []
    reassign(block.tiles, block.n, *interleave_centroids(centroids), labels[:0], labels, counts, sums)
    for t in range(10):
        moved_by = np.zeros(0) if t == 0 else distances_moved(before, centroids)
        error = score_error(centroids)
        groups, state = interleave_centroids(centroids), (labels, bounds, (counts, sums))
        seen.append(reassign_hamerly(block.tiles, block.n, groups, error, moved_by, *state)[1])
        before = centroids.copy()
        move_to_means(centroids, counts, sums)
    assert seen[0] == 5000
    assert seen[-1] < 1000


def test_only_centroids_that_moved_are_scored_again():
    points = np.rint(records("whole numbers", 4000, 6, 1, seed=8) / 4 * GRID) / GRID  # ties
    block, rng = block_of_points(points), np.random.default_rng(9)
    centroids = points[rng.integers(4000, size=30)].astype(np.float64)
    groups = interleave_centroids(centroids)
    labels, kept = new_labels(len(block.tiles), 30), unknown_scores(len(block.tiles))
    totals = (np.zeros(30), np.zeros((30, 6)))
    reassign(block.tiles, block.n, *groups, labels[:0], labels, *totals)
    reassign_moved(block.tiles, block.n, groups, groups, np.ones(len(groups[1][0]), np.bool_), labels, kept, totals)
    for size in (0, 1, 2, 5, 20, 30):
        moving = rng.choice(30, size, replace=False)
        centroids[moving] = points[rng.integers(4000, size=size)]
        before, groups = groups, interleave_centroids(centroids)
        has_moved = which_moved(before, groups)
        assert has_moved.sum() <= size
        some = only(groups, has_moved)
        assert len(some[0]) == -(-has_moved.sum() // GROUP)
        found = nearest(points, centroids)
        n_changed = reassign_moved(block.tiles, block.n, groups, some, has_moved, labels, kept, totals)
        assert (n_changed > 0) == (size > 0)
        assert np.array_equal(labels.reshape(-1)[:4000], found)
        assert np.array_equal(totals[0], np.bincount(found, minlength=30))


def test_where_nothing_can_be_skipped_the_centroids_that_stayed_are_not_scored(monkeypatch):
    X = records("uniform", 900, 100, 30, seed=10)
    sizes = []
    monkeypatch.setattr(strategies, "only", lambda groups, moved: sizes.append(moved.sum()) or only(groups, moved))
    assert_is_the_reference(X, X[:30], 60, 1)
    assert min(sizes) < 10


@pytest.mark.parametrize("at_once", [1, 2, 4])
@pytest.mark.parametrize("d", [3, 5, 40])
def test_labels_do_not_depend_on_how_many_groups_are_searched_at_once(monkeypatch, at_once, d):
    monkeypatch.setattr(llvm_f32, "AT_ONCE", at_once)  # read where code is made; another processor, another number
    search_one, search_two = llvm_f32.nearest_in_tile, llvm_f32.two_nearest_in_tile

    @numba.njit
    def search(tiles, negated, half_norms, labels, scores):
        for t in range(len(tiles)):
            search_one(tiles, t, negated, half_norms, labels, labels, t)
            search_two(tiles, t, negated, half_norms, labels[len(tiles) + t :], scores[t])

    points = (np.rint(records("whole numbers", 64, d, 1, seed=11) / 4 * GRID) / GRID).astype(np.float32)  # ties
    tiles = block_of_points(points).tiles
    for k in (1, 4, 5, 9, 16, 22):
        centroids = points[:k].astype(np.float64)
        labels, scores = new_labels(2 * len(tiles), k), np.zeros((len(tiles), 2, LANES), np.float32)
        search(tiles, *interleave_centroids(centroids), labels, scores)
        assert np.array_equal(labels[: len(tiles)].reshape(-1), nearest(points, centroids))
        assert np.array_equal(labels[: len(tiles)], labels[len(tiles) :])
        squares = ((points[:, None] - points[None, :k]) ** 2).sum(axis=2) - (points**2).sum(axis=1)[:, None]
        two = np.sort(np.concatenate([squares / 2, np.full((64, 1), np.inf)], axis=1), axis=1)[:, :2]
        assert np.allclose(scores.transpose(0, 2, 1).reshape(-1, 2), two, atol=1e-4)


def test_a_block_is_compared_with_the_centroids_near_it_and_with_those_alone():
    block = block_of_points(np.rint(records("uniform", 64 * BLOCK * LANES, 2, 1, seed=4) * GRID) / GRID)
    tiles = morton_sorted(block.tiles, block.n)
    centroids = records("uniform", 100, 2, 1, seed=5)
    negated, half_norms = interleave_centroids(centroids)
    near, near_half_norms = np.zeros_like(negated), np.zeros_like(half_norms)
    sizes = []
    for b, ball in enumerate(bounding_balls(tiles, block.n)):
        columns = np.ascontiguousarray(centroids.T)
        n_groups = select_candidates(
            ball, columns, negated, half_norms, score_error(centroids), np.zeros(100), near, near_half_norms
        )
        names = near_half_norms[1, : n_groups * GROUP].view(np.int32)[
            np.isfinite(near_half_norms[0, : n_groups * GROUP])
        ]
        points = tiles[b * BLOCK : (b + 1) * BLOCK].transpose(0, 2, 1).reshape(-1, 2)
        assert set(nearest(points, centroids)) <= set(names.tolist())
        sizes.append(len(names))
    assert np.mean(sizes) < 50


def test_the_sorted_copy_holds_the_same_points():
    for n, d in ((0, 2), (1, 3), (5000, 1), (20011, 3)):
        points = np.rint(records("blobs", n, d, 3, seed=6) * GRID) / GRID
        block = block_of_points(points)
        held = morton_sorted(block.tiles, n).transpose(0, 2, 1).reshape(-1, d)[:n].astype(np.float64)
        assert np.array_equal(held[np.lexsort(held.T)], points[np.lexsort(points.T)])


def test_scores_are_within_their_error_of_half_the_square_distance():
    rng = np.random.default_rng(7)
    for d in (1, 7, 64, 300):
        points = (np.rint(rng.random((50, d)) * GRID) / GRID).astype(np.float32)
        centroids = rng.uniform(-1, 2, (9, d))
        half_norms = 0.5 * (centroids**2).sum(axis=1)
        scores = np.tile(half_norms.astype(np.float32), (50, 1))
        for j in range(d):
            scores = fused(points[:, j, None], -centroids[None, :, j].astype(np.float32), scores)
        seen = centroids.astype(np.float32).astype(np.float64)
        squares = ((points[:, None].astype(np.float64) - seen) ** 2).sum(axis=2)
        exact = 0.5 * (squares - (points.astype(np.float64) ** 2).sum(axis=1)[:, None])
        worst = np.abs(scores - exact).max()
        assert 0 < worst < score_error(centroids)


@pytest.mark.parametrize(("d", "k"), [(2, 3), (2, 100), (64, 64)])
def test_without_records_every_centroid_stays(d, k):
    engine = MemoryEngine.of_records(np.zeros((0, d)), Bounds.of((0, 1), d), n_threads=2)
    start = np.random.default_rng(0).random((k, d))
    assert np.array_equal(reveal(engine.lloyd(start, 5), why="a test").centroids, start)
