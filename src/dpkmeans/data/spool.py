"""What can be read only once, or slowly: converted once to a temporary Parquet file."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpkmeans.data.files import parquet_layout
from dpkmeans.data.source import ParquetPiece, Source, arrow_batch, check_type
from dpkmeans.data.tables import choose_columns, require_pyarrow
from dpkmeans.engines.packing import Batch, Nulls
from dpkmeans.errors import DataError

_SPOOL_ROWS = 2**17


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
                        f"{batch.place(int(np.flatnonzero(bad)[0]), j)} has empty cells or NaN.",
                        hint="Drop or fill those records first, or put the middle of the bounds in their place with "
                        "{nulls='midpoint'}.",
                    )
        arrays = [pa.array(np.asarray(column, dtype=np.float64)) for column in batch.columns]
        self._writer.write_batch(pa.record_batch(arrays, schema=self._schema), row_group_size=_SPOOL_ROWS)

    def source(self, names: tuple[str, ...] | None, nulls: Nulls, whole: str) -> Source:
        """What was written, to be read any number of times."""
        self._writer.close()
        layout = parquet_layout(self.path)
        if not layout.sizes:
            raise DataError(f"{whole} has no records. Give at least one.")
        piece = ParquetPiece(str(self.path), layout.names, tuple(range(len(layout.sizes))), layout.sizes)
        return Source((piece,), names, len(layout.names), nulls, keep=self)


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
