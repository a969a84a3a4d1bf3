"""Final steps: from where the loop ended to the centroids that are released."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.bounds import GRID
from dpkmeans.core.engine import Engine, cell_counts
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import reveal
from dpkmeans.core.guarantee import Claim
from dpkmeans.methods.loop.solver import Trajectory
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Laplace
from dpkmeans.privacy.randomness import Randomness


@dataclass(frozen=True)
class AsIs:
    """The centroids where the loop ended."""

    claim: ClassVar[Claim] = Claim.PROVED

    def centroids(self, engine: Engine, end: Trajectory, *, ledger: Ledger, rng: Randomness) -> FloatArray:
        return end.centroids


@dataclass(frozen=True)
class NoisyCountMean:
    """Exact sums over counts with Lap(1/ε_0) noise; a noisy count below 1 counts as 1. Paper: Algorithm 1, line 12.

    Label `paper`: the released centroid lies on the ray of the exact sum. An empty cluster keeps its centroid. Noise is
    drawn in steps of 2^-20 of a record, which stands for the paper's continuous noise.
    """

    epsilon: Epsilon
    claim: ClassVar[Claim] = Claim.PAPER

    def centroids(self, engine: Engine, end: Trajectory, *, ledger: Ledger, rng: Randomness) -> FloatArray:
        """Released centroids, shape (k, d)."""
        exact = end.exact if end.exact is not None else engine.cell_statistics(end.centroids)
        fine_counts = cell_counts(exact, steps=GRID)
        noisy = Laplace(self.epsilon).release(fine_counts, ledger=ledger, rng=rng, label="release: counts")
        stats = reveal(exact, why="the paper's last step noises counts only")
        released = stats.sums / np.maximum(noisy / GRID, 1.0)[:, None]
        return np.where(stats.counts[:, None] > 0, released, end.centroids)
