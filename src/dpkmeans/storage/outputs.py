"""Where a result is written: a file that is replaced whole or not at all, a pipe, or standard output.

Links are followed, so what they point to is replaced and not they. Devices are refused. Room can be reserved before
anything is paid for what is to be written.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from dpkmeans.errors import FileError
from dpkmeans.storage.temporary import unfinished

STDOUT = Path("-")


class Output(os.PathLike[str]):
    """An opened place for one result. It may be given in place of a path; `file` is what to write to, then `finish`."""

    def __init__(self, path: Path, file: BinaryIO, temporary: Path | None, target: Path) -> None:
        self.path, self.file = path, file
        self._temporary, self._target = temporary, target

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return "standard output" if self.path == STDOUT else str(self.path)

    def write(self, data: bytes) -> None:
        """Write all of it. An error leaves an old file as it was."""
        with _explained(self.path):
            self.file.write(data)
        self.finish()

    def finish(self) -> None:
        """What was written to `file` takes its place."""
        with _explained(self.path):
            self.file.flush()
            if self._temporary is None:
                return
            self.file.truncate()  # what was reserved and not needed
            os.fsync(self.file.fileno())
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(self._temporary, 0o666 & ~umask)
            os.replace(self._temporary, self._target)
            sync_folder(self._target.parent)


@contextmanager
def opened_output(path: str | os.PathLike[str], room: int = 0) -> Iterator[Output]:
    """A place to write to, with `room` bytes reserved where it is a file. Refuses what cannot be written."""
    given = Path(path)
    with ExitStack() as stack:
        if is_stdout(given):
            yield Output(given, sys.stdout.buffer, None, given)
            return
        with _explained(given):
            if is_pipe(given):
                yielded = Output(given, stack.enter_context(_open_pipe(given)), None, given)
            else:
                target = target_of(given)
                handle, name = stack.enter_context(unfinished(target))
                file = stack.enter_context(os.fdopen(handle, "wb"))
                if room:
                    os.posix_fallocate(handle, 0, room)
                yielded = Output(given, file, name, target)
        yield yielded


def is_stdout(path: Path) -> bool:
    """Whether it is `-`, or a name such as /dev/stdout of what standard output is."""
    if path == STDOUT:
        return True
    try:
        return not path.is_dir() and os.path.samestat(path.stat(), os.fstat(1))
    except (OSError, ValueError):
        return False


def is_pipe(path: Path) -> bool:
    """Whether it is a named pipe, or one that a shell put in the place of a file."""
    return path.is_fifo()


def target_of(path: Path) -> Path:
    """The file that is replaced: what a link points to. Devices, sockets and folders are refused."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    if stat.S_ISDIR(mode):
        raise FileError(f"cannot write {path}: it is a folder. Give a file name.")
    if not stat.S_ISREG(mode):
        raise FileError(f"cannot write {path}: it is a device or a socket, not a file. Write - for standard output.")
    return Path(os.path.realpath(path))


def _open_pipe(path: Path) -> BinaryIO:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK)  # which does not wait for a reader
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        raise FileError(f"cannot write {path}: nobody reads from this pipe. Start the reader first.") from None
    os.set_blocking(handle, True)
    return os.fdopen(handle, "wb")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except FileError:
        raise
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise FileError(f"cannot write {path}: {why}. The file was left as it was.") from None


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk, so that a renamed file survives a power failure."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
