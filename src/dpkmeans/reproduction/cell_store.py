"""Finished cells on disk. Each is stored completely or not at all, and once, even if the process is killed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dpkmeans.errors import FileError

NAME = "cells.sqlite"


class CellStore:
    """Rows by key in one SQLite file. One transaction per task; existing keys are not overwritten."""

    def __init__(self, folder: Path, terms: dict[str, Any]) -> None:
        self.path = folder / NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._base = sqlite3.connect(self.path, timeout=60)
            with self._base:
                self._base.execute("CREATE TABLE IF NOT EXISTS terms (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
                self._base.execute("CREATE TABLE IF NOT EXISTS cells (key TEXT PRIMARY KEY, row TEXT NOT NULL)")
        except (sqlite3.Error, OSError) as error:
            raise FileError(f"cannot use {self.path}: {error}. Give another folder with --out.") from None
        self._agree(terms)

    def _agree(self, terms: dict[str, Any]) -> None:
        """Refuse cells that were computed with another seed, protocol or data: their numbers cannot be combined."""
        with self._base:
            for name, value in terms.items():
                text = json.dumps(value, sort_keys=True)
                self._base.execute("INSERT OR IGNORE INTO terms VALUES (?, ?)", (name, text))
                (kept,) = self._base.execute("SELECT value FROM terms WHERE name = ?", (name,)).fetchone()
                if kept != text:
                    raise FileError(
                        f"{self.path} holds cells computed with {name} {kept}; this run has {text}. "
                        "Give another folder with --out."
                    )

    def add(self, rows: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Store rows, all or none."""
        with self._base:
            lines = [(key, json.dumps(row)) for key, row in rows]
            self._base.executemany("INSERT OR IGNORE INTO cells VALUES (?, ?)", lines)

    def missing(self, keys: Sequence[str]) -> set[str]:
        """The keys that are not stored."""
        there = {key for (key,) in self._base.execute("SELECT key FROM cells")}
        return set(keys) - there

    def rows(self, keys: Sequence[str]) -> list[dict[str, Any]]:
        """The rows of these keys, in their order."""
        there = dict(self._base.execute("SELECT key, row FROM cells").fetchall())
        return [json.loads(there[key]) for key in keys]

    def close(self) -> None:
        self._base.close()
