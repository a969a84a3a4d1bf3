"""What the entries of a durable ledger tell: releases, and reservations that are open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.privacy import Privacy
from dpkmeans.core.rho import Rho
from dpkmeans.errors import LedgerError
from dpkmeans.privacy.durable.hash_chain import LedgerEntry
from dpkmeans.privacy.durable.processes import State, state_of, unmarked
from dpkmeans.privacy.durable.terms import RHO, Terms


@dataclass(frozen=True)
class Reservation:
    """What a fit reserved and has not settled. It counts as spent, whatever its `state`.

    `state` is `running`, `crashed`, or `unknown` where that cannot be told from here.
    """

    dataset: str
    fit: str
    analyst: str
    time: str
    amount: Epsilon | Rho
    note: str
    state: State


@dataclass(frozen=True)
class RecordedRelease:
    """A release that a fit recorded: its digest, and what the fit took from the data set."""

    dataset: str
    fit: str
    analyst: str
    time: str
    digest: str
    amount: Epsilon | Rho


@dataclass(frozen=True)
class History:
    """Entries in their order, the releases among them, and the reservations that are not settled."""

    entries: tuple[LedgerEntry, ...]
    releases: tuple[RecordedRelease, ...]
    reservations: tuple[Reservation, ...]

    def cap_after(self, number: int) -> Privacy | None:
        """The cap once the entry of that number was made; None before there was a cap. For one data set."""
        caps = [entry.cap for entry in self.entries if entry.number <= number and not entry.kind.endswith(RHO)]
        return Terms.read(self.entries[0].label, self.entries[0].dataset).cap(caps[-1]) if caps else None


def history_of(entries: Sequence[LedgerEntry], terms: Mapping[str, Terms]) -> History:
    """One look at the entries of the data sets in `terms`."""
    taken: dict[str, int] = {}
    rho: dict[str, bool] = {}
    open_: dict[str, LedgerEntry] = {}
    released: list[LedgerEntry] = []
    for entry in entries:
        kind = entry.kind
        if not (type(kind) is type(entry.fit) is type(entry.label) is str and type(entry.nano) is int):
            raise LedgerError(
                f"entry {entry.number!r} is damaged. Run: dpkmeans ledger verify; then restore the ledger."
            )
        if not entry.fit:
            continue
        if kind == "release":
            released.append(entry)
            continue
        taken[entry.fit] = taken.get(entry.fit, 0) + entry.nano
        rho[entry.fit] = kind.endswith(RHO)
        if kind.startswith("reserve"):
            open_[entry.fit] = entry
        elif kind.startswith("settle"):
            open_.pop(entry.fit, None)

    def amount(dataset: str, fit: str) -> Epsilon | Rho:
        if dataset not in terms:
            raise LedgerError(f"data set {dataset!r} was never created. Run: dpkmeans ledger verify.")
        return in_terms(dataset, taken.get(fit, 0), rho.get(fit, False))

    @cache  # a ledger has few different amounts
    def in_terms(dataset: str, units: int, in_rho: bool) -> Epsilon | Rho:
        return terms[dataset].amount(units, RHO if in_rho else "")

    return History(
        tuple(entries),
        tuple(
            RecordedRelease(e.dataset, e.fit, e.analyst, e.time, e.label, amount(e.dataset, e.fit)) for e in released
        ),
        tuple(
            Reservation(
                e.dataset, e.fit, e.analyst, e.time, amount(e.dataset, e.fit), unmarked(e.label), state_of(e.label)
            )
            for e in open_.values()
        ),
    )
