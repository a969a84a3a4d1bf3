from __future__ import annotations

import datetime
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

from dpkmeans.data.validate import as_records
from dpkmeans.engines.dask import chunk_batch
from dpkmeans.errors import DataError, DataTypeError

VALUES = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
SECRET = "8675309"

DTYPES = [
    *(np.float16, np.float32, np.float64, np.longdouble, np.bool_),
    *(np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
    *(np.dtype(">f8"), np.dtype(">i4")),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_any_real_dtype_is_taken_without_a_copy(dtype):
    array = VALUES.astype(dtype)
    records = as_records(array)
    assert np.shares_memory(records, array)
    assert np.array_equal(records, VALUES)


@pytest.mark.parametrize(
    "view",
    [
        np.asfortranarray(VALUES),
        VALUES[::-1],
        VALUES[:, ::-1],
        VALUES[::2, ::2],
        np.broadcast_to(VALUES[0], (4, 3)),
        VALUES.T,
    ],
    ids=["fortran", "reversed rows", "reversed columns", "strided", "broadcast", "transposed"],
)
def test_any_memory_order_is_taken_without_a_copy(view):
    records = as_records(view)
    assert np.shares_memory(records, view)
    assert np.array_equal(records, view)


@pytest.mark.parametrize(
    "table",
    [
        VALUES.tolist(),
        [tuple(row) for row in VALUES],
        [np.array(row) for row in VALUES],
        pd.DataFrame(VALUES, columns=["a", "b", "c"]),
        pd.DataFrame({"a": VALUES[:, 0].astype(int), "b": VALUES[:, 1], "c": VALUES[:, 2].astype(bool)}),
        pd.DataFrame(VALUES.astype(int)).astype("Int64"),
        pd.DataFrame(VALUES).astype("Float64"),
        pl.DataFrame(VALUES, schema=["a", "b", "c"]),
        pl.DataFrame({"a": VALUES[:, 0].astype(int), "b": VALUES[:, 1], "c": VALUES[:, 2].astype(np.float32)}),
        pa.table({name: VALUES[:, j] for j, name in enumerate("abc")}),
        pa.Table.from_batches(
            [pa.record_batch({name: VALUES[i:, j][:2] for j, name in enumerate("abc")}) for i in (0, 2)]
        ),
        pa.record_batch({name: VALUES[:, j] for j, name in enumerate("abc")}),
        pa.Table.from_arrays([pa.array(VALUES[:, j]) for j in range(3)], names=["x", "x", "x"]),
        np.asmatrix(VALUES),
        np.ma.masked_array(VALUES),
        VALUES.astype(object),
    ],
    ids=[
        *("lists", "tuples", "list of arrays", "pandas", "mixed pandas", "nullable integers", "nullable floats"),
        *("polars", "mixed polars", "arrow", "chunked arrow", "arrow batch", "arrow with one name thrice"),
        *("matrix", "masked array without a mask", "objects"),
    ],
)
def test_tables_of_any_kind_become_the_same_records(table):
    records = as_records(table)
    assert records.dtype.kind in "fiub"
    assert np.array_equal(records.astype(float), VALUES)


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"a": [1.0, None], "b": [2.0, 3.0]}),
        pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}),
        pl.DataFrame({"a": [1.0, None], "b": [2.0, 3.0]}),
        pa.table({"a": [1.0, None], "b": [2.0, 3.0]}),
        pa.table({"a": [1, None], "b": [2, 3]}),
        [[1.0, 2.0], [None, 3.0]],
    ],
    ids=["pandas", "nullable pandas", "polars", "arrow", "arrow integers", "lists"],
)
def test_missing_values_become_nan(table):
    records = as_records(table).astype(float)
    assert np.isnan(records).sum() == 1


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (scipy.sparse.csr_matrix([[8675309.0]]), DataTypeError, "Sparse"),
        (scipy.sparse.csr_array([[8675309.0]]), DataTypeError, "toarray"),
        (np.array([[8675309 + 1j]]), DataTypeError, "Complex"),
        ([["8675309", "x"]], DataTypeError, "must be numbers"),
        (np.array([[b"8675309"]]), DataTypeError, "must be numbers"),
        (np.array([["8675309x", 2.0]], dtype=object), DataTypeError, "text"),
        (np.array([[{"8675309": 1}, 2.0]], dtype=object), DataTypeError, "neither"),
        (pd.DataFrame({"a": ["8675309x"], "b": [1.0]}), DataTypeError, "number"),
        (pd.DataFrame({"a": pd.Categorical(["8675309x"]), "b": [1.0]}), DataTypeError, "text"),
        (pl.DataFrame({"a": ["8675309x"], "b": [1.0]}), DataTypeError, "text"),
        (pa.table({"a": ["8675309x"], "b": [1.0]}), DataTypeError, "numbers only"),
        (np.array([["2024-01-01"]], dtype="datetime64[D]"), DataTypeError, "datetime"),
        ([[datetime.date(2024, 1, 1)]], DataTypeError, "neither"),
        (np.zeros(3, dtype=[("a", float)]), DataTypeError, "must be numbers"),
        ([[8675309.0, 2.0], [3.0]], DataError, "same number of features"),
        (np.array([8675309.0, 2.0]), DataError, "Expected 2D array, got 1D"),
        (8675309.0, DataError, "Expected 2D array, got 0D"),
        (np.zeros((2, 3, 4)), DataError, "Expected 2D array, got 3D"),
        (None, DataError, "Expected 2D"),
        ([], DataError, "Expected 2D"),
        ({"a": [8675309.0]}, DataTypeError, "neither"),
        (np.empty((0, 3)), DataError, r"0 sample\(s\)"),
        (np.empty((3, 0)), DataError, r"0 feature\(s\)"),
        (pd.DataFrame({"a": []}, dtype=float), DataError, r"0 sample\(s\)"),
        (pa.table({}), DataError, r"0 feature\(s\)"),
        (np.ma.masked_equal([[8675309.0, 2.0]], 2.0), DataError, "masked"),
    ],
)
def test_what_cannot_be_used_is_refused_without_showing_a_record(table, error, message):
    with pytest.raises(error, match=message) as caught:
        as_records(table)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_infinity_and_nan_are_left_to_the_bounds():
    records = as_records([[math.inf, math.nan]])
    assert np.isinf(records[0, 0])
    assert np.isnan(records[0, 1])


def test_whole_numbers_beyond_float64_are_infinite_and_clipped_like_any_other():
    assert as_records([[10**400, -(10**400)]]).tolist() == [[math.inf, -math.inf]]


def test_a_masked_chunk_is_refused_on_a_worker_as_it_is_here():
    with pytest.raises(DataError, match="masked"):
        chunk_batch(np.ma.masked_equal([[8675309.0, 2.0]], 2.0), "partition 0")
