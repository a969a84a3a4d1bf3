"""Updates: how centroids move in one step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpkmeans.core.bounds import GRID
from dpkmeans.core.engine import cell_counts, centred_sums
from dpkmeans.core.exact import reveal
from dpkmeans.core.guarantee import Claim
from dpkmeans.methods.loop.solver import Move, Run, Step, Trajectory
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Gaussian, Laplace
from dpkmeans.privacy.randomness import Randomness

NOT_PRIVATE = "Lloyd's algorithm is not private"


@dataclass(frozen=True)
class ExactMean:
    """Lloyd's update. Not private."""

    claim: ClassVar[Claim] = Claim.NONE

    def move(self, step: Step, *, ledger: Ledger, rng: Randomness) -> Move:
        """Exact means; an empty cluster stays where it is."""
        return Move(reveal(step.exact, why=NOT_PRIVATE).means(empty=step.previous))

    def run_compiled(self, run: Run) -> Trajectory | None:
        """Every engine runs Lloyd's algorithm to a repeated assignment in one go, as fast as it can."""
        if not run.stop.until_repeat:
            return None
        end = reveal(run.engine.lloyd(run.start, len(run.plan)), why=NOT_PRIVATE)
        return Trajectory(end.centroids, stopped=end.stopped, passes=end.moves, n_steps=end.moves)


@dataclass(frozen=True)
class NoisyMean:
    """Noisy sums over noisy counts, sums taken from the middle of the box. Proved: proofs/noisy_lloyd.md.

    One record changes one count by 1, and in that cell the sum of each feature by at most half the side of the box,
    rounded up to a grid step. A feature that is no grid step wide is the same for all records: it needs no noise.
    All sums get noise of one scale. For a cube that is what equal shares per feature give; for other boxes it adds less
    squared error in total.
    """

    claim: ClassVar[Claim] = Claim.PROVED

    def move(self, step: Step, *, ledger: Ledger, rng: Randomness) -> Move:
        """Noisy means, clipped to the box; a cluster whose noisy count is below 1 stays where it is."""
        return _noisy_move(step, Laplace(step.budget.counts), lambda: Laplace(step.budget.sums), ledger, rng)


@dataclass(frozen=True)
class GaussianMean:
    """`NoisyMean` with Gaussian noise, scaled to the L2 norm of what a record adds. Proved: proofs/noisy_lloyd.md."""

    claim: ClassVar[Claim] = Claim.PROVED
    spends_rho: ClassVar[bool] = True

    def move(self, step: Step, *, ledger: Ledger, rng: Randomness) -> Move:
        """Noisy means, clipped to the box; a cluster whose noisy count is below 1 stays where it is."""
        return _noisy_move(step, Gaussian(step.budget.counts_rho), lambda: Gaussian(step.budget.sums_rho), ledger, rng)


def _noisy_move(
    step: Step, counts: Laplace | Gaussian, sums: Callable[[], Laplace | Gaussian], ledger: Ledger, rng: Randomness
) -> Move:
    """Sums by one mechanism over counts by another; `sums` is made only where there is a feature with a width."""
    box = step.engine.bounds
    middle, wide, label = box.side // 2, np.flatnonzero(box.side), f"step {step.number}"
    noisy_counts = counts.release(cell_counts(step.exact), ledger=ledger, rng=rng, label=f"{label}: counts")
    residuals = np.zeros((len(noisy_counts), box.n_features), dtype=np.int64)
    if len(wide):
        exact = centred_sums(step.exact)
        residuals[:, wide] = sums().release(exact, ledger=ledger, rng=rng, label=f"{label}: sums")
    means = box.clip_unit((middle + residuals / np.maximum(noisy_counts, 1)[:, None]) / GRID)
    return Move(np.where(noisy_counts[:, None] >= 1, means, step.previous))


@dataclass(frozen=True)
class LocalNoisyMean:
    """`NoisyMean` with noise scaled to the farthest record of each cell (local sensitivity). Label `paper`.

    For reproducing the paper's experiments only: the scale itself reveals records.
    """

    claim: ClassVar[Claim] = Claim.PAPER_SETTING

    def move(self, step: Step, *, ledger: Ledger, rng: Randomness) -> Move:
        """Noisy means, clipped to the box; a cluster whose noisy count is below 1 stays where it is."""
        box = step.engine.bounds
        why = "the paper's experiments use local sensitivity"
        stats = reveal(step.exact, why=why)
        reach = reveal(step.engine.max_abs_deviation(step.previous), why=why)
        ledger.spend(step.budget.counts, f"step {step.number}: counts")
        ledger.spend(step.budget.sums, f"step {step.number}: sums")
        noisy_counts = stats.counts + rng.generator.laplace(0, 1 / float(step.budget.counts), len(stats.counts))
        scale = reach * box.n_features / float(step.budget.sums)
        residuals = (
            stats.sums - stats.counts[:, None] * box.unit_box / 2 + rng.generator.laplace(0, 1, scale.shape) * scale
        )
        means = box.clip_unit(box.unit_box / 2 + residuals / np.maximum(noisy_counts, 1.0)[:, None])
        return Move(np.where(noisy_counts[:, None] >= 1, means, step.previous))
