"""CSV files: each cell is a number or missing by itself. Errors name the file and the column, and show no record.

A cell is a number as JSON writes it; also allowed are a plus sign, a point without digits on one side, `inf`, and
spaces around it. The decimal mark is the declared one; nothing separates thousands. An empty cell and the words that
Arrow knows (`NA`, `N/A`, `null`, `nan`, ...) are missing values. Anything else is no number, `true`, `1_000` and `0x1A`
included. No type is inferred: it would depend on other records.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpkmeans.core.kinds import Kind, Number
from dpkmeans.core.schema import Schema
from dpkmeans.data.dialect import Dialect, compression_of
from dpkmeans.data.encode import encode
from dpkmeans.data.fingerprint import Fingerprint, unchanged
from dpkmeans.data.numbers import require_pyarrow
from dpkmeans.data.parquet import SAME_COLUMNS
from dpkmeans.data.source import Batch, Files, Piece
from dpkmeans.data.spool import Unread
from dpkmeans.data.validate import choose_columns
from dpkmeans.errors import DataError, FileError, MethodError, MissingFileError

_MAX_FIRST_ROW = 2**20
_BLOCK = 2**24


@dataclass(frozen=True)
class CsvFile:
    """What is known of a CSV file from its first row. `chosen` are positions of columns.

    `names` are theirs, where the first row was declared to hold names; `hint` is about that row, and empty otherwise.
    """

    path: Path
    dialect: Dialect
    n_columns: int
    lines_before_records: int
    has_records: bool
    chosen: tuple[int, ...]
    names: tuple[str, ...] | None
    hint: str = ""
    fingerprint: Fingerprint | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """What errors call the chosen columns."""
        if self.names is None:
            return tuple(f"column number {j}" for j in self.chosen)
        return tuple(f"column {name!r}" for name in self.names)

    def read(self, types: Sequence[Any]) -> Iterator[Any]:
        """Arrow batches of the chosen columns, each as its Arrow type: `float64`, or `string` for text as it stands."""
        with unchanged(self.path, self.fingerprint):
            yield from self._read(types)

    def _read(self, types: Sequence[Any]) -> Iterator[Any]:
        pa = require_pyarrow()
        from pyarrow import csv as arrow_csv

        keys = [str(j) for j in range(self.n_columns)]
        wanted = [keys[j] for j in self.chosen]
        kinds = dict.fromkeys(keys, pa.string()) | dict(zip(wanted, types, strict=True))
        texts = [key for key in keys if pa.types.is_string(kinds[key])]
        dialect = self.dialect
        try:
            with dialect.open(self.path) as stream:
                reader = arrow_csv.open_csv(
                    stream,
                    arrow_csv.ReadOptions(column_names=keys, skip_rows=self.lines_before_records, block_size=_BLOCK),
                    arrow_csv.ParseOptions(delimiter=dialect.delimiter, quote_char=dialect.quote or False),
                    arrow_csv.ConvertOptions(include_columns=keys, column_types=kinds, decimal_point=dialect.decimal),
                )
                for batch in reader:
                    if any(_holds_line_end(batch[key]) for key in texts):
                        raise self._irregular("")  # such as an unclosed quote, which takes in the records behind it
                    if batch.num_rows:
                        yield batch.select(wanted)
        except UnicodeError:
            raise dialect.not_text(self.path) from None
        except pa.ArrowInvalid as error:  # its text may quote a record
            raise self._irregular(str(error)) from None
        except FileNotFoundError:
            raise MissingFileError.at(self.path) from None
        except MemoryError:  # Arrow's is one of its other errors too
            raise
        except (OSError, EOFError, pa.ArrowException):
            raise _damaged(self.path) from None

    def _irregular(self, message: str) -> DataError | FileError:
        column = re.match(r"In CSV column #(\d+):.*CSV conversion error", message, re.DOTALL)
        if "invalid UTF8 data" in message:
            return self.dialect.not_text(self.path)
        if column and int(column[1]) in self.chosen:
            label = self.labels[self.chosen.index(int(column[1]))]
            other, example = (",", "1,5") if self.dialect.decimal == "." else (".", "1.5")
            header = "" if self.lines_before_records else "If the first row holds names, write {header=True}."
            return DataError(
                f"{label} of {self.path} does not hold numbers only.",
                hint=self.hint
                or _sentences(
                    "Leave it out with {columns}, or declare its kind (category, date, boolean) with {schema}.",
                    f"If its numbers are written like {example}, write {{decimal={other!r}}}.",
                    header,
                ),
            )
        return DataError(
            f"{self.path} is not a regular CSV file: some rows do not have as many cells as the first, which has "
            f"{self.n_columns}, or go over several lines. Separate cells by {self.dialect.separator} and close quotes.",
            hint=self.hint or "Other ways to write CSV are declared with {delimiter}, {decimal} and {quote}.",
        )


@dataclass(frozen=True)
class CsvPiece:
    """One CSV file, for a worker to read; its path is absolute. It cannot be split."""

    file: CsvFile
    kinds: tuple[Kind, ...]

    @property
    def n_rows(self) -> None:
        return

    def batches(self, rows: int) -> Iterator[Batch]:
        """As many records at a time as lie in a block of the file."""
        return _batches(self.file, self.kinds)

    def split(self, rows: int) -> Sequence[Piece]:
        return [self]


def open_csv(paths: list[Path], files: Files, schema: Schema | None = None) -> Unread:
    """The columns that were asked for, or those of the schema. Only the first row of each file is read here."""
    known = csv_files(paths, files)
    kinds = (Number(),) * len(known[0].chosen) if schema is None else tuple(column.kind for column in schema.columns)
    names = known[-1].names if schema is None else schema.coordinates
    n_features = len(kinds) if schema is None else len(schema.coordinates)
    with_records = [file for file in known if file.has_records]
    batches = (batch for file in with_records for batch in _batches(file, kinds))
    pieces = tuple(CsvPiece(replace(file, path=file.path.absolute()), kinds) for file in with_records)
    return Unread(names, n_features, files.nulls, batches, str(paths[0]), pieces, _n_blocks(with_records))


def _n_blocks(files: Sequence[CsvFile]) -> int | None:
    """In how many blocks the files are read; not known of those that are compressed."""
    try:
        if any(compression_of(file.path) is not None for file in files):
            return None
        return sum(-(-file.path.stat().st_size // _BLOCK) for file in files)
    except OSError:
        return None  # whoever reads it says what is wrong


def csv_files(paths: list[Path], files: Files) -> list[CsvFile]:
    """What the first rows say. A file without any row is left out: a single record may decide whether it has one."""
    header, columns, dialect = _has_header(paths[0], files), files.columns, dialect_of(files)
    known: list[CsvFile] = []
    for path in paths:
        fingerprint = Fingerprint.of(path)
        row = _first_row(path, dialect)
        if row is None:
            continue
        found = tuple(cell.strip() for cell in row.cells) if header else None
        hint = "" if found is None else dialect.other_separators(found)
        if found is not None:
            _look_for(path, columns or (), found, hint)
        chosen = tuple(choose_columns(path, columns, found, len(row.cells)))
        if known and columns is None and len(row.cells) != known[0].n_columns:
            raise DataError(f"{path} does not have the columns of {known[0].path}.", hint=SAME_COLUMNS)
        names = None if found is None else tuple(found[j] for j in chosen)
        columns = columns if names is None else names
        skipped = row.n_lines if header else 0
        more = row.more or not header
        known.append(CsvFile(path, dialect, len(row.cells), skipped, more, chosen, names, hint, fingerprint))
    if not known:
        raise DataError(f"{paths[0]} is empty. Give a file with at least one record.")
    return known


def dialect_of(files: Files) -> Dialect:
    """How the caller says that the files are written."""
    return Dialect(files.delimiter, files.decimal, files.encoding, files.quote)


def _batches(file: CsvFile, kinds: Sequence[Kind]) -> Iterator[Batch]:
    """Numbers are read as such, all else as text, of which the kind makes sense."""
    pa = require_pyarrow()
    labels = [f"{label} of {file.path}" for label in file.labels]
    places = [label for label, kind in zip(labels, kinds, strict=True) for _ in kind.coordinates("")]
    for batch in file.read([pa.float64() if isinstance(kind, Number) else pa.string() for kind in kinds]):
        columns = zip(batch.columns, kinds, labels, strict=True)
        encoded = [values for column, kind, label in columns for values in encode(column, kind, label)]
        yield Batch(encoded, lambda _, j: places[j])


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


def _look_for(path: Path, columns: Sequence[str], found: tuple[str, ...], hint: str) -> None:
    """Refuse names that are not there. Those that are there are not listed: the row may be a record all the same."""
    missing = [name for name in columns if name not in found]
    if missing:
        raise DataError(
            f"the first row of {path} does not hold the name(s) {', '.join(map(repr, missing))}.",
            hint=hint
            or "Names must match exactly, capitals included. If the row is a record, write {header=False}; columns are "
            "then numbered from 0.",
        )


@dataclass(frozen=True, repr=False)
class _Row:
    """The first row that is not blank, the number of lines up to its end, and whether more rows follow."""

    cells: list[str]
    n_lines: int
    more: bool


def _first_row(path: Path, dialect: Dialect) -> _Row | None:
    """None where there is no row at all."""
    pa = require_pyarrow()
    try:
        with dialect.open(path) as file:
            start = b""
            while len(start) < _MAX_FIRST_ROW and (part := file.read(_MAX_FIRST_ROW)):  # one read may give less
                start += part
    except UnicodeError:
        raise dialect.not_text(path) from None
    except MemoryError:  # Arrow's is one of its other errors too
        raise
    except (OSError, EOFError, pa.ArrowException):
        raise _damaged(path) from None
    lines = io.StringIO(start.decode("utf-8-sig", "surrogateescape"), newline="")
    reader = csv.reader(
        lines,
        delimiter=dialect.delimiter,
        quotechar=dialect.quote,
        quoting=csv.QUOTE_NONE if dialect.quote is None else csv.QUOTE_MINIMAL,
    )
    try:
        for cells in reader:
            if cells:
                if re.search("[\0\udc80-\udcff]", "".join(cells)):  # a byte that is no text
                    raise dialect.not_text(path)
                return _Row(cells, reader.line_num, len(start) >= _MAX_FIRST_ROW or lines.read().strip("\r\n") != "")
    except csv.Error:
        raise FileError(
            f"the first row of {path} cannot be read as CSV. Separate cells by {dialect.separator}."
        ) from None
    return None


def _sentences(*texts: str) -> str:
    return " ".join(text for text in texts if text)


def _holds_line_end(texts: Any) -> bool:
    from pyarrow import compute

    return bool(compute.any(compute.match_substring_regex(texts, "[\\r\\n\\x00]")).as_py())


def _damaged(path: Path) -> FileError:
    return FileError(f"{path} is damaged: it cannot be read to its end. Restore it or write it again.")
