"""Lu and Shen's update: a draw in each cluster's sampling zone. Label `paper`: its ε is a claim, not a guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.exact import reveal
from dpkmeans.core.guarantee import Claim
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.kernels import zones as kernel
from dpkmeans.kernels.zones import ZoneHistory, ZoneStep, zone_step
from dpkmeans.methods.loop.budgets import EqualSteps, StepBudget
from dpkmeans.methods.loop.solver import Move, Run, Step, Trajectory
from dpkmeans.methods.lu_shen.laws import PAPER_LAWS, PAPER_SCORE, Laws, Score
from dpkmeans.methods.lu_shen.zones import Zones
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness

STEPS_PER_CALL = 32  # of a compiled run: long enough that calls do not count, short enough for its history in memory
WHY = "the paper builds its zones from exact means"


class Controller(IntEnum):
    """Where the zones point to, from past or from past and future knowledge. See `kernels.zones.controller_points`."""

    POSTERIOR = kernel.POSTERIOR
    PRIOR = kernel.PRIOR
    CLIPPED_PRIOR = kernel.CLIPPED_PRIOR

    @property
    def passes(self) -> int:
        """Passes over the records in one step."""
        return 1 if self is Controller.POSTERIOR else 2


@dataclass(frozen=True)
class ZoneSampling:
    """Exponential mechanism over (δ, α) in the zone that `controller` points to, in each cluster.

    `laws` are the paper's q and Pr[P]; by default those that its experiments use.

    Formal guarantee: none. The set of candidates depends on the exact mean, so the exponential mechanism's bound does
    not apply (docs/guarantees.md). The ledger records what the paper claims: the largest ε of the clusters.
    """

    controller: Controller
    laws: Laws = PAPER_LAWS
    claim: ClassVar[Claim] = Claim.PAPER

    def move(self, step: Step, *, ledger: Ledger, rng: Randomness) -> Move:
        """Released centroids Ŝ and their zones. Paper: Algorithm 1, lines 5 to 9."""
        previous = np.array(step.previous, dtype=np.float64)
        means = ahead = reveal(step.exact, why=WHY).means(empty=previous)
        if self.controller is not Controller.POSTERIOR:
            later = reveal(step.engine.cell_statistics(means), why="the paper's future knowledge is exact")
            ahead = later.means(empty=means)
        _spend(ledger, step.budget, len(means), step.number)
        made = self._draw(step.budget, previous, means, ahead, rng.generator)
        return Move(made.drawn, self.controller.passes, Zones(made.center, made.radius, means, self.laws.score.name))

    def _draw(
        self,
        budget: StepBudget,
        previous: FloatArray,
        means: FloatArray,
        ahead: FloatArray,
        generator: np.random.Generator,
    ) -> ZoneStep:
        """Zones and draws. With the paper's laws and one ε for all clusters, by the kernel in one call."""
        if self._in_one_call(budget):
            return zone_step(int(self.controller), previous, means, ahead, float(budget.zone), generator)
        k = len(means)
        points = kernel.controller_points(int(self.controller), previous, means, ahead, generator)
        offset = (
            kernel.sample_offset(k, generator) if self.laws.offset is None else self.laws.offset.sample(k, generator)
        )
        center, radius = kernel.sampling_zones(means, points, offset)
        epsilons = [float(epsilon) for epsilon in budget.of_zones(k)]
        return ZoneStep(center, radius, draw_in_zones(means, points, offset, epsilons, self.laws.score, generator))

    def _in_one_call(self, budget: StepBudget) -> bool:
        return self.laws == PAPER_LAWS and not budget.clusters

    def run_compiled(self, run: Run) -> Trajectory | None:
        """The whole run, where the engine makes steps by itself and the ledger has no reason to refuse one."""
        free = run.stop.until_repeat and run.ledger.refuses_nothing
        kinds = run.plan.kinds if isinstance(run.plan, EqualSteps) else run.plan
        if not (
            free
            and all(map(self._in_one_call, kinds))
            and isinstance(run.engine, MemoryEngine)
            and run.engine.runs_zones
        ):
            return None
        return self.run_with_history(run.engine, run.start, run.plan, ledger=run.ledger, rng=run.rng)[0]

    def run_with_history(
        self, engine: MemoryEngine, start: FloatArray, plan: Sequence[StepBudget], *, ledger: Ledger, rng: Randomness
    ) -> tuple[Trajectory, list[ZoneHistory]]:
        """The compiled run until an assignment repeats, and its exact history call by call."""
        end, histories = Trajectory(np.array(start, dtype=np.float64)), []
        before = end.centroids[:0]
        while not end.stopped and (budgets := plan[end.n_steps : end.n_steps + STEPS_PER_CALL]):
            epsilons = np.array([float(budget.zone) for budget in budgets])
            exact, last = engine.zone_run(end.centroids, before, int(self.controller), epsilons, rng.generator)
            history = reveal(exact, why=WHY)
            for i, budget in enumerate(budgets[: history.n_steps]):
                _spend(ledger, budget, len(start), end.n_steps + 1)
                before, counts = end.centroids, history.counts[i][:, None]
                means = np.where(counts > 0, history.sums[i] / np.maximum(counts, 1.0), before)
                zones = Zones(history.center[i], history.radius[i], means, self.laws.score.name)
                end.add(budget, Move(history.drawn[i], self.controller.passes, zones))
            end.stopped, end.exact = history.stopped, last
            histories.append(history)
        return end, histories


def draw_in_zones(
    means: FloatArray,
    points: FloatArray,
    offset: FloatArray,
    epsilons: Sequence[float],
    score: Score,
    generator: np.random.Generator,
) -> FloatArray:
    """One draw for each cluster, shape (k, d), in the zone at λ = `offset` of the way from its mean to X = `points`."""
    k, d = means.shape
    ratio, angle = np.empty(k), np.empty(k)
    for i, epsilon in enumerate(epsilons):
        if score is PAPER_SCORE:
            (ratio[i],), (angle[i],) = kernel.sample_pair(offset[i : i + 1], epsilon, generator, d == 1)
        else:
            ratio[i], angle[i] = score.draw(float(offset[i]), epsilon, generator, flat=d == 1)
    return kernel.place(means, points, ratio, angle, generator)


def _spend(ledger: Ledger, budget: StepBudget, k: int, number: int) -> None:
    ledger.spend_parallel(budget.of_zones(k), f"step {number}: zones")
