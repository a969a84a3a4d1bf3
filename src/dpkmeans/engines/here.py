"""What a worker calls itself in an error."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import TypeVar

from dpkmeans.errors import MissingFileError

A = TypeVar("A")


def this_worker() -> str:
    """The address of this Dask worker, or the name of this machine."""
    try:
        from distributed import get_worker

        return f"worker {get_worker().address}"
    except (ImportError, ValueError):
        return f"worker {socket.gethostname()}"


def on_worker(batches: Iterator[A]) -> Iterator[A]:
    """What is read on a worker: a file that is not there is the worker's to name."""
    try:
        yield from batches
    except MissingFileError as error:
        raise error.on(this_worker()) from None
