"""The entries of a durable ledger: a chain in which each carries a hash of the one before.

In a signed ledger each entry also carries a signature of its hash. The next entry holds both, so whoever has no key can
neither change an entry nor write those after it anew; only a chain that was cut off at the end is still whole.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from dpkmeans.errors import LedgerError, MethodError
from dpkmeans.privacy.durable.chain_state import ChainState
from dpkmeans.storage.keys import ENTRY, SigningKey, is_signed_by

BEGINNING = "0" * 64
_SEAL = re.compile("[0-9a-f]{64}( [0-9a-f]{128})?")
MISSING_HEAD = "the head given is not in the chain: entries were removed, or it is the head of another ledger"
UNSIGNED = "it is not signed, and the ledger is"
FORGED = "its signature is not one by the key of the ledger"


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
    | release | 0; `label` is the digest of what the fit released |
    | analyst | the share of the cap that the analyst in `label` may spend |
    | key | 0; from here on all entries are signed by the public key in `label` |

    `sha256` is the hash of all else in the entry, and in a signed ledger its signature after a space.
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
        return hashlib.sha256(json.dumps(list(vars(self).values())[:-1], separators=(",", ":")).encode()).hexdigest()

    @property
    def hash(self) -> str:
        """The hash without the signature: the head of the chain, where this is the last entry."""
        return self.sha256[:64]

    @property
    def signature(self) -> str | None:
        """The signature, 128 hexadecimal digits; None where there is none."""
        return self.sha256[65:] or None

    def sealed(self, key: SigningKey | None) -> LedgerEntry:
        """The same with its hash, and its signature where there is a key."""
        digest = self.digest()
        return replace(self, sha256=digest if key is None else f"{digest} {key.sign(ENTRY, digest)}")

    def is_intact(self) -> bool:
        """Whether every field has its type and the hash is the entry's own."""
        typed = all(type(getattr(self, name)) is kind for name, kind in FIELDS.items())
        return typed and _SEAL.fullmatch(self.sha256) is not None and self.digest() == self.hash

    def why_not_signed_by(self, key: str | None) -> str:
        """Why this is no entry of a ledger signed by the public `key`, or nothing. Without a key, none is signed."""
        if key is None:
            return "" if self.signature is None else "it is signed, and the ledger is not"
        if self.signature is None:
            return UNSIGNED
        return "" if is_signed_by(key, ENTRY, self.hash, self.signature) else FORGED


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
    """What a check of the whole chain found: `broken_at` is the first entry that does not fit, `why` says how.

    `signer` is the public key that signed all entries from a first one on; None where they are not signed.
    """

    entries: int
    head: str
    broken_at: int | None = None
    why: str = ""
    signer: str | None = None

    @property
    def intact(self) -> bool:
        """Whether every entry follows from the ones before it."""
        return self.broken_at is None


def verify(entries: Iterable[LedgerEntry], expected_head: str | None = None, key: str | None = None) -> Verification:
    """Follow the chain from its beginning: hashes, signatures, numbers, totals and caps.

    A chain that someone cut off at the end is whole in itself. `expected_head`, a head that was noted elsewhere before,
    tells: it must still be in the chain. Without signatures, and without a `key` to compare theirs with, the same holds
    of a chain that someone wrote anew from an entry on.
    """
    if expected_head is not None and not re.fullmatch("[0-9a-f]{64}", expected_head):
        raise MethodError("must be 64 hexadecimal digits, as an earlier check printed them.", parameter="expected_head")
    state, signer = ChainState(), None
    head, previous, count, found = BEGINNING, BEGINNING, 0, expected_head in (None, BEGINNING)
    for count, entry in enumerate(entries, start=1):
        why = _mismatch(entry, count, previous)
        if not why and entry.kind == "key" and signer is None:
            signer = entry.label
            why = "" if key in (None, signer) else "it names another key than the one given"
        why = why or entry.why_not_signed_by(signer) or state.contradiction(entry)
        if why:
            return Verification(count - 1, head, count, why)
        head, previous = entry.hash, entry.sha256
        found = found or head == expected_head
    if not found:
        return Verification(count, head, count + 1, MISSING_HEAD)
    if key is not None and signer is None:
        return Verification(count, head, count + 1, "the ledger is not signed")
    return Verification(count, head, signer=signer)


def _mismatch(entry: LedgerEntry, number: int, previous: str) -> str:
    if entry.number != number:
        return f"its number is {entry.number!r}: an entry was removed or added"
    if not entry.is_intact():
        return "its content does not match its hash: it was changed"
    if entry.previous != previous:
        return "its link to the entry before does not match: an entry was replaced"
    return ""


def check_whole(entries: Iterable[LedgerEntry], key: str) -> None:
    """Refuse entries that are not one chain up to a last one signed by `key`.

    Each hash covers the hash and the signature before it, so the last signature holds for all entries: whoever has no
    key can change none of them, the one that names the key included.
    """
    previous, last = BEGINNING, None
    for count, entry in enumerate(entries, start=1):
        if _mismatch(entry, count, previous):
            raise not_to_build_upon(entry.number)
        previous, last = entry.sha256, entry
    if last is not None and last.why_not_signed_by(key):
        raise not_to_build_upon(last.number)


def not_to_build_upon(number: object) -> LedgerError:
    """The error of an entry that was changed."""
    return LedgerError(
        f"entry {number!r} of the ledger was changed or is damaged, so nothing is spent on top of it. "
        "Run: dpkmeans ledger verify; then restore the ledger."
    )


class Signer(NamedTuple):
    """The public `key` that signs the entries of a ledger, from the one with the number `since` on."""

    key: str
    since: int


def checked_entry(row: tuple[Any, ...], signer: Signer | None = None) -> LedgerEntry:
    """An entry from a row of the table, to build upon; an error where it was changed, or lacks its signature."""
    entry = LedgerEntry(*row)
    must = None if signer is None or entry.number < signer.since else signer.key
    if not entry.is_intact() or entry.why_not_signed_by(must):
        raise not_to_build_upon(entry.number)
    return entry
