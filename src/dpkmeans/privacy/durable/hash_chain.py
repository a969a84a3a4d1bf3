"""The entries of a durable ledger: a chain in which each carries a hash of the one before."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from typing import Any

from dpkmeans.errors import LedgerError, MethodError
from dpkmeans.privacy.durable.terms import RHO, Terms

BEGINNING = "0" * 64
ROUNDING = 1000
"""Femto-rhos by which what an epsilon leaves at a delta may differ where another version or processor found it."""
MISSING_HEAD = "the head given is not in the chain: entries were removed, or it is the head of another ledger"
KINDS = ("create", "cap", "spend", "reserve", "settle", "spend rho", "reserve rho", "settle rho")


@dataclass(frozen=True)
class LedgerEntry:
    """One entry. `cap` and `spent` are those of its data set once it is made.

    Budgets are nano-epsilons. They are femto-rhos in a data set with a cap in rho, and in entries whose kind ends in
    `rho`, of a data set with a cap in epsilon at a delta. In these, `cap` is what that leaves after the pure spends.

    | kind | `nano` |
    | --- | --- |
    | create, cap | the cap of the data set |
    | spend | one spend |
    | reserve | the promised total of a fit, spent as a whole before its first draw |
    | settle | what a finished fit gives back of its promise: zero or less |
    """

    number: int
    time: str
    kind: str
    dataset: str
    analyst: str
    nano: int
    cap: int
    spent: int
    fit: str
    label: str
    previous: str
    sha256: str

    def digest(self) -> str:
        """SHA-256 over everything else in the entry, the hash of the one before included."""
        return hashlib.sha256(json.dumps(astuple(self)[:-1], separators=(",", ":")).encode()).hexdigest()

    def is_intact(self) -> bool:
        """Whether every field has its type and the hash is the entry's own."""
        return all(type(getattr(self, name)) is kind for name, kind in FIELDS.items()) and self.digest() == self.sha256


def check_unit(dataset: str, known: str, unit: str) -> None:
    """Refuse a fit with another unit than that of the data set: what they lose does not add up."""
    if unit != known:
        raise MethodError(
            f"data set {dataset!r} is accounted for per {known}, and the fit is per {unit}.",
            hint="It keeps the unit that it was created with. "
            + ("Say which column holds the ids with {unit}." if known == "person" else "Leave {unit} out."),
        )


FIELDS: dict[str, type] = {f.name: int if f.type == "int" else str for f in fields(LedgerEntry)}
COLUMNS = ", ".join(FIELDS)


@dataclass(frozen=True)
class Verification:
    """What a check of the whole chain found: `broken_at` is the first entry that does not fit, `why` says how."""

    entries: int
    head: str
    broken_at: int | None = None
    why: str = ""

    @property
    def intact(self) -> bool:
        """Whether every entry follows from the ones before it."""
        return self.broken_at is None


def verify(entries: Iterable[LedgerEntry], expected_head: str | None = None) -> Verification:
    """Follow the chain from its beginning: hashes, numbers, totals and caps.

    A chain that someone cut off at the end, or wrote anew from an entry on, is whole in itself. `expected_head`, a
    head that was noted elsewhere before, tells: it must still be in the chain.
    """
    if expected_head is not None and not re.fullmatch("[0-9a-f]{64}", expected_head):
        raise MethodError("must be 64 hexadecimal digits, as an earlier check printed them.", parameter="expected_head")
    state = _State()
    head, count, found = BEGINNING, 0, expected_head in (None, BEGINNING)
    for count, entry in enumerate(entries, start=1):
        why = _mismatch(entry, count, head) or state.contradiction(entry)
        if why:
            return Verification(count - 1, head, count, why)
        head = entry.sha256
        found = found or head == expected_head
    if not found:
        return Verification(count, head, count + 1, MISSING_HEAD)
    return Verification(count, head)


def _mismatch(entry: LedgerEntry, number: int, head: str) -> str:
    if entry.number != number:
        return f"its number is {entry.number!r}: an entry was removed or added"
    if not entry.is_intact():
        return "its content does not match its hash: it was changed"
    if entry.previous != head:
        return "its link to the entry before does not match: an entry was replaced"
    return ""


class _State:
    """What the entries so far add up to."""

    def __init__(self) -> None:
        self.terms: dict[str, Terms] = {}
        self.caps: dict[str, int] = {}
        self.spent: dict[tuple[str, bool], int] = {}
        self.open: dict[str, tuple[str, str, int]] = {}
        self.fits: set[str] = set()

    def contradiction(self, entry: LedgerEntry) -> str:
        """Why the entry cannot come next, or nothing; takes it in."""
        name, nano, in_rho = entry.dataset, entry.nano, entry.kind.endswith(RHO)
        kind, known = entry.kind.removesuffix(RHO), name in self.caps
        if entry.kind not in KINDS or known == (kind == "create"):
            return f"a {entry.kind!r} entry cannot stand here"
        if kind == "create":
            try:
                self.terms[name] = Terms.read(entry.label, name)
            except LedgerError:
                return "it has a unit or a kind of cap that is not known"
        if in_rho and self.terms[name].kind != "epsilon-delta":
            return f"a {entry.kind!r} entry cannot stand here"
        key = (name, in_rho)
        self.spent.setdefault(key, 0)
        if kind in ("create", "cap"):
            self.caps[name] = nano
        elif kind == "settle":
            dataset, reserved_as, reserved = self.open.pop(entry.fit, ("", "", 0))
            if (dataset, reserved_as) != (name, entry.kind) or not -reserved <= nano <= 0:
                return "it settles what was not reserved"
            self.spent[key] += nano
        else:
            if kind == "reserve" and entry.fit in self.fits:
                return "its fit was reserved before: it is a duplicate"
            if kind == "reserve":
                self.open[entry.fit] = (name, entry.kind.replace("reserve", "settle"), nano)
            self.fits.add(entry.fit)
            self.spent[key] += nano
        return self._passed(entry, in_rho)

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
        return "" if (entry.cap, entry.spent) == (cap, spent) else "its totals do not follow from the entries before"


def checked_entry(row: tuple[Any, ...]) -> LedgerEntry:
    """An entry from a row of the table, to build upon; an error where it was changed."""
    entry = LedgerEntry(*row)
    if not entry.is_intact():
        raise LedgerError(
            f"entry {entry.number!r} of the ledger was changed or is damaged, so nothing is spent on top of it. "
            "Run: dpkmeans ledger verify; then restore the ledger."
        )
    return entry
