"""Where commands write what was paid for: the places are opened before anything is spent, and nothing paid is lost."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dpkmeans.errors import FileError
from dpkmeans.storage.outputs import STDOUT, Output, is_stdout, opened_output

ROOM = 2**22  # bytes; a model of 8 clusters takes some hundred thousand, most of it its certificate


@contextmanager
def reserved(*paths: Path | None) -> Iterator[tuple[Output | None, ...]]:
    """The paths, opened, with room on their disks."""
    with ExitStack() as stack:
        yield tuple(None if path is None else stack.enter_context(opened_output(path, ROOM)) for path in paths)


@dataclass(frozen=True)
class Saved:
    """What became of a result: the error if it is not where it should be, and whether it is on standard output."""

    error: FileError | None
    on_stdout: bool


def save(write: Callable[[os.PathLike[str]], None], place: Output, what: str, *, printed: bool) -> Saved:
    """Write what was paid for to its place. Where that fails: to the folder for temporary files, or standard output.

    `printed` says that all of it is printed anyway.
    """
    try:
        write(place)
    except FileError as error:
        where, on_stdout = _elsewhere(write, what, printed)
        said = f"{error.message} The whole {what} is {where} instead: keep it, it is paid for."
        return Saved(FileError(said), on_stdout)
    return Saved(None, is_stdout(place.path))


def _elsewhere(write: Callable[[os.PathLike[str]], None], what: str, printed: bool) -> tuple[str, bool]:
    try:
        handle, name = tempfile.mkstemp(prefix=f"dpkmeans-{what}-", suffix=".json")
        os.close(handle)
        try:
            write(Path(name))
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        return f"in {name}", False
    except OSError:
        if not printed:
            with opened_output(STDOUT) as stdout:
                write(stdout)
        return "on standard output", not printed
