"""CSV files as a source: converted once, since they take four times as long to read as Parquet."""

from __future__ import annotations

import re
from pathlib import Path

from dpkmeans.data.files import SAME_COLUMNS
from dpkmeans.data.source import Files, Source, numbers
from dpkmeans.data.spool import Spool
from dpkmeans.data.tables import (
    CSV_BLOCK,
    GZIP_MAGIC,
    choose_columns,
    csv_layout,
    damaged,
    first_bytes,
    require_pyarrow,
)
from dpkmeans.engines.packing import Batch
from dpkmeans.errors import DataError


def csv_source(paths: list[Path], files: Files) -> Source:
    """Read the files once, into a temporary Parquet file."""
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
            raise DataError(f"{path} has other columns than {paths[0]}.", hint=SAME_COLUMNS)
        keys = [str(j) for j in range(layout.n_columns)]
        wanted = [keys[j] for j in chosen]
        try:
            with pa.input_stream(str(path), compression="gzip" if zipped else None) as stream:
                reader = arrow_csv.open_csv(
                    stream,
                    arrow_csv.ReadOptions(
                        column_names=keys, skip_rows=layout.lines_before_records, block_size=CSV_BLOCK
                    ),
                    convert_options=arrow_csv.ConvertOptions(
                        include_columns=wanted, column_types=dict.fromkeys(wanted, pa.float64())
                    ),
                )
                for batch in reader:
                    columns = [numbers(batch.column(name)) for name in wanted]
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
            f"column {label} of {path} does not hold numbers only.", hint="Leave it out with {columns}, or convert it."
        )
    return DataError(
        f"{path} is not a regular CSV file: some rows do not have as many cells as the first, which has {n_columns}. "
        "Separate cells by commas, and quote cells that hold a comma."
    )
