"""A durable ledger: one SQLite file for many data sets, analysts and processes.

A spend is on the disk before its noise is drawn. A fit with a promised total reserves all of it in one entry before
its first draw, and gives back what it did not use once it is done; if it is interrupted, all of it stays spent. A
spend that would pass the cap of its data set is refused, and leaves no entry.
"""

from __future__ import annotations

import getpass
import os
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.privacy import Loss, Privacy
from dpkmeans.core.rho import Rho
from dpkmeans.errors import BudgetError, MethodError
from dpkmeans.privacy.durable.account import MAX_NAME, Account
from dpkmeans.privacy.durable.hash_chain import (
    BEGINNING,
    COLUMNS,
    FIELDS,
    LedgerEntry,
    Verification,
    check_unit,
    checked_entry,
    verify,
)
from dpkmeans.privacy.durable.sqlite import UNSEALED, LedgerFile, create_file, damaged, is_sealed, needs_terms
from dpkmeans.privacy.durable.terms import RHO, DataSet, Terms
from dpkmeans.privacy.ledger import cost_of
from dpkmeans.storage.outputs import sync_folder

PATIENCE = 60.0
"""Seconds to wait for other writers."""

_LATEST = f"SELECT {COLUMNS} FROM entries ORDER BY number DESC LIMIT 1"
_LATEST_OF = f"SELECT {COLUMNS} FROM entries WHERE dataset = ? AND kind NOT LIKE '%{RHO}' ORDER BY number DESC LIMIT 1"
_LATEST_RHO_OF = f"SELECT {COLUMNS} FROM entries WHERE dataset = ? AND kind LIKE '%{RHO}' ORDER BY number DESC LIMIT 1"
_FIRST_OF = f"SELECT {COLUMNS} FROM entries WHERE dataset = ? ORDER BY number LIMIT 1"
_LATEST_OF_FIT = f"SELECT {COLUMNS} FROM entries WHERE fit = ? ORDER BY number DESC LIMIT 1"
_ALL = f"SELECT {COLUMNS} FROM entries ORDER BY number"
_INSERT = f"INSERT INTO entries ({COLUMNS}) VALUES ({', '.join('?' * len(FIELDS))})"


class DurableLedger:
    """The ledger in the file `path`, used in the name of `analyst` (by default the user of the process).

    Safe to use from many threads and processes at once. The file must lie on a local disk. `DPKMeans` and
    `make_synopsis` take it as `ledger`, together with the name of the `dataset`.

    Guarantee: releases charged here are together `cap`-differentially private, for neighbours that differ by one unit
    of the data set (a row or a person) added or removed, if each is `proved`. The cap is an epsilon, an epsilon at a
    delta, or a rho, from the creation of the data set on. The ledger knows nothing of releases that are not charged
    here. Source: proofs/ledger.md.

    >>> import tempfile
    >>> ledger = DurableLedger.create(Path(tempfile.mkdtemp()) / "ledger.db")
    >>> ledger.add("visits", cap=1.5)
    >>> entry = ledger.spend("visits", Epsilon.of(0.5), fit="first", label="counts")
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

    def add(self, dataset: str, cap: float | Epsilon | Privacy, *, unit: str = "row") -> None:
        """Take in a new data set, of which at most `cap` may ever be spent, per `"row"` or per `"person"`."""
        name, budget = _checked_name(dataset, "dataset"), _cap(cap)
        terms = Terms.of(unit, budget)
        units = terms.units(budget)

        def create(connection: sqlite3.Connection) -> None:
            if connection.execute(_LATEST_OF, (name,)).fetchone():
                raise MethodError(
                    f"{self.path} already has a data set {name!r}. Change its cap with: "
                    f"dpkmeans ledger cap {self.path} --dataset {name} {_option(budget)}"
                )
            self._append(connection, "create", name, units, cap=units, spent=0, label=terms.label)
            if terms.label:
                needs_terms(connection)

        self._file.write(create)

    def set_cap(self, dataset: str, cap: float | Epsilon | Privacy) -> None:
        """Change the cap, to one of the same kind. Below what is spent already, it ends all spending."""
        budget = _cap(cap)

        def change(connection: sqlite3.Connection) -> None:
            before = self._latest(connection, dataset)
            terms = self._terms(connection, dataset)
            at_delta = budget.kind == "epsilon" and terms.delta is not None
            units = terms.units(replace(budget, delta=terms.delta) if at_delta else budget)
            self._append(connection, "cap", dataset, units, cap=units, spent=before.spent)

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
        total, known = Privacy.of(promised), self.dataset(dataset)
        check_unit(dataset, known.unit, unit)
        if total is not None:
            _charged(known, cost_of(total, known.privacy))
        return Account(self, dataset, total, note)

    def spend(self, dataset: str, amount: Epsilon | Loss, *, fit: str, label: str) -> LedgerEntry:
        """Commit a spend, or refuse it. On return it is on the disk."""
        cost = Loss(amount) if isinstance(amount, Epsilon) else amount
        return self._file.write(lambda c: self._charge(c, "spend", dataset, cost, fit=fit, label=label))

    def reserve(self, dataset: str, total: Epsilon | Privacy, *, fit: str, label: str) -> Epsilon | Rho:
        """Commit the promised total of a fit as one spend, or refuse it. Says what it took. A fit reserves once."""
        asked = Privacy(total) if isinstance(total, Epsilon) else total

        def reserve(connection: sqlite3.Connection) -> Epsilon | Rho:
            if connection.execute(_LATEST_OF_FIT, (fit,)).fetchone():
                raise MethodError(f"fit {fit!r} has entries in {self.path} already. Open an account for each fit.")
            terms = self._terms(connection, dataset)
            cost = cost_of(asked, self._dataset(connection, dataset).privacy)
            entry = self._charge(connection, "reserve", dataset, cost, fit=fit, label=label)
            return terms.amount(entry.nano, entry.kind)

        return self._file.write(reserve)

    def settle(self, dataset: str, unused: Epsilon | Rho, *, fit: str, label: str) -> LedgerEntry:
        """Give back what a finished fit reserved and did not use. A reservation is settled once.

        Of a pure reservation nothing is given back once the data set has spent rho under its epsilon and delta: what
        was left for that was found with all of it.
        """

        def give_back(connection: sqlite3.Connection) -> LedgerEntry:
            row = connection.execute(_LATEST_OF_FIT, (fit,)).fetchone()
            reserved = None if row is None else checked_entry(row)
            if reserved is None or reserved.dataset != dataset or not reserved.kind.startswith("reserve"):
                raise MethodError(f"fit {fit!r} has no open reservation for {dataset!r} in {self.path}.")
            taken = self._terms(connection, dataset).amount(reserved.nano, reserved.kind)
            units = unused.nano if isinstance(unused, Epsilon) else unused.femto
            if type(unused) is not type(taken) or not 0 <= units <= reserved.nano:
                raise BudgetError(f"fit {fit!r} reserved {taken}; it cannot give back {unused}.")
            kind = reserved.kind.replace("reserve", "settle")
            before = self._latest(connection, dataset, in_rho=kind.endswith(RHO))
            if kind == "settle" and self._spent_rho(connection, dataset):
                units = 0
            spent = before.spent - units
            return self._append(connection, kind, dataset, -units, cap=before.cap, spent=spent, fit=fit, label=label)

        return self._file.write(give_back)

    # --- looking ----------------------------------------------------------------------------------

    def entries(self) -> tuple[LedgerEntry, ...]:
        """All entries, as they stand."""
        return self._file.read(lambda c: tuple(LedgerEntry(*row) for row in c.execute(_ALL)))

    def head(self) -> str:
        """The hash of the last entry. Kept elsewhere, it shows later whether entries were removed: see `verify`."""

        def last(connection: sqlite3.Connection) -> str:
            row = connection.execute(_LATEST).fetchone()
            return BEGINNING if row is None else checked_entry(row).sha256

        return self._file.read(last)

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

    def _latest(self, connection: sqlite3.Connection, dataset: str, *, in_rho: bool = False) -> LedgerEntry:
        """The last entry of a data set: of those in rho under a cap in epsilon at a delta, or of all others."""
        row = connection.execute(_LATEST_RHO_OF if in_rho else _LATEST_OF, (dataset,)).fetchone()
        if row is None:
            known = ", ".join(_names(connection)) or "none yet"
            raise MethodError(
                f"{self.path} has no data set {dataset!r}; it has: {known}. Add it with: "
                f"dpkmeans ledger create {self.path} --dataset {dataset} --cap 1.0"
            )
        return checked_entry(row)

    def _terms(self, connection: sqlite3.Connection, dataset: str) -> Terms:
        return Terms.read(checked_entry(connection.execute(_FIRST_OF, (dataset,)).fetchone()).label, dataset)

    def _spent_rho(self, connection: sqlite3.Connection, dataset: str) -> int:
        row = connection.execute(_LATEST_RHO_OF, (dataset,)).fetchone()
        return 0 if row is None else checked_entry(row).spent

    def _dataset(self, connection: sqlite3.Connection, name: str) -> DataSet:
        latest = self._latest(connection, name)
        terms = self._terms(connection, name)
        held = terms.held(latest.spent, self._spent_rho(connection, name))
        return DataSet(name, terms.cap(latest.cap), held, terms.unit)

    def _charge(
        self, connection: sqlite3.Connection, kind: str, dataset: str, cost: Loss, *, fit: str, label: str
    ) -> LedgerEntry:
        known = self._dataset(connection, dataset)
        amount, after = _charged(known, cost)
        if isinstance(amount, Epsilon):
            units, cap, spent = amount.nano, known.privacy.pure.nano, after.pure.nano
        else:
            units, cap, spent = amount.femto, known.privacy.cap_in_rho(known.held).femto, after.rho.femto
            kind += RHO if known.kind == "epsilon-delta" else ""
        return self._append(connection, kind, dataset, units, cap=cap, spent=spent, fit=fit, label=label)

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


def _charged(known: DataSet, cost: Loss) -> tuple[Epsilon | Rho, Loss]:
    """What `cost` comes to in a data set, and what is held there then; an error where that passes the cap."""
    if cost.pure.nano < 0 or cost.rho.femto < 0 or cost == Loss():
        raise BudgetError(f"must be at least 1e-9; got {cost}.", parameter="epsilon")
    charged = known.privacy.charged(known.held, cost)
    if not known.privacy.covers(known.held + charged):
        raise known.refusal(cost)
    return (charged.rho if charged.rho.femto else charged.pure), known.held + charged


def _cap(cap: float | Epsilon | Privacy) -> Privacy:
    return cap if isinstance(cap, Privacy) else Privacy(Epsilon.of(cap, "cap"))


def _option(cap: Privacy) -> str:
    return f"--cap {cap.epsilon}" if cap.rho is None else f"--rho {cap.rho}"


def _names(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute("SELECT DISTINCT dataset FROM entries ORDER BY dataset")
    return [str(row[0]) for row in rows]


def _checked_name(name: Any, what: str) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise MethodError(f"{what} must be a name of 1 to {MAX_NAME} printable characters; got {name!r:.80}.")
    return name


def _user() -> str:
    try:
        return os.environ.get("DPKMEANS_ANALYST") or getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "unknown"
