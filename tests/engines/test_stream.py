"""Records that are read again for each pass: any source, any split, bounded memory, errors that name the place."""

from __future__ import annotations

import gzip
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.engines.clusters import blobs, write_parquet

from dpkmeans import DPKMeans
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.exact import reveal
from dpkmeans.data.files import open_files
from dpkmeans.data.source import Files, FrameSource, array_batch, open_array
from dpkmeans.data.spool import Unread
from dpkmeans.engines import block_engine as blocks
from dpkmeans.engines import open as opening
from dpkmeans.engines.block_engine import BlockEngine
from dpkmeans.engines.block_tasks import Partial, sum_of_squares
from dpkmeans.engines.config import Stream
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.engines.open import open_data
from dpkmeans.engines.packing import grid_points, new_buffer, pack_batch
from dpkmeans.engines.stream import StreamEngine
from dpkmeans.errors import DataError, DPKMeansError, FileError, MethodError

WHY = "a test looks"
X = blobs(3000)
BOX = Bounds.of((0, 1), 3)
CENTROIDS = X[:5]
MEMORY = MemoryEngine.of_records(X, BOX, n_threads=1)
NAMES = ["x0", "x1", "x2"]


class Chunks:
    """An iterable of arrays that can be started again."""

    def __iter__(self):
        return iter(np.array_split(X, 7))


class ArrowStream:
    """What a DuckDB relation looks like from outside."""

    def __arrow_c_stream__(self, requested_schema=None):
        return pa.table(dict(zip(NAMES, X.T, strict=True))).__arrow_c_stream__(requested_schema)


def reader():
    table = pa.table(dict(zip(NAMES, X.T, strict=True)))
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=500))


def same_statistics(engine, memory=MEMORY):
    found, expected = (reveal(e.cell_statistics(CENTROIDS, CENTROIDS * 0.9), why=WHY) for e in (engine, memory))
    assert np.array_equal(found.integers(), expected.integers())
    assert (found.cost, found.n_changed) == (expected.cost, expected.n_changed)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("batch_rows", [1, 15, 16, 17, 1000, 10**6])
def test_batch_size_and_threads_change_no_bit(batch_rows, n_threads):
    if batch_rows == 1:
        small = MemoryEngine.of_records(X[:50], BOX)
        same_statistics(StreamEngine(open_array(X[:50]), BOX, batch_rows=1, n_threads=n_threads), small)
    else:
        same_statistics(StreamEngine(open_array(X), BOX, batch_rows=batch_rows, n_threads=n_threads))


@pytest.mark.parametrize("edges", [[], [1], [1500], [1, 2, 3, 2999]])
@pytest.mark.parametrize("row_group_size", [64, 5000])
def test_file_split_and_row_groups_change_no_bit(tmp_path, edges, row_group_size):
    write_parquet(tmp_path, X, edges, row_group_size)
    same_statistics(open_data(tmp_path).engine(BOX))
    same_statistics(open_data(str(tmp_path / "*.parquet")).engine(BOX))


@pytest.mark.parametrize("zipped", [False, True])
def test_csv_is_converted_once_and_the_copy_goes_away(tmp_path, zipped):
    text = ",".join(NAMES) + "\n" + "\n".join(",".join(map(repr, row)) for row in X.tolist())
    path = tmp_path / ("visits.csv.gz" if zipped else "visits.csv")
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    opened = open_files(Files(path, header=True))
    assert isinstance(opened, Unread)
    source = opened.spool()
    copy = source.keep.path  # type: ignore[attr-defined]
    assert copy.stat().st_mode & 0o077 == 0 or copy.parent.stat().st_mode & 0o077 == 0  # nobody else may read it
    same_statistics(StreamEngine(source, BOX))
    assert source.names == tuple(NAMES)
    del source
    assert not copy.exists()


@pytest.mark.parametrize(
    "records",
    [Chunks(), ArrowStream(), reader, "memmap", "polars", "pandas", "arrow", "list"],
    ids=["iterable", "c-stream", "reader", "memmap", "polars", "pandas", "arrow", "list of arrays"],
)
def test_every_kind_of_stream_gives_the_same_bits(tmp_path, records):
    if records is reader:
        records = reader()
    elif isinstance(records, str):
        np.save(tmp_path / "x.npy", X)
        frame = dict(zip(NAMES, X.T, strict=True))
        records = {
            "memmap": lambda: np.load(tmp_path / "x.npy", mmap_mode="r"),
            "polars": lambda: pl.DataFrame(frame),
            "pandas": lambda: pd.DataFrame(frame),
            "arrow": lambda: pa.table(frame),
            "list": lambda: np.array_split(X, 3),
        }[records]()
    engine = open_data(records, "stream").engine(BOX)
    assert isinstance(engine, StreamEngine)
    same_statistics(engine)
    same_statistics(engine)  # it starts again


def test_streams_are_chosen_by_themselves_and_arrays_stay_in_memory():
    for records in (Chunks(), ArrowStream(), reader()):
        assert isinstance(open_data(records).engine(BOX), StreamEngine)
    for records in (X, pd.DataFrame(X), pl.DataFrame(X), pa.table(dict(zip(NAMES, X.T, strict=True))), X.tolist()):
        assert isinstance(open_data(records).engine(BOX), MemoryEngine)


def test_an_iterator_that_cannot_start_again_is_refused():
    with pytest.raises(DataError, match="can be read once"):
        open_data(iter([X]))


def test_dtypes_of_columns_do_not_matter(tmp_path):
    whole = np.random.default_rng(0).integers(0, 2, (100, 3))
    types = [pa.int8(), pa.float32(), pa.bool_()]
    columns = {n: pa.array(whole[:, j].tolist()).cast(t) for j, (n, t) in enumerate(zip(NAMES, types, strict=True))}
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    same_statistics(open_data(tmp_path / "a.parquet").engine(BOX), MemoryEngine.of_records(whole, BOX))


def broken(tmp_path, second, first=None):
    first = {"x": [0.1, 0.2], "y": [0.3, 0.4]} if first is None else first
    parquet.write_table(pa.table(first), tmp_path / "a.parquet")
    parquet.write_table(pa.table(second), tmp_path / "b.parquet")
    return tmp_path


@pytest.mark.parametrize(
    ("second", "columns", "message"),
    [
        ({"x": [0.1]}, None, r"b.parquet has no column 'y', which .*a.parquet has"),
        ({"x": [0.1], "y": [0.2], "z": [0.3]}, None, r"b.parquet has a column 'z', which .*a.parquet does not have"),
        ({"x": [0.1], "y": ["8675309"]}, None, r"column 'y' of .*b.parquet does not hold numbers only \(.* string\)"),
        ({"x": [0.1], "y": [0.2]}, ("x", "nope"), r"a.parquet has no column 'nope'. It has: x, y"),
        ({"x": [0.1, None], "y": [0.2, 0.3]}, None, r"column 'x' of .*b.parquet, row group 0, has empty cells"),
        ({"x": [0.1], "y": [float("nan")]}, ("y",), r"column 'y' of .*b.parquet, row group 0, has empty cells"),
    ],
)
def test_errors_name_the_file_the_row_group_and_the_column(tmp_path, second, columns, message):
    d = 2 if columns is None else len(columns)
    files = Files(broken(tmp_path, second), columns)
    with pytest.raises(DataError, match=message) as caught:
        open_data(files).engine(Bounds.of((0, 1), d)).costs(np.zeros((1, 1, d)))
    assert "8675309" not in str(caught.value)


def test_columns_in_another_order_or_with_extras_are_found_by_name(tmp_path):
    folder = broken(tmp_path, {"z": ["text"], "y": [0.9], "x": [0.8]}, {"x": [0.1], "y": [0.2]})
    engine = open_data(Files(folder, columns=("y", "x"))).engine(Bounds.of((0, 1), 2))
    stats = reveal(engine.cell_statistics(np.zeros((1, 2))), why=WHY)
    assert stats.sums == pytest.approx(np.array([[1.1, 0.9]]), abs=1e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,y\n1,2\n3,8675309a\n", "column 'y' of .* does not hold numbers only"),
        ("x,y\n1,2\n3\n", "not a regular CSV file"),
        ("x,y\n1,2\n3,\n", "column 'y' of .* has empty cells"),
    ],
)
def test_bad_csv_files_give_errors_without_records(tmp_path, text, message):
    path = tmp_path / "a.csv"
    path.write_text(text)
    opened = open_files(Files(path, header=True))
    assert isinstance(opened, Unread)
    with pytest.raises(DataError, match=message) as caught:
        opened.spool()
    assert "8675309" not in str(caught.value)
    assert not list(tmp_path.glob("dpkmeans-*"))


def test_paths_that_name_nothing_and_unknown_options_are_clear_errors(tmp_path):
    for path, message in [
        ("no/*.parquet", "no file matches"),
        (tmp_path, "holds no Parquet"),
        ("gone.csv", "cannot read"),
    ]:
        with pytest.raises(FileError, match=message):
            open_data(path)
    with pytest.raises(MethodError, match="nulls must be one of"):
        open_data(Files(write_parquet(tmp_path, X, []), nulls="zero"))
    with pytest.raises(MethodError, match="engine must be one of"):
        open_data(X, "flink")


def test_a_file_that_is_damaged_behind_its_footer_is_a_typed_error(tmp_path):
    path = write_parquet(tmp_path, X, []) / "part-00.parquet"
    raw = bytearray(path.read_bytes())
    raw[4:4000] = bytes(3996)
    path.write_bytes(raw)
    with pytest.raises(DPKMeansError, match=re.escape(str(path))):
        open_data(path).engine(BOX).count(), open_data(path).engine(BOX).cell_statistics(CENTROIDS)


def test_arrays_are_sent_to_workers_up_to_a_size(monkeypatch):
    monkeypatch.setattr(opening, "MAX_SENT", X.size)
    assert open_data(X, "dask").n_features == 3
    monkeypatch.setattr(opening, "MAX_SENT", X.size - 1)
    with pytest.raises(DataError, match="Parquet files that every worker can read"):
        open_data(X, "dask")


@pytest.mark.parametrize("where", [None, "memory", "stream"])
@pytest.mark.parametrize(
    "kind", [pd.DataFrame, pl.DataFrame, pa.table, lambda frame: np.column_stack([*frame.values()])]
)
def test_nulls_of_a_frame_are_refused_by_column_or_put_in_the_middle(where, kind):
    frame = {"a": [0.1, 0.2], "b": [0.3, np.nan]}
    with pytest.raises(DataError, match=r"column 'b' of|column number 1 of|records must not hold NaN"):
        open_data(kind(frame), where).engine(Bounds.of((0, 1), 2)).cell_statistics(np.zeros((1, 2)))
    engine = open_data(FrameSource(kind(frame), nulls="midpoint"), where).engine(Bounds.of((0, 1), 2))
    stats = reveal(engine.cell_statistics(np.zeros((1, 2))), why=WHY)
    assert stats.sums == pytest.approx(np.array([[0.3, 0.8]]), abs=1e-5)
    assert isinstance(engine, MemoryEngine) == (where != "stream")


def test_columns_of_a_frame_are_chosen_by_name():
    frame = pd.DataFrame({"a": [0.1], "b": [0.2], "c": [0.3]})
    opened = open_data(FrameSource(frame, columns=("c", "a")))
    assert opened.names == ("c", "a")
    stats = reveal(opened.engine(Bounds.of((0, 1), 2)).cell_statistics(np.zeros((1, 2))), why=WHY)
    assert stats.sums == pytest.approx(np.array([[0.3, 0.1]]), abs=1e-6)
    with pytest.raises(DataError, match="no names"):
        open_data(FrameSource(X, columns=("a",)))
    with pytest.raises(MethodError, match="nulls must be one of"):
        open_data(FrameSource(X, nulls="zero"))


def test_duckdb_relations_and_polars_frames_are_read_through_arrow():
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed: make setup-scale")
    polars_frame = pl.DataFrame(dict(zip(NAMES, X.T, strict=True)))
    with duckdb.connect() as connection:
        connection.register("visits", polars_frame.to_arrow())
        relation = connection.sql("select x0, x1, x2 from visits")
        engine = open_data(relation).engine(BOX)
        assert isinstance(engine, StreamEngine)
        same_statistics(engine)
        model = DPKMeans(3, epsilon=1.0, bounds=(0, 1), guarantee="none", random_state=1)
        found = model.fit(connection.sql("select * from visits")).cluster_centers_.copy()
        assert model.feature_names_in_.tolist() == NAMES
        assert np.array_equal(found, model.fit(polars_frame).cluster_centers_)
        with pytest.raises(DataError, match="column 'name' of the Arrow stream does not hold numbers"):
            open_data(connection.sql("select x0, 'text' as name from visits"))


def test_too_many_records_are_refused_by_their_number(monkeypatch):
    monkeypatch.setattr(blocks, "MAX_RECORDS", 2999)
    with pytest.raises(DataError, match="at most 2\\^33 records"):
        StreamEngine(open_array(X), BOX)


def test_the_largest_number_of_records_is_the_one_up_to_which_sums_are_exact():
    most, step = float(blocks.MAX_RECORDS), 2.0**-20
    assert (most - step) + step == most != most - step
    assert most + step == most  # beyond it, a grid step is lost


class Counted(BlockEngine):
    """An engine that says it has counted `n` records, all in the box's upper corner but for one grid step."""

    def __init__(self, n):
        super().__init__(Bounds.of((0, 1), 1))
        self.n = n

    def _run(self, task):
        return Partial(np.array([[self.n, self.n * 2**20 - 1]]), self.n, self.n * 2**40)

    def label_batches(self, centroids):
        raise NotImplementedError


def test_sums_of_2_to_the_33_records_are_exact_and_more_are_refused_in_every_pass():
    stats = reveal(Counted(2**33).cell_statistics(np.zeros((1, 1))), why=WHY)
    assert stats.integers().tolist() == [[2**33, 2**53 - 1]]
    with pytest.raises(DataError, match="at most 2\\^33 records"):
        Counted(2**33 + 1).cell_statistics(np.zeros((1, 1)))


def test_squares_are_exact_whole_numbers():
    tiles = MEMORY._tiles
    steps = np.rint(grid_points(X, BOX).astype(np.float64) * 2**20).astype(object)
    assert sum_of_squares(tiles) == int((steps * steps).sum())


def test_a_short_batch_after_a_long_one_leaves_nothing_of_it_behind():
    buffer = new_buffer(100, 3)
    pack_batch(array_batch(X[:100]), BOX, buffer=buffer)
    short = pack_batch(array_batch(X[100:119]), BOX, buffer=buffer)
    assert np.shares_memory(short.tiles, buffer)
    assert np.array_equal(short.tiles, pack_batch(array_batch(X[100:119]), BOX).tiles)
    assert (short.tiles[1, :, 3:] == 0).all()


def test_packing_a_column_is_what_the_bounds_say_for_every_length():
    box = Bounds.of((-0.3, 0.7), 1)
    for n in (1, 15, 16, 17, 255, 256, 257, 700):
        values = np.random.default_rng(n).normal(0.2, 1.0, (n, 1))
        values[0] = 1e308
        block = pack_batch(array_batch(values), box)
        assert np.array_equal(block.rows(np.arange(n)), grid_points(values, box))


def test_row_groups_come_in_runs_of_a_useful_size(tmp_path):
    path = write_parquet(tmp_path, X, [], row_group_size=100)
    source = open_files(Files(path))
    assert [piece.n_rows for piece in source.split(1)] == [100] * 30
    assert [piece.n_rows for piece in source.split(1250)] == [1300, 1300, 400]
    assert [piece.n_rows for piece in source.split(10**9)] == [3000]
    holed = X.copy()
    holed[1723, 1] = np.nan
    pieces = open_files(Files(write_parquet(tmp_path, holed, [], row_group_size=100))).split(1250)
    with pytest.raises(DataError, match="row group 17,"):
        [pack_batch(batch, BOX) for batch in pieces[1].batches(10**6)]


def test_a_partition_is_made_in_lots_that_fit_in_memory(monkeypatch):
    monkeypatch.setattr(blocks, "_NUMBERS_AT_ONCE", 3 * 1000)
    engine = StreamEngine(open_array(X), BOX, batch_rows=700)
    many = [reveal(b.count(), why=WHY) for b in engine.partition(6, bytes(16))]
    monkeypatch.undo()
    once = [reveal(b.count(), why=WHY) for b in engine.partition(6, bytes(16))]
    assert many == once
    assert sum(once) == len(X)


def test_a_fit_reports_its_passes():
    reports = []
    model = DPKMeans(3, epsilon=1.0, bounds=(0, 1), method="su", engine=Stream(watch=reports.append))
    model.fit(X)
    assert [r.number for r in reports] == list(range(1, model.n_passes_ + 1))
    assert all(r.rows == len(X) and r.seconds > 0 for r in reports)
    assert not hasattr(model, "labels_")


def test_predict_and_score_read_files_as_they_read_arrays(tmp_path):
    folder = write_parquet(tmp_path, X, [1234])
    model = DPKMeans(3, epsilon=1.0, bounds=(0, 1)).fit(folder)
    assert model.feature_names_in_.tolist() == NAMES
    in_memory = DPKMeans(3, epsilon=1.0, bounds=(0, 1)).fit(X)
    in_memory.release_, in_memory.cluster_centers_ = model.release_, model.cluster_centers_
    assert np.array_equal(model.predict(folder), in_memory.predict(X))
    assert model.score(folder) == in_memory.score(X)


def test_bounds_from_data_are_those_of_memory(tmp_path):
    folder = write_parquet(tmp_path, X, [1234])
    found = DPKMeans(3, epsilon=1.0, bounds="from data", guarantee="none", random_state=0).fit(folder)
    expected = DPKMeans(3, epsilon=1.0, bounds="from data", guarantee="none", random_state=0).fit(X)
    assert np.array_equal(found.cluster_centers_, expected.cluster_centers_)


def test_an_error_in_the_middle_of_a_pass_ends_it():
    class Breaks:
        starts = 0

        def __iter__(self):
            self.starts += 1
            yield X[:100]
            if self.starts > 2:
                raise DataError("the source went away")

    engine = open_data(Breaks()).engine(BOX)
    engine.count()
    with pytest.raises(DataError, match="went away"):
        engine.cell_statistics(CENTROIDS)
