"""Columns that are carried along as they are, such as ids. Not records: nothing is computed from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpkmeans.data.csv import csv_files
from dpkmeans.data.files import find_files, is_parquet
from dpkmeans.data.fingerprint import Fingerprint, unchanged
from dpkmeans.data.numbers import require_pyarrow
from dpkmeans.data.parquet import SAME_COLUMNS, open_parquet, parquet_layout
from dpkmeans.data.source import Files
from dpkmeans.data.validate import choose_columns
from dpkmeans.errors import DataError, FileError

_ROWS = 2**16


@dataclass(frozen=True, eq=False, repr=False)
class Kept:
    """The kept columns: an Arrow schema, and their rows in the order of the records, batch after batch, once.

    Cells of CSV files are text as they stand; columns of Parquet files keep their types.
    """

    schema: Any
    batches: Iterator[Any]


def kept_columns(files: Files, names: Sequence[str]) -> Kept:
    """The columns `names` of the files, which are numbers from 0 where CSV files have no header.

    Only first rows and footers are read before the first batch is asked for.
    """
    paths = find_files(files.path)
    wanted = replace(files, columns=tuple(names))
    schema, batches = (_of_parquet if is_parquet(paths[0]) else _of_csv)(paths, wanted)
    return Kept(schema, batches)


def _of_csv(paths: list[Path], files: Files) -> tuple[Any, Iterator[Any]]:
    pa = require_pyarrow()
    known = csv_files(paths, files)
    schema = pa.schema([(name, pa.string()) for name in files.columns or ()])
    texts = [pa.string()] * len(schema)
    batches = (batch for file in known if file.has_records for batch in file.read(texts))
    return schema, (pa.record_batch(batch.columns, schema=schema) for batch in batches)


def _of_parquet(paths: list[Path], files: Files) -> tuple[Any, Iterator[Any]]:
    pa = require_pyarrow()
    schemas, fingerprints = [], []
    for path in paths:
        layout = parquet_layout(path)
        chosen = choose_columns(path, files.columns, layout.names, len(layout.names))
        fingerprints.append(layout.fingerprint)
        schemas.append(pa.schema([(layout.names[j], layout.types[j]) for j in chosen]))
        if schemas[-1] != schemas[0]:
            raise DataError(f"a kept column is of another type in {path} than in {paths[0]}.", hint=SAME_COLUMNS)
    return schemas[0], _parquet_batches(dict(zip(paths, fingerprints, strict=True)), schemas[0])


def _parquet_batches(paths: dict[Path, Fingerprint], schema: Any) -> Iterator[Any]:
    pa = require_pyarrow()
    for path, fingerprint in paths.items():
        try:
            with unchanged(path, fingerprint), open_parquet(path) as file:
                for batch in file.iter_batches(_ROWS, columns=schema.names, use_threads=False):
                    yield pa.record_batch([batch.column(name) for name in schema.names], schema=schema)
        except FileError:
            raise
        except MemoryError:  # Arrow's is one of its other errors too
            raise
        except (OSError, EOFError, pa.ArrowException):
            raise FileError(f"{path} is damaged. Write it again.") from None
