"""What a user hands over, opened: arrays, frames, files, streams, Dask and Spark objects. One table says how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dpkmeans._typing import AnyArray
from dpkmeans.core.kinds import Number
from dpkmeans.core.schema import Schema
from dpkmeans.core.vectors import Vector
from dpkmeans.data.files import open_files
from dpkmeans.data.fingerprint import Fingerprint, WatchedPiece
from dpkmeans.data.numbers import OTHER_KINDS
from dpkmeans.data.source import KEEP, Files, FrameSource, Nulls, Source, checked_nulls, open_array, open_iterable
from dpkmeans.data.spool import Unread, open_arrow_stream
from dpkmeans.data.validate import as_records, choose_columns, frame_columns, frame_names, frame_records, is_frame
from dpkmeans.errors import DataError, SchemaError

EngineName = Literal["memory", "stream", "dask", "spark"]
LARGE_MAP = 2**28  # bytes from which a memory map is read again for each pass
_SPARK_NUMBERS = {"double", "float", "int", "bigint", "smallint", "tinyint", "boolean", "decimal"}


@dataclass(frozen=True, eq=False, repr=False)
class Collection:
    """A Dask array or frame, or a Spark frame: its records stay where they are.

    Of a frame, the columns of the schema are used; `schema` is None for an array.
    """

    records: Any
    n_features: int
    nulls: Nulls
    schema: Schema | None = None

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the features, if they have any."""
        return None if self.schema is None else self.schema.coordinates

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of a frame."""
        return () if self.schema is None else self.schema.names


@dataclass(frozen=True, eq=False, repr=False)
class Opened:
    """Records, the engine that suits them, and whether other machines can read them there, as they can files.

    `records` holds them, shape (n, d), where they came as an array or a frame in memory.
    """

    found: Source | Unread | Collection
    suits: EngineName
    shared: bool = False
    records: AnyArray | None = None


@dataclass(frozen=True, eq=False, repr=False)
class _Handed:
    """What was handed over, which columns of it are used, and what becomes of missing values."""

    records: Any
    columns: Sequence[str] | None
    nulls: Nulls
    schema: Schema | None = None


def open_records(
    X: Any,
    columns: Sequence[str] | None = None,
    *,
    schema: Schema | None = None,
    nulls: Nulls = "refuse",
    keep_missing: bool = False,
) -> Opened:
    """Look at records without a pass over them.

    `columns` chooses and orders columns of what has names; a `schema` does so by itself, and says of which kind they
    are. `nulls` holds unless the records come with their own; with `keep_missing`, values that the schema does not fill
    in stay missing.
    """
    nulls = KEEP if keep_missing else nulls_of(X, nulls)
    columns = X.columns if columns is None and isinstance(X, FrameSource | Files) else columns
    if schema is not None:
        if columns is not None and tuple(columns) != schema.names:
            raise SchemaError(
                "a schema and bounds by name choose the columns by themselves.", hint="Leave {columns} out."
            )
        columns, schema = schema.names, schema.with_missing(nulls)
        open_ended = any(column.kind.sides() is None and column.kind.missing is None for column in schema.columns)
        nulls = nulls if open_ended or keep_missing else "refuse"  # the schema fills in all others by itself
    if isinstance(X, FrameSource | Files):
        X = X.records if isinstance(X, FrameSource) else replace(X, nulls=nulls)
    return next(opener for fits, opener in _OPENERS if fits(X))(_Handed(X, columns, nulls, schema))


def nulls_of(X: Any, nulls: Nulls) -> Nulls:
    """What becomes of missing values: what the records say, where they say more than to refuse them; else `nulls`."""
    own = checked_nulls(X.nulls) if isinstance(X, FrameSource | Files) else "refuse"
    return checked_nulls(nulls) if own == "refuse" else own


def is_dask(X: Any) -> bool:
    """Whether `X` is a Dask array or frame."""
    return type(X).__module__.startswith(("dask.", "dask_expr."))


def is_spark(X: Any) -> bool:
    """Whether `X` is a Spark frame."""
    return type(X).__module__.startswith("pyspark.")


def has_names(X: Any) -> bool:
    """Whether the columns of `X` have names, or may have them, as those of a file."""
    if isinstance(X, FrameSource):
        X = X.records
    if isinstance(X, Files):
        return X.columns is None and X.header is not False
    far = (is_dask(X) or is_spark(X)) and hasattr(X, "columns")
    return far or isinstance(X, str | Path) or is_frame(X) or _is_arrow_stream(X)


def column_names(X: Any) -> tuple[str, ...]:
    """The names of all columns of what has names, or those that its caller chose. No record is looked at."""
    if isinstance(X, Files | FrameSource) and X.columns is not None:
        return tuple(X.columns)
    X = X.records if isinstance(X, FrameSource) else X
    if isinstance(X, str | Path | Files):
        from dpkmeans.data.declared import declared_columns

        return tuple(name for name, _ in declared_columns(X if isinstance(X, Files) else Files(X)))
    if is_frame(X):
        return frame_names(X) or ()
    if hasattr(X, "columns"):
        return tuple(map(str, X.columns))
    return tuple(getattr(getattr(X, "schema", None), "names", ()))


def _is_large_map(X: Any) -> bool:
    return isinstance(X, np.memmap) and X.ndim == 2 and X.nbytes >= LARGE_MAP


def _is_arrow_stream(X: Any) -> bool:
    return hasattr(X, "__arrow_c_stream__") and not hasattr(X, "__array__")


def _is_chunked(X: Any) -> bool:
    """Whether `X` gives arrays one after the other: a list of two-dimensional arrays, or an iterable without length."""
    if isinstance(X, list | tuple):
        return len(X) > 0 and all(getattr(item, "ndim", 0) == 2 for item in X)
    return hasattr(X, "__iter__") and not hasattr(X, "__len__") and not hasattr(X, "__array__")


def _open_files(handed: _Handed) -> Opened:
    X = handed.records
    files = X if isinstance(X, Files) else Files(X, nulls=handed.nulls)
    if handed.columns is not None:
        files = replace(files, columns=tuple(handed.columns))
    return Opened(open_files(files, handed.schema), "stream", shared=True)


def _open_dask(handed: _Handed) -> Opened:
    X = handed.records
    if hasattr(X, "rechunk"):
        if X.ndim != 2:
            raise DataError(f"Expected 2D array, got {X.ndim}D array instead. Reshape it to (records, features).")
        _refuse_columns(handed)
        return Opened(Collection(X, int(X.shape[1]), handed.nulls), "dask")
    if handed.columns is not None:
        missing = sorted(set(handed.columns) - set(X.columns))
        if missing:
            raise DataError(f"the frame has no column {missing[0]!r}.")
        X = X[list(handed.columns)]
    schema = handed.schema or Schema.of_numbers(str(name) for name in X.columns)
    return Opened(Collection(X, len(schema.coordinates), handed.nulls, schema), "dask")


def _open_spark(handed: _Handed) -> Opened:
    names = tuple(handed.records.columns if handed.columns is None else handed.columns)
    types = dict(handed.records.dtypes)
    schema = handed.schema or Schema.of_numbers(names)
    records = handed.records
    for name, column in zip(names, schema.columns, strict=True):
        if name not in types:
            raise DataError(f"the frame has no column {name!r}.")
        if isinstance(column.kind, Vector) and types[name] == "vector":  # of Spark's own machine learning
            from pyspark.ml.functions import vector_to_array

            records = records.withColumn(name, vector_to_array(records[name]))
        if isinstance(column.kind, Number) and types[name].split("(")[0] not in _SPARK_NUMBERS:
            raise DataError(
                f"column {name!r} of the frame does not hold numbers (its type is {types[name]}).", hint=OTHER_KINDS
            )
    return Opened(Collection(records, len(schema.coordinates), handed.nulls, schema), "spark")


def _open_map(handed: _Handed) -> Opened:
    opened, path = _open_array(handed), getattr(handed.records, "filename", None)
    found = opened.found
    if path is not None and isinstance(found, Source):
        seen = Fingerprint.of(path)
        found = replace(found, pieces=tuple(WatchedPiece(piece, str(path), seen) for piece in found.pieces))
    return Opened(found, "stream")


def _open_frame(handed: _Handed) -> Opened:
    frame, columns, schema = handed.records, handed.columns, handed.schema
    if columns is None:
        names, records = frame_names(frame), as_records(frame)
    else:
        known = tuple(str(name) for name, _ in frame_columns(frame))
        choose_columns("the frame", columns, known, len(known))
        schema = schema or Schema.of_numbers(columns)
        names, records = schema.coordinates, frame_records(frame, "the records", schema)
    whole = columns is None and handed.nulls == "refuse"
    return Opened(open_array(records, handed.nulls, names), "memory", records=records if whole else None)


def _open_stream(handed: _Handed) -> Opened:
    return Opened(open_arrow_stream(handed.records, handed.columns, handed.nulls, handed.schema), "stream")


def _open_iterable(handed: _Handed) -> Opened:
    _refuse_columns(handed)
    return Opened(open_iterable(handed.records, handed.nulls), "stream")


def _open_array(handed: _Handed) -> Opened:
    _refuse_columns(handed)
    records = as_records(handed.records)
    return Opened(open_array(records, handed.nulls), "memory", records=records if handed.nulls == "refuse" else None)


def _refuse_columns(handed: _Handed) -> None:
    if handed.columns is not None:
        kind = type(handed.records).__name__
        raise DataError(
            f"columns are chosen by name, and {kind} has no names.",
            hint="Give a frame; or choose columns before, and give bounds as (lower, upper).",
        )


_OPENERS: tuple[tuple[Callable[[Any], bool], Callable[[_Handed], Opened]], ...] = (
    (lambda X: isinstance(X, str | Path | Files), _open_files),
    (is_dask, _open_dask),
    (is_spark, _open_spark),
    (_is_large_map, _open_map),
    (is_frame, _open_frame),
    (_is_arrow_stream, _open_stream),
    (_is_chunked, _open_iterable),
    (lambda X: True, _open_array),
)
"""The first row whose test holds opens the records."""
