"""Runs that only the paper's lemmas ask for: the check of the cost identity, and Lemma 2's ALG on the segment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import reveal
from dpkmeans.engines.packing import grid_points
from dpkmeans.methods.loop.budgets import EqualSteps, StepBudget
from dpkmeans.methods.loop.solver import Move, Run, Step, solve
from dpkmeans.methods.loop.stopping import Repeats
from dpkmeans.methods.lu_shen.zone_sampling import Controller, ZoneSampling
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.reproduction.baselines import MAX_STEPS, WHY, Problem, baseline, fingerprint, is_near, last_means
from dpkmeans.reproduction.cells import Cell, Row, seed_of

INNER_EPSILON = Epsilon.of(0.5)
SEGMENTS = ("segment-uniform", "segment-0.25", "segment-0.5", "segment-0.75")


@dataclass(frozen=True)
class SegmentSampling:
    """Lemma 2's ALG: a point of the segment between previous centroid and mean, δ of the way back. Not private.

    `ratio` fixes δ; without it δ is uniform, which is the lemma's "randomly select".
    """

    ratio: float | None = None

    def move(self, step: Step, *, ledger: Ledger, rng: Randomness) -> Move:
        """Ŝ = mean + δ (previous - mean)."""
        means = reveal(step.exact, why=WHY).means(empty=step.previous)
        k = len(means)
        share = rng.generator.random(k) if self.ratio is None else np.full(k, self.ratio)
        return Move(means + share[:, None] * (step.previous - means))


def theorem_cells(datasets: Sequence[str], runs: int) -> list[Cell]:
    """What the theorems need beyond the path cells."""
    return [
        Cell("theorem", name, run, "none", method, 0.0)
        for run in range(runs)
        for name in datasets
        for method in ("identity", "inner-bound", *SEGMENTS)
    ]


def theorem_row(problem: Problem, cell: Cell, seed: int) -> Row:
    """One run of the identity's check, or of ALG on the segment."""
    base = baseline(problem, cell.run, seed)
    if cell.method == "identity":
        return {"worst_error": identity_error(problem, base.start)}
    if cell.method == "inner-bound":
        return inner_ratios(problem, base.start, seed_of(seed, *cell))
    name = cell.method.removeprefix("segment-")
    update = SegmentSampling(None if name == "uniform" else float(name))
    rng = Randomness.with_seed(seed_of(seed, *cell))
    plan = EqualSteps(StepBudget(), MAX_STEPS)
    end = solve(Run(problem.engine, base.start, plan, Repeats(), Ledger(), rng), update)
    means = last_means(problem, end)
    return {
        "passes": end.passes,
        "stopped": end.stopped,
        "match": bool(is_near(means, base.lloyd.centroids).all()),
        "same_optimum": fingerprint(means) == fingerprint(base.lloyd.centroids),
    }


def inner_ratios(problem: Problem, start: FloatArray, seed: int) -> Row:
    """A run of posterior, and the sum of its δ = |Ŝ - S^(t)| / |S^(t) - S^(t+1)| over the clusters that move on.

    Theorem 2's proof: its δ is measured against the next move of the mean, so it may exceed 1.
    """
    rng, plan = Randomness.with_seed(seed), EqualSteps(StepBudget(zone=INNER_EPSILON), MAX_STEPS)
    update = ZoneSampling(Controller.POSTERIOR)
    end, _ = update.run_with_history(problem.engine, start, plan, ledger=Ledger(), rng=rng)
    ratios, n = 0.0, 0
    for _, move in end.moves:
        assert move.zones is not None, "posterior draws from zones"
        means = move.zones.mean
        ahead = reveal(problem.engine.cell_statistics(means), why=WHY).means(empty=means)
        step, next_step = (np.linalg.norm(places - means, axis=1) for places in (move.centroids, ahead))
        moving = next_step > 0
        ratios, n = ratios + float(np.sum(step[moving] / next_step[moving])), n + int(moving.sum())
    return {"passes": end.passes, "sum_inner_ratio": ratios, "inner_ratios": n}


def identity_error(problem: Problem, previous: FloatArray) -> float:
    """The largest |J(previous) - J(mean) - n a²| / J(previous) over the clusters of a first step, by plain sums."""
    points = grid_points(problem.data.unit_records(), problem.engine.bounds).astype(np.float64)
    labels = problem.engine.labels(previous)
    worst = 0.0
    for i, centroid in enumerate(previous):
        cell = points[labels == i]
        if not len(cell):
            continue
        mean = cell.mean(axis=0)
        before, after = float(((cell - centroid) ** 2).sum()), float(((cell - mean) ** 2).sum())
        saved = len(cell) * float(((centroid - mean) ** 2).sum())
        if before > 0:
            worst = max(worst, abs(before - after - saved) / before)
    return worst
