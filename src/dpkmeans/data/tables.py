"""Records from CSV and Parquet files. Errors name the file and the column, and show no record."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.errors import DataError, FileError

GZIP_MAGIC = b"\x1f\x8b"
_PARQUET_MAGIC = b"PAR1"
_MAX_FIRST_ROW = 2**20
CSV_BLOCK = 2**24
_HEADER_HINT = "Write {header=True} if the first row holds names, {header=False} if it is a record."


@dataclass(frozen=True, repr=False)
class Table:
    """Records of shape (n, d), which are private, and the names of their columns, which are public."""

    records: FloatArray
    names: tuple[str, ...] | None


@dataclass(frozen=True)
class Layout:
    """What is known of a CSV file from its first row."""

    n_columns: int
    names: tuple[str, ...] | None
    lines_before_records: int


def read_table(path: str | Path, *, columns: Sequence[str] | None = None, header: bool | None = None) -> Table:
    """Read a CSV file (plain or gzip) or one Parquet file.

    Parameters
    ----------
    path : the file. Parquet is known by its ending (`.parquet`, `.pq`) or its first bytes; all else is CSV.
    columns : what to read, in this order: names, or numbers from 0 where the file has no header. All by default.
    header : whether the first row of a CSV file holds names. By default it does unless all its cells are numbers.
        A first row that mixes the two is an error, since a record taken for names could be printed.
    """
    source = Path(path)
    start = first_bytes(source)
    if is_parquet(source, start):
        return _read_parquet(source, columns)
    return _read_csv(source, columns, header, zipped=start.startswith(GZIP_MAGIC))


def has_names(path: str | Path, *, header: bool | None = None) -> bool:
    """Whether the file names its columns: Parquet does, CSV by its header; see `read_table`."""
    source = Path(path)
    start = first_bytes(source)
    if is_parquet(source, start):
        return True
    return csv_layout(source, header, zipped=start.startswith(GZIP_MAGIC)).names is not None


def is_parquet(source: Path, start: bytes) -> bool:
    """By its ending or its first bytes."""
    return source.suffix.lower() in {".parquet", ".pq"} or start == _PARQUET_MAGIC


def first_bytes(source: Path) -> bytes:
    """The first four bytes of a file, which tell formats apart."""
    if source.is_dir():
        raise FileError(f"{source} is a folder. Give one CSV or Parquet file.")
    try:
        with source.open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise FileError(f"cannot read {source}: {error.strerror or type(error).__name__}.") from None
    if not start:
        raise DataError(f"{source} is empty. Give a file with at least one record.")
    return start


def require_pyarrow() -> Any:
    """The module, or an error that says how to install it."""
    try:
        import pyarrow
    except ImportError:
        raise FileError("Reading files needs pyarrow. Install it with: pip install 'dpkmeans[files]'") from None
    return pyarrow


def _read_csv(source: Path, columns: Sequence[str] | None, header: bool | None, *, zipped: bool) -> Table:
    pa = require_pyarrow()
    from pyarrow import csv as arrow_csv

    layout = csv_layout(source, header, zipped=zipped)
    chosen = choose_columns(source, columns, layout.names, layout.n_columns)
    numbers = [str(j) for j in range(layout.n_columns)]
    try:
        with pa.input_stream(str(source), compression="gzip" if zipped else None) as stream:
            table = arrow_csv.read_csv(
                stream,
                arrow_csv.ReadOptions(
                    column_names=numbers, skip_rows=layout.lines_before_records, block_size=CSV_BLOCK
                ),
                convert_options=arrow_csv.ConvertOptions(include_columns=[numbers[j] for j in chosen]),
            )
    except pa.ArrowInvalid:  # its text may quote a record
        raise DataError(
            f"{source} is not a regular CSV file: some rows do not have as many cells as the first, which has "
            f"{layout.n_columns}. Separate cells by commas, and quote cells that hold a comma."
        ) from None
    except (OSError, EOFError, pa.ArrowException):
        raise damaged(source) from None
    return _as_table(source, table, chosen, layout.names)


def csv_layout(source: Path, header: bool | None, *, zipped: bool) -> Layout:
    """Columns, names and header of a CSV file, from its first row."""
    first, n_lines, more = _first_row(source, zipped=zipped)
    numeric = [_is_number(cell) for cell in first]
    if header is None:
        if any(numeric) and not all(numeric):
            raise DataError(
                f"cannot tell whether the first row of {source} is a header: some of its cells are numbers, "
                "some are not.",
                hint=_HEADER_HINT,
            )
        header = not any(numeric)
    if header and not more:
        raise no_rows(source)
    if header:
        return Layout(len(first), tuple(cell.strip() for cell in first), n_lines)
    return Layout(len(first), None, 0)


def _first_row(source: Path, *, zipped: bool) -> tuple[list[str], int, bool]:
    """The first row that is not blank, the number of lines up to its end, and whether more rows follow."""
    try:
        with gzip.open(source, "rb") if zipped else source.open("rb") as file:
            start = file.read(_MAX_FIRST_ROW)
    except (OSError, EOFError, zlib.error):
        raise damaged(source) from None
    try:
        text = start.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start < len(start) - 4:  # not just a character cut in two at the end of what was read
            raise FileError(f"{source} is neither CSV in UTF-8 nor Parquet. Convert it first.") from None
        text = start[: error.start].decode("utf-8-sig")
    if "\0" in text:
        raise FileError(f"{source} is neither CSV in UTF-8 nor Parquet. Convert it first.")
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        for row in reader:
            if row:
                n_lines = reader.line_num
                return row, n_lines, len(start) == _MAX_FIRST_ROW or any(reader)
    except csv.Error:
        raise FileError(f"the first row of {source} cannot be read as CSV. Separate cells by commas.") from None
    raise DataError(f"{source} is empty. Give a file with at least one record.")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_parquet(source: Path, columns: Sequence[str] | None) -> Table:
    pa = require_pyarrow()
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(source) as file:
            names = tuple(file.schema_arrow.names)
            chosen = choose_columns(source, columns, names, len(names))
            if len(set(names)) < len(names):
                raise DataError(f"{source} has several columns of the same name. Rename them.")
            table = file.read(columns=[names[j] for j in chosen])
    except (DataError, FileError):
        raise
    except (OSError, EOFError, ValueError, pa.ArrowException):
        raise FileError(f"{source} is not a Parquet file, or it is damaged. Write it again.") from None
    return _as_table(source, table, chosen, names)


def choose_columns(source: Path, columns: Sequence[str] | None, names: tuple[str, ...] | None, n: int) -> list[int]:
    """Positions of the columns that were asked for."""
    if columns is None:
        return list(range(n))
    if not columns:
        raise DataError(f"no columns were asked for. {_known(names, n)}")
    if len(set(columns)) < len(columns):
        raise DataError(f"a column was asked for twice: {', '.join(columns)}. Name each once.")
    keys = [str(j) for j in range(n)] if names is None else list(names)
    for column in columns:
        if column not in keys:
            raise DataError(f"{source} has no column {column!r}. {_known(names, n)}")
        if keys.count(column) > 1:
            raise DataError(f"{source} has several columns called {column!r}. Rename them.")
    return [keys.index(column) for column in columns]


def _known(names: tuple[str, ...] | None, n: int) -> str:
    if names is None:
        return f"It has no header; its columns are numbered 0 to {n - 1}."
    return f"It has: {', '.join(names)}."


def _as_table(source: Path, table: Any, chosen: list[int], names: tuple[str, ...] | None) -> Table:
    if table.num_rows == 0:
        raise no_rows(source)
    records = np.empty((table.num_rows, len(chosen)))
    labels = [repr(names[j]) if names is not None else f"number {j}" for j in chosen]
    for place, label in enumerate(labels):
        if not _holds_numbers(table.column(place).type):
            raise _not_numbers(source, table, labels, place)
        records[:, place] = _as_numbers(source, table.column(place), label)
    return Table(records, None if names is None else tuple(names[j] for j in chosen))


def _holds_numbers(kind: Any) -> bool:
    from pyarrow import types

    return any(is_kind(kind) for is_kind in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal))


def _not_numbers(source: Path, table: Any, labels: list[str], place: int) -> DataError:
    """The error for a column of another type, with the columns that could be used."""
    from pyarrow import types

    kind = table.column(place).type
    if types.is_null(kind):
        return DataError(f"column {labels[place]} of {source} is empty.", hint="Leave it out with {columns}.")
    good = [label for i, label in enumerate(labels) if _holds_numbers(table.column(i).type)]
    others = f"Numbers are in: {', '.join(good[:20])}." if good else "No column holds numbers."
    return DataError(
        f"column {labels[place]} of {source} does not hold numbers only (its type is {kind}). {others}",
        hint="Leave it out with {columns}, or convert it.",
    )


def _as_numbers(source: Path, column: Any, label: str) -> FloatArray:
    values: FloatArray = np.asarray(column.cast("float64", safe=False).to_numpy(), dtype=np.float64)
    if column.null_count or np.isnan(values).any():
        raise DataError(
            f"column {label} of {source} has empty cells or NaN.",
            hint="Drop or fill those records first, or put the middle of the bounds in their place with "
            "{nulls='midpoint'}.",
        )
    return values


def no_rows(source: Path) -> DataError:
    """The error for a file without records."""
    return DataError(f"{source} has no records, only a header. Give a file with at least one record.")


def damaged(source: Path) -> FileError:
    """The error for a file that ends too early."""
    return FileError(f"{source} is damaged: it cannot be read to its end. Restore it or write it again.")
