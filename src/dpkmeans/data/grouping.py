"""Rows that are put aside by person, in files of bounded size, and the records that are kept of them.

DuckDB and polars group out of core too, but what is kept here is chosen by a keyed hash of exact grid points, which
neither offers; rows in files by the hash of their person need nothing that is not installed already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpkmeans._typing import AnyArray
from dpkmeans.data.source import Batch, Piece
from dpkmeans.errors import FileError
from dpkmeans.interrupts import stoppable
from dpkmeans.storage.temporary import TemporaryFolder, written_there

FILE_BYTES = 2**25  # of a file's rows, which are held at once, several times over
MAX_FILES = 256


@dataclass(frozen=True, eq=False, repr=False)
class GridArray:
    """Grid points in whole steps in memory, shape (n, d), int32."""

    steps: AnyArray

    @property
    def n_rows(self) -> int:
        return len(self.steps)

    def batches(self, rows: int) -> Iterator[Batch]:
        for start in range(0, len(self.steps), rows):
            yield grid_batch(self.steps[start : start + rows])

    def split(self, rows: int) -> Sequence[Piece]:
        return [self]


@dataclass(frozen=True, eq=False, repr=False)
class GridFile:
    """Grid points in whole steps in a file: `n_rows` of them from row `first` on, of `n_features` int32 each."""

    path: Path
    n_features: int
    first: int
    n_rows: int

    def batches(self, rows: int) -> Iterator[Batch]:
        try:
            file = self.path.open("rb")
        except OSError:
            raise _gone() from None
        with file:
            file.seek(4 * self.n_features * self.first)
            for start in range(0, self.n_rows, rows):
                n = min(rows, self.n_rows - start)
                steps = np.fromfile(file, np.int32, n * self.n_features)
                if len(steps) < n * self.n_features:
                    raise _gone()
                yield grid_batch(steps.reshape(n, self.n_features))

    def split(self, rows: int) -> Sequence[Piece]:
        stops = [*range(rows, self.n_rows - rows + 1, rows), self.n_rows]
        starts = [0, *stops]
        return [
            GridFile(self.path, self.n_features, self.first + start, stop - start)
            for start, stop in zip(starts, stops, strict=False)
        ]


class PersonFiles:
    """Rows by the hash of their person, in files of a folder that only this user may read. It goes with this object."""

    def __init__(self, n_files: int, n_features: int) -> None:
        self._temporary = TemporaryFolder()
        self.close = self._temporary.close
        self._folder = self._temporary.path
        self.n_files = n_files
        self.n_features = n_features
        self._row = np.dtype([("id", "<u8", 2), ("steps", "<i4", n_features)])
        self.kept = self._folder / "kept"
        self.kept.touch()  # there may be nobody
        self._n_kept = 0

    @staticmethod
    def files_for(n_rows: int, n_features: int) -> int:
        """How many files hold so many rows, a power of two."""
        wanted = n_rows * (16 + 4 * n_features) // FILE_BYTES
        return int(min(1 << wanted.bit_length(), MAX_FILES))

    def write(self, ids: AnyArray, steps: AnyArray, hashes: AnyArray) -> None:
        """Append each row to the file that its hash names."""
        self._append(ids, steps, file_numbers(hashes, self.n_files), [self._path(i) for i in range(self.n_files)])

    def _append(self, ids: AnyArray, steps: AnyArray, numbers: AnyArray, paths: Sequence[Path]) -> None:
        order = np.argsort(numbers, kind="stable")
        rows = np.empty(len(ids), self._row)
        rows["id"], rows["steps"] = ids[order], steps[order]
        stops = np.cumsum(np.bincount(numbers, minlength=len(paths)))
        for path, start, stop in zip(paths, np.r_[0, stops[:-1]], stops, strict=True):
            if start < stop:
                with written_there(), path.open("ab") as file:
                    file.write(rows[start:stop].tobytes())

    def files(self) -> Iterator[Path]:
        """The files that hold rows, in the order of the hashes: all rows of a person are in one of them."""
        return stoppable(path for path in map(self._path, range(self.n_files)) if path.exists())

    def parts(self, path: Path, hashes_of: Callable[[AnyArray, AnyArray], AnyArray]) -> Iterator[Path]:
        """The rows of a file in files of bounded size, where one person has many: by the hash of the row.

        Equal rows are in one of them, so one that is still too large holds few different ones.
        """
        n_parts = min(2 * path.stat().st_size // FILE_BYTES, MAX_FILES)
        if n_parts <= 2:
            yield path
            return
        parts = [path.with_name(f"{path.name}-{number}") for number in range(n_parts)]
        for ids, steps in self.rows(path):
            low = hashes_of(ids, steps) << np.uint64(32)  # of rows without an id, all high halves are alike here
            self._append(ids, steps, file_numbers(low, n_parts), parts)
        for part in filter(Path.exists, parts):
            yield part
            part.unlink()

    def rows(self, path: Path) -> Iterator[tuple[AnyArray, AnyArray]]:
        """Ids and steps of a file, some at a time."""
        at_once = max(FILE_BYTES // self._row.itemsize, 1)
        with path.open("rb") as file:
            while len(rows := np.fromfile(file, self._row, at_once)):
                yield np.ascontiguousarray(rows["id"]), np.ascontiguousarray(rows["steps"])

    def keep(self, steps: AnyArray) -> None:
        """Append records that count."""
        with written_there(), self.kept.open("ab") as file:
            file.write(np.ascontiguousarray(steps, np.int32).tobytes())
        self._n_kept += len(steps)

    def piece(self) -> GridFile:
        """All records that count. The rows are no longer needed."""
        for number in range(self.n_files):
            self._path(number).unlink(missing_ok=True)
        return GridFile(self.kept, self.n_features, 0, self._n_kept)

    def _path(self, number: int) -> Path:
        return self._folder / f"rows-{number}"


def file_numbers(hashes: AnyArray, n_files: int) -> AnyArray:
    """Which of `n_files` files or partitions each hash names, shape (n,): in the order of the hashes."""
    high = hashes >> np.uint64(32)
    numbers: AnyArray = ((high * np.uint64(n_files)) >> np.uint64(32)).astype(np.int64)
    return numbers


def _gone() -> FileError:
    return FileError(
        "a temporary file with records of this fit was removed or cut.",
        hint="What was spent before stays spent. Let nothing clean the folder for temporary files meanwhile.",
    )


def grid_batch(steps: AnyArray) -> Batch:
    """Grid points, shape (n, d), as a batch."""
    return Batch(steps.T, lambda _, j: f"feature {j}", on_grid=True)
