"""How large a file is when it is read: what compression hides, by the footer of a Parquet file or a bounded look."""

from __future__ import annotations

from pathlib import Path

from dpkmeans.data.dialect import compression_of
from dpkmeans.data.files import is_parquet
from dpkmeans.data.numbers import require_pyarrow
from dpkmeans.data.parquet import parquet_layout
from dpkmeans.errors import FileError

_AT_ONCE = 2**20
_NUMBER = 8  # bytes


def unfolds_within(path: Path, most: int) -> bool:
    """Whether a file takes at most so many bytes as numbers (Parquet) or as text (CSV). At most so many are unfolded.

    A file that cannot be read, or not to its end, is small: whoever reads it says what is wrong.
    """
    try:
        if path.stat().st_size > most:
            return False
        if is_parquet(path):
            layout = parquet_layout(path)
            return sum(layout.sizes) * len(layout.names) * _NUMBER <= most
        compression = compression_of(path)
        return compression is None or _unpacks_within(path, compression, most)
    except (FileError, OSError):
        return True


def _unpacks_within(path: Path, compression: str, most: int) -> bool:
    pa = require_pyarrow()
    seen = 0
    try:
        with pa.input_stream(str(path), compression=compression) as stream:
            while part := stream.read(_AT_ONCE):
                seen += len(part)
                if seen > most:
                    return False
    except (EOFError, pa.ArrowException):
        return True
    return True
