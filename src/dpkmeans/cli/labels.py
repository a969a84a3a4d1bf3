"""What `dpkmeans predict` writes: the cluster of each record, beside columns that are kept as they are. Not private."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

import numpy as np

from dpkmeans.data.kept import Kept, kept_columns
from dpkmeans.data.numbers import require_pyarrow
from dpkmeans.errors import DataError, FileError, MethodError
from dpkmeans.storage.outputs import is_stdout, opened_output

if TYPE_CHECKING:
    from dpkmeans._typing import AnyArray
    from dpkmeans.data.source import Files

CLUSTER = "cluster"
_ROWS = 2**16
_CHANGED = "the files changed while they were read. Run the command again."


@dataclass(frozen=True, eq=False, repr=False)
class LabelTable:
    """Batches of kept columns with their labels, read once; `schema` is the kept columns' Arrow schema."""

    schema: Any
    rows: Iterator[tuple[Any, AnyArray]]

    @property
    def header(self) -> list[str]:
        return [*self.schema.names, CLUSTER]

    def write(self, out: Path | None) -> None:
        """As CSV on stdout or in a file, or as Parquet if the file is called so."""
        if out is None or is_stdout(out):
            self._write_csv(sys.stdout)
            return
        with opened_output(out) as place:
            if out.suffix.lower() in {".parquet", ".pq"}:
                self._write_parquet(place.file)
            else:
                text = io.TextIOWrapper(place.file, encoding="utf-8", newline="", write_through=True)
                self._write_csv(text)
                text.detach()
            place.finish()

    def as_json(self) -> dict[str, Any]:
        """Kept columns as text, and the clusters, each a list in the order of the records."""
        kept: dict[str, list[str | None]] = {name: [] for name in self.schema.names}
        clusters: list[int] = []
        for batch, labels in self.rows:
            clusters += labels.tolist()
            for cells, name in zip(_texts(batch), kept, strict=True):
                kept[name] += cells
        return {"private": False, "clusters": clusters} | ({"kept": kept} if kept else {})

    def _write_csv(self, file: TextIO) -> None:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(self.header)
        for batch, labels in self.rows:
            writer.writerows(zip(*_texts(batch), labels.tolist(), strict=True))

    def _write_parquet(self, file: BinaryIO) -> None:
        pa = require_pyarrow()
        from pyarrow import parquet

        schema = self.schema.append(pa.field(CLUSTER, pa.int32()))
        with parquet.ParquetWriter(file, schema) as writer:
            for batch, labels in self.rows:
                arrays = [*batch.columns, pa.array(labels.astype("int32"))]
                writer.write_batch(pa.record_batch(arrays, schema=schema))


def label_table(labels: Iterator[AnyArray], kept: Kept | None) -> LabelTable:
    """The labels of all records, in their order, with what is kept of each."""
    pa = require_pyarrow()
    if kept is None:
        rows = ((pa.record_batch([], schema=pa.schema([])), piece) for piece in _pieces(labels))
        return LabelTable(pa.schema([]), rows)
    return LabelTable(kept.schema, _in_step(kept.batches, labels))


def open_kept(files: Files, names: Sequence[str]) -> Kept | None:
    """The columns that --keep names, if there are any."""
    if CLUSTER in names:
        raise MethodError(
            f"--keep {CLUSTER} is not possible: the column of the clusters has that name. Rename yours first."
        )
    if not names:
        return None
    kept = kept_columns(files, names)
    for field in kept.schema:
        try:
            _texts(require_pyarrow().record_batch([require_pyarrow().nulls(0, field.type)], ["one"]))
        except require_pyarrow().ArrowException:
            raise DataError(
                f"column {field.name!r} of {files.path} holds {field.type}, which cannot be kept."
            ) from None
    return kept


def _pieces(labels: Iterable[AnyArray]) -> Iterator[AnyArray]:
    for batch in labels:
        for start in range(0, len(batch), _ROWS):
            yield batch[start : start + _ROWS]


def _in_step(batches: Iterator[Any], labels: Iterator[AnyArray]) -> Iterator[tuple[Any, AnyArray]]:
    """Each batch with the labels of its rows: the two come in batches of different sizes, in the same order."""
    rest: AnyArray = np.empty(0, np.int32)
    for batch in batches:
        while len(rest) < batch.num_rows:
            more = next(labels, None)
            if more is None:
                raise FileError(_CHANGED)
            rest = np.concatenate([rest, more]) if len(rest) else more
        yield batch, rest[: batch.num_rows]
        rest = rest[batch.num_rows :]
    if len(rest) or next(labels, None) is not None:
        raise FileError(_CHANGED)


def _texts(batch: Any) -> list[list[str | None]]:
    """The columns as text, None where a value is missing."""
    from pyarrow import types

    plain = [c.cast(c.type.value_type) if types.is_dictionary(c.type) else c for c in batch.columns]
    return [column.cast("string").to_pylist() for column in plain]
