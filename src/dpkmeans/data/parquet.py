"""Parquet files as a source: their footers say what is in them, and row groups are read on their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpkmeans.core.schema import Schema
from dpkmeans.data.encode import check_type, encode_columns, places_of
from dpkmeans.data.fingerprint import Fingerprint, unchanged
from dpkmeans.data.numbers import require_pyarrow
from dpkmeans.data.source import Batch, Files, Piece, Source
from dpkmeans.data.validate import choose_columns
from dpkmeans.errors import DataError, FileError, MissingFileError

SAME_COLUMNS = "All files must have the same columns; choose those they share with {columns}."
_READ_AT_ONCE = 2**18  # bytes of a column; without it, a whole row group is held


@dataclass(frozen=True)
class ParquetPiece:
    """Row groups of one Parquet file; `sizes` says how many rows each has. `path` is absolute: workers read it."""

    path: str
    schema: Schema
    row_groups: tuple[int, ...]
    sizes: tuple[int, ...]
    fingerprint: Fingerprint | None = None

    @property
    def n_rows(self) -> int:
        return sum(self.sizes)

    def batches(self, rows: int) -> Iterator[Batch]:
        """By `ParquetFile.iter_batches`, which holds one row group at most. Checksums of pages are checked."""
        with unchanged(self.path, self.fingerprint):
            yield from self._read(rows)

    def _read(self, rows: int) -> Iterator[Batch]:
        pa = require_pyarrow()

        seen = 0
        try:
            with open_parquet(self.path) as file:
                groups, names = list(self.row_groups), list(self.schema.names)
                for batch in file.iter_batches(rows, row_groups=groups, columns=names, use_threads=False):
                    columns = encode_columns(self.schema, batch.column, self.path)
                    yield Batch(columns, lambda row, j, seen=seen: self._place(seen + row, j))  # type: ignore[misc]
                    seen += batch.num_rows
        except FileNotFoundError:
            raise MissingFileError.at(self.path) from None
        except MemoryError:  # Arrow's is one of its other errors too
            raise
        except (OSError, EOFError, pa.ArrowException):
            raise _damaged(self.path) from None
        if seen != self.n_rows:
            raise _damaged(self.path)

    def split(self, rows: int) -> Sequence[Piece]:
        """Runs of row groups: the file's footer is read once for each of them."""
        pieces, start, n = [], 0, 0
        for stop, size in enumerate(self.sizes, 1):
            n += size
            if n >= rows or stop == len(self.sizes):
                run = slice(start, stop)
                pieces.append(replace(self, row_groups=self.row_groups[run], sizes=self.sizes[run]))
                start, n = stop, 0
        return pieces

    def _place(self, row: int, j: int) -> str:
        group = self.row_groups[int(np.searchsorted(np.cumsum(self.sizes), row, side="right"))]
        return f"{places_of(self.schema, self.path)[j]}, row group {group},"


def parquet_source(paths: list[Path], files: Files, schema: Schema | None = None) -> Source:
    """Look at the footers; the records are read in each pass."""
    columns = files.columns if schema is None else schema.names
    pieces: list[ParquetPiece] = []
    for path in paths:
        layout = parquet_layout(path)
        if not pieces:
            chosen = choose_columns(path, columns, layout.names, len(layout.names))
            schema = schema or Schema.of_numbers(layout.names[j] for j in chosen)
        assert schema is not None
        for column in schema.columns:
            if column.name not in layout.names:
                raise DataError(f"{path} has no column {column.name!r}, which {paths[0]} has.", hint=SAME_COLUMNS)
            check_type(layout.types[layout.names.index(column.name)], column.kind, f"column {column.name!r} of {path}")
        extra = sorted(set(layout.names) - set(schema.names))
        if columns is None and extra:
            raise DataError(f"{path} has a column {extra[0]!r}, which {paths[0]} does not have.", hint=SAME_COLUMNS)
        groups = tuple(range(len(layout.sizes)))
        pieces.append(ParquetPiece(str(path.absolute()), schema, groups, layout.sizes, layout.fingerprint))
    assert schema is not None
    if not any(piece.n_rows for piece in pieces):
        raise DataError(f"{paths[0]} has no records. Give a file with at least one record.")
    return Source(
        tuple(piece for piece in pieces if piece.n_rows), schema.coordinates, len(schema.coordinates), files.nulls
    )


@dataclass(frozen=True)
class ParquetLayout:
    """What a Parquet file's footer says."""

    names: tuple[str, ...]
    types: tuple[Any, ...]
    sizes: tuple[int, ...]
    fingerprint: Fingerprint


def parquet_layout(path: Path) -> ParquetLayout:
    """Look at the footer of a Parquet file."""
    pa = require_pyarrow()
    fingerprint = Fingerprint.of(path)
    try:
        with open_parquet(path) as file:
            schema, metadata = file.schema_arrow, file.metadata
            sizes = tuple(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
    except MemoryError:  # Arrow's is one of its other errors too
        raise
    except (OSError, EOFError, ValueError, pa.ArrowException):
        raise FileError(f"{path} is not a Parquet file, or it is damaged. Write it again.") from None
    if len(set(schema.names)) < len(schema.names):
        raise DataError(f"{path} has several columns of the same name. Rename them.")
    return ParquetLayout(tuple(schema.names), tuple(schema.types), sizes, fingerprint)


def open_parquet(path: str | Path) -> Any:
    """A `ParquetFile` to be read in bounded memory. A page that has a checksum is read only if it is right."""
    from pyarrow import parquet

    return parquet.ParquetFile(path, pre_buffer=False, buffer_size=_READ_AT_ONCE, page_checksum_verification=True)


def _damaged(path: str) -> FileError:
    return FileError(f"{path} is damaged, or it changed while it was read. Write it again.")
