"""The ledger: what was promised, what was spent, and on what."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from dpkmeans.core.epsilon import Epsilon, Spend
from dpkmeans.core.rho import Rho
from dpkmeans.errors import BudgetError, MethodError


class SpendListener(Protocol):
    """Sees every spend of a ledger before anything is drawn, and may refuse it: a `Ledger`, or an account of one.

    Where it has a method `account`, the whole of a promised total is reserved with it first.
    """

    def record(self, spend: Spend) -> None:
        """Take in an entry, or raise `BudgetError`."""


class Ledger:
    """Spends in the order they were made. Entries compose sequentially: their sum is the realised total.

    `promised` is the cap. Without one the total is known only after the run, as in the paper. A `parent`
    ledger, such as one for a whole data set, sees every spend as well, and either may refuse. It counts in the process
    that made it: in a forked child, where it is a copy, it refuses.

    Formal guarantee: epsilon-DP for add/remove-one neighbours by basic composition over entries and parallel
    composition over the disjoint cells within one. Replace-one neighbours are two steps apart: twice epsilon.
    Proof: proofs/ledger.md.

    >>> ledger = Ledger(promised=1.0)
    >>> ledger.spend(Epsilon.of(0.4), "counts")
    >>> float(ledger.remaining)
    0.6
    """

    def __init__(self, promised: float | Epsilon | None = None, *, parent: SpendListener | None = None) -> None:
        self.promised = None if promised is None else Epsilon.of(promised)
        self._parent = parent
        self._spends: list[Spend] = []
        self._spent = Epsilon(0)
        self._reserved = Epsilon(0)
        self._unit: str | None = None
        self._pid = os.getpid()
        self._lock = threading.RLock()

    def __deepcopy__(self, memo: object = None) -> Ledger:
        return self  # a copy would be a second budget

    __copy__ = __deepcopy__

    @property
    def spends(self) -> tuple[Spend, ...]:
        """All entries so far."""
        return tuple(self._spends)

    @property
    def spent(self) -> Epsilon:
        """The realised total."""
        return self._spent

    @property
    def refuses_nothing(self) -> bool:
        """Whether there is neither a promise nor a parent that could refuse a spend."""
        return self.promised is None and self._parent is None

    @property
    def remaining(self) -> Epsilon:
        """What the promise leaves besides what fits have reserved; an error where nothing was promised."""
        if self.promised is None:
            raise BudgetError("is missing.", parameter="epsilon", hint="Write, say, {epsilon=1.0}.")
        return self.promised - self.spent - self._reserved

    @contextmanager
    def account(self, promised: float | Epsilon | None = None) -> Iterator[SpendListener]:
        """The parent for the `Ledger` of one fit, as long as the `with` statement lasts.

        A promised total is reserved at the beginning, or refused before anything is spent. At the end, and after an
        error too, what was not drawn is free again: only what was drawn is spent.
        """
        check_process(self._pid)
        if promised is None:
            yield self
            return
        total, above = Epsilon.of(promised), self._parent
        reserve = getattr(above, "account", None)
        with nullcontext(above) if reserve is None else reserve(total) as parent:
            with self._lock:
                self._check(total, "the whole fit")
                self._reserved += total
            reservation = _Reservation(self, total, parent)
            try:
                yield reservation
            finally:
                if self._pid == os.getpid():  # in a forked child, a thread that is not there may hold the lock
                    with self._lock:
                        self._reserved -= reservation.left
                        reservation.left = Epsilon(0)

    def booked(self, epsilon: Epsilon) -> Epsilon:
        """What a spend of a method costs a unit: more than it says, where a unit is several records."""
        return self._parent.booked(epsilon) if isinstance(self._parent, PerUnit) else epsilon

    def for_unit(self, unit: str) -> None:
        """Say what it counts for, a `row` or a `person`. The first fit decides, and another unit is refused."""
        with self._lock:
            if self._unit not in (None, unit):
                raise MethodError(
                    f"this ledger counts per {self._unit}, and the fit is per {unit}: their sum means nothing.",
                    hint="Give {ledger} a Ledger of its own for each {unit}.",
                )
            self._unit = unit

    def spend(self, epsilon: Epsilon, label: str) -> None:
        """Record a spend on all records, or refuse it. Call before anything is drawn."""
        self.record(Spend(label, (epsilon,)))

    def spend_parallel(self, epsilons: Sequence[Epsilon], label: str) -> None:
        """Record spends on disjoint cells of the records: one part per cell."""
        self.record(Spend(label, tuple(epsilons)))

    def spend_rho(self, rho: Rho, label: str) -> None:
        """Record a spend of zero-concentrated differential privacy on all records, or refuse it."""
        self.record(Spend(label, rho=rho))

    def record(self, spend: Spend) -> None:
        """Take in an entry, or refuse it; a parent is asked first, so that nothing is drawn that it refuses."""
        check_process(self._pid)
        with self._lock:
            if self.promised is not None:
                check_pure(spend)
            self._check(spend.epsilon, spend.label)
            if self._parent is not None:
                self._parent.record(spend)
            self._take(spend)

    def _take(self, spend: Spend) -> None:
        self._spends.append(spend)
        self._spent += spend.epsilon

    def _check(self, epsilon: Epsilon, label: str) -> None:
        if self.promised is not None and epsilon > self.remaining:
            raise BudgetError(
                f"{label!r} asks for epsilon={epsilon}, but only {self.remaining} of the promised {self.promised} is "
                "left. Nothing was drawn for it. Raise epsilon, or ask for less."
            )


@dataclass(frozen=True)
class PerUnit:
    """The parent of a method's ledger where a unit is up to `records` records: it books each spend so many times.

    A record lies in one of the disjoint cells of a spend, but those of a unit may lie in different ones: together they
    lose at most `records` times the largest part. Of a spend in rho it books the `records`²-fold. Proof:
    proofs/persons.md.
    """

    units: SpendListener
    records: int

    def record(self, spend: Spend) -> None:
        """Book it in the ledger of units, or raise `BudgetError`."""
        rho = None if spend.rho is None else Rho(self.records**2 * spend.rho.femto)
        self.units.record(Spend(spend.label, tuple(map(self.booked, spend.parts)), rho))

    def booked(self, epsilon: Epsilon) -> Epsilon:
        """The m-fold of a spend."""
        return Epsilon(self.records * epsilon.nano)


def ledger_of_records(units: Ledger, records: int) -> Ledger:
    """The ledger of a method that sees up to `records` records of a unit, under the ledger of the units.

    It may spend what the units' ledger has left over `records`, in whole nanos and rounded down, so that what is booked
    there never passes the promise.
    """
    if records == 1:
        return units
    return Ledger(None if units.promised is None else units.remaining.per(records), parent=PerUnit(units, records))


class _Reservation:
    """What a fit may still spend of the total that it reserved in a ledger."""

    def __init__(self, ledger: Ledger, left: Epsilon, parent: SpendListener | None) -> None:
        self.ledger, self.left, self.parent = ledger, left, parent

    def record(self, spend: Spend) -> None:
        """Turn a part of the reservation into a spend, or refuse what goes beyond it."""
        check_process(self.ledger._pid)
        with self.ledger._lock:
            check_pure(spend)
            if spend.epsilon > self.left:
                raise BudgetError(
                    f"{spend.label!r} asks for epsilon={spend.epsilon}, but the fit has only {self.left} left of what "
                    "it reserved. Nothing was drawn for it. Raise epsilon, or ask for less."
                )
            if self.parent is not None:
                self.parent.record(spend)
            self.left -= spend.epsilon
            self.ledger._reserved -= spend.epsilon
            self.ledger._take(spend)


def check_pure(spend: Spend) -> None:
    """Refuse what has no pure epsilon, where a promise is in pure epsilon."""
    if spend.rho is not None:
        raise BudgetError(
            f"{spend.label!r} asks for rho={spend.rho}, but pure epsilon was promised, and Gaussian noise cannot keep "
            "it. Nothing was drawn for it."
        )


def check_process(pid: int) -> None:
    """Refuse in a forked child what counts in the memory of the process `pid`."""
    if pid != os.getpid():
        raise BudgetError(
            "This ledger came into this process by a fork. It is a copy, which cannot know what the other process "
            "spends. Share a DurableLedger, or make a ledger after the fork."
        )
