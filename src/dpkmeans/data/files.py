"""The files that a path names, each once, and the source they make."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from dpkmeans.core.schema import Schema
from dpkmeans.data.csv import dialect_of, open_csv
from dpkmeans.data.dialect import COMPRESSED
from dpkmeans.data.numbers import require_pyarrow
from dpkmeans.data.parquet import parquet_source
from dpkmeans.data.source import KEEP, Files, Source, checked_nulls
from dpkmeans.data.spool import Unread
from dpkmeans.errors import DataError, FileError

_PARQUET = (".parquet", ".pq")
_CSV = tuple(kind + packed for kind in (".csv", ".txt", ".tsv") for packed in ("", *COMPRESSED))
_PARQUET_MAGIC = b"PAR1"
_SEVERAL = "Check the path; for several files give a folder or a quoted pattern."
_NO_FILES = "Give a Parquet or CSV file, a folder of them, or a pattern such as 'visits/*.parquet'."


def open_files(files: Files, schema: Schema | None = None) -> Source | Unread:
    """Look at the files' names, columns and types, not yet at their records. A schema names the columns by itself."""
    if files.nulls != KEEP:
        checked_nulls(files.nulls)
    dialect_of(files)
    require_pyarrow()
    paths = find_files(files.path)
    kinds = {is_parquet(path) for path in paths}
    if len(kinds) > 1:
        raise DataError(f"{paths[0].parent} holds both Parquet and CSV files. Give a pattern that names one kind.")
    return parquet_source(paths, files, schema) if kinds == {True} else open_csv(paths, files, schema)


def is_parquet(path: Path) -> bool:
    """By its ending or its first bytes."""
    try:
        with path.open("rb") as file:
            return file.read(4) == _PARQUET_MAGIC or path.suffix.lower() in _PARQUET
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or type(error).__name__}.") from None


def find_files(path: str | Path | Sequence[str | Path]) -> list[Path]:
    """The files that a path, a folder or a pattern names, sorted. A file that is named twice is refused."""
    given = [path] if isinstance(path, str | Path) else list(path)
    paths = [found for one in given for found in _matching(one)]
    seen: dict[object, Path] = {}
    for found in paths:
        try:
            status = found.stat()
        except OSError as error:
            raise FileError(f"cannot read {found}: {error.strerror or type(error).__name__}. {_SEVERAL}") from None
        if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for ever
            raise FileError(f"{found} is not a file but a folder, a pipe or a device. Write the records to a file.")
        places = {found.absolute(), Path(os.path.realpath(found))}
        plain = {place.with_suffix("") if place.suffix.lower() in COMPRESSED else place for place in places}
        for key in ((status.st_dev, status.st_ino), *plain):
            if key in seen:
                raise DataError(
                    f"{seen[key]} and {found} are the same file, or a file and its compressed copy: its records would "
                    "count twice. Name it once."
                )
            seen[key] = found
    return paths


def _matching(path: str | Path) -> list[Path]:
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
