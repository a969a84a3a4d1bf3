"""The SQLite file of a durable ledger: opening, waiting, and errors that say what to do."""

from __future__ import annotations

import os
import random
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from dpkmeans.errors import LedgerError

VERSION = 1
APPLICATION = 0x64706B6D  # "dpkm"

SCHEMA = (
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL, "
    "dataset TEXT NOT NULL, analyst TEXT NOT NULL, nano INTEGER NOT NULL, cap INTEGER NOT NULL, "
    "spent INTEGER NOT NULL, fit TEXT NOT NULL, label TEXT NOT NULL, previous TEXT NOT NULL, sha256 TEXT NOT NULL)",
    "CREATE INDEX latest ON entries (dataset, number)",
    "CREATE TRIGGER no_update BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END",
    "CREATE TRIGGER no_delete BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'entries are never removed'); END",
)

T = TypeVar("T")


def open_ledger(path: Path, patience: float) -> sqlite3.Connection:
    """A connection to the ledger at `path`; one that can only look where the disk is read-only."""
    if not path.is_file():
        raise LedgerError(
            f"there is no ledger at {path}. Make one with: dpkmeans ledger create {path} --dataset NAME --cap 1.0"
        )
    try:
        return patiently(lambda: _checked(path, "mode=rw"), patience)
    except sqlite3.OperationalError as error:
        log = path.with_name(path.name + "-wal")
        readable = os.access(path, os.R_OK) and not (log.exists() and log.stat().st_size)
        if _code(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY) or not readable:
            raise
        return _checked(path, "mode=ro&immutable=1")  # on a read-only disk: good for looking, not for spending


def _checked(path: Path, how: str) -> sqlite3.Connection:
    """A connection to a ledger of ours; anything else is an error. A stranger's file gets to run nothing."""
    connection = _connect(path, how)
    try:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if application == APPLICATION and version > VERSION:
            raise LedgerError(f"{path} was written by a newer version of dpkmeans. Update dpkmeans to use it.")
        tables = connection.execute("SELECT sql FROM sqlite_master WHERE type NOT IN ('index', 'trigger')").fetchall()
        if application != APPLICATION or version != VERSION or tables != [(SCHEMA[0],)]:
            raise LedgerError(f"{path} is not a ledger. Give a file from: dpkmeans ledger create")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA wal_autocheckpoint = 200")  # a short log is written in place, which is faster
    except BaseException:
        connection.close()
        raise
    return connection


def is_sealed(connection: sqlite3.Connection) -> bool:
    """Whether the rules that keep entries from being changed or removed are in place, and nothing else is."""
    return {row[0] for row in connection.execute("SELECT sql FROM sqlite_master")} == set(SCHEMA)


def _connect(path: Path, how: str) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?{how}"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=0, check_same_thread=False)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 2**20)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


def create_file(path: Path, patience: float) -> None:
    """An empty ledger at `path`. It appears there complete or not at all; of several processes, one makes it."""
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
            for statement in SCHEMA:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
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
        raise LedgerError(f"{path} is read-only, so nothing can be spent. Give write permission to it and its folder.")
    if code == sqlite3.SQLITE_FULL:
        raise LedgerError(f"the disk of {path} is full. Nothing was spent, and nothing was drawn. Make room.")
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
