"""The number of records is private. Methods that need it take a public one or spend a small share on a noisy one.

What they learn is only used to plan: a wrong number costs accuracy, never privacy. Proved: proofs/record_count.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

from dpkmeans.core.checks import check_integer
from dpkmeans.core.engine import Engine
from dpkmeans.core.guarantee import Claim
from dpkmeans.engines.block_engine import MAX_RECORDS
from dpkmeans.errors import TooFewRecordsError
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Laplace
from dpkmeans.privacy.randomness import Randomness

BY_CHANCE = 0.05  # probability with which noise alone stops a fit with exactly k records


class RecordCount(Protocol):
    """Where a method's number of records comes from."""

    needs_epsilon: ClassVar[bool]
    """Whether a part of a promised total is spent on it."""

    def get(self, engine: Engine, n_clusters: int, *, ledger: Ledger, rng: Randomness) -> float:
        """A public or released number of records, up to `MAX_RECORDS`; `TooFewRecordsError` where k is larger."""


@dataclass(frozen=True)
class NotNeeded:
    """The method does not use it."""

    claim: ClassVar[Claim] = Claim.PROVED
    needs_epsilon: ClassVar[bool] = False

    def get(self, engine: Engine, n_clusters: int, *, ledger: Ledger, rng: Randomness) -> float:
        """Placeholder: this method's schedule ignores it."""
        return 1.0


@dataclass(frozen=True)
class PublicCount:
    """Given by the caller, who says that it is public. A wrong one costs accuracy, never privacy."""

    n_records: int
    claim: ClassVar[Claim] = Claim.PROVED
    needs_epsilon: ClassVar[bool] = False

    def __post_init__(self) -> None:
        hint = "Leave it out to spend a small share of epsilon on a noisy count."
        check_integer(self.n_records, "n_records", most=MAX_RECORDS, hint=hint)

    def get(self, engine: Engine, n_clusters: int, *, ledger: Ledger, rng: Randomness) -> float:
        if n_clusters > self.n_records:
            raise TooFewRecordsError(
                f"must be at most {self.n_records}, the number of records that you give; got {n_clusters}.",
                parameter="n_clusters",
                hint="Ask for fewer clusters, or correct {n_records}.",
            )
        return float(self.n_records)


@dataclass(frozen=True)
class NoisyCount:
    """A noisy count for `share` of what the promised total still leaves.

    One record more or less changes the exact count by 1, whatever the record is. Where k is so much larger than the
    noisy count that its noise explains it in one case of twenty only, the fit stops with this share spent: whether it
    does depends on what is released alone. A small count by itself means little where the share is small.
    """

    share: float = 0.02
    claim: ClassVar[Claim] = Claim.PROVED
    needs_epsilon: ClassVar[bool] = True

    def get(self, engine: Engine, n_clusters: int, *, ledger: Ledger, rng: Randomness) -> float:
        """The released number, moved into 1 to `MAX_RECORDS`."""
        share = ledger.remaining.share(self.share)
        noisy = int(Laplace(share).release(engine.count(), ledger=ledger, rng=rng, label="number of records"))
        n_records = min(max(noisy, 1), MAX_RECORDS)
        if n_clusters > n_records + math.log(0.5 / BY_CHANCE) / float(share):
            raise TooFewRecordsError(
                f"{n_clusters} clusters are more than the noisy number of records, {n_records}. The fit stopped after "
                f"this count, which cost epsilon={ledger.booked(share)}.",
                hint="Ask for fewer clusters with {n_clusters}; or, if the number of records is public, give it with "
                "{n_records}: then no count is needed.",
            )
        return float(n_records)


def record_count(n_records: int | None) -> RecordCount:
    """Public where the caller gives it, noisy otherwise."""
    return NoisyCount() if n_records is None else PublicCount(n_records)
