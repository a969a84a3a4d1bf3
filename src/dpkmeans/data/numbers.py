"""The rule by which a value becomes a float64: each by itself, correctly rounded, whatever type its column was given.

The type of a column is often inferred from all its records (one scale for all decimals, floats beside whole numbers),
so no value may depend on it. Whole numbers beyond float64 become infinite, and infinity is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpkmeans._typing import AnyArray, FloatArray
from dpkmeans.errors import DataError, DataTypeError, FileError

REAL = "fiub"  # kinds of NumPy types that hold real numbers
OTHER_KINDS = "Leave it out with {columns}, or declare its kind (category, date, boolean, vector) with {schema}."


def require_pyarrow() -> Any:
    """The module, or an error that says how to install it."""
    try:
        import pyarrow
    except ImportError:
        raise FileError("Reading files needs pyarrow. Install it with: pip install 'dpkmeans[all]'") from None
    return pyarrow


def numbers(column: Any, place: str) -> FloatArray:
    """A column of an array, a frame or an Arrow table as float64, shape (n,), NaN where a value is missing.

    `place` is what errors call it; they show no value.
    """
    library = type(column).__module__.partition(".")[0]
    if library == "pyarrow":
        return _of_arrow(column, place)
    if library == "pandas":
        if type(column.dtype).__name__ == "ArrowDtype":
            return _of_arrow(column.array.__arrow_array__(), place)
        plain = isinstance(column.dtype, np.dtype) and column.dtype.kind != "O"
        try:
            array = column.to_numpy() if plain else column.to_numpy(dtype=object, na_value=np.nan)
        except ArithmeticError:  # a decimal that cannot even be compared
            raise DataTypeError(f"{place} must be numbers; some entries are neither.", hint=OTHER_KINDS) from None
        return real_numbers(array, place)
    if library == "polars" and (
        not column.dtype.is_numeric() or column.dtype.is_decimal() or "128" in str(column.dtype)
    ):
        return real_numbers(np.array(column.to_list(), dtype=object), place)  # NumPy has no such type
    return real_numbers(np.asarray(column), place)


def plain_array(X: Any) -> AnyArray:
    """As a NumPy array. Masked entries are refused: what lies under a mask is no value."""
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise DataError("records must not hold masked entries; found some. Drop or fill them (X.filled(...)).")
    try:
        return np.asarray(X)
    except ValueError:
        raise DataError("records must all have the same number of features; they do not.") from None


def real_numbers(array: AnyArray, place: str = "records") -> FloatArray:
    """A NumPy array of any shape as float64, value by value."""
    kind = array.dtype.kind
    if array.dtype == np.float64:
        return array
    if kind in REAL:
        with np.errstate(over="ignore"):  # a long double may be infinite as a float64; that is refused
            return array.astype(np.float64, copy=False)
    if kind == "c":
        raise DataTypeError(f"Complex data not supported: {place} must be real numbers.")
    if kind != "O":
        what = "text" if kind in "US" else f"dtype {array.dtype}"  # the length of a text is a record's own
        raise DataTypeError(f"{place} must be numbers; got {what}.", hint=OTHER_KINDS)
    try:
        try:
            return array.astype(np.float64)
        except OverflowError:
            return np.array([_as_float(value) for value in array.ravel()]).reshape(array.shape)
    except (TypeError, ArithmeticError):
        raise DataTypeError(
            f"argument must be a string or a number: {place} must be numbers; some entries are neither.",
            hint=OTHER_KINDS,
        ) from None
    except ValueError:
        raise DataTypeError(f"{place} must be numbers; some entries are text.", hint=OTHER_KINDS) from None


def _as_float(value: Any) -> float:
    try:
        return float(np.nan if value is None else value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def check_type(kind: Any, place: str) -> None:
    """Refuse an Arrow type that is not a kind of number."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    accepted = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    if not any(is_kind(kind) for is_kind in accepted):
        raise DataTypeError(f"{place} does not hold numbers only (its type is {kind}).", hint=OTHER_KINDS)


def _of_arrow(column: Any, place: str) -> FloatArray:
    """Decimals go through text: Arrow's own cast rounds twice, and how depends on the scale of the whole column."""
    from pyarrow import types

    check_type(column.type, place)
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_decimal(column.type):
        column = column.cast("string")
    if not types.is_float64(column.type):
        column = column.cast("float64", safe=False)
    chunks = [_entries(chunk) for chunk in getattr(column, "chunks", [column])]
    return chunks[0] if len(chunks) == 1 else np.concatenate([np.empty(0), *chunks])


def _entries(array: Any) -> FloatArray:
    """The numbers of an Arrow array of float64, NaN for null. Its own `to_numpy` would import pandas."""
    values = array.fill_null(float("nan")) if array.null_count else array
    if len(values) == 0:
        return np.empty(0)
    return np.frombuffer(values.buffers()[1], np.float64)[values.offset : values.offset + len(values)]
