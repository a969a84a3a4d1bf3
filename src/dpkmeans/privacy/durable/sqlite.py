"""The SQLite file of a durable ledger: transactions, forks, waiting, and errors that say what to do.

SQLite's locks belong to a process, and its table of them lies in memory. A forked child has the table without the
locks, so what it commits is lost once its parent closes the file. Hence no connection is open while a process forks:
the fork waits for transactions to end and closes all connections; parent and child open the file again on next use.
"""

from __future__ import annotations

import os
import random
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from dpkmeans.errors import LedgerError
from dpkmeans.privacy.durable.tables import (
    APPLICATION,
    UNSEALED,
    VERSION,
    create_tables,
    is_ledger,
    is_sealed,
    upgrade,
    version_of,
)

T = TypeVar("T")


class LedgerFile:
    """The file of a durable ledger, for all threads of this process and of those forked from it."""

    def __init__(self, path: Path, patience: float) -> None:
        self.path = path
        self.patience = patience
        self._key = object()
        self._inode: tuple[int, int] | None = None

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work` finds in one consistent state of the file."""
        return self._transact("BEGIN", lambda connection: patiently(lambda: work(connection), self.patience), _rollback)

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do `work` alone and commit it. On return it is on the disk; after an error nothing of it is."""

        def sealed(connection: sqlite3.Connection) -> T:
            if not is_sealed(connection):
                raise LedgerError(f"{self.path}: {UNSEALED}. Run: dpkmeans ledger verify; then restore it.")
            upgrade(connection)
            return work(connection)

        return self._transact("BEGIN IMMEDIATE", sealed, self._commit)

    def close(self) -> None:
        """Let go of the file. The next use opens it again."""
        with _gate:
            if self._key in _connections and _pid == os.getpid():
                _connections.pop(self._key).close()

    def __del__(self) -> None:
        self.close()

    def _transact(
        self, begin: str, work: Callable[[sqlite3.Connection], T], end: Callable[[sqlite3.Connection], None]
    ) -> T:
        with _gate, clear_errors(self.path):
            connection = self._opened()
            patiently(lambda: connection.execute(begin), self.patience)
            try:
                self._check_in_place()
                result = work(connection)
                end(connection)
                self._check_in_place()  # before anything is drawn that was booked in a file which is no longer there
            except BaseException as error:
                if _connections.get(self._key) is not connection:  # a signal handler forked, and that closed it
                    raise LedgerError(
                        f"the process forked while it used {self.path}. See what stands there before you try again."
                    ) from error
                if connection.in_transaction:
                    with suppress(sqlite3.Error):
                        _rollback(connection)
                raise
            return result

    def _check_in_place(self) -> None:
        """Refuse where another file has taken the place of the one that was opened first, or there is none.

        What is booked in the one is not known in the other. It stays refused: only a new store takes the new file.
        """
        if _inode(self.path) != self._inode:
            raise LedgerError(
                f"{self.path} was replaced or removed while it was in use: a restored copy, perhaps. What was spent "
                "may be missing there. Nothing is drawn. Find the right file, check it with: dpkmeans ledger verify "
                "--head; then open it again."
            )

    def _commit(self, connection: sqlite3.Connection) -> None:
        connection.execute("COMMIT")

    def _opened(self) -> sqlite3.Connection:
        global _pid
        if _connections and _pid != os.getpid():
            raise LedgerError(
                f"{self.path} cannot be used here: this process was forked without Python's knowledge while a ledger "
                "was open, and SQLite could lose entries. Fork with os.fork or multiprocessing, or before opening it."
            )
        if self._key not in _connections:
            before = _inode(self.path)
            connection = open_ledger(self.path, self.patience)
            if _inode(self.path) != before:
                connection.close()
                raise LedgerError(f"{self.path} was replaced while it was opened. Nothing was spent. Try again.")
            self._inode = self._inode or before  # after a fork the file is opened again, and must be the same
            _pid, _connections[self._key] = os.getpid(), connection
        return _connections[self._key]


_gate = threading.RLock()
"""Held by whoever opens, uses or closes a connection, and by a process that forks."""
_connections: dict[object, sqlite3.Connection] = {}
"""All that are open, by the key of their `LedgerFile`."""
_pid = os.getpid()
"""The process that opened them."""


def _inode(path: Path) -> tuple[int, int] | None:
    """Device and inode of the file at `path`; None where there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _before_fork() -> None:
    _gate.acquire()
    for key in list(_connections):
        with suppress(sqlite3.Error):
            _connections[key].close()
            del _connections[key]


def _after_fork_in_child() -> None:
    global _gate
    _gate = threading.RLock()  # the thread that held the old one may not exist here


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=lambda: _gate.release(), after_in_child=_after_fork_in_child
    )


def open_ledger(path: Path, patience: float) -> sqlite3.Connection:
    """A connection to the ledger at `path`; one that can only look where the disk is read-only or full."""
    if not path.is_file():
        raise LedgerError(
            f"there is no ledger at {path}. Make one with: dpkmeans ledger create {path} --dataset NAME --cap 1.0"
        )
    try:
        return patiently(lambda: _checked(path, "mode=rw"), patience)
    except sqlite3.OperationalError as error:
        if _code(error) not in _UNWRITABLE or not os.access(path, os.R_OK):
            raise
        log = path.with_name(path.name + "-wal")
        if not (log.exists() and log.stat().st_size):
            return _checked(path, "mode=ro&immutable=1")
        if not os.access(path, os.W_OK):
            raise
        # The index of a log that a writer left behind is made in memory, where there is no room for its file.
        return patiently(lambda: _checked(path, "mode=rw", alone=True), patience)


_UNWRITABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def _checked(path: Path, how: str, *, alone: bool = False) -> sqlite3.Connection:
    """A connection to a ledger file; anything else is an error. An untrusted file runs no code.

    `alone` needs no file beside the ledger and its log, keeps others out, and can only look.
    """
    connection = _connect(path, how)
    try:
        if alone:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("PRAGMA query_only = ON")
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        if application == APPLICATION and version_of(connection) > VERSION:
            raise LedgerError(f"{path} was written by a newer version of dpkmeans. Update dpkmeans to use it.")
        if application != APPLICATION or not is_ledger(connection):
            raise LedgerError(f"{path} is not a ledger. Give a file from: dpkmeans ledger create")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA wal_autocheckpoint = 200")  # a short log is written in place, which is faster
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(path: Path, how: str) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?{how}"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=0, check_same_thread=False)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 2**20)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


def create_file(path: Path, patience: float) -> None:
    """An empty ledger at `path`. It appears there complete or not at all; of several processes, one makes it."""
    with _gate, clear_errors(path):
        _create_file(path, patience)


def _create_file(path: Path, patience: float) -> None:
    if path.exists():  # an empty file: nothing can be put in its place without losing somebody's entries
        initialise(path, patience)
        return
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    new = Path(name)
    try:
        initialise(new, patience)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(new, 0o666 & ~umask)
        with suppress(FileExistsError):
            os.link(new, path)
    finally:
        new.unlink(missing_ok=True)


def initialise(path: Path, patience: float) -> None:
    """Tables and rules of a ledger in an empty file."""
    connection = _connect(path, "mode=rwc")
    try:
        mode = patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone()[0], patience)
        if mode != "wal":
            raise LedgerError(f"{path} lies on a disk that cannot keep a ledger safe. Use a local disk.")
        connection.execute("PRAGMA synchronous = FULL")
        patiently(lambda: connection.execute("BEGIN IMMEDIATE"), patience)
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
            create_tables(connection)
        connection.execute("COMMIT")
    finally:
        connection.close()


def patiently(act: Callable[[], T], patience: float) -> T:
    """Wait for other writers with short random pauses: fair, and quicker than SQLite's own, which grow."""
    end = time.monotonic() + patience
    while True:
        try:
            return act()
        except sqlite3.OperationalError as error:
            if _code(error) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or time.monotonic() > end:
                raise
        time.sleep(random.uniform(0.0005, 0.003))


def _rollback(connection: sqlite3.Connection) -> None:
    connection.execute("ROLLBACK")


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


@contextmanager
def clear_errors(path: Path) -> Iterator[None]:
    """SQLite's errors in words that say what to do."""
    try:
        yield
    except sqlite3.Error as error:
        code = _code(error)
    except UnicodeDecodeError:  # a damaged file's text, in a row or in SQLite's own message
        code = sqlite3.SQLITE_CORRUPT
    except OSError as error:
        if isinstance(error, LedgerError):
            raise
        raise LedgerError(f"cannot open the ledger {path}: {error.strerror or error}.") from None
    else:
        return
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        raise LedgerError(
            f"{path} is read-only, so nothing can be spent. Give write permission to it and its folder, or free some "
            "space where its disk is full."
        )
    if code == sqlite3.SQLITE_FULL:
        raise LedgerError(f"the disk of {path} is full. Nothing was spent, and nothing was drawn. Free some space.")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        raise LedgerError(f"{path} is in use by other processes for too long. Nothing was spent. Try again.")
    if code == sqlite3.SQLITE_CANTOPEN:
        raise LedgerError(f"cannot open the ledger {path} or its log beside it. Check the permissions of the folder.")
    if code == sqlite3.SQLITE_IOERR:
        raise LedgerError(f"the disk of {path} failed or is full. Nothing was drawn. Check the disk.")
    raise damaged(path)


def damaged(path: Path) -> LedgerError:
    """The error for a file that cannot be read as a ledger."""
    return LedgerError(f"{path} is damaged, or it is not a ledger. Nothing was spent. Restore it from a copy.")
