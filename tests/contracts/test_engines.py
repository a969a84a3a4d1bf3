"""One contract for every engine: the same answers, and the same seeded fits, to the bit."""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
from tests.engines.clusters import blobs, shared_dask_client, spark_session, write_parquet

from dpkmeans import DPKMeans, make_synopsis
from dpkmeans.audit.hard_pairs import run_of
from dpkmeans.audit.replay import replay
from dpkmeans.core.bounds import GRID, Bounds
from dpkmeans.core.exact import Exact, reveal
from dpkmeans.data.source import Files
from dpkmeans.engines.config import Dask, Spark, Stream
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.engines.open import open_data
from dpkmeans.engines.packing import grid_points
from dpkmeans.errors import DataError
from dpkmeans.session import FitRequest
from dpkmeans.synopsis.residual_queries import Residuals
from dpkmeans.synopsis.tree_cells import Halvings

pytestmark = pytest.mark.filterwarnings("ignore")  # Dask, Spark and pandas warn about each other

WHY = "a test looks"
X = blobs()
BOX = Bounds.of((0, 1), 3)
START = X[:4]
ENGINES = ["memory", "stream", *(pytest.param(name, marks=pytest.mark.cluster) for name in ("dask", "spark"))]

METHODS = {
    **{
        name: {"epsilon": 1.0}
        for name in ("synopsis", "synopsis-posterior", "synopsis-prior", "su", "blum", "dwork", "gupt")
    },
    "gaussian": {"epsilon": 1.0, "delta": 1e-6},
    **{name: {"init": START} for name in ("lloyd", "posterior", "prior")},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_parquet(tmp_path_factory.mktemp("visits"), X, [900, 901, 2500])


@pytest.fixture(scope="module", params=ENGINES)
def where(request):
    """Each engine once, with its cluster."""
    with ExitStack() as stack:
        if request.param == "dask":
            yield Dask(client=stack.enter_context(shared_dask_client()))
        elif request.param == "spark":
            yield Spark(session=stack.enter_context(spark_session()))
        else:
            yield Stream(batch_rows=333) if request.param == "stream" else "memory"


@pytest.fixture(scope="module")
def engine(where, folder):
    engine = open_data(Files(folder), where).engine(BOX)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def memory():
    return MemoryEngine.of_records(X, BOX, n_threads=1)


def fit(records, method, where=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DPKMeans(4, bounds=(0, 1), method=method, guarantee="none", random_state=5, engine=where, **options)
        return model.fit(records).release_


def same(a, b):
    return np.array_equal(reveal(a, why=WHY), reveal(b, why=WHY))


def test_answers_about_cells_are_those_of_memory_to_the_bit(engine, memory):
    other = START[::-1] * 0.9
    for centroids, before in [(START, None), (other, START), (START, START), (START, other[:2])]:
        found, expected = (reveal(e.cell_statistics(centroids, before), why=WHY) for e in (engine, memory))
        assert np.array_equal(found.counts, expected.counts)
        assert np.array_equal(found.sums, expected.sums)
        assert (found.cost, found.n_changed) == (expected.cost, expected.n_changed)


def test_counts_costs_queries_reach_and_lloyd_are_those_of_memory_to_the_bit(engine, memory):
    assert same(engine.count(), memory.count())
    assert same(engine.costs(np.stack([START, START / 2])), memory.costs(np.stack([START, START / 2])))
    assert same(engine.max_abs_deviation(START), memory.max_abs_deviation(START))
    for query in (Halvings(BOX.unit_box, 8), Residuals(START, np.full(START.shape, 0.2))):
        assert same(engine.answer(query), memory.answer(query))
    ends = [reveal(e.lloyd(START, 50), why=WHY) for e in (engine, memory)]
    assert np.array_equal(ends[0].centroids, ends[1].centroids)
    assert (ends[0].moves, ends[0].stopped) == (ends[1].moves, ends[1].stopped)


def test_answers_come_wrapped(engine):
    for answer in (engine.count(), engine.cell_statistics(START), engine.costs(START[None]), engine.lloyd(START, 1)):
        assert isinstance(answer, Exact)


def test_sampled_rows_are_different_records_and_uniform(engine):
    """By their row numbers, so the same rows as in memory; uniform there by NumPy's `choice`."""
    rows = reveal(engine.sample_rows(500, np.random.default_rng(3)), why=WHY)
    held = {tuple(row) for row in grid_points(X, BOX).tolist()}
    assert len({tuple(row) for row in rows.tolist()}) == 500
    assert all(tuple(row) in held for row in rows.astype(np.float32).tolist())
    first = sum(
        tuple(row) in {tuple(r) for r in grid_points(X[:2000], BOX).tolist()}
        for row in rows.astype(np.float32).tolist()
    )
    assert abs(first - 250) < 60  # 5.7 deviations


def test_a_partition_holds_every_record_once_spread_uniformly_in_the_same_blocks_on_every_engine(engine, memory):
    key, total, sizes = bytes(range(16)), np.zeros((1, 4), np.int64), []
    for block, expected in zip(engine.partition(5, key), memory.partition(5, key), strict=True):
        table = reveal(block.cell_statistics(np.full((1, 3), 0.5)), why=WHY).integers()
        assert block.bounds == BOX
        sizes.append(int(table[0, 0]))
        total += table
        assert same(*(b.sample_rows(sizes[-1], np.random.default_rng(3)) for b in (block, expected)))
    steps = np.rint(grid_points(X, BOX).astype(float) * GRID).astype(np.int64)
    assert total.tolist() == [[len(X), *steps.sum(axis=0).tolist()]]
    assert sum((size - 800) ** 2 / 800 for size in sizes) < 33.4  # χ² of 4 degrees: 1e-6 of all keys; this one is fixed
    assert len(set(sizes)) > 1


@pytest.mark.parametrize("method", METHODS)
def test_a_seeded_fit_is_the_same_to_the_bit(where, folder, method):
    found, expected = fit(folder, method, where, **METHODS[method]), fit(X, method, **METHODS[method])
    assert np.array_equal(found.centroids, expected.centroids)
    assert found.spends == expected.spends
    assert found.n_passes == expected.n_passes


def test_a_seeded_fit_in_many_features_is_the_same_to_the_bit(where, tmp_path_factory):
    """With a covariance and with projections, which are made in each pass where records do not lie in memory."""
    records = np.tile(X, 8)[:, :22] / 2 + np.random.default_rng(2).random((len(X), 22)) / 4
    folder = write_parquet(tmp_path_factory.mktemp("wide"), records, [300, 900])
    options = {"epsilon": 8.0, "delta": 1e-6}
    found, expected = fit(folder, "gaussian", where, **options), fit(records, "gaussian", **options)
    assert "covariance" in [spend.label for spend in expected.spends]
    assert np.array_equal(found.centroids, expected.centroids)
    assert found.sizes == expected.sizes


def test_gupt_privgene_and_starts_from_rows_run(where, folder):
    for method, options in [("gupt", {"epsilon": 5.0}), ("privgene", {"epsilon": 1.0}), ("lloyd", {})]:
        release = fit(folder, method, where, **options)
        assert np.isfinite(release.centroids).all()
    assert np.array_equal(release.centroids, fit(X, "lloyd").centroids)


def test_a_synopsis_is_the_same_to_the_bit(where, folder):
    made, expected = (
        make_synopsis(records, 1.0, (0, 1), guarantee="none", random_state=2, engine=engine)
        for records, engine in ((folder, where), (X, None))
    )
    assert np.array_equal(made.points, expected.points)
    assert np.array_equal(made.weights, expected.weights)


def test_a_missing_value_is_refused_by_file_row_group_and_column_or_put_in_the_middle(where, tmp_path):
    holed = X[:3000].copy()
    holed[2200, 1] = np.nan
    write_parquet(tmp_path, holed, [1000], row_group_size=700)
    with pytest.raises(DataError, match=r"column 'x1' of .*part-01.parquet, row group 1, has empty cells"):
        fit(tmp_path, "su", where, epsilon=1.0)
    filled = np.where(np.isnan(holed), 0.5, holed)
    found = fit(Files(tmp_path, nulls="midpoint"), "su", where, epsilon=1.0)
    assert np.array_equal(found.centroids, fit(filled, "su", epsilon=1.0).centroids)


def test_columns_are_chosen_and_ordered_by_name(where, folder):
    found = fit(Files(folder, columns=("x2", "x0")), "su", where, epsilon=1.0)
    assert found.feature_names == ("x2", "x0")
    assert np.array_equal(found.centroids, fit(X[:, [2, 0]], "su", epsilon=1.0).centroids)


def test_a_replay_holds_on_every_engine_and_finds_the_losses_that_memory_finds(where, tmp_path):
    """D and D' as folders of files, the extra record in a corner, first in its file and alone in it."""
    extra = np.ones((1, 3))
    without, with_record = (tmp_path / name for name in ("without", "with"))
    without.mkdir()
    with_record.mkdir()
    folders = [
        write_parquet(without, X, [900, 901, 2500]),
        write_parquet(with_record, np.vstack([extra, X]), [1, 901, 902, 2501]),
    ]
    asked = FitRequest(n_clusters=4, epsilon=1.0, bounds=(0, 1), method="su")

    def replayed(engine):
        on_d, on_neighbour = (run_of(replace(asked, engine=engine), Files(folder)) for folder in folders)
        return replay(on_d, on_neighbour, 5)

    found, expected = replayed(where), replayed("memory")
    assert found.holds, found.why_not
    assert found.calls == expected.calls
    assert any(call.occurred for call in found.calls)
