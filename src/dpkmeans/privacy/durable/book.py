"""The entries of a durable ledger within one transaction: what they say, and how one is added."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.privacy import Loss
from dpkmeans.core.rho import Rho
from dpkmeans.errors import BudgetError, LedgerError, MethodError
from dpkmeans.privacy.durable.hash_chain import (
    BEGINNING,
    COLUMNS,
    FIELDS,
    LedgerEntry,
    Signer,
    check_whole,
    checked_entry,
)
from dpkmeans.privacy.durable.shares import check_share
from dpkmeans.privacy.durable.terms import RHO, DataSet, Terms
from dpkmeans.storage.keys import SigningKey

_ENTRIES = f"SELECT {COLUMNS} FROM entries"
_LATEST_OF = f"{_ENTRIES} WHERE dataset = ? AND kind NOT LIKE '%{RHO}' ORDER BY number DESC LIMIT 1"
_LATEST_RHO_OF = f"{_ENTRIES} WHERE dataset = ? AND kind LIKE '%{RHO}' ORDER BY number DESC LIMIT 1"
_KEY = "SELECT label, number FROM entries WHERE dataset = '' AND kind = 'key' ORDER BY number LIMIT 1"
_INSERT = f"INSERT INTO entries ({COLUMNS}) VALUES ({', '.join('?' * len(FIELDS))})"


@dataclass(frozen=True)
class Book:
    """The entries as one transaction sees them, for an analyst with a key, or without one.

    An entry that it builds upon is checked first: its hash, and in a signed ledger its signature.
    """

    connection: sqlite3.Connection
    path: Path
    analyst: str
    key: SigningKey | None

    # --- looking ----------------------------------------------------------------------------------

    def entries(self, dataset: str | None = None) -> list[LedgerEntry]:
        """The entries of a data set, or all, as they stand."""
        if dataset is None:
            rows = self.connection.execute(f"{_ENTRIES} ORDER BY number")
        else:
            rows = self.connection.execute(f"{_ENTRIES} WHERE dataset = ? ORDER BY number", (dataset,))
        return [LedgerEntry(*row) for row in rows]

    def last(self) -> LedgerEntry | None:
        """The last entry of all."""
        return self._one(f"{_ENTRIES} ORDER BY number DESC LIMIT 1")

    def head(self) -> str:
        """The hash of the last entry."""
        last = self.last()
        return BEGINNING if last is None else last.hash

    def seal_of(self, number: int) -> str | None:
        """Hash and signature of an entry, as they stand; None where it is not there."""
        row = self.connection.execute("SELECT sha256 FROM entries WHERE number = ?", (number,)).fetchone()
        return None if row is None else str(row[0])

    def check_history(self, number: int, seal: str) -> None:
        """Refuse a file in which entry `number` is not the one with that seal; 0 for none seen yet.

        A signed ledger is followed from its beginning each time: nothing is spent on top of a history that was changed.
        """
        if number and self.seal_of(number) != seal:
            raise LedgerError(
                f"entry {number} of {self.path}, which was there before, is missing or another: the file was "
                "restored from a copy, perhaps. Nothing is drawn. Find the right file; then open it again."
            )
        if self.key is not None and self.signer is not None:
            self.key_for("")  # another key is named as that
            check_whole(self.entries(), self.key.public)

    def of_fit(self, fit: str) -> list[LedgerEntry]:
        """The entries of a fit."""
        rows = self.connection.execute(f"{_ENTRIES} WHERE fit = ? ORDER BY number", (fit,))
        return [checked_entry(row, self.signer) for row in rows]

    def has_fit(self, fit: str) -> bool:
        """Whether there is an entry of a fit."""
        return self.connection.execute("SELECT 1 FROM entries WHERE fit = ? LIMIT 1", (fit,)).fetchone() is not None

    @property
    def signer(self) -> Signer | None:
        """Who signs the ledger; None where nobody does."""
        row = self.connection.execute(_KEY).fetchone()
        return None if row is None else Signer(*row)

    @property
    def names(self) -> list[str]:
        """The names of all data sets, in their order."""
        rows = self.connection.execute("SELECT dataset FROM entries WHERE kind = 'create' ORDER BY dataset")
        return [str(row[0]) for row in rows]

    def has(self, dataset: str) -> bool:
        """Whether there is such a data set."""
        return self.connection.execute(_LATEST_OF, (dataset,)).fetchone() is not None

    def latest(self, dataset: str, *, in_rho: bool = False) -> LedgerEntry:
        """The last entry of a data set: of those in rho under a cap in epsilon at a delta, or of all others."""
        entry = self._one(_LATEST_RHO_OF if in_rho else _LATEST_OF, dataset)
        if entry is None or not dataset:
            known = ", ".join(self.names) or "none yet"
            raise MethodError(
                f"{self.path} has no data set {dataset!r}; it has: {known}. Add it with: "
                f"dpkmeans ledger create {self.path} --dataset {dataset} --cap 1.0"
            )
        return entry

    def terms(self, dataset: str) -> Terms:
        """What a data set counts."""
        first = self._one(f"{_ENTRIES} WHERE dataset = ? ORDER BY number LIMIT 1", dataset)
        assert first is not None
        return Terms.read(first.label, dataset)

    def spent_rho(self, dataset: str) -> int:
        """The femto-rhos spent under a cap in epsilon at a delta."""
        if self.terms(dataset).kind != "epsilon-delta":
            return 0
        entry = self._one(_LATEST_RHO_OF, dataset)
        return 0 if entry is None else entry.spent

    def dataset(self, name: str) -> DataSet:
        """The data set called `name`."""
        latest, terms = self.latest(name), self.terms(name)
        return DataSet(name, terms.cap(latest.cap), terms.held(latest.spent, self.spent_rho(name)), terms.unit)

    def _one(self, query: str, *values: object) -> LedgerEntry | None:
        row = self.connection.execute(query, values).fetchone()
        return None if row is None else checked_entry(row, self.signer)

    # --- writing ----------------------------------------------------------------------------------

    def affordable(self, known: DataSet, cost: Loss) -> tuple[Epsilon | Rho, Loss]:
        """What `cost` comes to in a data set, and what is held there then; an error where that passes a cap."""
        if cost.pure.nano < 0 or cost.rho.femto < 0 or cost == Loss():
            raise BudgetError(f"must be at least 1e-9; got {cost}.", parameter="epsilon")
        charged = known.privacy.charged(known.held, cost)
        if not known.privacy.covers(known.held + charged):
            raise known.refusal(cost)
        check_share(self.connection, known, self.terms(known.name), self.analyst, charged)
        return (charged.rho if charged.rho.femto else charged.pure), known.held + charged

    def charge(self, kind: str, dataset: str, cost: Loss, *, fit: str, label: str) -> LedgerEntry:
        """Add a spend or a reservation, or refuse it."""
        known = self.dataset(dataset)
        amount, after = self.affordable(known, cost)
        if isinstance(amount, Epsilon):
            units, cap, spent = amount.nano, known.privacy.pure.nano, after.pure.nano
        else:
            units, cap, spent = amount.femto, known.privacy.cap_in_rho(known.held).femto, after.rho.femto
            kind += RHO if known.kind == "epsilon-delta" else ""
        return self.append(kind, dataset, units, cap=cap, spent=spent, fit=fit, label=label)

    def release(self, dataset: str, fit: str, digest: str) -> LedgerEntry:
        """Add what a fit released. A fit that spent something releases once."""
        known, before = self.of_fit(fit), self.latest(dataset)
        if not known or any(entry.kind == "release" or entry.dataset != dataset for entry in known):
            raise MethodError(f"fit {fit!r} has spent nothing in {dataset!r}, or released something already.")
        return self.append("release", dataset, 0, cap=before.cap, spent=before.spent, fit=fit, label=digest)

    def append(
        self, kind: str, dataset: str, nano: int, *, cap: int, spent: int, fit: str = "", label: str = ""
    ) -> LedgerEntry:
        """Add an entry to the chain."""
        key, last = self.key_for(kind), self.last()
        number, previous = (1, BEGINNING) if last is None else (last.number + 1, last.sha256)
        when = datetime.now(UTC).isoformat(timespec="milliseconds")
        entry = LedgerEntry(number, when, kind, dataset, self.analyst, nano, cap, spent, fit, label, previous, "")
        entry = entry.sealed(key)
        self.connection.execute(_INSERT, tuple(getattr(entry, name) for name in FIELDS))
        return entry

    def key_for(self, kind: str) -> SigningKey | None:
        """The key to sign an entry with; an error where the ledger takes another, or one is missing."""
        signer = self.signer
        if signer is None and self.key is not None and kind != "key":
            raise LedgerError(
                f"{self.path} is not signed, and a key was given. Sign it from now on with: "
                f"dpkmeans ledger sign {self.path} --sign {self.key.path}"
            )
        if signer is not None and (self.key is None or self.key.public != signer.key):
            raise LedgerError(
                f"{self.path} is signed by the key {signer.key}, and takes entries signed by that key alone. "
                "Give the file of its private key with: --sign"
            )
        return self.key
