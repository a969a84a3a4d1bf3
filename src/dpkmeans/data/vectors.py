"""Columns of vectors, as lists in Arrow and polars or arrays in objects, as numbers: each cell by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpkmeans._typing import AnyArray, FloatArray
from dpkmeans.core.vectors import Vector
from dpkmeans.data.numbers import numbers, real_numbers, require_pyarrow
from dpkmeans.errors import DataError, DataTypeError

HINT = (
    "A vector is a list, or an array of one dimension, of as many numbers as the schema says. Dask makes texts of "
    "lists unless it is told not to: dask.config.set({{'dataframe.convert-string': False}})."
)


def vector_columns(column: Any, kind: Vector, place: str) -> FloatArray:
    """The numbers of the vectors, shape (length, n); all NaN where a cell, or one of its numbers, is missing.

    `place` is what errors call the column; they show no value, nor how long a vector is.
    """
    if type(column).__module__.partition(".")[0] == "polars":
        require_pyarrow()
        column = column.to_arrow()
    of_arrow = type(column).__module__.partition(".")[0] == "pyarrow"
    rows = _of_arrow(column, kind, place) if of_arrow else _of_objects(column, kind, place)
    found: FloatArray = np.ascontiguousarray(rows.T)
    found[:, np.isnan(found).any(axis=0)] = np.nan
    return found


def check_vector_type(kind: Any, declared: Vector, place: str) -> None:
    """Refuse an Arrow type that holds no lists, or lists of another length."""
    from pyarrow import types

    fixed = types.is_fixed_size_list(kind)
    if not (fixed or types.is_list(kind) or types.is_large_list(kind) or types.is_null(kind)):
        raise DataTypeError(f"{place} cannot hold vectors: its type is {kind}.", hint=HINT)
    if fixed and kind.list_size != declared.length:
        raise DataError(
            f"{place} holds vectors of {kind.list_size} numbers; the schema says {declared.length}. Correct the schema."
        )


def _of_arrow(column: Any, kind: Vector, place: str) -> FloatArray:
    from pyarrow import compute, types

    check_vector_type(column.type, kind, place)
    rows = np.full((len(column), kind.length), np.nan)
    if types.is_null(column.type):
        return rows
    start = 0
    for chunk in column.chunks if hasattr(column, "chunks") else [column]:
        present = chunk.is_valid().to_numpy(zero_copy_only=False)
        lengths = compute.list_value_length(chunk).fill_null(kind.length).to_numpy(zero_copy_only=False)
        if (lengths != kind.length).any():
            raise _other_length(kind, place)
        here = np.flatnonzero(present) + start
        rows[here] = numbers(chunk.flatten(), place).reshape(len(here), kind.length)
        start += len(chunk)
    return rows


def _of_objects(column: Any, kind: Vector, place: str) -> FloatArray:
    cells = column.tolist() if hasattr(column, "tolist") else list(column)
    rows = np.full((len(cells), kind.length), np.nan)
    for i, cell in enumerate(cells):
        if not _is_missing(cell):
            vector = _as_array(cell, place)
            if len(vector) != kind.length:
                raise _other_length(kind, place)
            rows[i] = real_numbers(vector, place)
    return rows


def _as_array(cell: Any, place: str) -> AnyArray:
    try:
        vector = np.asarray(cell)
    except ValueError:
        vector = np.empty(())
    if vector.ndim != 1 or vector.dtype.kind not in "fiubO":
        raise DataTypeError(f"{place} is a vector in the schema, but holds other values.", hint=HINT)
    return vector


def _is_missing(cell: Any) -> bool:
    """None, NaN, and pandas' own missing values. A vector is not missing."""
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, float) and cell != cell)


def _other_length(kind: Vector, place: str) -> DataError:
    return DataError(
        f"{place} holds vectors of another length than {kind.length}, which the schema says they have.", hint=HINT
    )
