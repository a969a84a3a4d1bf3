"""Files that change between two passes, and files that are damaged or forged."""

from __future__ import annotations

import gzip
import io
import os
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from fuzz.targets import MUTATIONS, TARGETS, mutate_bytes, seeds
from pyarrow import parquet

from benchmarks.chaos.fault import Fault, Outcome, Tally
from dpkmeans.core.bounds import Bounds
from dpkmeans.data.open import open_records
from dpkmeans.data.source import Files
from dpkmeans.data.spool import Unread
from dpkmeans.engines.open import open_data
from dpkmeans.errors import ChangedFileError, DPKMeansError

BOX = Bounds.of((0, 1), 2)
CENTROIDS = np.array([[0.2, 0.2], [0.8, 0.8]])


def _write(path: Path, rng: np.random.Generator, n: int = 2000) -> Path:
    records = rng.random((n, 2))
    parquet.write_table(pa.table({"east": records[:, 0], "north": records[:, 1]}), path, row_group_size=500)
    return path


def _replaced(path: Path, rng: np.random.Generator) -> None:
    _write(path.with_name("new"), rng).replace(path)


def _rewritten(path: Path, rng: np.random.Generator) -> None:
    _write(path, rng)


def _grown(path: Path, rng: np.random.Generator) -> None:
    _write(path, rng, 2500)


def _with_old_time(path: Path, rng: np.random.Generator) -> None:
    before = path.stat()
    _replaced(path, rng)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def changed(times: int) -> Outcome:
    """A Parquet file is replaced, rewritten or made longer between two passes."""
    tally, rng = Tally(), np.random.default_rng()
    ways = (_replaced, _rewritten, _grown, _with_old_time)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(times):
            path = _write(Path(folder) / f"{number}.parquet", rng)
            engine = open_data(path, "stream").engine(BOX)
            engine.cell_statistics(CENTROIDS)
            ways[number % len(ways)](path, rng)
            try:
                engine.cell_statistics(CENTROIDS)
            except ChangedFileError:
                tally.saw("refused: ChangedFileError")
            else:
                tally.must_not("wrong", happened=True, why=ways[number % len(ways)].__name__)
                tally.saw("two versions mixed")
    return tally.outcome()


def _records(suffix: str) -> Callable[[bytes], bool]:
    """Whether a data file of that kind is taken. Errors that are not typed pass through."""

    def read(data: bytes) -> bool:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"visits{suffix}"
            path.write_bytes(data)
            try:
                given = path if suffix == ".parquet" else Files(path, header=False)
                found = open_records(given).found
                source = found.hold() if isinstance(found, Unread) else found
                for batch in source.batches(100):
                    batch.refuse_missing()
            except DPKMeansError:
                return False
            return True

    return read


def _data_seeds() -> dict[str, list[bytes]]:
    records = np.random.default_rng(0).random((40, 2))
    text = "".join(f"{east:.4f},{north:.4f}\n" for east, north in records).encode()
    table, file = pa.table({"east": records[:, 0], "north": records[:, 1]}), io.BytesIO()
    parquet.write_table(table, file, row_group_size=10, write_page_checksum=True)
    return {".csv": [text], ".csv.gz": [gzip.compress(text)], ".parquet": [file.getvalue()]}


def mutated(times: int) -> Outcome:
    """So many mutated files of each kind: data, models, synopses, transcripts and ledgers."""
    tally, rng = Tally(), random.Random()
    good = {**seeds(), **_data_seeds()}
    readers = {**TARGETS, **{suffix: _records(suffix) for suffix in _data_seeds()}}
    for kind, read in readers.items():
        for _ in range(times):
            mutate = rng.choice(MUTATIONS.get(kind, (mutate_bytes,)))
            try:
                taken = read(mutate(rng.choice(good[kind]), rng))
            except Exception as error:
                tally.must_not("untyped", happened=True, why=f"{type(error).__name__} for {kind}")
                tally.saw("an error without a type")
            else:
                tally.saw("read: the change did no harm" if taken else "refused with a typed error")
    return tally.outcome()


FAULTS = (
    Fault(
        "a Parquet file is replaced, rewritten or grows between two passes",
        "refused with a ChangedFileError",
        changed,
        times=200,
        short=8,
    ),
    Fault(
        "files with changed bytes or forged content, so many of each of eight kinds",
        "a typed error, or the change did no harm",
        mutated,
        times=1000,
        short=10,
    ),
)
