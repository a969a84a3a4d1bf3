"""The account of one fit in a durable ledger."""

from __future__ import annotations

import os
import secrets
import threading
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING

from dpkmeans.core.epsilon import Epsilon, Spend
from dpkmeans.core.privacy import Loss, Privacy
from dpkmeans.core.rho import Rho
from dpkmeans.errors import (
    BudgetError,
    DPKMeansError,
    LedgerError,
    MethodError,
    NoBoundsFoundError,
    TooFewRecordsError,
    UnsettledWarning,
    warn,
)
from dpkmeans.privacy.durable.hash_chain import check_unit
from dpkmeans.privacy.ledger import check_process, cost_of

if TYPE_CHECKING:
    from dpkmeans.privacy.durable.ledger import DurableLedger

MAX_NAME = 200


class Account:
    """What one fit may spend from a data set: the parent of that fit's `Ledger`, in the process that opened it.

    With a promised total, all of it is reserved before the first draw, and `settle` gives back the rest. Without one,
    every spend is an entry of its own. As a `with` statement it settles at the end; after an error all stays spent,
    unless it follows from released values alone (too few records, no bounds found): nothing was drawn after them.
    """

    def __init__(self, ledger: DurableLedger, dataset: str, promised: Privacy | None, note: str) -> None:
        self.ledger = ledger
        self.dataset = dataset
        self.promised = promised
        self.note = note
        self.fit = secrets.token_hex(8)
        self.n_spends = 0
        self._held = Loss()
        self._left: Epsilon | Rho | None = None
        self._pid = os.getpid()
        self._lock = threading.RLock()

    def __enter__(self) -> Account:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or issubclass(kind, TooFewRecordsError | NoBoundsFoundError):
            self.settle()
        elif issubclass(kind, Exception) and self._pid == os.getpid():
            self._fail()

    def account(self, total: Epsilon | Privacy) -> AbstractContextManager[Account]:
        """For a ledger under this account that promises a total: reserved as a whole, or refused at once."""
        asked = Privacy(total) if isinstance(total, Epsilon) else total
        if self.promised is None:
            unit = self.ledger.dataset(self.dataset).unit
            return self.ledger.account(self.dataset, promised=asked, note=self.note, unit=unit)
        self._check(cost_of(asked, self.promised))
        return nullcontext(self)

    def for_unit(self, unit: str) -> None:
        """Refuse a fit under this account that counts another unit than the data set."""
        check_unit(self.dataset, self.ledger.dataset(self.dataset).unit, unit)

    def record(self, spend: Spend) -> None:
        """On return, the spend is on the disk. Called by `Ledger` before anything is drawn."""
        check_process(self._pid)
        with self._lock:
            cost = Loss.of(spend)
            if self.promised is None:
                label = f"{self.note}: {spend.label}" if self.note else spend.label
                self.ledger.spend(self.dataset, cost, fit=self.fit, label=short(label))
            else:
                held = self._check(cost)
                self._draw(cost)
                self._held = held
            self.n_spends += 1

    def standing(self) -> tuple[str, Privacy] | None:
        """The head of the ledger's chain now, and the cap of the data set; None where they cannot be read."""
        try:
            return self.ledger.standing(self.dataset)
        except (LedgerError, MethodError) as error:
            warn(UnsettledWarning(f"{error} The release does not say which entries stood before it, nor the cap."))
            return None

    def settle(self, digest: str | None = None) -> None:
        """The fit is done: give back what it reserved and did not spend. A second call does nothing.

        With a `digest`, the ledger keeps what it released. Where it cannot be written, the whole promise stays spent: a
        warning, since the result is good.
        """
        check_process(self._pid)
        with self._lock:
            unused, self._left = self._left, None
            try:
                if unused is not None:
                    label = f"{self.n_spends} spends"
                    self.ledger.settle(self.dataset, unused, fit=self.fit, label=label, digest=digest)
                elif digest is not None and self.n_spends:
                    self.ledger.released(self.dataset, fit=self.fit, digest=digest)
            except (LedgerError, MethodError) as error:
                left = "The whole promised budget stays spent, and t" if unused is not None else "T"
                warn(UnsettledWarning(f"{error} {left}he ledger does not know of the release."))

    def _fail(self) -> None:
        """The fit ended with an error: all that it reserved stays spent, and an entry says so where one can be made."""
        with self._lock:
            unused, self._left = self._left, None
            if unused is not None:
                nothing = Rho(0) if isinstance(unused, Rho) else Epsilon(0)
                with suppress(DPKMeansError):
                    self.ledger.settle(self.dataset, nothing, fit=self.fit, label="failed: all of it stays spent")

    def _check(self, cost: Loss) -> Loss:
        """What the fit holds once it has spent `cost`, or an error where that is more than it promised."""
        assert self.promised is not None
        held = self._held + self.promised.charged(self._held, cost)
        if not self.promised.covers(held):
            left = self.promised.left(self._held)
            raise BudgetError(
                f"{cost} is asked for, but the fit has only {left} left of the {self.promised} that it promised. "
                "Nothing was spent or drawn for it. Ask for less."
            )
        return held

    def _draw(self, cost: Loss) -> None:
        """Take `cost` out of the reservation, which is made first where there is none."""
        assert self.promised is not None
        if self._left is None:
            self._left = self.ledger.reserve(self.dataset, self.promised, fit=self.fit, label=short(self.note))
        if isinstance(self._left, Rho):
            wanted = cost.in_rho().rho
            if wanted <= self._left:
                self._left -= wanted
                return
        elif not cost.rho.femto and cost.pure <= self._left:
            self._left -= cost.pure
            return
        raise BudgetError(
            f"{cost} is asked for, but only {self._left} is left of what was reserved for the fit in {self.dataset!r}. "
            "Nothing was drawn for it."
        )


def short(label: str) -> str:
    """A label of a length that the ledger takes."""
    return label if len(label) <= MAX_NAME else label[: MAX_NAME - 1] + "…"
