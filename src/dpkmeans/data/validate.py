"""From what lies in memory to an array of records, with errors that show no record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dpkmeans._typing import AnyArray
from dpkmeans.core.schema import Schema
from dpkmeans.data.encode import encode_columns
from dpkmeans.data.numbers import REAL, numbers, plain_array, real_numbers
from dpkmeans.errors import DataError, DataTypeError

_FRAMES = {
    *((library, "DataFrame") for library in ("pandas", "polars", "narwhals")),
    *(("pyarrow", kind) for kind in ("Table", "RecordBatch")),
}


def is_frame(X: Any) -> bool:
    """Whether `X` is a table of named columns in memory: pandas, polars, narwhals or Arrow."""
    return any((base.__module__.partition(".")[0], base.__name__) in _FRAMES for base in type(X).__mro__)


def frame_columns(X: Any) -> Iterator[tuple[Any, Any]]:
    """Name and values of each column; names need not be unique, and pandas' need not be text."""
    if hasattr(X, "to_native"):
        X = X.to_native()
    if hasattr(X, "iloc"):
        return ((name, X.iloc[:, j]) for j, name in enumerate(X.columns))
    if hasattr(X, "get_columns"):
        return ((series.name, series) for series in X.get_columns())
    return zip(X.schema.names, X.columns, strict=True)


def frame_names(X: Any) -> tuple[str, ...] | None:
    """The names of a frame's columns, if they are text."""
    names = tuple(name for name, _ in frame_columns(X))
    texts = [isinstance(name, str) for name in names]
    if any(texts) and not all(texts):
        raise DataTypeError("the names of the columns must all be text, or none of them; some are. Rename them.")
    return names if any(texts) else None


def frame_records(X: Any, whole: str, schema: Schema | None = None) -> AnyArray:
    """Records of a frame as coordinates, shape (n, d), float64: of the columns of the schema, or of all as numbers."""
    held = list(frame_columns(X))
    if schema is None:
        columns = [numbers(values, f"column {name!r} of {whole}") for name, values in held]
    else:
        chosen = choose_columns(whole, schema.names, tuple(str(name) for name, _ in held), len(held))
        columns = encode_columns(schema, {str(held[j][0]): held[j][1] for j in chosen}.__getitem__, whole)
    records: AnyArray = np.empty((len(X), len(columns)), order="F")
    for j, values in enumerate(columns):
        records[:, j] = values
    return records


def choose_columns(whole: object, columns: Sequence[str] | None, names: tuple[str, ...] | None, n: int) -> list[int]:
    """Positions of the columns that were asked for, by name, or by number from 0 where there are no names."""
    if columns is None:
        return list(range(n))
    numbered = "it has one column, number 0" if n == 1 else f"its columns are numbered 0 to {n - 1}"
    known = f"It has: {', '.join(names)}." if names else f"It has no header; {numbered}."
    if not columns:
        raise DataError(f"no columns were asked for. {known}")
    if len(set(columns)) < len(columns):
        raise DataError(f"a column was asked for twice: {', '.join(columns)}. Name each once.")
    keys = [str(j) for j in range(n)] if names is None else list(names)
    for column in columns:
        if column not in keys:
            raise DataError(f"{whole} has no column {column!r}. {known}")
        if keys.count(column) > 1:
            raise DataError(f"{whole} has several columns called {column!r}. Rename them.")
    return [keys.index(column) for column in columns]


def as_records(X: Any) -> AnyArray:
    """Records as a two-dimensional array of numbers, without a copy where that is possible.

    Takes NumPy arrays, pandas and polars frames, Arrow tables, and nested sequences. Each value is converted by itself.
    """
    if hasattr(X, "toarray") or type(X).__module__.startswith("scipy.sparse"):
        raise DataTypeError(
            "Sparse input is not supported: noise fills every feature of a centroid, so nothing stays sparse. Pass a "
            "dense array (X.toarray()); project thousands of features to a few first, without looking at the records, "
            "as scikit-learn's GaussianRandomProjection does."
        )
    array = frame_records(X, "the records") if is_frame(X) else plain_array(X)
    if array.dtype.kind not in REAL:
        array = real_numbers(array)
    if array.ndim != 2:
        raise DataError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data to (records, features), "
            "for example with array.reshape(-1, 1) if it has a single feature."
        )
    if array.shape[1] == 0:
        # scikit-learn asks for these words; the number of records is left out
        raise DataError("0 feature(s) (shape=(, 0)) while a minimum of 1 is required.")
    if array.shape[0] == 0:
        raise DataError(f"Found array with 0 sample(s) (shape={array.shape}) while a minimum of 1 is required.")
    return array
