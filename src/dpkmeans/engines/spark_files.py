"""Packed blocks in files on the local disk of a Spark executor, mapped into memory by whichever task asks for them.

Spark would hold blocks in Java, and move all of them to Python for every pass. Here Spark holds the names of the files,
so that it knows which executor has which. The files lie in the executor's own folder, which goes when the executor
goes, in a folder that only its user may enter. A task that Spark sends elsewhere does not find them.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

import numpy as np

from dpkmeans.engines.block_tasks import Block
from dpkmeans.engines.person_shuffle import Failed
from dpkmeans.errors import FileError
from dpkmeans.kernels.simd_f32 import LANES
from dpkmeans.storage.temporary import written_there

GONE = "the packed blocks of this executor are gone"
_PREFIX = "dpkmeans-blocks-"


@dataclass(frozen=True)
class KeptBlocks:
    """Blocks of a partition in the file `path`: for each the number of its records, its part and its first row."""

    path: str
    n_features: int
    blocks: tuple[tuple[int, int, int], ...]


def keep(name: str, n_features: int) -> Callable[[int, Iterable[Block | Failed]], list[KeptBlocks | Failed]]:
    """A function that writes the blocks of a partition to a file of the engine called `name`."""
    return partial(_keep, name, n_features)


def _keep(name: str, n_features: int, number: int, blocks: Iterable[Block | Failed]) -> list[KeptBlocks | Failed]:
    written: list[tuple[int, int, int]] = []
    try:
        with written_there():
            path = _folder(name) / f"{number}-{uuid4().hex}"  # no other attempt at the same partition writes to it
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                for block in blocks:
                    if isinstance(block, Failed):
                        path.unlink()
                        return [block]
                    file.write(np.ascontiguousarray(block.tiles).data)
                    written.append((block.n, block.part, block.first))
    except FileError as error:
        return [Failed(error)]
    return [KeptBlocks(str(path), n_features, tuple(written))]


def opened(kept: Iterable[KeptBlocks]) -> Iterator[Block]:
    """The blocks, mapped into memory. An error if their file is not here."""
    for one in kept:
        if not one.blocks:
            continue
        try:
            with open(one.path, "rb") as file:
                content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)  # as if it were ours to write
        except (OSError, ValueError):
            raise RuntimeError(GONE) from None
        tiles = np.frombuffer(content, np.float32).reshape(-1, one.n_features, LANES)
        start = 0
        for n, part, first in one.blocks:
            end = start + -(-n // LANES)
            yield Block(tiles[start:end], n, part, first)
            start = end


def remove(name: str) -> Callable[[Iterable[KeptBlocks | Failed]], list[bool]]:
    """A function that removes the files of the engine called `name` where it runs.

    It says of each of its own files whether that lies elsewhere: Spark sends a task away from an executor that is busy.
    """

    def at(kept: Iterable[KeptBlocks | Failed]) -> list[bool]:
        here = _local() / name
        found = [str(here) != os.path.dirname(one.path) for one in kept if isinstance(one, KeptBlocks)]
        shutil.rmtree(here, ignore_errors=True)  # with what attempts that failed have left
        return found

    return at


def new_name() -> str:
    """A name for the files of one engine."""
    return f"{_PREFIX}{uuid4().hex}"


def _local() -> Path:
    """The executor's own folder."""
    return Path(os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir())


def _folder(name: str) -> Path:
    """The folder of an engine on this executor, for its user alone."""
    folder = _local() / name
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder
