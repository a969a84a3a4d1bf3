"""Runs of posterior and prior as the experiments need them: the end, what was spent, and what the zones were like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.engine import CellStatistics
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import Exact, reveal
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.kernels.zones import ZoneHistory
from dpkmeans.methods.loop.budgets import EqualSteps, StepBudget
from dpkmeans.methods.loop.final_steps import NoisyCountMean
from dpkmeans.methods.loop.solver import Run, Trajectory, solve
from dpkmeans.methods.loop.stopping import Repeats
from dpkmeans.methods.lu_shen.zone_sampling import ZoneSampling
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.reproduction.baselines import MAX_STEPS as MOST_STEPS
from dpkmeans.reproduction.baselines import WHY, Problem, cost, last_means
from dpkmeans.reproduction.variants import update_of

ROUNDING = 1e-9
MAX_STEPS = {"truncated Laplace": 200}  # steps of readings that need not come to rest


@dataclass(frozen=True)
class Watch:
    """What the theorems need to know of a run: zones, those that leave the convergent zone, sums of δ and of α over the
    draws, and after how many steps the cost was higher than before, rounding apart.
    """

    zones: int = 0
    outside: int = 0
    ratios: float = 0.0
    angles: float = 0.0
    rises: int = 0


@dataclass(frozen=True)
class ZoneRun:
    """A run of posterior or prior: its trajectory, what was seen, its exact last means and what it released."""

    trajectory: Trajectory
    watch: Watch
    means: FloatArray
    released: FloatArray
    epsilon_total: float
    nano_total: int


@dataclass(frozen=True)
class AtFixedPoint:
    """Ends when an assignment repeats and the exact means would repeat it once more. Not the paper's rule."""

    engine: MemoryEngine
    until_repeat: ClassVar[bool] = False

    def ends(self, exact: Exact[CellStatistics]) -> bool:
        """Whether the means are a fixed point of Lloyd's algorithm; an occupied cell's sums tell."""
        stats = reveal(exact, why=WHY)
        if stats.n_changed > 0:
            return False
        again = reveal(self.engine.cell_statistics(stats.means(empty=np.full_like(stats.sums, 9.0))), why=WHY)
        return bool(np.array_equal(stats.counts, again.counts) and np.array_equal(stats.sums, again.sums))


def zone_run(
    problem: Problem, strategy: str, epsilon: float, start: FloatArray, seed: int, reading: str = ""
) -> ZoneRun:
    """Algorithm 1 with the same ε for every step and for the release. Zones are watched in the paper's own reading."""
    update = update_of(problem, strategy, reading)
    step, rng, ledger = Epsilon.of(epsilon), Randomness.with_seed(seed), Ledger()
    plan, watch = EqualSteps(StepBudget(zone=step), MAX_STEPS.get(reading, MOST_STEPS)), Watch()
    if isinstance(update, ZoneSampling) and reading != "fixed-point stop":
        end, histories = update.run_with_history(problem.engine, start, plan, ledger=ledger, rng=rng)
        watch = watched(start, cost(problem, start), histories)
    else:
        stop = AtFixedPoint(problem.engine) if reading == "fixed-point stop" else Repeats()
        end = solve(Run(problem.engine, start, plan, stop, ledger, rng), update)
    means = last_means(problem, end)
    released = NoisyCountMean(step).centroids(problem.engine, end, ledger=ledger, rng=rng)
    return ZoneRun(end, watch, means, released, float(ledger.spent), ledger.spent.nano)


def watched(start: FloatArray, first_cost: float, histories: list[ZoneHistory]) -> Watch:
    """Zones and draws of all steps, looked at from the exact means; `first_cost` is the cost at the start."""
    counts, sums, center, radius, drawn = (
        np.concatenate([getattr(h, name)[: h.n_steps] for h in histories])
        for name in ("counts", "sums", "center", "radius", "drawn")
    )
    if not len(counts):
        return Watch()
    previous = np.concatenate([start[None], drawn[:-1]])
    occupied = counts[..., None] > 0
    means = np.where(occupied, sums / np.where(occupied, counts[..., None], 1.0), previous)
    reach = _norm(center - means) + radius
    real, convergent = reach > 0, _norm(previous - means)
    move, axis = drawn - means, center - means
    lengths = _norm(move) * _norm(axis)
    cosine = np.divide(np.sum(move * axis, axis=2), lengths, out=np.ones_like(lengths), where=lengths > 0)
    parts = np.sum(counts * np.sum(previous**2, axis=2) - 2 * np.sum(sums * previous, axis=2), axis=1)
    costs = first_cost + (parts - parts[0])  # Σ|x|² is the same in all steps
    return Watch(
        zones=int(real.sum()),
        outside=int(np.sum(reach[real] > convergent[real] * (1 + 1e-6) + ROUNDING)),
        ratios=float(np.sum(_norm(move)[real] / reach[real])),
        angles=float(np.sum(np.arccos(np.clip(cosine[real], -1, 1)))),
        rises=int(np.sum(costs[1:] > costs[:-1] * (1 + 1e-9))),
    )


def _norm(vectors: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.norm(vectors, axis=-1))


def is_fixed_point(problem: Problem, done: ZoneRun) -> bool:
    """Whether Lloyd's algorithm would stay where the run ended."""
    again = problem.engine.cell_statistics(done.means, compare_with=done.trajectory.centroids)
    return reveal(again, why=WHY).n_changed == 0
