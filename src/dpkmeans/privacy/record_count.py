"""The number of records is private. Methods that need it take a public one or spend a small share on a noisy one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpkmeans.engines.base import Engine
from dpkmeans.errors import MethodError
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Laplace
from dpkmeans.privacy.randomness import Randomness


class RecordCount(Protocol):
    """Where a method's number of records comes from."""

    def get(self, engine: Engine, *, ledger: Ledger, rng: Randomness) -> float:
        """A public or released number of records, at least 1."""
        ...


@dataclass(frozen=True)
class NotNeeded:
    """The method does not use it."""

    def get(self, engine: Engine, *, ledger: Ledger, rng: Randomness) -> float:
        """1, which nobody reads."""
        return 1.0


@dataclass(frozen=True)
class PublicCount:
    """Given by the caller, who says that it is public. A wrong one costs accuracy, never privacy."""

    n_records: int

    def __post_init__(self) -> None:
        if isinstance(self.n_records, bool) or int(self.n_records) != self.n_records or self.n_records < 1:
            raise MethodError(f"n_records must be a whole number of at least 1; got {self.n_records!r}.")

    def get(self, engine: Engine, *, ledger: Ledger, rng: Randomness) -> float:
        """The given number."""
        return float(self.n_records)


@dataclass(frozen=True)
class NoisyCount:
    """A noisy count for `share` of the promised total. Proved: proofs/laplace.md with sensitivity 1."""

    share: float = 0.02

    def get(self, engine: Engine, *, ledger: Ledger, rng: Randomness) -> float:
        """The released number, at least 1."""
        exact = engine.count().map(lambda n: np.array([round(n)], dtype=np.int64))
        noisy = Laplace(ledger.remaining.share(self.share), 1).release(
            exact, ledger=ledger, rng=rng, label="number of records"
        )
        return max(float(noisy[0]), 1.0)


def record_count(n_records: int | None) -> RecordCount:
    """Public where the caller gives it, noisy otherwise."""
    return NoisyCount() if n_records is None else PublicCount(n_records)
