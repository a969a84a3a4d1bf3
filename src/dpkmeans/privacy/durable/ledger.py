"""A durable ledger: one SQLite file for many data sets, analysts and processes.

A spend is on the disk before its noise is drawn. A fit with a promised total reserves all of it in one entry before
its first draw, and gives back what it did not use once it is done; if it is interrupted, all of it stays spent. A
spend that would pass the cap of its data set is refused, and leaves no entry.
"""

from __future__ import annotations

import getpass
import os
import secrets
import sqlite3
import threading
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from dpkmeans.core.epsilon import Epsilon, Spend
from dpkmeans.core.privacy import Privacy
from dpkmeans.errors import BudgetError, LedgerError, MethodError, TooFewRecordsError, UnsettledWarning, warn
from dpkmeans.privacy.durable.hash_chain import (
    BEGINNING,
    COLUMNS,
    FIELDS,
    LedgerEntry,
    Verification,
    check_unit,
    checked_entry,
    unit_label,
    verify,
)
from dpkmeans.privacy.durable.sqlite import UNSEALED, LedgerFile, create_file, damaged, is_sealed, needs_units
from dpkmeans.privacy.ledger import check_process, cost_of
from dpkmeans.storage.json_files import sync_folder

MAX_NAME = 200
PATIENCE = 60.0
"""Seconds to wait for other writers."""

_LATEST = f"SELECT {COLUMNS} FROM entries ORDER BY number DESC LIMIT 1"
_LATEST_OF = f"SELECT {COLUMNS} FROM entries WHERE dataset = ? ORDER BY number DESC LIMIT 1"
_FIRST_OF = f"SELECT {COLUMNS} FROM entries WHERE dataset = ? ORDER BY number LIMIT 1"
_LATEST_OF_FIT = f"SELECT {COLUMNS} FROM entries WHERE fit = ? ORDER BY number DESC LIMIT 1"
_ALL = f"SELECT {COLUMNS} FROM entries ORDER BY number"
_INSERT = f"INSERT INTO entries ({COLUMNS}) VALUES ({', '.join('?' * len(FIELDS))})"


@dataclass(frozen=True)
class DataSet:
    """A data set as the ledger knows it."""

    name: str
    cap: Epsilon
    spent: Epsilon
    unit: str = "row"

    @property
    def remaining(self) -> Epsilon:
        """What may still be spent; nothing where the cap was lowered below what is spent."""
        return max(self.cap - self.spent, Epsilon(0))


class DurableLedger:
    """The ledger in the file `path`, used in the name of `analyst` (by default the user of the process).

    Safe to use from many threads and processes at once. The file must lie on a local disk. `DPKMeans` and
    `make_synopsis` take it as `ledger`, together with the name of the `dataset`.

    Guarantee: releases charged here are together `cap`-differentially private, for neighbours that differ by one unit
    of the data set (a row or a person) added or removed, if each is `proved`. It knows nothing of releases that are not
    charged here. Source: proofs/ledger.md.

    >>> import tempfile
    >>> ledger = DurableLedger.create(Path(tempfile.mkdtemp()) / "ledger.db")
    >>> ledger.add("visits", cap=1.5)
    >>> ledger.account("visits").record(Spend("counts", (Epsilon.of(0.5),)))
    >>> float(ledger.dataset("visits").remaining)
    1.0
    """

    def __init__(self, path: str | Path, *, analyst: str | None = None, patience: float = PATIENCE) -> None:
        self.path = Path(path).absolute()  # the working folder may change before the file is opened again
        self.analyst = _checked_name(_user() if analyst is None else analyst, "analyst")
        self._file = LedgerFile(self.path, patience)
        self._file.read(lambda connection: None)  # refuses at once what is no ledger

    @classmethod
    def create(cls, path: str | Path, *, analyst: str | None = None, patience: float = PATIENCE) -> DurableLedger:
        """Open the ledger at `path`, and make an empty one first where there is none."""
        target = Path(path)
        _checked_name(_user() if analyst is None else analyst, "analyst")
        if not target.exists() or target.stat().st_size == 0:
            create_file(target, patience)
            sync_folder(target.parent)
        return cls(path, analyst=analyst, patience=patience)

    # --- data sets --------------------------------------------------------------------------------

    def add(self, dataset: str, cap: float | Epsilon, *, unit: str = "row") -> None:
        """Take in a new data set, of which at most `cap` may ever be spent, per `"row"` or per `"person"`."""
        name, budget = _checked_name(dataset, "dataset"), Epsilon.of(cap, "cap")
        label = unit_label(unit)

        def create(connection: sqlite3.Connection) -> None:
            if connection.execute(_LATEST_OF, (name,)).fetchone():
                raise MethodError(
                    f"{self.path} already has a data set {name!r}. Change its cap with: "
                    f"dpkmeans ledger cap {self.path} --dataset {name} --cap {budget}"
                )
            self._append(connection, "create", name, budget.nano, cap=budget.nano, spent=0, label=label)
            if label:
                needs_units(connection)

        self._file.write(create)

    def set_cap(self, dataset: str, cap: float | Epsilon) -> None:
        """Change the cap. Below what is spent already, it ends all spending; what is spent stays."""
        budget = Epsilon.of(cap, "cap")

        def change(connection: sqlite3.Connection) -> None:
            before = self._latest(connection, dataset)
            self._append(connection, "cap", dataset, budget.nano, cap=budget.nano, spent=before.spent)

        self._file.write(change)

    def dataset(self, name: str) -> DataSet:
        """The data set called `name`."""
        return self._file.read(lambda connection: self._dataset(connection, name))

    def datasets(self) -> tuple[DataSet, ...]:
        """All data sets, by name."""
        return self._file.read(lambda c: tuple(self._dataset(c, name) for name in _names(c)))

    # --- spending ---------------------------------------------------------------------------------

    def account(
        self, dataset: str, *, promised: float | Epsilon | Privacy | None = None, note: str = "", unit: str = "row"
    ) -> Account:
        """The parent for the `Ledger` of one fit.

        Refuses at once where `promised` does not fit under the cap, or the fit's `unit` is not that of the data set.
        """
        asked, known = Privacy.of(promised), self.dataset(dataset)
        total = None if asked is None else cost_of(asked, Privacy(known.cap)).pure
        left = known.remaining
        check_unit(dataset, known.unit, unit)
        if total is not None and total > left:
            raise _refusal(dataset, total, left)
        return Account(self, dataset, total, note)

    def spend(self, dataset: str, epsilon: Epsilon, *, fit: str, label: str) -> LedgerEntry:
        """Commit a spend, or refuse it. On return it is on the disk."""
        return self._file.write(lambda c: self._charge(c, "spend", dataset, epsilon, fit=fit, label=label))

    def reserve(self, dataset: str, total: Epsilon, *, fit: str, label: str) -> LedgerEntry:
        """Commit the promised total of a fit as one spend, or refuse it. A fit reserves once."""

        def reserve(connection: sqlite3.Connection) -> LedgerEntry:
            if connection.execute(_LATEST_OF_FIT, (fit,)).fetchone():
                raise MethodError(f"fit {fit!r} has entries in {self.path} already. Open an account for each fit.")
            return self._charge(connection, "reserve", dataset, total, fit=fit, label=label)

        return self._file.write(reserve)

    def settle(self, dataset: str, unused: Epsilon, *, fit: str, label: str) -> LedgerEntry:
        """Give back what a finished fit reserved and did not use. A reservation is settled once."""

        def give_back(connection: sqlite3.Connection) -> LedgerEntry:
            row = connection.execute(_LATEST_OF_FIT, (fit,)).fetchone()
            reserved = None if row is None else checked_entry(row)
            if reserved is None or (reserved.kind, reserved.dataset) != ("reserve", dataset):
                raise MethodError(f"fit {fit!r} has no open reservation for {dataset!r} in {self.path}.")
            if not 0 <= unused.nano <= reserved.nano:
                raise BudgetError(f"fit {fit!r} reserved {Epsilon(reserved.nano)}; it cannot give back {unused}.")
            before = self._latest(connection, dataset)
            spent = before.spent - unused.nano
            return self._append(
                connection, "settle", dataset, -unused.nano, cap=before.cap, spent=spent, fit=fit, label=label
            )

        return self._file.write(give_back)

    # --- looking ----------------------------------------------------------------------------------

    def entries(self) -> tuple[LedgerEntry, ...]:
        """All entries, as they stand."""
        return self._file.read(lambda c: tuple(LedgerEntry(*row) for row in c.execute(_ALL)))

    def verify(self, expected_head: str | None = None) -> Verification:
        """Check the file and the whole chain. See `hash_chain.verify`."""

        def check(connection: sqlite3.Connection) -> Verification:
            if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                raise damaged(self.path)
            found = verify((LedgerEntry(*row) for row in connection.execute(_ALL)), expected_head)
            if found.intact and not is_sealed(connection):
                return replace(found, broken_at=found.entries + 1, why=UNSEALED)
            return found

        return self._file.read(check)

    def close(self) -> None:
        """Let go of the file. The next use opens it again."""
        self._file.close()

    def __reduce__(self) -> Any:
        return partial(DurableLedger, str(self.path), analyst=self.analyst, patience=self._file.patience), ()

    # --- inside -----------------------------------------------------------------------------------

    def _latest(self, connection: sqlite3.Connection, dataset: str) -> LedgerEntry:
        row = connection.execute(_LATEST_OF, (dataset,)).fetchone()
        if row is None:
            known = ", ".join(_names(connection)) or "none yet"
            raise MethodError(
                f"{self.path} has no data set {dataset!r}; it has: {known}. Add it with: "
                f"dpkmeans ledger create {self.path} --dataset {dataset} --cap 1.0"
            )
        return checked_entry(row)

    def _dataset(self, connection: sqlite3.Connection, name: str) -> DataSet:
        latest = self._latest(connection, name)
        first = checked_entry(connection.execute(_FIRST_OF, (name,)).fetchone())
        return DataSet(name, Epsilon(latest.cap), Epsilon(latest.spent), first.unit)

    def _charge(
        self, connection: sqlite3.Connection, kind: str, dataset: str, epsilon: Epsilon, *, fit: str, label: str
    ) -> LedgerEntry:
        before, amount = self._latest(connection, dataset), Epsilon.of(epsilon)
        spent = before.spent + amount.nano
        if spent > before.cap:
            raise _refusal(dataset, amount, max(Epsilon(before.cap - before.spent), Epsilon(0)))
        return self._append(connection, kind, dataset, amount.nano, cap=before.cap, spent=spent, fit=fit, label=label)

    def _append(
        self, connection: sqlite3.Connection, kind: str, dataset: str, nano: int, *, cap: int, spent: int, **more: str
    ) -> LedgerEntry:
        row = connection.execute(_LATEST).fetchone()
        number, previous = (1, BEGINNING) if row is None else (checked_entry(row).number + 1, checked_entry(row).sha256)
        when = datetime.now(UTC).isoformat(timespec="milliseconds")
        fit, label = more.get("fit", ""), more.get("label", "")
        entry = LedgerEntry(number, when, kind, dataset, self.analyst, nano, cap, spent, fit, label, previous, "")
        entry = replace(entry, sha256=entry.digest())
        connection.execute(_INSERT, tuple(getattr(entry, name) for name in FIELDS))
        return entry


class Account:
    """What one fit may spend from a data set: the parent of that fit's `Ledger`, in the process that opened it.

    With a promised total, all of it is reserved before the first draw, and `settle` gives back the rest. Without one,
    every spend is an entry of its own. As a `with` statement it settles at the end; after an error all stays spent,
    unless the error is that a released count is too small, after which nothing more can have been drawn.
    """

    def __init__(self, ledger: DurableLedger, dataset: str, promised: Epsilon | None, note: str) -> None:
        self.ledger = ledger
        self.dataset = dataset
        self.promised = promised
        self.note = note
        self.fit = secrets.token_hex(8)
        self.spent = Epsilon(0)
        self.n_spends = 0
        self._reserved = False
        self._pid = os.getpid()
        self._lock = threading.RLock()

    def __enter__(self) -> Account:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or issubclass(kind, TooFewRecordsError):
            self.settle()

    def account(self, total: Epsilon | Privacy) -> AbstractContextManager[Account]:
        """For a ledger under this account that promises a total: reserved as a whole, or refused at once."""
        promised = cost_of(Privacy(total) if isinstance(total, Epsilon) else total, Privacy(Epsilon(1))).pure
        if self.promised is None:
            unit = self.ledger.dataset(self.dataset).unit
            return self.ledger.account(self.dataset, promised=promised, note=self.note, unit=unit)
        if self.spent + promised > self.promised:
            raise _refusal(self.dataset, promised, self.promised - self.spent)
        return nullcontext(self)

    def record(self, spend: Spend) -> None:
        """On return, the spend is on the disk. Called by `Ledger` before anything is drawn."""
        check_process(self._pid)
        if spend.rho is not None:
            raise BudgetError(f"{spend.label!r} asks for rho={spend.rho}, but the data set counts pure epsilon.")
        with self._lock:
            epsilon = spend.epsilon
            if self.promised is None:
                label = f"{self.note}: {spend.label}" if self.note else spend.label
                self.ledger.spend(self.dataset, epsilon, fit=self.fit, label=_short(label))
            elif self.spent + epsilon > self.promised:
                raise _refusal(self.dataset, epsilon, self.promised - self.spent)
            elif not self._reserved:
                self.ledger.reserve(self.dataset, self.promised, fit=self.fit, label=_short(self.note))
                self._reserved = True
            self.spent += epsilon
            self.n_spends += 1

    def settle(self) -> None:
        """The fit is done: give back what it reserved and did not spend. A second call does nothing.

        Where the ledger cannot be written, the whole promise stays spent: a warning, since the result is good.
        """
        check_process(self._pid)
        with self._lock:
            if not self._reserved or self.promised is None:
                return
            self._reserved = False
            unused = self.promised - self.spent
            try:
                self.ledger.settle(self.dataset, unused, fit=self.fit, label=f"{self.n_spends} spends")
            except LedgerError as error:
                warn(UnsettledWarning(f"{error} The whole promised epsilon stays spent."))


def _refusal(dataset: str, wanted: Epsilon, left: Epsilon) -> BudgetError:
    return BudgetError(
        f"epsilon={wanted} is asked for, but data set {dataset!r} has only {left} left. Nothing was spent or "
        "drawn for it. Ask for less, or have the cap raised with: dpkmeans ledger cap."
    )


def _names(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute("SELECT DISTINCT dataset FROM entries ORDER BY dataset")
    return [str(row[0]) for row in rows]


def _checked_name(name: Any, what: str) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise MethodError(f"{what} must be a name of 1 to {MAX_NAME} printable characters; got {name!r:.80}.")
    return name


def _short(label: str) -> str:
    return label if len(label) <= MAX_NAME else label[: MAX_NAME - 1] + "…"


def _user() -> str:
    try:
        return os.environ.get("DPKMEANS_ANALYST") or getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "unknown"
