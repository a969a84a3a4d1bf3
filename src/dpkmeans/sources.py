"""Records that are read again for every pass: files, memory maps, Arrow streams, iterables. Bounded memory.

A source consists of pieces that can be read independently, here or on another machine. Errors name the file, the row
group and the column, and show no record.
"""

from __future__ import annotations

import glob
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dpkmeans.arrays import AnyArray
from dpkmeans.data import as_records
from dpkmeans.engines.packing import NULLS, Batch, Nulls
from dpkmeans.errors import DataError, FileError, MethodError
from dpkmeans.tables import (
    CSV_BLOCK,
    GZIP_MAGIC,
    choose_columns,
    csv_layout,
    damaged,
    first_bytes,
    is_parquet,
    no_rows,
    require_pyarrow,
)

_SPOOL_ROWS = 2**17
_READ_AT_ONCE = 2**18  # bytes of a column; without it, a whole row group is held
_PARQUET = (".parquet", ".pq")
_CSV = (".csv", ".csv.gz", ".txt", ".txt.gz")
_NO_FILES = "Give a Parquet or CSV file, a folder of them, or a pattern such as 'visits/*.parquet'."


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
                    columns = [_numbers(batch.column(name)) for name in self.columns]
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
        """It stays one piece."""
        return [self]


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
    return Batch([_numbers(batch.column(n)) for n in names], lambda row, j: f"column {names[j]!r} of {whole}")


def open_files(files: Files) -> Source:
    """Look at the files' names, columns and types, not yet at their records; CSV is converted once."""
    if files.nulls not in NULLS:
        raise MethodError(f"nulls must be one of {', '.join(NULLS)}; got {files.nulls!r}.")
    require_pyarrow()
    paths = find_files(files.path)
    kinds = {is_parquet(path, first_bytes(path)) for path in paths}
    if len(kinds) > 1:
        raise DataError(f"{paths[0].parent} holds both Parquet and CSV files. Give a pattern that names one kind.")
    if kinds == {True}:
        return _parquet_source(paths, files)
    return _csv_source(paths, files)


def find_files(path: str | Path | Sequence[str | Path]) -> list[Path]:
    """The files that a path, a folder or a pattern names, sorted."""
    if not isinstance(path, str | Path):
        return [found for one in path for found in find_files(one)]
    source = Path(path)
    if source.is_dir():
        inside = [p for p in sorted(source.rglob("*")) if p.is_file() and not p.name.startswith((".", "_"))]
        found = [p for p in inside if p.name.lower().endswith(_PARQUET)] or [
            p for p in inside if p.name.lower().endswith(_CSV)
        ]
        if not found:
            raise FileError(f"{source} holds no Parquet or CSV files. {_NO_FILES}")
        return found
    if source.exists() or not glob.has_magic(str(path)):
        return [source]
    found = sorted(Path(name) for name in glob.glob(str(path), recursive=True) if Path(name).is_file())
    if not found:
        raise FileError(f"no file matches {path}. {_NO_FILES}")
    return found


def _parquet_source(paths: list[Path], files: Files) -> Source:
    names: tuple[str, ...] | None = None
    pieces = []
    for path in paths:
        layout = _parquet_layout(path)
        if names is None:
            chosen = choose_columns(path, files.columns, layout.names, len(layout.names))
            names = tuple(layout.names[j] for j in chosen)
        for name in names:
            if name not in layout.names:
                raise DataError(f"{path} has no column {name!r}, which {paths[0]} has. {_SAME_COLUMNS}")
            check_type(layout.types[layout.names.index(name)], f"column {name!r} of {path}")
        extra = sorted(set(layout.names) - set(names))
        if files.columns is None and extra:
            raise DataError(f"{path} has a column {extra[0]!r}, which {paths[0]} has not. {_SAME_COLUMNS}")
        pieces.append(ParquetPiece(str(path), names, tuple(range(len(layout.sizes))), layout.sizes))
    assert names is not None
    if not any(piece.n_rows for piece in pieces):
        raise no_rows(paths[0])
    return Source(tuple(piece for piece in pieces if piece.n_rows), names, len(names), files.nulls)


_SAME_COLUMNS = "All files must have the same columns; choose those they share with --columns."


@dataclass(frozen=True)
class _ParquetLayout:
    names: tuple[str, ...]
    types: tuple[Any, ...]
    sizes: tuple[int, ...]


def _parquet_layout(path: Path) -> _ParquetLayout:
    pa = require_pyarrow()
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            schema, metadata = file.schema_arrow, file.metadata
            sizes = tuple(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
    except (OSError, EOFError, ValueError, pa.ArrowException):
        raise FileError(f"{path} is not a Parquet file, or it is damaged. Write it again.") from None
    if len(set(schema.names)) < len(schema.names):
        raise DataError(f"{path} has several columns of the same name. Rename them.")
    return _ParquetLayout(tuple(schema.names), tuple(schema.types), sizes)


def check_type(kind: Any, place: str) -> None:
    """Refuse an Arrow type that is not a kind of number."""
    from pyarrow import types

    if types.is_null(kind):
        raise DataError(f"{place} is empty. Leave it out with --columns.")
    if not any(is_kind(kind) for is_kind in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)):
        raise DataError(
            f"{place} does not hold numbers only (its type is {kind}). Leave it out with --columns, or convert it."
        )


def _numbers(column: Any) -> AnyArray:
    """A column as float64, NaN where it is null; without a copy where that is possible."""
    if str(column.type) != "double":
        column = column.cast("float64", safe=False)
    values: AnyArray = column.to_numpy(zero_copy_only=False) if column.null_count else column.to_numpy()
    return values


# --- what can be read only once, or slowly: converted to a temporary Parquet file ----------------------------


class Spool:
    """A Parquet file in a folder of its own that only this user may read. It goes when this object does."""

    def __init__(self, names: Sequence[str]) -> None:
        pa = require_pyarrow()
        from pyarrow import parquet

        folder = tempfile.mkdtemp(prefix="dpkmeans-")
        self.close = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.path = Path(folder) / "records.parquet"
        self._schema = pa.schema([(str(j), "float64") for j in range(len(names))])
        self._writer = parquet.ParquetWriter(self.path, self._schema, compression="zstd", compression_level=1)

    def write(self, batch: Batch, nulls: Nulls) -> None:
        """Add some records. Missing values are refused here, where their place is known."""
        pa = require_pyarrow()
        if nulls == "refuse":
            for j, column in enumerate(batch.columns):
                bad = np.isnan(np.asarray(column, dtype=np.float64))
                if bad.any():
                    raise DataError(
                        f"{batch.place(int(np.flatnonzero(bad)[0]), j)} has empty cells or NaN. Drop or fill those "
                        "records first, or put the middle of the bounds in their place with nulls='midpoint'."
                    )
        arrays = [pa.array(np.asarray(column, dtype=np.float64)) for column in batch.columns]
        self._writer.write_batch(pa.record_batch(arrays, schema=self._schema), row_group_size=_SPOOL_ROWS)

    def source(self, names: tuple[str, ...] | None, nulls: Nulls, whole: str) -> Source:
        """What was written, to be read any number of times."""
        self._writer.close()
        layout = _parquet_layout(self.path)
        if not layout.sizes:
            raise DataError(f"{whole} has no records. Give at least one.")
        piece = ParquetPiece(str(self.path), layout.names, tuple(range(len(layout.sizes))), layout.sizes)
        return Source((piece,), names, len(layout.names), nulls, keep=self)


def _csv_source(paths: list[Path], files: Files) -> Source:
    pa = require_pyarrow()
    from pyarrow import csv as arrow_csv

    names: tuple[str, ...] | None = None
    spool: Spool | None = None
    for path in paths:
        zipped = first_bytes(path).startswith(GZIP_MAGIC)
        layout = csv_layout(path, files.header, zipped=zipped)
        chosen = choose_columns(path, files.columns if names is None else names, layout.names, layout.n_columns)
        labels = [f"column {layout.names[j]!r}" if layout.names else f"column number {j}" for j in chosen]
        if spool is None:
            names = None if layout.names is None else tuple(layout.names[j] for j in chosen)
            spool, n_features = Spool(labels), len(chosen)
        if len(chosen) != n_features or (layout.names is None) != (names is None):
            raise DataError(f"{path} has other columns than {paths[0]}. {_SAME_COLUMNS}")
        numbers = [str(j) for j in range(layout.n_columns)]
        wanted = [numbers[j] for j in chosen]
        try:
            with pa.input_stream(str(path), compression="gzip" if zipped else None) as stream:
                reader = arrow_csv.open_csv(
                    stream,
                    arrow_csv.ReadOptions(
                        column_names=numbers, skip_rows=layout.lines_before_records, block_size=CSV_BLOCK
                    ),
                    convert_options=arrow_csv.ConvertOptions(
                        include_columns=wanted, column_types=dict.fromkeys(wanted, pa.float64())
                    ),
                )
                for batch in reader:
                    columns = [_numbers(batch.column(name)) for name in wanted]
                    spool.write(
                        Batch(columns, lambda row, j, path=path, labels=labels: f"{labels[j]} of {path}"),  # type: ignore[misc]
                        files.nulls,
                    )
        except pa.ArrowInvalid as error:  # its text may quote a record
            raise _bad_csv(path, str(error), layout.n_columns, layout.names) from None
        except (OSError, EOFError, pa.ArrowException):
            raise damaged(path) from None
    assert spool is not None
    return spool.source(names, files.nulls, str(paths[0]))


def _bad_csv(path: Path, message: str, n_columns: int, names: tuple[str, ...] | None) -> DataError:
    column = re.match(r"In CSV column #(\d+):.*CSV conversion error", message)
    if column and int(column[1]) < n_columns:
        j = int(column[1])
        label = repr(names[j]) if names else f"number {j}"
        return DataError(
            f"column {label} of {path} does not hold numbers only. Leave it out with --columns, or convert it."
        )
    return DataError(
        f"{path} is not a regular CSV file: some rows do not have as many cells as the first, which has {n_columns}. "
        "Separate cells by commas, and quote cells that hold a comma."
    )


def open_arrow_stream(stream: Any, columns: Sequence[str] | None = None, nulls: Nulls = "refuse") -> Source:
    """A record-batch reader, or anything with `__arrow_c_stream__`: read once, into a temporary Parquet file."""
    pa = require_pyarrow()
    whole = "the Arrow stream"
    reader = stream if isinstance(stream, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(stream)
    names = tuple(reader.schema.names)
    chosen = choose_columns(Path(whole), columns, names, len(names))
    if len(set(names)) < len(names):
        raise DataError(f"{whole} has several columns of the same name. Rename them.")
    names = tuple(names[j] for j in chosen)
    for j in chosen:
        check_type(reader.schema.field(j).type, f"column {reader.schema.names[j]!r} of {whole}")
    spool = Spool(names)
    for batch in reader:
        if batch.num_rows:
            spool.write(arrow_batch(batch, names, whole), nulls)
    return spool.source(names, nulls, whole)


def open_array(array: AnyArray) -> Source:
    """An array or a memory map."""
    return Source((ArrayPiece(array),), None, int(array.shape[1]))


def open_iterable(iterable: Iterable[Any]) -> Source:
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
    return Source((IterablePiece(iterable, d),), None, d)
