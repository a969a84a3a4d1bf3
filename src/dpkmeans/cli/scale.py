"""Commands on records that do not fit in memory or on one machine: which engine, progress, and streamed predictions."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from cyclopts import Parameter

from dpkmeans.cli import output
from dpkmeans.cli.inputs import read, split_columns
from dpkmeans.cli.options import NullsName, Reading
from dpkmeans.errors import DataError, FileError, MethodError

if TYPE_CHECKING:
    from dpkmeans._typing import AnyArray
    from dpkmeans.core.release import Release
    from dpkmeans.data.open import Where
    from dpkmeans.engines.block_engine import PassReport

EngineName = Literal["memory", "stream", "dask", "spark"]
SMALL = 2**27  # bytes up to which one file is read into memory unless an engine is named


def in_memory(data: Path, engine: str | None, nulls: str) -> bool:
    """Whether the file is to be read as a whole: one small file, and nothing else was asked for."""
    if engine == "memory":
        return nulls == "refuse" and not (data.is_dir() or _is_pattern(data))
    if engine is not None or nulls != "refuse" or data.is_dir() or _is_pattern(data):
        return False
    return not data.exists() or data.stat().st_size <= SMALL


def _is_pattern(data: Path) -> bool:
    import glob

    return not data.exists() and glob.has_magic(str(data))


@Parameter(name="*")
@dataclass(frozen=True)
class Place:
    """Where the work is done."""

    engine: EngineName | None = None
    """Where the work is done. By default one small file is held in memory, and all else is streamed."""

    scheduler: str | None = None
    """Address of a Dask scheduler (tcp://...) or a Spark master; workers are started here by default."""

    workers: int | None = None
    """How many worker processes to start here (dask, spark)."""

    memory: str | None = None
    """What each of them may use, such as 500MB."""

    def where(self) -> Where:
        """The engine that the options describe."""
        from dpkmeans.engines.config import Dask, Spark, Stream

        if self.engine not in ("dask", "spark") and (self.scheduler, self.workers, self.memory) != (None, None, None):
            raise MethodError("--scheduler, --workers and --memory are for --engine dask and --engine spark.")
        if self.workers is not None and self.workers < 1:
            raise MethodError(f"--workers must be at least 1; got {self.workers}.")
        if self.memory is not None and not re.fullmatch(r"\d+(\.\d+)?\s*([kKmMgGtT][iI]?)?[bB]?", self.memory):
            raise MethodError(f"--memory must be a size such as 500MB or 2GB; got {self.memory!r}.")
        if self.engine == "dask":
            return Dask(scheduler=self.scheduler, workers=self.workers, memory=self.memory, watch=show_pass)
        if self.engine == "spark":
            return Spark(master=self.scheduler, workers=self.workers, memory=self.memory, watch=show_pass)
        return "memory" if self.engine == "memory" else Stream(watch=show_pass)


HERE = Place()


class Records(NamedTuple):
    """What a command fits: records in memory, or files that are looked at and will be read pass by pass."""

    records: Any
    n_features: int
    names: tuple[str, ...] | None


def read_records(data: Path, reading: Reading, engine: EngineName | None = None, place: Where = None) -> Records:
    """The records of the columns that were asked for, where `engine` and the size of the files say."""
    if in_memory(data, engine, reading.nulls):
        table = read(data, reading.columns, reading.header)
        return Records(table.records, table.records.shape[1], table.names)
    from dpkmeans.data.open import open_data
    from dpkmeans.data.source import Files

    chosen = split_columns(reading.columns)
    files = Files(data, None if chosen is None else tuple(chosen), reading.nulls, reading.header)
    opened = open_data(files, place or HERE.where())
    return Records(opened, opened.n_features, opened.names)


def show_pass(report: PassReport) -> None:
    """One line on stderr after each pass, for whoever runs it."""
    speed = report.rows / max(report.seconds, 1e-9)
    output.note(f"pass {report.number}: {report.seconds:.3g} s, {speed:.3g} rows per second")


def label_files(
    release: Release, data: Path, columns: list[str] | None, header: bool | None, nulls: NullsName
) -> Iterator[AnyArray]:
    """Nearest centroids, batch after batch, in the order of the records. Not private."""
    from dpkmeans.data.files import find_files, open_files
    from dpkmeans.data.source import Files
    from dpkmeans.data.tables import has_names
    from dpkmeans.engines.stream import StreamEngine

    if columns is None and release.feature_names is not None and has_names(find_files(data)[0], header=header):
        columns = list(release.feature_names)
    source = open_files(Files(data, columns, nulls, header))
    expected = release.bounds.n_features
    if source.n_features != expected:
        raise DataError(
            f"{data} gives {source.n_features} column(s); the model was fitted on {expected}. "
            "Choose them with --columns."
        )
    return StreamEngine(source, release.bounds).label_batches(release.bounds.unit_of(release.centroids))


def write_labels(labels: Iterable[AnyArray], out: Path | None) -> None:
    """The column `cluster`, as CSV on stdout or in a file, or as Parquet if the file is called so."""
    if out is None:
        sys.stdout.write("cluster\n")
        for batch in labels:
            output.print_lines(batch.tolist())
    elif out.suffix.lower() in {".parquet", ".pq"}:
        with _replacing(out) as path:
            _write_parquet(labels, path)
    else:
        with _replacing(out) as path, path.open("w", encoding="utf-8") as file:
            file.write("cluster\n")
            for batch in labels:
                file.writelines(f"{label}\n" for label in batch.tolist())


def _write_parquet(labels: Iterable[AnyArray], path: Path) -> None:
    from dpkmeans.data.tables import require_pyarrow

    pa = require_pyarrow()
    from pyarrow import parquet

    schema = pa.schema([("cluster", pa.int32())])
    with parquet.ParquetWriter(path, schema) as writer:
        for batch in labels:
            column: Any = pa.array(batch.astype("int32"))
            writer.write_batch(pa.record_batch([column], schema=schema))


@contextmanager
def _replacing(out: Path) -> Iterator[Path]:
    """A temporary file that takes the place of `out` when all went well, and goes away otherwise."""
    try:
        handle, name = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
    except OSError as error:
        raise FileError(f"cannot write {out}: {error.strerror}.") from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)
