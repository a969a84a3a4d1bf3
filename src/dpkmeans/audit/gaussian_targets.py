"""Gaussian noise under audit: what an event with and without a record shows against the mechanism's own (ε, δ).

No ε bounds the loss of Gaussian noise by itself. Its σ fixes δ for each ε exactly (Canonne, Kamath and Steinke 2020,
theorem 7), which is tighter than what rho promises; the audit claims the pair at ε = rho.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpkmeans._typing import IntArray
from dpkmeans.audit.protocols import Sample
from dpkmeans.audit.scores import FixedScore, Score, column, exact_answer, low_bits
from dpkmeans.core.exact import Exact
from dpkmeans.core.query import Sensitivity
from dpkmeans.core.rho import Rho
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Gaussian
from dpkmeans.privacy.randomness import Randomness

STEP = 64
"""What the record moves, in the L2 norm."""


class ReleasesRho(Protocol):
    """A mechanism in rho, or a mutant of it."""

    @property
    def rho(self) -> Rho:
        """What it claims."""

    def release(self, exact: Exact[IntArray], *, ledger: Ledger, rng: Randomness, label: str) -> IntArray:
        """The released values."""


@dataclass(frozen=True)
class ThinGaussian:
    """Gaussian noise of `factor` of the deviation, factor < 1, recorded as if it were whole."""

    rho: Rho
    factor: float

    def release(self, exact: Exact[IntArray], *, ledger: Ledger, rng: Randomness, label: str) -> IntArray:
        """Records rho and loses rho/factor²."""
        ledger.spend_rho(self.rho, label)
        thin = Gaussian(Rho(int(self.rho.femto / self.factor**2)))
        return thin.release(exact, ledger=Ledger(), rng=rng, label=label)


@dataclass(frozen=True)
class GaussianCase:
    """Gaussian noise on rows of integers; `answer_with` is the row with the record, `STEP` away at most from zeros."""

    pair: str
    mechanism: ReleasesRho
    answer_with: tuple[int, ...]

    @property
    def delta(self) -> float:
        """What is claimed beside ε = rho."""
        return delta_of(float(self.mechanism.rho), float(self.mechanism.rho))

    def draw(self, with_record: bool, runs: int, rng: Randomness) -> Sample:
        row = self.answer_with if with_record else (0,) * len(self.answer_with)
        table: IntArray = np.tile(np.array(row, dtype=np.int64), (runs, 1))
        exact, ledger = Exact(table, Sensitivity(l2_squared=STEP**2)), Ledger()
        released = self.mechanism.release(exact, ledger=ledger, rng=rng, label="audit")
        return Sample(np.asarray(released, dtype=np.float64), np.array([float(ledger.loss.rho)]))

    def scores(self) -> tuple[Score, ...]:
        """The likelihood ratio, which grows with the product of the row and the record's, and what tells bad noise."""
        record = np.array(self.answer_with, dtype=np.float64)
        ratio = FixedScore("likelihood ratio", lambda y: np.asarray((y * record).sum(axis=1)))
        return ratio, column(0, "first entry"), exact_answer((0,) * len(record)), low_bits()


def delta_of(rho: float, epsilon: float) -> float:
    """The least δ for which noise of rho on a move by STEP is (ε, δ)-DP, rounded up."""
    variance = STEP**2 / (2 * rho)
    reach = math.ceil(12 * math.sqrt(variance)) + 2 * STEP
    weights = [math.exp(-(z**2) / (2 * variance)) for z in range(-reach, reach + 1)]
    moved = [math.exp(-((z - STEP) ** 2) / (2 * variance)) for z in range(-reach, reach + 1)]
    excess = math.fsum(max(0.0, q - math.exp(epsilon) * p) for p, q in zip(weights, moved, strict=True))
    return excess / math.fsum(weights) * (1 + 1e-9) + 1e-12


def gaussian_cases(mechanism: ReleasesRho) -> tuple[GaussianCase, ...]:
    """The move in one entry, and shared by two."""
    half = math.isqrt(STEP**2 // 2)
    return GaussianCase("one entry", mechanism, (STEP, 0)), GaussianCase("two entries", mechanism, (half, -half))
