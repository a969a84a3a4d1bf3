"""Records that are read again for every pass: files, memory maps, Arrow streams, iterables. Bounded memory.

A source consists of pieces that can be read independently, here or on another machine. Errors name the file, the row
group and the column, and show no record. `files` finds files; `spool` keeps what can be read only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from dpkmeans._typing import AnyArray, FloatArray
from dpkmeans.core.schema import Schema
from dpkmeans.data.encode import encode_columns, places_of
from dpkmeans.data.numbers import real_numbers
from dpkmeans.data.validate import as_records
from dpkmeans.errors import DataError, MethodError
from dpkmeans.interrupts import stoppable
from dpkmeans.progress import READING, advance, stage

KEEP: Literal["keep"] = "keep"
"""Missing values stay NaN, for those who count them. Nobody asks for it by name: what goes on a grid has no place for
them."""

Nulls = Literal["refuse", "midpoint", "keep"]
NULLS = ("refuse", "midpoint")


@dataclass(frozen=True)
class Files:
    """Files of records: one path, a folder, a pattern, or several of them, read in the order of their names.

    `columns` are names, in the order of the features. `nulls` says what becomes of missing values: `"refuse"`, or
    `"midpoint"`, the middle of the bounds.

    The others say how CSV files are written; nothing is guessed from records. `header` says whether the first row holds
    names; where it is left out, naming `columns` implies one. `delimiter` is one character or `"tab"`, `decimal` a
    point or a comma, `encoding` a name that Python knows, `quote` one character or None. Compressed files (gzip, zstd,
    bz2, lz4) are recognised by their first bytes.

    >>> visits = Files("visits/*.parquet", columns=("east", "north"))
    >>> export = Files("visits.csv", header=True, delimiter=";", decimal=",", encoding="cp1252")
    """

    path: str | Path | Sequence[str | Path]
    columns: Sequence[str] | None = None
    nulls: Nulls = "refuse"
    header: bool | None = None
    delimiter: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    quote: str | None = '"'


@dataclass(frozen=True, eq=False, repr=False)
class FrameSource:
    """Records of a frame, array or stream, in memory, on Dask or on Spark: which columns, and what of missing values.

    `columns` and `nulls` are as in `Files`.

    >>> import pandas as pd
    >>> visits = FrameSource(
    ...     pd.DataFrame({"north": [0.1], "east": [None]}), columns=("east", "north"), nulls="midpoint"
    ... )
    """

    records: Any
    columns: Sequence[str] | None = None
    nulls: Nulls = "refuse"


def checked_nulls(nulls: Nulls) -> Nulls:
    """Refuse what is not a known way to treat missing values."""
    if nulls not in NULLS:
        raise MethodError(f"must be one of {', '.join(NULLS)}; got {nulls!r}.", parameter="nulls")
    return nulls


@dataclass(frozen=True, repr=False)
class Batch:
    """Some records, column by column, as a list of arrays or an array (d, n); missing values are NaN.

    `place` names a column, and where it stands, without its values. `on_grid` says that they are grid points already,
    in whole steps.
    """

    columns: Sequence[AnyArray] | AnyArray
    place: Callable[[int, int], str]
    on_grid: bool = False

    @property
    def n(self) -> int:
        return len(self.columns[0])

    def rows(self) -> FloatArray:
        """The records as rows, shape (n, d); a view where they lie in an array."""
        if isinstance(self.columns, np.ndarray):
            return real_numbers(self.columns).T
        return np.column_stack([np.asarray(column, dtype=np.float64) for column in self.columns])

    def refuse_missing(self) -> None:
        """Raise for the first column with a missing value, or an infinite one."""
        for j, column in enumerate(self.columns):
            values = real_numbers(np.asarray(column))
            missing = np.isnan(values)
            if missing.any():
                raise DataError(
                    f"{self.place(int(np.argmax(missing)), j)} has empty cells or NaN; records must not hold NaN.",
                    hint="Drop or fill those records first; or put the middle of the bounds in their place with "
                    "{nulls='midpoint'}, or a value of your choice with 'missing' in a schema.",
                )
            infinite = np.isinf(values)
            if infinite.any():
                raise DataError(
                    f"{self.place(int(np.argmax(infinite)), j)} holds infinity; records must be finite.",
                    hint="Drop or clip those records first, or write infinite='clip' for this column in a schema.",
                )


class Piece(Protocol):
    """A part of the records that can be read any number of times."""

    @property
    def n_rows(self) -> int | None:
        """How many there are, if that is known without reading them."""

    def batches(self, rows: int) -> Iterator[Batch]:
        """The records, at most `rows` at a time."""

    def split(self, rows: int) -> Sequence[Piece]:
        """The same records in smaller pieces, in the same order, of at least `rows` records where that is possible."""


@dataclass(frozen=True, eq=False)
class Source:
    """Records in pieces, with the names of their columns. `keep` holds what must live as long as the pieces."""

    pieces: tuple[Piece, ...]
    names: tuple[str, ...] | None
    n_features: int
    nulls: Nulls = "refuse"
    keep: object = field(default=None, repr=False)

    def split(self, rows: int) -> Sequence[Piece]:
        """All records in pieces of at least `rows` records where that is possible."""
        return [small for piece in self.pieces for small in piece.split(rows)]

    def batches(self, rows: int) -> Iterator[Batch]:
        """All records, at most `rows` at a time."""
        known = [piece.n_rows for piece in self.pieces]
        stage(READING, None if None in known else sum(n or 0 for n in known))
        for piece in self.pieces:
            for batch in stoppable(piece.batches(rows)):
                yield batch
                advance(batch.n)


@dataclass(frozen=True, eq=False, repr=False)
class ArrayPiece:
    """Rows of an array that lies in memory or is a memory map. Errors call its columns by `names`, or number them."""

    array: AnyArray
    names: tuple[str, ...] | None = None

    @property
    def n_rows(self) -> int:
        return len(self.array)

    def batches(self, rows: int) -> Iterator[Batch]:
        for start in range(0, len(self.array), rows):
            yield array_batch(np.asarray(self.array[start : start + rows]), self.names)

    def split(self, rows: int) -> Sequence[Piece]:
        stops = [*range(rows, len(self.array) - rows + 1, rows), len(self.array)]
        return [ArrayPiece(self.array[start:stop], self.names) for start, stop in zip([0, *stops], stops, strict=False)]


@dataclass(frozen=True, eq=False, repr=False)
class IterablePiece:
    """Arrays (n_i, d) from an iterable that can be started again; empty ones are skipped."""

    iterable: Iterable[Any]
    n_features: int

    @property
    def n_rows(self) -> None:
        return

    def batches(self, rows: int) -> Iterator[Batch]:
        for array in _chunks(self.iterable):
            if array.shape[1] != self.n_features:
                raise DataError(
                    f"all arrays must have the same number of features; got {array.shape[1]} after {self.n_features}."
                )
            yield from ArrayPiece(array).batches(rows)

    def split(self, rows: int) -> Sequence[Piece]:
        return [self]


@dataclass(frozen=True, eq=False, repr=False)
class HeldPiece:
    """Batches that were read once and are kept."""

    held: tuple[Batch, ...]

    @property
    def n_rows(self) -> int:
        return sum(batch.n for batch in self.held)

    def batches(self, rows: int) -> Iterator[Batch]:
        return iter(self.held)

    def split(self, rows: int) -> Sequence[Piece]:
        return [self]


def array_batch(array: AnyArray, names: tuple[str, ...] | None = None) -> Batch:
    """Records of an array (n, d)."""
    return Batch(
        array.T, lambda _, j: f"column {names[j]!r} of the records" if names else f"column number {j} of the records"
    )


def arrow_batch(batch: Any, schema: Schema, whole: str) -> Batch:
    """Records of an Arrow record batch or table; `whole` is what errors call it."""
    places = places_of(schema, whole)
    return Batch(encode_columns(schema, batch.column, whole), lambda _, j: places[j])


def open_array(array: AnyArray, nulls: Nulls = "refuse", names: tuple[str, ...] | None = None) -> Source:
    """An array or a memory map."""
    return Source((ArrayPiece(array, names),), names, int(array.shape[1]), nulls)


def open_iterable(iterable: Iterable[Any], nulls: Nulls = "refuse") -> Source:
    """Arrays (n_i, d) from an iterable that can be started again for each pass; a generator cannot."""
    if iter(iterable) is iterable:
        raise DataError(
            "records are read several times, and an iterator can be read once. Pass something that can be started "
            "again, such as a list of arrays or an object with __iter__."
        )
    first = next(_chunks(iterable), None)
    if first is None:
        raise DataError("the iterable has no records. Give at least one.")
    d = int(first.shape[1])
    return Source((IterablePiece(iterable, d),), None, d, nulls)


def _chunks(iterable: Iterable[Any]) -> Iterator[AnyArray]:
    """The arrays of an iterable that hold records: whether one of them is empty may hang on a single record."""
    for item in iterable:
        if len(item):
            yield as_records(item)
