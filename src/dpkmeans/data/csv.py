"""CSV files: each cell is a number or missing by itself. Errors name the file and the column, and show no record.

A cell is a number as JSON writes it; also allowed are a plus sign, a point without digits on one side, `inf`, and
spaces around it. An empty cell and the words that Arrow knows (`NA`, `N/A`, `null`, `nan`, ...) are missing values.
Anything else is no number, `true`, `1_000` and `0x1A` included. No type is inferred: it would depend on other records.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpkmeans.data.numbers import numbers, require_pyarrow
from dpkmeans.data.parquet import SAME_COLUMNS
from dpkmeans.data.source import Batch, Files
from dpkmeans.data.spool import Unread
from dpkmeans.data.validate import choose_columns
from dpkmeans.errors import DataError, FileError, MethodError

_GZIP_MAGIC = b"\x1f\x8b"
_MAX_FIRST_ROW = 2**20
_BLOCK = 2**24


@dataclass(frozen=True)
class _CsvFile:
    """What is known of a CSV file from its first row. `chosen` are positions of columns, `labels` their names."""

    path: Path
    n_columns: int
    lines_before_records: int
    has_records: bool
    chosen: tuple[int, ...]
    labels: tuple[str, ...]


def open_csv(paths: list[Path], files: Files) -> Unread:
    """Read the first row of each file. One without records is skipped: a single record may decide whether it is one."""
    header = _has_header(paths[0], files)
    names, columns = None, files.columns
    known: list[_CsvFile] = []
    for path in paths:
        row = _first_row(path)
        if row is None:
            continue
        found = tuple(cell.strip() for cell in row.cells) if header else None
        if found is not None:
            _look_for(path, columns or (), found)
        chosen = tuple(choose_columns(path, columns, found, len(row.cells)))
        if known and columns is None and len(row.cells) != known[0].n_columns:
            raise DataError(f"{path} has other columns than {known[0].path}.", hint=SAME_COLUMNS)
        if found is None:
            labels, skipped = tuple(f"column number {j}" for j in chosen), 0
        else:
            names = columns = tuple(found[j] for j in chosen)
            labels, skipped = tuple(f"column {name!r}" for name in names), row.n_lines
        known.append(_CsvFile(path, len(row.cells), skipped, row.more or not header, chosen, labels))
    if not known:
        raise DataError(f"{paths[0]} is empty. Give a file with at least one record.")
    batches = (batch for file in known if file.has_records for batch in _batches(file))
    return Unread(names, len(known[0].chosen), files.nulls, batches, str(paths[0]))


def _has_header(path: Path, files: Files) -> bool:
    """What the caller says of the first row, or implies by naming columns; it is never looked at for this."""
    if isinstance(files.header, bool):
        return files.header
    if files.header is not None:
        raise MethodError(f"must be True or False; got {files.header!r}.", parameter="header")
    if files.columns is None or all(name.isdecimal() for name in files.columns):
        raise DataError(
            f"it is not known whether the first row of {path} holds names, and it is never guessed: a record could be "
            "taken for names and published.",
            hint="Write {header=True} if it holds names, {header=False} if it is a record; or name {columns}, which "
            "are then looked for in the first row.",
        )
    return True


def _look_for(path: Path, columns: Sequence[str], found: tuple[str, ...]) -> None:
    missing = [name for name in columns if name not in found]
    if missing:
        raise DataError(
            f"the first row of {path} does not hold the name(s) {', '.join(map(repr, missing))}.",
            hint="Names must match exactly, and cells must be separated by commas. If it is a record, write "
            "{header=False}; columns are then numbered from 0.",
        )


def _batches(file: _CsvFile) -> Iterator[Batch]:
    pa = require_pyarrow()
    from pyarrow import compute
    from pyarrow import csv as arrow_csv

    keys = [str(j) for j in range(file.n_columns)]
    wanted = [keys[j] for j in file.chosen]
    others = [key for key in keys if key not in wanted]
    types = dict.fromkeys(others, pa.string()) | dict.fromkeys(wanted, pa.float64())
    places = [f"{label} of {file.path}" for label in file.labels]
    try:
        with pa.input_stream(str(file.path), compression="gzip" if _is_zipped(file.path) else None) as stream:
            reader = arrow_csv.open_csv(
                stream,
                arrow_csv.ReadOptions(column_names=keys, skip_rows=file.lines_before_records, block_size=_BLOCK),
                convert_options=arrow_csv.ConvertOptions(include_columns=keys, column_types=types),
            )
            for batch in reader:
                odd = (compute.match_substring_regex(batch[key], "[\\r\\n\\x00]") for key in others)
                if any(compute.any(found).as_py() for found in odd):
                    raise _irregular(file, "")  # such as an unclosed quote, which takes in the records behind it
                if batch.num_rows:
                    columns = [numbers(batch.column(key), place) for key, place in zip(wanted, places, strict=True)]
                    yield Batch(columns, lambda _, j: places[j])
    except pa.ArrowInvalid as error:  # its text may quote a record
        raise _irregular(file, str(error)) from None
    except (OSError, EOFError, pa.ArrowException):
        raise _damaged(file.path) from None


def _irregular(file: _CsvFile, message: str) -> DataError:
    column = re.match(r"In CSV column #(\d+):.*CSV conversion error", message, re.DOTALL)
    if column and int(column[1]) in file.chosen:
        label = file.labels[file.chosen.index(int(column[1]))]
        return DataError(
            f"{label} of {file.path} does not hold numbers only.",
            hint="Leave it out with {columns}, or convert it"
            + ("." if file.lines_before_records else "; if the first row holds names, write {header=True}."),
        )
    return DataError(
        f"{file.path} is not a regular CSV file: some rows do not have as many cells as the first, which has "
        f"{file.n_columns}, or go over several lines. Separate cells by commas, and close quotes."
    )


@dataclass(frozen=True, repr=False)
class _Row:
    """The first row that is not blank, the number of lines up to its end, and whether more rows follow."""

    cells: list[str]
    n_lines: int
    more: bool


def _is_zipped(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == _GZIP_MAGIC


def _first_row(path: Path) -> _Row | None:
    """None where there is no row at all."""
    try:
        with gzip.open(path, "rb") if _is_zipped(path) else path.open("rb") as file:
            start = file.read(_MAX_FIRST_ROW)
    except (OSError, EOFError, zlib.error):
        raise _damaged(path) from None
    lines = io.StringIO(start.decode("utf-8-sig", "surrogateescape"), newline="")
    reader = csv.reader(lines)
    try:
        for cells in reader:
            if cells:
                if re.search("[\0\udc80-\udcff]", "".join(cells)):  # a byte that is no text
                    raise FileError(f"{path} is neither CSV in UTF-8 nor Parquet. Convert it first.")
                return _Row(cells, reader.line_num, len(start) == _MAX_FIRST_ROW or lines.read().strip("\r\n") != "")
    except csv.Error:
        raise FileError(f"the first row of {path} cannot be read as CSV. Separate cells by commas.") from None
    return None


def _damaged(path: Path) -> FileError:
    return FileError(f"{path} is damaged: it cannot be read to its end. Restore it or write it again.")
