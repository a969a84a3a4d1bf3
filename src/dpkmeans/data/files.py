"""The files that a path names, what is in them, and the source they make."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpkmeans.data.source import Files, ParquetPiece, Source, check_type, checked_nulls
from dpkmeans.data.tables import choose_columns, first_bytes, is_parquet, no_rows, require_pyarrow
from dpkmeans.errors import DataError, FileError

_PARQUET = (".parquet", ".pq")
_CSV = (".csv", ".csv.gz", ".txt", ".txt.gz")
_NO_FILES = "Give a Parquet or CSV file, a folder of them, or a pattern such as 'visits/*.parquet'."


def open_files(files: Files) -> Source:
    """Look at the files' names, columns and types, not yet at their records; CSV is converted once."""
    checked_nulls(files.nulls)
    require_pyarrow()
    paths = find_files(files.path)
    kinds = {is_parquet(path, first_bytes(path)) for path in paths}
    if len(kinds) > 1:
        raise DataError(f"{paths[0].parent} holds both Parquet and CSV files. Give a pattern that names one kind.")
    if kinds == {True}:
        return _parquet_source(paths, files)
    from dpkmeans.data.csv import csv_source

    return csv_source(paths, files)


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
        layout = parquet_layout(path)
        if names is None:
            chosen = choose_columns(path, files.columns, layout.names, len(layout.names))
            names = tuple(layout.names[j] for j in chosen)
        for name in names:
            if name not in layout.names:
                raise DataError(f"{path} has no column {name!r}, which {paths[0]} has.", hint=SAME_COLUMNS)
            check_type(layout.types[layout.names.index(name)], f"column {name!r} of {path}")
        extra = sorted(set(layout.names) - set(names))
        if files.columns is None and extra:
            raise DataError(f"{path} has a column {extra[0]!r}, which {paths[0]} has not.", hint=SAME_COLUMNS)
        pieces.append(ParquetPiece(str(path), names, tuple(range(len(layout.sizes))), layout.sizes))
    assert names is not None
    if not any(piece.n_rows for piece in pieces):
        raise no_rows(paths[0])
    return Source(tuple(piece for piece in pieces if piece.n_rows), names, len(names), files.nulls)


SAME_COLUMNS = "All files must have the same columns; choose those they share with {columns}."


@dataclass(frozen=True)
class ParquetLayout:
    """What a Parquet file's footer says."""

    names: tuple[str, ...]
    types: tuple[Any, ...]
    sizes: tuple[int, ...]


def parquet_layout(path: Path) -> ParquetLayout:
    """Look at the footer of a Parquet file."""
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
    return ParquetLayout(tuple(schema.names), tuple(schema.types), sizes)
