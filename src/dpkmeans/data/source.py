"""Records that are read again for every pass: files, memory maps, Arrow streams, iterables. Bounded memory.

A source consists of pieces that can be read independently, here or on another machine. Errors name the file, the row
group and the column, and show no record. `source_files` finds files; `spool` keeps what can be read only once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dpkmeans._typing import AnyArray
from dpkmeans.data.tables import require_pyarrow
from dpkmeans.data.validate import as_records
from dpkmeans.engines.packing import NULLS, Batch, Nulls
from dpkmeans.errors import DataError, FileError, MethodError

_READ_AT_ONCE = 2**18  # bytes of a column; without it, a whole row group is held


@dataclass(frozen=True)
class Files:
    """Files of records: one path, a folder, a pattern, or several of them, read in the order of their names.

    `columns` are names, in the order of the features; `nulls` says what becomes of missing values: `"refuse"`, or
    `"midpoint"`, the middle of the bounds. `header` is for CSV; see `tables.read_table`.

    >>> Files("visits/*.parquet", columns=("east", "north"))
    Files(path='visits/*.parquet', columns=('east', 'north'), nulls='refuse', header=None)
    """

    path: str | Path | Sequence[str | Path]
    columns: Sequence[str] | None = None
    nulls: Nulls = "refuse"
    header: bool | None = None


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


class Piece(Protocol):
    """A part of the records that can be read any number of times."""

    @property
    def n_rows(self) -> int | None:
        """How many there are, if that is known without reading them."""
        ...

    def batches(self, rows: int) -> Iterator[Batch]:
        """The records, at most `rows` at a time."""
        ...

    def split(self, rows: int) -> Sequence[Piece]:
        """The same records in smaller pieces, in the same order, of at least `rows` records where that is possible."""
        ...


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


@dataclass(frozen=True)
class ParquetPiece:
    """Row groups of one Parquet file; `sizes` says how many rows each has."""

    path: str
    columns: tuple[str, ...]
    row_groups: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def n_rows(self) -> int:
        """From the file's footer."""
        return sum(self.sizes)

    def batches(self, rows: int) -> Iterator[Batch]:
        """By `ParquetFile.iter_batches`, which holds one row group at most."""
        pa = require_pyarrow()
        from pyarrow import parquet

        seen = 0
        try:
            with parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=_READ_AT_ONCE) as file:
                groups, names = list(self.row_groups), list(self.columns)
                for batch in file.iter_batches(rows, row_groups=groups, columns=names, use_threads=False):
                    columns = [numbers(batch.column(name)) for name in self.columns]
                    yield Batch(columns, lambda row, j, seen=seen: self._place(seen + row, j))  # type: ignore[misc]
                    seen += batch.num_rows
        except (OSError, EOFError, pa.ArrowException):
            raise FileError(f"{self.path} is damaged, or it changed while it was read. Write it again.") from None

    def split(self, rows: int) -> Sequence[Piece]:
        """Runs of row groups: the file's footer is read once for each of them."""
        pieces, start, n = [], 0, 0
        for stop, size in enumerate(self.sizes, 1):
            n += size
            if n >= rows or stop == len(self.sizes):
                run = slice(start, stop)
                pieces.append(ParquetPiece(self.path, self.columns, self.row_groups[run], self.sizes[run]))
                start, n = stop, 0
        return pieces

    def _place(self, row: int, j: int) -> str:
        group = self.row_groups[int(np.searchsorted(np.cumsum(self.sizes), row, side="right"))]
        return f"column {self.columns[j]!r} of {self.path}, row group {group},"


@dataclass(frozen=True, eq=False, repr=False)
class ArrayPiece:
    """Rows of an array that lies in memory or is a memory map."""

    array: AnyArray

    @property
    def n_rows(self) -> int:
        """Its length."""
        return len(self.array)

    def batches(self, rows: int) -> Iterator[Batch]:
        """Slices."""
        for start in range(0, len(self.array), rows):
            yield array_batch(np.asarray(self.array[start : start + rows]))

    def split(self, rows: int) -> Sequence[Piece]:
        """Slices."""
        stops = [*range(rows, len(self.array) - rows + 1, rows), len(self.array)]
        return [ArrayPiece(self.array[start:stop]) for start, stop in zip([0, *stops], stops, strict=False)]


@dataclass(frozen=True, eq=False, repr=False)
class IterablePiece:
    """Arrays (n_i, d) from an iterable that can be started again."""

    iterable: Iterable[Any]
    n_features: int

    @property
    def n_rows(self) -> None:
        """Not known before reading."""
        return

    def batches(self, rows: int) -> Iterator[Batch]:
        """Each array in slices."""
        for item in self.iterable:
            array = as_records(item)
            if array.shape[1] != self.n_features:
                raise DataError(
                    f"all arrays must have the same number of features; got {array.shape[1]} after {self.n_features}."
                )
            yield from ArrayPiece(array).batches(rows)

    def split(self, rows: int) -> Sequence[Piece]:
        """It stays one piece."""
        return [self]


def array_batch(array: AnyArray) -> Batch:
    """Records of an array (n, d)."""
    return Batch([array[:, j] for j in range(array.shape[1])], lambda row, j: f"column number {j} of the records")


def arrow_batch(batch: Any, names: Sequence[str], whole: str) -> Batch:
    """Records of an Arrow record batch or table; `whole` is what errors call it."""
    return Batch([numbers(batch.column(n)) for n in names], lambda row, j: f"column {names[j]!r} of {whole}")


def check_type(kind: Any, place: str) -> None:
    """Refuse an Arrow type that is not a kind of number."""
    from pyarrow import types

    if types.is_null(kind):
        raise DataError(f"{place} is empty.", hint="Leave it out with {columns}.")
    if not any(is_kind(kind) for is_kind in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)):
        raise DataError(
            f"{place} does not hold numbers only (its type is {kind}).",
            hint="Leave it out with {columns}, or convert it.",
        )


def numbers(column: Any) -> AnyArray:
    """A column as float64, NaN where it is null; without a copy where that is possible."""
    if str(column.type) != "double":
        column = column.cast("float64", safe=False)
    values: AnyArray = column.to_numpy(zero_copy_only=False) if column.null_count else column.to_numpy()
    return values


def open_array(array: AnyArray, nulls: Nulls = "refuse") -> Source:
    """An array or a memory map."""
    return Source((ArrayPiece(array),), None, int(array.shape[1]), nulls)


def open_iterable(iterable: Iterable[Any], nulls: Nulls = "refuse") -> Source:
    """Arrays (n_i, d) from an iterable that can be started again for each pass; a generator cannot."""
    iterator = iter(iterable)
    if iterator is iterable:
        raise DataError(
            "records are read several times, and an iterator can be read once. Pass something that can be started "
            "again, such as a list of arrays or an object with __iter__."
        )
    first = next(iterator, None)
    if first is None:
        raise DataError("the iterable has no records. Give at least one.")
    d = int(as_records(first).shape[1])
    return Source((IterablePiece(iterable, d),), None, d, nulls)
