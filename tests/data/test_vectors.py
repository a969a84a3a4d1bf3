"""Columns of vectors: one cell in, one point out, from every library and file, and the same fit from all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.engines.clusters import shared_dask_client, spark_session

from dpkmeans import DPKMeans, Number, Release, Schema, Vector
from dpkmeans.data.encode import encode
from dpkmeans.engines.config import Dask, Spark
from dpkmeans.errors import BoundsError, DataError, DataTypeError, SchemaError

X = np.random.default_rng(0).normal(size=(600, 4)).astype(np.float32)
SCHEMA = {"embedding": Vector(4)}
KINDS = {"float": pa.float32(), "double": pa.float64(), "half": pa.float16()}


def lists(kind: Any = None) -> pa.Array:
    return pa.array([row.astype(np.float64).tolist() for row in X], pa.list_(kind or pa.float32()))


def fixed() -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 4)


def large() -> pa.Array:
    return lists().cast(pa.large_list(pa.float32()))


def fit(table: Any, engine: Any = None) -> DPKMeans:
    return DPKMeans(3, epsilon=2.0, max_norm=2.0, schema=SCHEMA, random_state=0, guarantee="none", engine=engine).fit(
        table
    )


EXPECTED = DPKMeans(3, epsilon=2.0, max_norm=2.0, random_state=0, guarantee="none").fit(X).cluster_centers_


@pytest.mark.parametrize("column", [lists, fixed, large], ids=["list", "fixed size list", "large list"])
def test_lists_of_arrow_give_the_fit_of_the_array(column: Any) -> None:
    table = pa.table({"id": range(600), "embedding": column()})
    assert np.array_equal(fit(table).cluster_centers_, EXPECTED)
    assert np.array_equal(fit(table.to_reader()).cluster_centers_, EXPECTED)
    assert np.array_equal(fit(table.slice(0)).cluster_centers_, EXPECTED)


def test_frames_give_the_fit_of_the_array() -> None:
    frame = pd.DataFrame({"id": range(600), "embedding": list(X)})
    nested = pd.DataFrame({"embedding": X.astype(np.float64).tolist()})
    as_arrow = pa.table({"embedding": lists()}).to_pandas(types_mapper=pd.ArrowDtype)
    for table in (frame, nested, as_arrow, pl.from_pandas(frame), pl.DataFrame({"embedding": X})):
        assert np.array_equal(fit(table).cluster_centers_, EXPECTED), type(table)


@pytest.mark.parametrize("engine", ["memory", "stream"])
@pytest.mark.parametrize("column", [lists, fixed], ids=["list", "fixed size list"])
def test_parquet_files_give_the_fit_of_the_array(column: Any, engine: str, tmp_path: Path) -> None:
    path = tmp_path / "texts.parquet"
    parquet.write_table(pa.table({"text": ["secret"] * 600, "embedding": column()}), path, row_group_size=100)
    model = fit(path, engine)
    assert np.array_equal(model.cluster_centers_, EXPECTED)
    model.release_.save(tmp_path / "model.json")
    again = Release.load(tmp_path / "model.json")
    assert again.names[:2] == ("embedding[0]", "embedding[1]")
    assert np.array_equal(again.predict(path), model.predict(path))
    assert np.array_equal(np.array(again.describe()[0]["embedding"]), model.cluster_centers_[0])
    assert again.to_frame()["embedding"].map(len).tolist() == [4, 4, 4]
    assert "embedding" in again.report()


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore")
def test_dask_and_spark_give_the_fit_of_the_array(tmp_path: Path) -> None:
    import dask
    import dask.dataframe as dd

    path = tmp_path / "texts.parquet"
    parquet.write_table(pa.table({"embedding": lists()}), path, row_group_size=100)
    with shared_dask_client() as client:
        assert np.array_equal(fit(path, Dask(client=client)).cluster_centers_, EXPECTED)
        with dask.config.set({"dataframe.convert-string": False}):
            for frame in (dd.from_map(pd.read_parquet, [str(path)]), dd.read_parquet(path)):
                assert np.array_equal(fit(frame, Dask(client=client)).cluster_centers_, EXPECTED)
        with pytest.raises(DataTypeError, match="convert-string"):
            fit(dd.from_map(pd.read_parquet, [str(path)]), Dask(client=client))
    with spark_session() as session:
        frame = session.read.parquet(str(path))
        assert np.array_equal(fit(frame, Spark(session=session)).cluster_centers_, EXPECTED)
        from pyspark.ml.functions import array_to_vector

        dense = frame.withColumn("embedding", array_to_vector(frame["embedding"].cast("array<double>")))
        assert np.array_equal(fit(dense, Spark(session=session)).cluster_centers_, EXPECTED)


def test_a_cell_is_read_by_itself() -> None:
    kind = Vector(2, missing="midpoint", lower=-1, upper=1)
    cells = [[1, 2], [0.5, None], None, np.array([3, 4], np.float16), (True, 10**30), [float("nan"), 1.0]]
    together = np.array(encode(pd.Series(cells, dtype=object), kind, "here")).T
    alone = np.array([np.array(encode(pd.Series([cell], dtype=object), kind, "here"))[:, 0] for cell in cells])
    assert np.array_equal(together, alone)
    assert together.tolist() == [[1, 2], [0, 0], [0, 0], [3, 4], [1, 1e30], [0, 0]]
    both = pa.chunked_array([pa.array([[1.0, 2.0], None]), pa.array([[3.0, None]])])
    assert np.array(encode(both, kind, "here")).T.tolist() == [[1, 2], [0, 0], [0, 0]]


@pytest.mark.parametrize("cells", [[[1.0, 2.0], [1.0, 2.0, 3.0]], [[1.0, 2.0], []], [np.zeros((2, 1)), [1.0, 2.0]]])
def test_another_length_is_refused_without_a_word_of_what_was_found(cells: list[Any]) -> None:
    for column in (pd.Series(cells, dtype=object), *([] if isinstance(cells[0], np.ndarray) else [pa.array(cells)])):
        with pytest.raises((DataError, DataTypeError)) as caught:
            encode(column, Vector(2, 0, 1), "column 'e'")
        assert "3" not in str(caught.value)


@pytest.mark.parametrize("cells", [["[1, 2]"], [[["a", "b"]]], [["a", "b"]], [{"a": 1}], [7.0]])
def test_what_is_no_vector_is_refused(cells: list[Any]) -> None:
    with pytest.raises((DataError, DataTypeError), match="column 'e'"):
        encode(pd.Series(cells, dtype=object), Vector(2, 0, 1), "column 'e'")


def test_a_declared_length_that_a_file_contradicts_is_refused_before_it_is_read() -> None:
    with pytest.raises(DataError, match="vectors of 4 numbers; the schema says 5"):
        DPKMeans(2, epsilon=1.0, max_norm=1.0, schema={"embedding": Vector(5)}).fit(pa.table({"embedding": fixed()}))


def test_vectors_have_bounds_by_a_box_or_by_a_ball_and_no_estimate() -> None:
    table = pa.table({"embedding": lists()})
    assert DPKMeans(2, epsilon=1.0, schema={"embedding": Vector(4, -1, 1)}).fit(table).release_.bounds.ball is None
    with pytest.raises(SchemaError, match=r"has no bounds.*max_norm"):
        DPKMeans(2, epsilon=1.0, schema=SCHEMA).fit(table)
    with pytest.raises(BoundsError, match="the bounds of a vector are not estimated"):
        DPKMeans(2, epsilon=1.0, bounds_epsilon=0.1, scale=None, schema=SCHEMA).fit(table)
    with pytest.raises(SchemaError, match="column 'age' of the schema has bounds of its own"):
        DPKMeans(2, epsilon=1.0, max_norm=1.0, schema={"age": Number(0, 1), **SCHEMA}).fit(table)


@pytest.mark.parametrize("length", [0, -1, 2.0, True, "4", 10**6])
def test_a_length_is_a_whole_number(length: object) -> None:
    with pytest.raises(SchemaError, match="length must be a whole number"):
        Vector(length)


def test_a_schema_with_vectors_goes_to_a_file_and_back() -> None:
    schema = Schema.of({"embedding": Vector(384, -1, 1, missing="midpoint")})
    assert Schema.from_dict(schema.to_dict()) == schema
