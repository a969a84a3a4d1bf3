"""The entries of a durable ledger: a chain in which each carries a hash of the one before."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from typing import Any

from dpkmeans.errors import LedgerError, MethodError

BEGINNING = "0" * 64
MISSING_HEAD = "the head given is not in the chain: entries were removed, or it is the head of another ledger"
UNITS = {"row": "", "person": "unit: person"}
"""How the entry that creates a data set names its unit. Before there were others, all were rows, and had no label."""
KINDS = ("create", "cap", "spend", "reserve", "settle")


@dataclass(frozen=True)
class LedgerEntry:
    """One entry. `cap` and `spent` are those of its data set once it is made; all budgets are nano-epsilons.

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

    @property
    def unit(self) -> str:
        """The unit of the data set that this entry creates."""
        for unit, label in UNITS.items():
            if label == self.label:
                return unit
        raise LedgerError(f"data set {self.dataset!r} has a unit that this version does not know. Upgrade.")

    def is_intact(self) -> bool:
        """Whether every field has its type and the hash is the entry's own."""
        return all(type(getattr(self, name)) is kind for name, kind in FIELDS.items()) and self.digest() == self.sha256


def unit_label(unit: str) -> str:
    """How the entry that creates a data set names its unit."""
    if unit not in UNITS:
        raise MethodError(f"must be one of {', '.join(UNITS)}; got {unit!r}.", parameter="unit")
    return UNITS[unit]


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
        self.caps: dict[str, int] = {}
        self.spent: dict[str, int] = {}
        self.open: dict[str, tuple[str, int]] = {}
        self.fits: set[str] = set()

    def contradiction(self, entry: LedgerEntry) -> str:
        """Why the entry cannot come next, or nothing; takes it in."""
        name, nano = entry.dataset, entry.nano
        known = name in self.caps
        if entry.kind not in KINDS or known == (entry.kind == "create"):
            return f"a {entry.kind!r} entry cannot stand here"
        if entry.kind in ("create", "cap"):
            self.caps[name] = nano
            self.spent.setdefault(name, 0)
        elif entry.kind == "settle":
            dataset, reserved = self.open.pop(entry.fit, ("", 0))
            if dataset != name or not -reserved <= nano <= 0:
                return "it settles what was not reserved"
            self.spent[name] += nano
        else:
            if entry.kind == "reserve" and entry.fit in self.fits:
                return "its fit was reserved before: it is a duplicate"
            if entry.kind == "reserve":
                self.open[entry.fit] = (name, nano)
            self.fits.add(entry.fit)
            self.spent[name] += nano
            if nano < 1 or self.spent[name] > self.caps[name]:
                return "it passes the cap of its data set"
        if (entry.cap, entry.spent) != (self.caps[name], self.spent[name]):
            return "its totals do not follow from the entries before"
        return ""


def checked_entry(row: tuple[Any, ...]) -> LedgerEntry:
    """An entry from a row of the table, to build upon; an error where it was changed."""
    entry = LedgerEntry(*row)
    if not entry.is_intact():
        raise LedgerError(
            f"entry {entry.number!r} of the ledger was changed or is damaged, so nothing is spent on top of it. "
            "Run: dpkmeans ledger verify; then restore the ledger."
        )
    return entry
