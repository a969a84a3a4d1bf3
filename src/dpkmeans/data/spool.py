"""What can be read only once, or slowly: read once, and kept in memory or in a temporary Parquet file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpkmeans.core.schema import Schema
from dpkmeans.data.encode import check_type
from dpkmeans.data.numbers import require_pyarrow
from dpkmeans.data.parquet import ParquetPiece, parquet_layout
from dpkmeans.data.source import Batch, HeldPiece, Nulls, Piece, Source, arrow_batch
from dpkmeans.data.validate import choose_columns
from dpkmeans.errors import DataError
from dpkmeans.interrupts import stoppable
from dpkmeans.progress import READING, over
from dpkmeans.storage.temporary import TemporaryFolder, written_there

_SPOOL_ROWS = 2**17


@dataclass(frozen=True, eq=False, repr=False)
class Unread:
    """Records that will be read once, from `batches`; `whole` is what errors call them.

    `pieces` are the same records, for workers that are elsewhere and read them by themselves; none where they cannot.
    `n_batches` says about how many batches there are, where that is known.
    """

    names: tuple[str, ...] | None
    n_features: int
    nulls: Nulls
    batches: Iterator[Batch]
    whole: str
    pieces: tuple[Piece, ...] = ()
    n_batches: int | None = None

    def hold(self) -> Source:
        return self._source(HeldPiece(tuple(self._read())), None)

    def spool(self) -> Source:
        """Read them into a temporary Parquet file. Missing values are refused here, where their place is known."""
        spool = Spool(self.n_features)
        for batch in self._read():
            if self.nulls == "refuse":
                batch.refuse_missing()
            spool.write(batch)
        return self._source(spool.piece(), spool)

    def for_workers(self) -> Source:
        """To be read by workers, each time anew."""
        if not self.pieces:
            raise DataError(f"{self.whole} has no records. Give at least one record.")
        return Source(self.pieces, self.names, self.n_features, self.nulls)

    def _read(self) -> Iterator[Batch]:
        return over(stoppable(self.batches), READING, self.n_batches)

    def _source(self, piece: HeldPiece | ParquetPiece, keep: object) -> Source:
        if not piece.n_rows:
            raise DataError(f"{self.whole} has no records. Give at least one record.")
        return Source((piece,), self.names, self.n_features, self.nulls, keep=keep)


class Spool:
    """A Parquet file in a folder of its own that only this user may read. It goes when this object does."""

    def __init__(self, n_features: int) -> None:
        pa = require_pyarrow()
        from pyarrow import parquet

        self._folder = TemporaryFolder()
        self.close = self._folder.close
        self.path = self._folder.path / "records.parquet"
        self._schema = pa.schema([(str(j), "float64") for j in range(n_features)])
        with written_there():
            self._writer = parquet.ParquetWriter(self.path, self._schema, compression="zstd", compression_level=1)

    def write(self, batch: Batch) -> None:
        pa = require_pyarrow()
        arrays = [pa.array(np.asarray(column, dtype=np.float64)) for column in batch.columns]
        with written_there():
            self._writer.write_batch(pa.record_batch(arrays, schema=self._schema), row_group_size=_SPOOL_ROWS)

    def piece(self) -> ParquetPiece:
        """What was written, to be read any number of times."""
        with written_there():
            self._writer.close()
        layout = parquet_layout(self.path)
        groups, schema = tuple(range(len(layout.sizes))), Schema.of_numbers(layout.names)
        return ParquetPiece(str(self.path), schema, groups, layout.sizes, layout.fingerprint)


def open_arrow_stream(
    stream: Any, columns: Sequence[str] | None = None, nulls: Nulls = "refuse", schema: Schema | None = None
) -> Unread:
    """A record-batch reader, or anything with `__arrow_c_stream__`. A schema names the columns by itself."""
    pa = require_pyarrow()
    whole = "the Arrow stream"
    reader = stream if isinstance(stream, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(stream)
    known = tuple(reader.schema.names)
    chosen = choose_columns(whole, columns if schema is None else schema.names, known, len(known))
    if len(set(known)) < len(known):
        raise DataError(f"{whole} has several columns of the same name. Rename them.")
    declared = schema or Schema.of_numbers(known[j] for j in chosen)
    for j, column in zip(chosen, declared.columns, strict=True):
        check_type(reader.schema.field(j).type, column.kind, f"column {known[j]!r} of {whole}")
    batches = (arrow_batch(batch, declared, whole) for batch in reader if batch.num_rows)
    return Unread(declared.coordinates, len(declared.coordinates), nulls, batches, whole)
