"""What the entries of a durable ledger add up to, and why an entry cannot come next."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from dpkmeans.errors import LedgerError
from dpkmeans.privacy.durable.terms import RHO, Terms

if TYPE_CHECKING:
    from dpkmeans.privacy.durable.hash_chain import LedgerEntry

ROUNDING = 1000
"""Femto-rhos by which what an epsilon leaves at a delta may differ where another version or processor found it."""
KINDS = ("create", "cap", "spend", "reserve", "settle", "spend rho", "reserve rho", "settle rho", "release", "analyst")
WRONG_TOTALS = "its totals do not follow from the entries before"


class Open(NamedTuple):
    """A reservation that is not settled: of how much, by whom, and as what kind of entry it may be."""

    dataset: str
    settle: str
    nano: int
    analyst: str


class ChainState:
    """What the entries so far add up to."""

    def __init__(self) -> None:
        self.signed = False
        self.terms: dict[str, Terms] = {}
        self.caps: dict[str, int] = {}
        self.shares: dict[str, dict[str, int]] = {}
        self.spent: dict[tuple[str, bool], int] = {}
        self.by_analyst: dict[tuple[str, str, bool], int] = {}
        self.open: dict[str, Open] = {}
        self.fits: dict[str, str] = {}
        self.released: set[str] = set()

    def contradiction(self, entry: LedgerEntry) -> str:
        """Why the entry cannot come next, or nothing; takes it in."""
        name, in_rho = entry.dataset, entry.kind.endswith(RHO)
        kind, known = entry.kind.removesuffix(RHO), name in self.caps
        if entry.kind == "key":
            return self._key(entry)
        if entry.kind not in KINDS or known == (kind == "create"):
            return f"a {entry.kind!r} entry cannot stand here"
        if kind == "create":
            try:
                self.terms[name] = Terms.read(entry.label, name)
            except LedgerError:
                return "it has a unit or a kind of cap that is not known"
        if in_rho and self.terms[name].kind != "epsilon-delta":
            return f"a {entry.kind!r} entry cannot stand here"
        self.spent.setdefault((name, in_rho), 0)
        if kind in ("create", "cap"):
            self.caps[name] = entry.nano
            return self._passed(entry, in_rho)
        if kind in ("release", "analyst"):
            return self._release(entry) if kind == "release" else self._share(entry)
        return self._settled(entry) if kind == "settle" else self._charged(entry)

    def _charged(self, entry: LedgerEntry) -> str:
        """Take in a spend or a reservation."""
        if entry.kind.startswith("reserve"):
            if entry.fit in self.fits:
                return "its fit was reserved before: it is a duplicate"
            settle = entry.kind.replace("reserve", "settle")
            self.open[entry.fit] = Open(entry.dataset, settle, entry.nano, entry.analyst)
        self.fits[entry.fit] = entry.dataset
        self._add(entry)
        shares = self.shares.get(entry.dataset)
        if shares is not None:
            pure, rho = (self.by_analyst.get((entry.dataset, entry.analyst, r), 0) for r in (False, True))
            terms = self.terms[entry.dataset]
            share = shares.get(entry.analyst)
            if share is None or not terms.cap(share).covers(terms.held(pure, rho)):
                return "it passes the share of its analyst"
        return self._passed(entry, entry.kind.endswith(RHO))

    def _settled(self, entry: LedgerEntry) -> str:
        """Take in what a fit gives back."""
        open_ = self.open.pop(entry.fit, None)
        if open_ is None or (open_.dataset, open_.settle) != (entry.dataset, entry.kind):
            return "it settles what was not reserved"
        if not -open_.nano <= entry.nano <= 0 or (entry.nano and open_.analyst != entry.analyst):
            return "it settles what was not reserved"
        self._add(entry)
        return self._passed(entry, entry.kind.endswith(RHO))

    def _release(self, entry: LedgerEntry) -> str:
        known = self.fits.get(entry.fit) == entry.dataset and entry.fit not in self.released
        self.released.add(entry.fit)
        if not known or entry.nano or not re.fullmatch("[0-9a-f]{64}", entry.label):
            return "it is no release of a fit that spent something"
        return self._totals(entry)

    def _share(self, entry: LedgerEntry) -> str:
        self.shares.setdefault(entry.dataset, {})[entry.label] = entry.nano
        return self._totals(entry) if entry.label and entry.nano >= 1 else "it is no share of an analyst"

    def _key(self, entry: LedgerEntry) -> str:
        again, self.signed = self.signed, True
        plain = (entry.dataset, entry.nano, entry.cap, entry.spent) == ("", 0, 0, 0)
        return "" if plain and not again else "a 'key' entry cannot stand here"

    def _add(self, entry: LedgerEntry) -> None:
        in_rho, by = entry.kind.endswith(RHO), self.by_analyst
        self.spent[entry.dataset, in_rho] += entry.nano
        by[entry.dataset, entry.analyst, in_rho] = by.get((entry.dataset, entry.analyst, in_rho), 0) + entry.nano

    def _totals(self, entry: LedgerEntry) -> str:
        """Why the totals of an entry that changes none cannot be right, or nothing."""
        known = self.caps[entry.dataset], self.spent[entry.dataset, False]
        return "" if (entry.cap, entry.spent) == known else WRONG_TOTALS

    def _passed(self, entry: LedgerEntry, in_rho: bool) -> str:
        """Why the totals of the entry cannot be right, or nothing."""
        name, cap = entry.dataset, self.caps[entry.dataset]
        rho = self.spent.get((name, True), 0)
        if in_rho:
            held = self.terms[name].held(self.spent[name, False], rho)
            most = self.terms[name].cap(cap).cap_in_rho(held).femto
            cap = entry.cap if abs(entry.cap - most) <= ROUNDING else most
        spent = self.spent[name, in_rho]
        grows = entry.kind.startswith(("spend", "reserve"))
        frozen = not in_rho and rho > 0 and entry.kind != "cap" and entry.nano != 0
        if frozen or (grows and (entry.nano < 1 or spent > cap)):
            return "it passes the cap of its data set"
        return "" if (entry.cap, entry.spent) == (cap, spent) else WRONG_TOTALS
