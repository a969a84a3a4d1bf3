"""The tables of a ledger's file, the rules that protect them, and how an older file becomes a newer one."""

from __future__ import annotations

import sqlite3

VERSION = 3
"""2: a data set may count persons, or have a cap in rho or at a delta. 3: releases, shares of analysts, signatures."""
OLDEST = 1
APPLICATION = 0x64706B6D  # "dpkm"
UNSEALED = "the rules that protect its entries were removed or changed"

BEFORE_3 = (
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL, "
    "dataset TEXT NOT NULL, analyst TEXT NOT NULL, nano INTEGER NOT NULL, cap INTEGER NOT NULL, "
    "spent INTEGER NOT NULL, fit TEXT NOT NULL, label TEXT NOT NULL, previous TEXT NOT NULL, sha256 TEXT NOT NULL)",
    "CREATE INDEX latest ON entries (dataset, number)",
    "CREATE TRIGGER no_update BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END",
    "CREATE TRIGGER no_delete BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'entries are never removed'); END",
)
SINCE_3 = ("CREATE INDEX fits ON entries (fit, number)", "CREATE INDEX kinds ON entries (dataset, kind, analyst, nano)")


def version_of(connection: sqlite3.Connection) -> int:
    """The version that the file says it has."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def is_ledger(connection: sqlite3.Connection) -> bool:
    """Whether there is the table of entries, and no other."""
    tables = connection.execute("SELECT sql FROM sqlite_master WHERE type NOT IN ('index', 'trigger')").fetchall()
    return tables == [(BEFORE_3[0],)] and version_of(connection) >= OLDEST


def is_sealed(connection: sqlite3.Connection) -> bool:
    """Whether the rules that keep entries from being changed or removed are in place, and nothing else is."""
    expected = {*BEFORE_3, *SINCE_3} if version_of(connection) >= 3 else set(BEFORE_3)
    return {row[0] for row in connection.execute("SELECT sql FROM sqlite_master")} == expected


def create_tables(connection: sqlite3.Connection) -> None:
    """Tables and rules of a new ledger, within a transaction."""
    for statement in (*BEFORE_3, *SINCE_3):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def upgrade(connection: sqlite3.Connection) -> None:
    """Bring an older file to this version, within the transaction of the first write; its entries stay as they are.

    Older versions then refuse the file by name, and processes of theirs that have it open refuse to write.
    """
    if version_of(connection) < VERSION:
        for statement in SINCE_3:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
