"""From what a user hands over to an array of records, with errors that show no record."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpkmeans._typing import AnyArray
from dpkmeans.errors import DataError, DataTypeError


def as_records(X: Any) -> AnyArray:
    """Records as a two-dimensional array of numbers, without a copy where that is possible.

    Takes NumPy arrays, pandas and polars frames, Arrow tables, and nested sequences.
    """
    if hasattr(X, "toarray") or type(X).__module__.startswith("scipy.sparse"):
        raise DataTypeError("Sparse input is not supported: noise fills every entry. Pass a dense array (X.toarray()).")
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise DataError("records must not hold masked entries; found some. Drop or fill them (X.filled(...)).")
    array = _as_array(X)
    if array.dtype.kind == "c":
        raise DataTypeError("Complex data not supported: records must be real numbers.")
    if array.dtype.kind in "OSUTMm":
        array = _from_objects(array)
    if array.dtype.kind not in "fiub":
        raise DataTypeError(f"records must be real numbers; got dtype {array.dtype}. Convert or drop such columns.")
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


def _as_array(X: Any) -> AnyArray:
    if hasattr(X, "column_names") and hasattr(X, "column"):  # an Arrow table; its names need not be unique
        columns = [np.asarray(column) for column in X.columns]
        return np.column_stack(columns) if columns else np.empty((X.num_rows, 0))
    try:
        return np.asarray(X)
    except ValueError:
        raise DataError("records must all have the same number of features; they do not.") from None


def _from_objects(array: AnyArray) -> AnyArray:
    if array.dtype.kind in "SUTMm":
        raise DataTypeError(f"records must be numbers; got dtype {array.dtype}. Convert or drop such columns.")
    try:
        return array.astype(np.float64)
    except TypeError:
        raise DataTypeError(
            "argument must be a string or a number: records hold objects that are neither, or missing values."
        ) from None
    except OverflowError:
        raise DataError("records must fit float64; some whole numbers do not. Rescale such columns.") from None
    except ValueError:
        raise DataTypeError("records must be numbers; some entries are text. Convert or drop such columns.") from None
