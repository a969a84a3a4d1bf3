"""A durable ledger: one SQLite file for many data sets, analysts and processes.

A spend is on the disk before its noise is drawn. A fit with a promised total reserves all of it in one entry before
its first draw, and gives back what it did not use once it is done; if it is interrupted, all of it stays spent. A
spend that would pass the cap of its data set is refused, and leaves no entry.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.privacy import Loss, Privacy
from dpkmeans.core.rho import Rho
from dpkmeans.errors import BudgetError, MethodError
from dpkmeans.privacy.durable.account import MAX_NAME, Account
from dpkmeans.privacy.durable.book import Book
from dpkmeans.privacy.durable.hash_chain import BEGINNING, LedgerEntry, Verification, check_unit, verify
from dpkmeans.privacy.durable.history import History, Reservation, history_of
from dpkmeans.privacy.durable.processes import marked
from dpkmeans.privacy.durable.shares import Share, shares_of
from dpkmeans.privacy.durable.sqlite import LedgerFile, create_file, damaged
from dpkmeans.privacy.durable.tables import UNSEALED, is_sealed
from dpkmeans.privacy.durable.terms import RHO, DataSet, Terms
from dpkmeans.privacy.ledger import cost_of
from dpkmeans.storage.keys import SigningKey
from dpkmeans.storage.outputs import sync_folder

PATIENCE = 60.0
"""Seconds to wait for other writers."""

T = TypeVar("T")


class DurableLedger:
    """The ledger in the file `path`, used in the name of `analyst` (by default the user of the process).

    A signed ledger is written with its private key: `key` is one, or the path of its file. Looking needs none.

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

    def __init__(
        self,
        path: str | Path,
        *,
        analyst: str | None = None,
        key: SigningKey | str | Path | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self.path = Path(path).absolute()  # the working folder may change before the file is opened again
        self.analyst = _checked_name(_user() if analyst is None else analyst, "analyst")
        self.key = key if key is None or isinstance(key, SigningKey) else SigningKey.read(key)
        self._seen: tuple[int, str] = (0, BEGINNING)
        self._file = LedgerFile(self.path, patience)
        self._file.read(lambda connection: None)  # refuses at once what is no ledger

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        analyst: str | None = None,
        key: SigningKey | str | Path | None = None,
        patience: float = PATIENCE,
    ) -> DurableLedger:
        """Open the ledger at `path`, and make an empty one first where there is none: with a `key`, a signed one."""
        target = Path(path)
        _checked_name(_user() if analyst is None else analyst, "analyst")
        if not target.exists() or target.stat().st_size == 0:
            key = key if key is None or isinstance(key, SigningKey) else SigningKey.read(key)
            create_file(target, patience)
            sync_folder(target.parent)
            if key is not None:
                cls(path, analyst=analyst, key=key, patience=patience).sign()
        return cls(path, analyst=analyst, key=key, patience=patience)

    def sign(self) -> None:
        """From here on, sign every entry with the key of this store: an entry that says so is the first."""
        if self.key is None:
            raise MethodError("is needed to sign.", parameter="key", hint="Make one with: dpkmeans key create")
        public = self.key.public

        def begin(book: Book) -> None:
            if book.signer is not None:
                raise MethodError(f"{self.path} is signed already, and keeps its key.")
            book.append("key", "", 0, cap=0, spent=0, label=public)

        self._write(begin)

    # --- data sets --------------------------------------------------------------------------------

    def add(self, dataset: str, cap: float | Epsilon | Privacy, *, unit: str = "row") -> None:
        """Take in a new data set, of which at most `cap` may ever be spent, per `"row"` or per `"person"`."""
        name, budget = _checked_name(dataset, "dataset"), _cap(cap)
        terms = Terms.of(unit, budget)
        units = terms.units(budget)

        def create(book: Book) -> None:
            if book.has(name):
                raise MethodError(
                    f"{self.path} already has a data set {name!r}. Change its cap with: "
                    f"dpkmeans ledger cap {self.path} --dataset {name} {_option(budget)}"
                )
            book.append("create", name, units, cap=units, spent=0, label=terms.label)

        self._write(create)

    def set_cap(self, dataset: str, cap: float | Epsilon | Privacy) -> None:
        """Change the cap, to one of the same kind. Below what is spent already, it ends all spending."""
        budget = _cap(cap)

        def change(book: Book) -> None:
            before = book.latest(dataset)
            units = _units(book.terms(dataset), budget)
            book.append("cap", dataset, units, cap=units, spent=before.spent)

        self._write(change)

    def set_share(self, dataset: str, analyst: str, cap: float | Epsilon | Privacy) -> None:
        """What one analyst may spend of the cap of a data set, at most.

        Once one analyst has a share, those without one can spend nothing. Shares may add up to more than the cap, which
        holds all the same. The name is what a process says of itself.
        """
        budget, name = _cap(cap), _checked_name(analyst, "analyst")

        def change(book: Book) -> None:
            before = book.latest(dataset)
            units = _units(book.terms(dataset), budget)
            book.append("analyst", dataset, units, cap=before.cap, spent=before.spent, label=name)

        self._write(change)

    def dataset(self, name: str) -> DataSet:
        """The data set called `name`."""
        return self._read(lambda book: book.dataset(name))

    def datasets(self) -> tuple[DataSet, ...]:
        """All data sets, by name."""
        return self._read(lambda book: tuple(map(book.dataset, book.names)))

    def shares(self, dataset: str) -> tuple[Share, ...]:
        """The shares of analysts in a data set, by name; none where nobody has one."""
        return self._read(lambda b: shares_of(b.connection, b.latest(dataset).dataset, b.terms(dataset)))

    # --- spending ---------------------------------------------------------------------------------

    def account(
        self, dataset: str, *, promised: float | Epsilon | Privacy | None = None, note: str = "", unit: str = "row"
    ) -> Account:
        """The parent for the `Ledger` of one fit.

        Refuses at once where `promised` does not fit under the cap, or the fit's `unit` is not that of the data set.
        """
        total = Privacy.of(promised)

        def check(book: Book) -> None:
            known = book.dataset(dataset)
            check_unit(dataset, known.unit, unit)
            book.key_for("reserve")
            if total is not None:
                book.affordable(known, cost_of(total, known.privacy))

        self._read(check)
        return Account(self, dataset, total, note)

    def spend(self, dataset: str, amount: Epsilon | Loss, *, fit: str, label: str) -> LedgerEntry:
        """Commit a spend, or refuse it. On return it is on the disk."""
        cost = Loss(amount) if isinstance(amount, Epsilon) else amount
        return self._write(lambda book: book.charge("spend", dataset, cost, fit=fit, label=label))

    def reserve(self, dataset: str, total: Epsilon | Privacy, *, fit: str, label: str) -> Epsilon | Rho:
        """Commit the promised total of a fit as one spend, or refuse it. Says what it took. A fit reserves once."""
        asked = Privacy(total) if isinstance(total, Epsilon) else total

        def reserve(book: Book) -> Epsilon | Rho:
            if book.has_fit(fit):
                raise MethodError(f"fit {fit!r} has entries in {self.path} already. Open an account for each fit.")
            cost = cost_of(asked, book.dataset(dataset).privacy)
            entry = book.charge("reserve", dataset, cost, fit=fit, label=marked(label))
            return book.terms(dataset).amount(entry.nano, entry.kind)

        return self._write(reserve)

    def settle(
        self, dataset: str, unused: Epsilon | Rho, *, fit: str, label: str, digest: str | None = None
    ) -> LedgerEntry:
        """Give back what a finished fit reserved and did not use. A reservation is settled once.

        With a `digest`, an entry in the same transaction says what the fit released. Of a pure reservation nothing is
        given back once the data set has spent rho under its epsilon and delta: what was left for that was found with
        all of it.
        """

        def give_back(book: Book) -> LedgerEntry:
            known = book.of_fit(fit)
            reserved = known[-1] if known else None
            if reserved is None or reserved.dataset != dataset or not reserved.kind.startswith("reserve"):
                raise MethodError(f"fit {fit!r} has no open reservation for {dataset!r} in {self.path}.")
            taken = book.terms(dataset).amount(reserved.nano, reserved.kind)
            units = unused.nano if isinstance(unused, Epsilon) else unused.femto
            if type(unused) is not type(taken) or not 0 <= units <= reserved.nano:
                raise BudgetError(f"fit {fit!r} reserved {taken}; it cannot give back {unused}.")
            if units and reserved.analyst != self.analyst:
                raise BudgetError(f"fit {fit!r} is one of {reserved.analyst}, who alone can give back what is left.")
            kind = reserved.kind.replace("reserve", "settle")
            before = book.latest(dataset, in_rho=kind.endswith(RHO))
            if kind == "settle" and book.spent_rho(dataset):
                units = 0
            spent = before.spent - units
            entry = book.append(kind, dataset, -units, cap=before.cap, spent=spent, fit=fit, label=label)
            if digest is not None:
                book.release(dataset, fit, digest)
            return entry

        return self._write(give_back)

    def released(self, dataset: str, *, fit: str, digest: str) -> LedgerEntry:
        """Record the digest of what a fit released that reserved nothing and spent one by one."""
        return self._write(lambda book: book.release(dataset, fit, digest))

    def recover(self, dataset: str | None = None, *, fit: str | None = None) -> tuple[Reservation, ...]:
        """Settle the reservations of crashed fits, as spent to the last nano; returns them.

        Of a fit from an older version or in another container it cannot be told whether it runs: name it by its `fit`.
        """
        found = self.history(dataset).reservations
        if fit is None:
            found = tuple(r for r in found if r.state == "crashed")
        else:
            found = tuple(r for r in found if r.fit == fit)
            if not found or found[0].state == "running":
                raise MethodError(f"fit {fit!r} runs, or it has no open reservation in {self.path}. Nothing was done.")
        for one in found:
            nothing = Rho(0) if isinstance(one.amount, Rho) else Epsilon(0)
            self.settle(one.dataset, nothing, fit=one.fit, label="crashed: all of it stays spent")
        return found

    # --- looking ----------------------------------------------------------------------------------

    def entries(self) -> tuple[LedgerEntry, ...]:
        """All entries, as they stand."""
        return self._read(lambda book: tuple(book.entries()))

    def history(self, dataset: str | None = None) -> History:
        """The entries of a data set, or of all, with their releases and the reservations that are open."""

        def look(book: Book) -> History:
            names = book.names if dataset is None else [book.latest(dataset).dataset]
            return history_of(book.entries(dataset), {name: book.terms(name) for name in names})

        return self._read(look)

    def head(self) -> str:
        """The hash of the last entry. Kept elsewhere, it shows later whether entries were removed: see `verify`."""
        return self._read(lambda book: book.head())

    def standing(self, dataset: str) -> tuple[str, Privacy]:
        """The head, and the cap of a data set, at one moment."""
        return self._read(lambda book: (book.head(), book.dataset(dataset).privacy))

    def verify(self, expected_head: str | None = None, key: str | None = None) -> Verification:
        """Check the file and the whole chain, with a public `key` also who signed it. See `hash_chain.verify`."""

        def check(book: Book) -> Verification:
            if book.connection.execute("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
                raise damaged(self.path)
            found = verify(book.entries(), expected_head, key)
            if found.intact and not is_sealed(book.connection):
                return replace(found, broken_at=found.entries + 1, why=UNSEALED)
            return found

        return self._read(check)

    def close(self) -> None:
        """Let go of the file. The next use opens it again."""
        self._file.close()

    def __reduce__(self) -> Any:
        key = None if self.key is None else str(self.key.path)  # a private key does not travel
        return partial(DurableLedger, self.path, analyst=self.analyst, key=key, patience=self._file.patience), ()

    # --- inside -----------------------------------------------------------------------------------

    def _read(self, work: Callable[[Book], T]) -> T:
        return self._file.read(lambda connection: work(Book(connection, self.path, self.analyst, self.key)))

    def _write(self, work: Callable[[Book], T]) -> T:
        """Do `work` alone and commit it, on top of the entries that this store has seen before, or refuse."""
        last = self._seen

        def checked(book: Book) -> T:
            nonlocal last
            book.check_history(*self._seen)
            result, end = work(book), book.last()
            last = last if end is None else (end.number, end.sha256)
            return result

        result = self._file.write(lambda connection: checked(Book(connection, self.path, self.analyst, self.key)))
        self._seen = max(self._seen, last)
        return result


def _cap(cap: float | Epsilon | Privacy) -> Privacy:
    return cap if isinstance(cap, Privacy) else Privacy(Epsilon.of(cap, "cap"))


def _option(cap: Privacy) -> str:
    return f"--cap {cap.epsilon}" if cap.rho is None else f"--rho {cap.rho}"


def _units(terms: Terms, cap: Privacy) -> int:
    """A cap as the entries of a data set hold it: one of its kind, at its delta."""
    at_delta = cap.kind == "epsilon" and terms.delta is not None
    return terms.units(replace(cap, delta=terms.delta) if at_delta else cap)


def _checked_name(name: Any, what: str) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise MethodError(f"{what} must be a name of 1 to {MAX_NAME} printable characters; got {name!r:.80}.")
    return name


def _user() -> str:
    try:
        return os.environ.get("DPKMEANS_ANALYST") or getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "unknown"
