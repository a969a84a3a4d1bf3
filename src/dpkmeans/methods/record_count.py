"""The number of records is private. Methods that need it take a public one or spend a small share on a noisy one.

What they learn is only used to plan: a wrong number costs accuracy, never privacy. Proved: proofs/record_count.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from dpkmeans.core.checks import check_integer
from dpkmeans.core.engine import Engine
from dpkmeans.core.guarantee import Claim
from dpkmeans.engines.block_engine import MAX_RECORDS
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Laplace
from dpkmeans.privacy.randomness import Randomness


class RecordCount(Protocol):
    """Where a method's number of records comes from."""

    def get(self, engine: Engine, *, ledger: Ledger, rng: Randomness) -> float:
        """A public or released number of records, between 1 and `MAX_RECORDS`."""


@dataclass(frozen=True)
class NotNeeded:
    """The method does not use it."""

    claim: ClassVar[Claim] = Claim.PROVED

    def get(self, engine: Engine, *, ledger: Ledger, rng: Randomness) -> float:
        """Placeholder: this method's schedule ignores it."""
        return 1.0


@dataclass(frozen=True)
class PublicCount:
    """Given by the caller, who says that it is public. A wrong one costs accuracy, never privacy."""

    n_records: int
    claim: ClassVar[Claim] = Claim.PROVED

    def __post_init__(self) -> None:
        hint = "Leave it out to spend a small share of epsilon on a noisy count."
        check_integer(self.n_records, "n_records", most=MAX_RECORDS, hint=hint)

    def get(self, engine: Engine, *, ledger: Ledger, rng: Randomness) -> float:
        return float(self.n_records)


@dataclass(frozen=True)
class NoisyCount:
    """A noisy count for `share` of what the promised total still leaves.

    One record more or less changes the exact count by 1, whatever the record is.
    """

    share: float = 0.02
    claim: ClassVar[Claim] = Claim.PROVED

    def get(self, engine: Engine, *, ledger: Ledger, rng: Randomness) -> float:
        """The released number, moved into 1 to `MAX_RECORDS`."""
        noisy = Laplace(ledger.remaining.share(self.share)).release(
            engine.count(), ledger=ledger, rng=rng, label="number of records"
        )
        return float(min(max(int(noisy), 1), MAX_RECORDS))


def record_count(n_records: int | None) -> RecordCount:
    """Public where the caller gives it, noisy otherwise."""
    return NoisyCount() if n_records is None else PublicCount(n_records)
