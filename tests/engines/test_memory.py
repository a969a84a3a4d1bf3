from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpkmeans.core.bounds import GRID, Bounds
from dpkmeans.core.engine import lloyd_by_passes
from dpkmeans.core.exact import Exact, reveal
from dpkmeans.core.query import Sensitivity
from dpkmeans.engines.memory import CHUNK, MemoryEngine
from dpkmeans.engines.packing import grid_points
from dpkmeans.errors import DataError
from dpkmeans.kernels.simd_f32 import LANES

KEY = bytes(range(16))
WHY = "a test looks"
FLOAT32_ERROR = 1e-5
"""Scores are built in float32, so a record may go to a centroid that is farther than the nearest by this."""


def unit_engine(X, n_threads=1):
    X = np.asarray(X)
    return MemoryEngine.of_records(X, Bounds.of((0, 1), X.shape[1]), n_threads=n_threads)


def statistics(engine, centroids, compare_with=None):
    return reveal(engine.cell_statistics(np.asarray(centroids, float), compare_with), why=WHY)


def squared_distances(points, centroids):
    """Added up feature by feature, as the kernel does, so that every bit is the same."""
    total = np.zeros((len(points), len(centroids)))
    for j in range(points.shape[1]):
        total += (points[:, None, j] - centroids[None, :, j]) ** 2
    return total


def integer_sums(X, labels, k):
    """The reference: counts and sums of grid steps in Python's own integers."""
    d = X.shape[1]
    steps = np.rint(np.clip(X, 0, 1).astype(float) * GRID).astype(object)
    table = [[0] * (1 + d) for _ in range(k)]
    for label, row in zip(labels.tolist(), steps.tolist(), strict=True):
        table[label][0] += 1
        for j, value in enumerate(row):
            table[label][1 + j] += int(value)
    return table


@st.composite
def problems(draw):
    n, d, k = draw(st.integers(1, 70)), draw(st.integers(1, 9)), draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return rng.random((n, d)), rng.random((k, d))


@given(problems())
def test_counts_and_sums_are_those_of_the_labels_as_exact_integers(problem):
    X, centroids = problem
    engine = unit_engine(X)
    stats = statistics(engine, centroids)
    labels = engine.labels(centroids)
    assert stats.integers().tolist() == integer_sums(X, labels, len(centroids))
    assert (stats.sums * GRID).tolist() == [row[1:] for row in integer_sums(X, labels, len(centroids))]


@given(problems())
def test_every_record_goes_to_the_nearest_centroid_within_float32(problem):
    X, centroids = problem
    engine = unit_engine(X)
    distances = squared_distances(grid_points(X, engine.bounds).astype(float), centroids)
    chosen = distances[np.arange(len(X)), engine.labels(centroids)]
    assert (chosen <= distances.min(axis=1) + FLOAT32_ERROR).all()


@given(problems())
def test_the_cost_is_that_of_the_labels(problem):
    X, centroids = problem
    engine = unit_engine(X)
    distances = squared_distances(grid_points(X, engine.bounds).astype(float), centroids)
    expected = distances[np.arange(len(X)), engine.labels(centroids)].sum()
    assert statistics(engine, centroids).cost == pytest.approx(expected, abs=1e-11 * len(X) * X.shape[1])


@given(problems())
def test_costs_are_exact_sums_of_rounded_distances(problem):
    X, centroids = problem
    engine = unit_engine(X)
    points = grid_points(X, engine.bounds).astype(float)
    candidates = np.stack([centroids, centroids[::-1] / 2, 1 - centroids])
    steps = [int(np.rint(squared_distances(points, c).min(axis=1) * GRID).sum()) for c in candidates]
    assert reveal(engine.costs(candidates), why=WHY).tolist() == steps


@given(problems(), st.integers(0, 2**32))
def test_n_changed_counts_the_records_whose_cell_differs(problem, seed):
    X, centroids = problem
    other = np.random.default_rng(seed).random(centroids.shape)
    engine, fresh = unit_engine(X), unit_engine(X)
    differs = float((fresh.labels(centroids) != fresh.labels(other)).sum())
    assert statistics(engine, centroids).n_changed == len(X)
    assert statistics(engine, other, compare_with=centroids).n_changed == differs
    assert statistics(engine, other, compare_with=other).n_changed == 0
    assert statistics(unit_engine(X), other, compare_with=centroids).n_changed == differs


def test_a_comparison_with_another_number_of_centroids_counts_all_records():
    X = np.random.default_rng(0).random((40, 2))
    assert statistics(unit_engine(X), X[:3], compare_with=X[:2]).n_changed == 40


@given(problems(), st.lists(st.integers(0, 2**32), min_size=1, max_size=6))
def test_answers_do_not_depend_on_what_was_asked_before(problem, seeds):
    X, centroids = problem
    used = unit_engine(X)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        asked = rng.random((int(rng.integers(1, 9)), X.shape[1]))
        statistics(used, asked, compare_with=centroids if seed % 2 else None)
    new, old = statistics(unit_engine(X), centroids), statistics(used, centroids)
    assert np.array_equal(new.counts, old.counts)
    assert np.array_equal(new.sums, old.sums)
    assert (new.cost, new.n_changed) == (old.cost, old.n_changed)
    assert np.array_equal(used.labels(centroids), unit_engine(X).labels(centroids))


def test_an_answer_is_the_callers_own_and_can_be_changed():
    X = np.random.default_rng(0).random((40, 2))
    engine = unit_engine(X)
    first = statistics(engine, X[:3])
    first.counts[:] = 99
    first.sums[:] = 99
    assert statistics(engine, X[:3], compare_with=X[:3]).counts.sum() == 40


@pytest.fixture(scope="module")
def several_chunks():
    n = 3 * CHUNK * LANES + 17
    rng = np.random.default_rng(1)
    return rng.random((n, 3)), rng.random((7, 3)), rng.random((7, 3))


def answers(X, centroids, other, n_threads):
    engine = unit_engine(X, n_threads)
    first = statistics(engine, centroids)
    second = statistics(engine, other, compare_with=centroids)
    end = reveal(engine.lloyd(centroids, 4), why=WHY)
    costs = reveal(engine.costs(np.stack([centroids, other])), why=WHY)
    return [
        *(first.counts, first.sums, first.cost, first.n_changed),
        *(second.counts, second.sums, second.cost, second.n_changed),
        *(costs, engine.labels(other), end.centroids, end.moves, end.stopped),
    ]


@pytest.mark.parametrize("n_threads", [2, 3, 4])
def test_answers_are_the_same_to_the_bit_for_any_number_of_threads(several_chunks, n_threads):
    X, centroids, other = several_chunks
    one, many = (answers(X, centroids, other, n) for n in (1, n_threads))
    for a, b in zip(one, many, strict=True):
        assert np.array_equal(a, b)


def test_sums_over_several_chunks_are_exact_integers(several_chunks):
    X, centroids, _ = several_chunks
    engine = unit_engine(X, 2)
    labels = engine.labels(centroids)
    steps = np.rint(X * GRID).astype(np.int64)
    expected = np.zeros((len(centroids), 4), np.int64)
    np.add.at(expected, labels, np.column_stack([np.ones(len(X), np.int64), steps]))
    assert np.array_equal(statistics(engine, centroids).integers(), expected)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.longdouble, np.int8, np.int64, np.uint8, np.bool_, ">f4"])
@pytest.mark.parametrize("order", ["C", "F", "strided", "reversed"])
def test_dtype_and_memory_order_change_nothing(dtype, order):
    whole = np.random.default_rng(2).integers(0, 2, (50, 6)).astype(dtype)
    X = {"C": whole, "F": np.asfortranarray(whole), "strided": whole[::3, ::2], "reversed": whole[::-1, ::-1]}[order]
    centroids = np.random.default_rng(3).random((3, X.shape[1]))
    expected = statistics(unit_engine(np.ascontiguousarray(X).astype(np.float64)), centroids)
    found = statistics(unit_engine(X), centroids)
    assert np.array_equal(found.integers(), expected.integers())
    assert found.cost == expected.cost


def test_the_engine_holds_the_same_points_as_the_bounds_make():
    X = np.random.default_rng(4).normal(0, 5, (100, 3))
    box = Bounds.of(([-3, -4, 0], [3, 1, 9]), 3)
    engine = MemoryEngine.of_records(X, box)
    rows = reveal(engine.sample_rows(100, np.random.default_rng(0)), why=WHY)
    key = lambda a: a[np.lexsort(a.T)]  # noqa: E731
    assert np.array_equal(key(rows), key(grid_points(X, box).astype(float)))


def test_nan_and_infinity_are_refused():
    with pytest.raises(DataError, match="NaN"):
        unit_engine([[0.5], [np.nan]])
    with pytest.raises(DataError, match="infinity"):
        unit_engine([[0.5], [-np.inf]])


def test_a_wrong_number_of_features_is_refused():
    with pytest.raises(DataError, match="2 features; the bounds have 1"):
        MemoryEngine.of_records(np.zeros((2, 2)), Bounds.of((0, 1), 1))


def test_ties_go_to_the_first_centroid():
    engine = unit_engine([[0.5, 0.5]] * 20)
    assert statistics(engine, [[0.25, 0.5], [0.75, 0.5], [0.25, 0.5]]).counts.tolist() == [20, 0, 0]


def test_an_empty_cell_has_no_mean_and_keeps_what_it_is_given():
    stats = statistics(unit_engine([[0.0], [0.25]]), [[0.1], [0.9]])
    assert stats.counts.tolist() == [2, 0]
    assert stats.means(empty=np.array([[7.0], [8.0]])).tolist() == [[0.125], [8.0]]


def test_more_centroids_than_a_byte_can_name_are_told_apart():
    points = (np.arange(300) / 299)[:, None]
    engine = unit_engine(points)
    assert engine.labels(grid_points(points, engine.bounds).astype(float)).tolist() == list(range(300))


@pytest.mark.parametrize("n_blocks", [1, 3, 50])
def test_blocks_hold_every_record_once(n_blocks):
    X = np.arange(1, 41)[:, None] / 64
    blocks = list(unit_engine(X).partition(n_blocks, KEY))
    assert len(blocks) == n_blocks
    held = [reveal(b.sample_rows(int(reveal(b.count(), why=WHY)), np.random.default_rng(0)), why=WHY) for b in blocks]
    assert sorted(np.concatenate(held)[:, 0].tolist()) == X[:, 0].tolist()


def test_one_record_more_changes_one_block_and_no_other():
    X = np.random.default_rng(6).random((60, 2))

    def sums(records):
        blocks = unit_engine(records).partition(5, KEY)
        return [statistics(block, [[0.5, 0.5]]).integers().tolist() for block in blocks]

    assert sum(a != b for a, b in zip(sums(X), sums(X[:-1]), strict=True)) == 1


def test_different_records_are_spread_uniformly_and_equal_ones_share_a_block():
    """χ² of 8000 records over 4 blocks: false alarms 1e-6 of all keys; the key is fixed."""
    blocks = unit_engine(np.arange(8000)[:, None] / 8192).partition(4, KEY)
    counts = [int(reveal(b.count(), why=WHY)) for b in blocks]
    assert sum((c - 2000) ** 2 / 2000 for c in counts) < 30.7
    assert len(set(counts)) > 1  # by chance, not in turn
    blocks = unit_engine(np.full((50, 1), 0.25)).partition(4, KEY)
    assert sorted(int(reveal(b.count(), why=WHY)) for b in blocks) == [0, 0, 0, 50]


def test_blocks_keep_the_bounds_and_the_grid_of_the_whole():
    box = Bounds.of(([-5, 0], [5, 1]), 2)
    X = np.random.default_rng(9).uniform([-5, 0], [5, 1], (30, 2))
    whole = MemoryEngine.of_records(X, box)
    parts = list(whole.partition(3, KEY))
    assert all(part.bounds is box for part in parts)
    total = sum(statistics(part, [[0.5, 0.5]]).integers() for part in parts)
    assert np.array_equal(total, statistics(whole, [[0.5, 0.5]]).integers())


def test_an_empty_block_answers_with_zeros():
    empty = next(b for b in unit_engine([[0.5]]).partition(9, KEY) if reveal(b.count(), why=WHY) == 0)
    stats = statistics(empty, [[0.5], [0.7]])
    assert (stats.counts.tolist(), stats.sums.tolist(), stats.cost) == ([0, 0], [[0], [0]], 0)
    assert reveal(empty.costs(np.zeros((4, 2, 1))), why=WHY).tolist() == [0, 0, 0, 0]


def test_sampled_rows_are_different_records():
    X = np.arange(30)[:, None] / 32
    rows = reveal(unit_engine(X).sample_rows(30, np.random.default_rng(10)), why=WHY)
    assert sorted(rows[:, 0].tolist()) == X[:, 0].tolist()


def test_cell_reach_is_the_farthest_from_the_middle_per_cell_and_feature():
    engine = unit_engine([[0.0, 0.5], [0.125, 0.75], [1.0, 0.5]])
    reach = reveal(engine.max_abs_deviation(np.array([[0.1, 0.5], [0.9, 0.5], [0.5, 9.0]])), why=WHY)
    assert reach.tolist() == [[0.5, 0.25], [0.5, 0.0], [0.0, 0.0]]


@settings(max_examples=50)
@given(problems(), st.integers(1, 12))
def test_the_compiled_lloyd_is_the_one_by_passes(problem, max_iter):
    X, centroids = problem
    fast = reveal(unit_engine(X).lloyd(centroids, max_iter), why=WHY)
    slow = reveal(lloyd_by_passes(unit_engine(X), centroids, max_iter), why=WHY)
    assert np.array_equal(fast.centroids, slow.centroids)
    assert (fast.moves, fast.stopped) == (slow.moves, slow.stopped)


class Halves:
    """A query: how many records lie below and above one half in the first feature."""

    shape = (2, 1)
    sensitivity = Sensitivity.of_row((1,))

    def add(self, tiles, n, table):
        first = tiles[:, 0, :].reshape(-1)[:n]
        np.add.at(table, ((first > 0.5).astype(int), 0), 1)


def test_a_query_is_summed_over_all_records_and_chunks(several_chunks):
    X, _, _ = several_chunks
    above = int((np.rint(X[:, 0] * GRID) > GRID / 2).sum())
    for n_threads in (1, 2, 3, 4):
        table = reveal(unit_engine(X, n_threads).answer(Halves()), why=WHY)
        assert table.tolist() == [[len(X) - above], [above]]


def test_answers_come_wrapped():
    engine = unit_engine([[0.5]])
    one = np.array([[0.5]])
    for answer in (
        *(engine.count(), engine.cell_statistics(one), engine.costs(one[None]), engine.max_abs_deviation(one)),
        *(engine.sample_rows(1, np.random.default_rng(0)), engine.lloyd(one, 3), engine.answer(Halves())),
    ):
        assert isinstance(answer, Exact)
