"""What a file was when its records were opened, so that a file that changes between two passes is refused.

Records that change on the way would be mixed: counts of some with sums of others, and a certificate that holds for
neither. A fingerprint travels with the piece of the records that it belongs to, so workers on other machines check it
as well.
"""

from __future__ import annotations

import hashlib
import os
import platform
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dpkmeans.data.source import Batch, Piece
from dpkmeans.errors import ChangedFileError, FileError, MissingFileError

_PARQUET_MAGIC = b"PAR1"
_TAIL = 8  # bytes behind the footer of a Parquet file: its length, and the magic
_AT_ONCE = 2**20


@dataclass(frozen=True)
class Fingerprint:
    """Size, time of the last change, inode and, of a Parquet file, a digest of its footer.

    Inodes are numbers of one machine: some shared file systems number files anew on each, so another machine than
    `machine` compares the rest alone.
    """

    size: int
    modified_ns: int
    inode: int
    machine: str
    footer: str = ""

    @classmethod
    def of(cls, path: str | Path) -> Fingerprint:
        """That of a file as it is now. Pipes and devices are refused: records are read more than once."""
        try:
            found = os.stat(path)
            if not stat.S_ISREG(found.st_mode):
                raise FileError(f"{path} is not a file but a pipe or a device. Write the records to a file.")
            with open(path, "rb") as file:
                footer = _footer(file, found.st_size)
        except FileNotFoundError:
            raise MissingFileError.at(path) from None
        except OSError as error:
            if isinstance(error, FileError):
                raise
            raise FileError(f"cannot read {path}: {error.strerror or type(error).__name__}.") from None
        return cls(found.st_size, found.st_mtime_ns, found.st_ino, platform.node(), footer)

    def check(self, path: str | Path) -> None:
        """Refuse the file at `path` unless it is the one that was opened, unchanged."""
        now = Fingerprint.of(path)
        what = {
            "its size": now.size != self.size,
            "the time of its last change": now.modified_ns != self.modified_ns,
            "its inode": now.machine == self.machine and now.inode != self.inode,
            "its footer": now.footer != self.footer,
        }
        differs = [name for name, other in what.items() if other]
        if differs:
            raise ChangedFileError.at(path, differs)


@contextmanager
def unchanged(path: str | Path, fingerprint: Fingerprint | None) -> Iterator[None]:
    """Reading of a file: an error if it is, before or after, not what it was when it was opened.

    An error while it is read gives way to that error, if the file changed: it is then the likelier cause.
    """
    if fingerprint is None:
        yield
        return
    fingerprint.check(path)
    try:
        yield
    except Exception:
        fingerprint.check(path)
        raise
    fingerprint.check(path)


@dataclass(frozen=True, eq=False, repr=False)
class WatchedPiece:
    """A piece that lies in a file, such as a memory map."""

    piece: Piece
    path: str
    fingerprint: Fingerprint

    @property
    def n_rows(self) -> int | None:
        return self.piece.n_rows

    def batches(self, rows: int) -> Iterator[Batch]:
        with unchanged(self.path, self.fingerprint):
            yield from self.piece.batches(rows)

    def split(self, rows: int) -> Sequence[Piece]:
        return [WatchedPiece(small, self.path, self.fingerprint) for small in self.piece.split(rows)]


def _footer(file: BinaryIO, size: int) -> str:
    """The digest of the footer of a Parquet file; empty for other files."""
    if size < len(_PARQUET_MAGIC) + _TAIL or file.read(len(_PARQUET_MAGIC)) != _PARQUET_MAGIC:
        return ""
    file.seek(size - _TAIL)
    tail = file.read(_TAIL)
    left = min(int.from_bytes(tail[:4], "little"), size - _TAIL)
    digest = hashlib.sha256(tail)
    file.seek(size - _TAIL - left)
    while left > 0 and (part := file.read(min(left, _AT_ONCE))):
        digest.update(part)
        left -= len(part)
    return digest.hexdigest()
