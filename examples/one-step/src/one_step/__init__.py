"""One noisy step from a public start: the smallest method that finds anything, as an example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpkmeans.core.bounds import GRID
from dpkmeans.core.engine import Engine, cell_counts, centred_sums
from dpkmeans.core.guarantee import Claim
from dpkmeans.core.release import Release
from dpkmeans.methods.base import Outcome, make_release
from dpkmeans.methods.loop.initializers import SpherePacking
from dpkmeans.methods.registry import MethodSpec
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Laplace
from dpkmeans.privacy.randomness import Randomness


@dataclass(frozen=True)
class OneStep:
    """Fields are public: records, ledgers and random numbers arrive as arguments of `run`. Proof: PROOF.md."""

    name: str = "one-step"
    needs_epsilon: ClassVar[bool] = True
    claim: ClassVar[Claim] = Claim.PROVED

    def run(self, engine: Engine, n_clusters: int, *, ledger: Ledger, rng: Randomness) -> Release:
        """Noisy means of the cells of a public start."""
        box = engine.bounds
        start = SpherePacking().centroids(engine, n_clusters, rng.generator)  # looks at the box alone
        exact = engine.cell_statistics(start)  # exact: only a mechanism opens it
        for_counts, for_sums = ledger.remaining.over(2)
        counts = Laplace(for_counts).release(cell_counts(exact), ledger=ledger, rng=rng, label="counts")
        offsets = np.zeros(start.shape)
        wide = np.flatnonzero(box.side)  # a feature without a width is the same for all records
        if len(wide):
            offsets[:, wide] = Laplace(for_sums).release(centred_sums(exact), ledger=ledger, rng=rng, label="sums")
        # From here on everything is released.
        means = box.clip_unit((box.side // 2 + offsets / np.maximum(counts, 1)[:, None]) / GRID)
        centroids = np.where(counts[:, None] >= 1, means, start)
        return make_release(self, Outcome(centroids, n_passes=1, n_iter=1), engine, ledger=ledger, rng=rng)


METHOD = MethodSpec(
    name="one-step",
    factory=OneStep,
    guarantee="proved",
    summary="one noisy step from a packed start",
    source="an example",
    proof="one_step/PROOF.md",
)
