"""The ledger: what was promised, what was spent, and on what."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Protocol

from dpkmeans.core.epsilon import Epsilon, Spend
from dpkmeans.core.privacy import Loss, Privacy
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

    `promised` is the cap: an epsilon, a `Privacy`, or with `delta` or `rho` another kind of promise. Without one the
    total is known only after the run, as in the paper. A `parent` ledger, such as one for a whole data set, sees every
    spend as well, and either may refuse. It counts in the process that made it: in a forked child, where it is a copy,
    it refuses.

    Formal guarantee: epsilon-DP for add/remove-one neighbours by basic composition over entries and parallel
    composition over the disjoint cells within one; (epsilon, delta)-DP or rho-zCDP, where that is the promise.
    Replace-one neighbours are two steps apart: twice epsilon, four times rho. Proof: proofs/ledger.md.

    >>> ledger = Ledger(promised=1.0)
    >>> ledger.spend(Epsilon.of(0.4), "counts")
    >>> float(ledger.remaining)
    0.6
    >>> print(Ledger(1.0, delta=1e-6).remaining_rho)
    0.024355970359538
    """

    def __init__(
        self,
        promised: float | Epsilon | Privacy | None = None,
        *,
        delta: float | None = None,
        rho: float | Rho | None = None,
        parent: SpendListener | None = None,
    ) -> None:
        self.privacy = Privacy.of(promised, delta, rho)
        self._parent = parent
        self._spends: list[Spend] = []
        self._held = Loss()
        self._reserved = Loss()
        self._unit: str | None = None
        self._pid = os.getpid()
        self._lock = threading.RLock()

    def __deepcopy__(self, memo: object = None) -> Ledger:
        return self  # a copy would be a second budget

    __copy__ = __deepcopy__

    @property
    def promised(self) -> Epsilon | None:
        """The pure epsilon that the promise pays for; None where nothing was promised."""
        return None if self.privacy is None else self.privacy.pure

    @property
    def spends(self) -> tuple[Spend, ...]:
        """All entries so far."""
        return tuple(self._spends)

    @property
    def loss(self) -> Loss:
        """The realised total, in pure epsilon and in rho."""
        return self._held - self._reserved

    @property
    def spent(self) -> Epsilon:
        """The realised total: at the promised delta, where something was spent in rho."""
        loss = self.loss
        if not loss.rho.femto:
            return loss.pure
        total = None if self.privacy is None else self.privacy.total(loss)
        if total is None:
            raise BudgetError(
                "What was spent in rho has an epsilon at some delta only. Promise a delta, or read `loss`."
            )
        return total

    @property
    def refuses_nothing(self) -> bool:
        """Whether there is neither a promise nor a parent that could refuse a spend."""
        return self.privacy is None and self._parent is None

    @property
    def remaining(self) -> Epsilon:
        """The pure epsilon that is left besides what fits have reserved; an error where nothing was promised."""
        return self._promise.left(self._held)

    @property
    def remaining_rho(self) -> Rho:
        """The rho that is left besides what fits have reserved; an error where pure epsilon or nothing was promised."""
        return self._promise.left_rho(self._held)

    @property
    def _promise(self) -> Privacy:
        if self.privacy is None:
            raise BudgetError("is missing.", parameter="epsilon", hint="Write, say, {epsilon=1.0}.")
        return self.privacy

    @contextmanager
    def account(self, promised: float | Epsilon | Privacy | None = None) -> Iterator[SpendListener]:
        """The parent for the `Ledger` of one fit, as long as the `with` statement lasts.

        A promised total is reserved at the beginning, or refused before anything is spent. At the end, and after an
        error too, what was not drawn is free again: only what was drawn is spent.
        """
        check_process(self._pid)
        total = Privacy.of(promised)
        if total is None:
            yield self
            return
        above = self._parent
        reserve = getattr(above, "account", None)
        with nullcontext(above) if reserve is None else reserve(total) as parent:
            with self._lock:
                held = self._check(cost_of(total, self.privacy), "the whole fit")
                reservation = _Reservation(self, held - self._held, parent)
                self._held, self._reserved = held, self._reserved + reservation.left
            try:
                yield reservation
            finally:
                if self._pid == os.getpid():  # in a forked child, a thread that is not there may hold the lock
                    with self._lock:
                        reservation.give_back()

    def booked(self, epsilon: Epsilon) -> Epsilon:
        """What a spend of a method costs a unit: more than it says, where a unit is several records."""
        return self._parent.booked(epsilon) if isinstance(self._parent, PerUnit) else epsilon

    def booked_rho(self, rho: Rho) -> Rho:
        """The same of a spend in rho."""
        return self._parent.booked_rho(rho) if isinstance(self._parent, PerUnit) else rho

    def for_unit(self, unit: str) -> None:
        """Say what it counts for, a `row` or a `person`. The first fit decides, and another unit is refused."""
        with self._lock:
            if self._unit not in (None, unit):
                raise MethodError(
                    f"this ledger counts per {self._unit}, and the fit is per {unit}: their sum means nothing.",
                    hint="Give {ledger} a Ledger of its own for each {unit}.",
                )
            above = getattr(self._parent, "for_unit", None)
            if above is not None:
                above(unit)
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
            held = self._check(Loss.of(spend), spend.label)
            if self._parent is not None:
                self._parent.record(spend)
            self._held = held
            self._spends.append(spend)

    def _check(self, cost: Loss, label: str) -> Loss:
        """What is held once `cost` is taken in, or an error where that is more than promised."""
        if self.privacy is None:
            return self._held + cost
        held = self._held + self.privacy.charged(self._held, cost)
        if not self.privacy.covers(held):
            raise refusal(cost, label, self.privacy, self._held)
        return held


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
        rho = None if spend.rho is None else self.booked_rho(spend.rho)
        self.units.record(Spend(spend.label, tuple(map(self.booked, spend.parts)), rho))

    def booked(self, epsilon: Epsilon) -> Epsilon:
        """The m-fold of a spend."""
        return Epsilon(self.records * epsilon.nano)

    def booked_rho(self, rho: Rho) -> Rho:
        """The m²-fold of a spend in rho."""
        return Rho(self.records**2 * rho.femto)


def ledger_of_records(units: Ledger, records: int) -> Ledger:
    """The ledger of a method that sees up to `records` records of a unit, under the ledger of the units.

    It may spend what the units' ledger has left over `records`, in whole nanos and rounded down, so that what is booked
    there never passes the promise.
    """
    if records == 1:
        return units
    parent = PerUnit(units, records)
    if units.privacy is None:
        return Ledger(parent=parent)
    if units.privacy.kind == "epsilon":
        return Ledger(units.remaining.per(records), parent=parent)
    rho = Rho.of(Rho(units.remaining_rho.femto // records**2))
    return Ledger(replace(units.privacy, rho=rho), parent=parent)


class _Reservation:
    """What a fit may still spend of the total that it reserved in a ledger: in pure epsilon, or in rho."""

    def __init__(self, ledger: Ledger, left: Loss, parent: SpendListener | None) -> None:
        self.ledger, self.left, self.parent = ledger, left, parent
        self.in_rho = left.rho.femto > 0

    def record(self, spend: Spend) -> None:
        """Turn a part of the reservation into a spend, or refuse what goes beyond it."""
        check_process(self.ledger._pid)
        with self.ledger._lock:
            cost = Loss.of(spend).in_rho() if self.in_rho else Loss.of(spend)
            if cost.pure > self.left.pure or cost.rho > self.left.rho:
                raise BudgetError(
                    f"{spend.label!r} asks for {cost}, but the fit has only {self.left} left of what it reserved. "
                    "Nothing was drawn for it. Ask for less."
                )
            if self.parent is not None:
                self.parent.record(spend)
            self.left -= cost
            self.ledger._reserved -= cost
            self.ledger._spends.append(spend)

    def for_unit(self, unit: str) -> None:
        """See `Ledger.for_unit`."""
        self.ledger.for_unit(unit)

    def give_back(self) -> None:
        """Free what was not drawn. Of a pure reservation nothing, once the ledger has gone over to rho: what was left
        for that was found with all of it.
        """
        ledger = self.ledger
        ledger._reserved -= self.left
        if self.in_rho or not ledger._held.rho.femto:
            ledger._held -= self.left
        self.left = Loss()


def cost_of(total: Privacy, cap: Privacy | None) -> Loss:
    """What the promised total of a fit takes from a ledger with a given promise; refuses what it cannot account for."""
    if total.kind == "epsilon":
        return Loss(total.pure)
    if cap is not None and cap.kind == "epsilon":
        raise MethodError(
            f"the fit promises {total}, and its ledger counts pure epsilon, which knows no delta.",
            hint="Leave {delta} and {rho} out, or use a ledger that was created with them.",
        )
    return Loss(rho=total.as_rho())


def refusal(cost: Loss, label: str, promise: Privacy, held: Loss) -> BudgetError:
    """The error for a spend that a promise does not cover."""
    left: object = promise.left(held)
    if cost.rho.femto or promise.kind == "rho":
        left = f"rho={promise.left_rho(held)}"
    promised = promise.epsilon if promise.kind == "epsilon" else promise
    return BudgetError(
        f"{label!r} asks for {cost}, but only {left} of the promised {promised} is left. Nothing was drawn for it. "
        "Raise the promise, or ask for less."
    )


def check_process(pid: int) -> None:
    """Refuse in a forked child what counts in the memory of the process `pid`."""
    if pid != os.getpid():
        raise BudgetError(
            "This ledger came into this process by a fork. It is a copy, which cannot know what the other process "
            "spends. Share a DurableLedger, or make a ledger after the fork."
        )
