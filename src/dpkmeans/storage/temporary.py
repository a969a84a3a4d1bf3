"""Folders and files that are there for a while: removed when they are done with, and by the next run after a crash.

A folder with records is locked for as long as its process lives. The operating system lets go of the lock when the
process ends, in whatever way, so a folder that can be locked has no owner any more, and goes.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpkmeans.errors import FileError

PREFIX = "dpkmeans-records-"
SUFFIX = ".dpkmeans"  # of files that are to take the name of a result
_OURS = re.compile(re.escape(PREFIX) + r"\w{8}")
_TRIES = 5  # to remove a folder while a thread still writes to it

_to_remove: set[Path] = set()


class TemporaryFolder:
    """A folder for records that only this user may enter. It goes with `close`, and at the latest with this object."""

    def __init__(self) -> None:
        remove_abandoned()
        try:
            self.path, handle = _new_locked_folder()
        except OSError as error:
            raise _no_place(error) from None
        _to_remove.add(self.path)
        self.close = weakref.finalize(self, _remove_mine, self.path, handle, os.getpid())


def _new_locked_folder() -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX))  # mode 0700
        try:
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue  # another process took it for abandoned before it was locked
        with suppress(OSError):  # without locks, nobody removes it but this process
            fcntl.flock(handle, fcntl.LOCK_EX)
        if path.exists():
            return path, handle
        os.close(handle)


def _remove_mine(path: Path, handle: int, owner: int) -> None:
    if os.getpid() == owner:  # not in a process that was forked off
        _remove(path)
        _to_remove.discard(path)
        os.close(handle)


def _remove(path: Path) -> None:
    for _ in range(_TRIES):
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return


def remove_abandoned() -> None:
    """Remove folders with records that a process of this user left behind when it was killed."""
    with suppress(OSError):
        for entry in os.scandir(tempfile.gettempdir()):
            if _OURS.fullmatch(entry.name):
                with suppress(OSError):
                    _remove_if_abandoned(Path(entry.path))


def _remove_if_abandoned(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        found = os.fstat(handle)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) != stat.S_IRWXU:
            return
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # an error: somebody is at work
        _remove(path)
    finally:
        os.close(handle)


@contextmanager
def unfinished(target: Path) -> Iterator[tuple[int, Path]]:
    """A temporary file beside `target`, open and locked. It goes however this ends, unless it has taken another name.

    Those that a process of this user left behind for the same target when it was killed go first. One that has content
    stays: it may hold a result that was paid for.
    """
    prefix = f".{target.name[:100]}."
    _remove_abandoned_files(target.parent, prefix)
    handle, path = _new_locked_file(target.parent, prefix)
    _to_remove.add(path)
    try:
        yield handle, path
    finally:
        path.unlink(missing_ok=True)
        _to_remove.discard(path)


def _new_locked_file(folder: Path, prefix: str) -> tuple[int, Path]:
    while True:
        handle, name = tempfile.mkstemp(prefix=prefix, suffix=SUFFIX, dir=folder)  # mode 0600
        with suppress(OSError):  # as with folders
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return handle, Path(name)
        os.close(handle)


def _remove_abandoned_files(folder: Path, prefix: str) -> None:
    ours = re.compile(re.escape(prefix) + r"\w{8}" + re.escape(SUFFIX))
    with suppress(OSError):
        for entry in os.scandir(folder):
            if ours.fullmatch(entry.name):
                with suppress(OSError):
                    _remove_file_if_abandoned(entry.path)


def _remove_file_if_abandoned(path: str) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) != 0o600:
            return
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # an error: somebody is at work
        if os.read(handle, 1) in (b"", b"\0"):  # nothing, or room that was reserved
            os.unlink(path)
    finally:
        os.close(handle)


def remove_all() -> None:
    """Remove everything at once, for a process that ends without unwinding."""
    for path in list(_to_remove):
        if path.is_dir():
            _remove(path)
        else:
            with suppress(OSError):
                path.unlink(missing_ok=True)


@contextmanager
def written_there() -> Iterator[None]:
    """Writing to a temporary folder: a full disk is an error that says so."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise _no_place(error) from None


def _no_place(error: OSError) -> FileError:
    return FileError(
        f"cannot write to the folder for temporary files, {tempfile.gettempdir()}: "
        f"{os.strerror(error.errno) if error.errno else type(error).__name__}.",
        hint="Records that are read several times are kept there meanwhile. Make room, or set the environment variable "
        "TMPDIR to a folder with more.",
    )
