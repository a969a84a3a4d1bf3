"""Updates beside Algorithm 1 that the paper discusses, or that fit its numbers. For experiments: none is private."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpkmeans._typing import AnyArray, FloatArray
from dpkmeans.core.exact import reveal
from dpkmeans.engines.packing import grid_points
from dpkmeans.kernels.zones import zone_step
from dpkmeans.methods.loop.solver import Move, Step, Update
from dpkmeans.methods.lu_shen.zone_sampling import Controller, ZoneSampling
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.reproduction.baselines import WHY, Problem

MAX_PASSES_AHEAD = 300  # Lloyd passes to the centroid that a zone points to


@dataclass(frozen=True)
class RecordInZone:
    """Ŝ is a random record of the cluster that lies in its sampling zone; the mean where there is none.

    A reading of Lemma 1's proof, which picks "a random node from C_i".
    """

    problem: Problem
    controller: Controller

    def move(self, step: Step, *, ledger: Ledger, rng: Randomness) -> Move:
        previous, means = step.previous, _means(step)
        ahead = means if self.controller is Controller.POSTERIOR else _means(step, means)
        epsilon = float(step.budget.zone)
        zones = zone_step(int(self.controller), np.array(previous), means, ahead, epsilon, rng.generator)
        points, labels = _points(self.problem), self.problem.engine.labels(previous)
        apart = points - zones.center[labels]
        inside = np.flatnonzero(np.einsum("nd,nd->n", apart, apart) <= zones.radius[labels] ** 2)
        drawn = means.copy()
        for i in np.unique(labels[inside]):
            drawn[i] = points[rng.generator.choice(inside[labels[inside] == i])]
        return Move(drawn, self.controller.passes)


@dataclass(frozen=True)
class FirstStepsOnly:
    """Zones in the first `steps` steps, then Lloyd's algorithm. A diagnostic: the number is fitted to the paper's."""

    controller: Controller
    steps: int = 2

    def move(self, step: Step, *, ledger: Ledger, rng: Randomness) -> Move:
        if step.number <= self.steps:
            return ZoneSampling(self.controller).move(step, ledger=ledger, rng=rng)
        return Move(_means(step))


@dataclass(frozen=True)
class TruncatedLaplace:
    """Planar Laplace noise on the mean, moved to the border of the convergent zone where it falls outside.

    Paper: "Design Rules", which rejects it since the border then gets more probability than points inside. The scale is
    the mean's local sensitivity over ε: the farthest record of the cell over their number.
    """

    problem: Problem

    def move(self, step: Step, *, ledger: Ledger, rng: Randomness) -> Move:
        stats = reveal(step.exact, why=WHY)
        means = stats.means(empty=step.previous)
        points, labels = _points(self.problem), self.problem.engine.labels(step.previous)
        far, (k, d) = np.zeros(len(means)), means.shape
        np.maximum.at(far, labels, np.linalg.norm(points - means[labels], axis=1))
        scale = far / np.maximum(stats.counts, 1) / float(step.budget.zone)
        direction = rng.generator.standard_normal((k, d))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        length = np.minimum(rng.generator.gamma(d, 1.0, k) * scale, np.linalg.norm(step.previous - means, axis=1))
        return Move(means + length[:, None] * direction)


@dataclass(frozen=True)
class FinalController:
    """Prior with the final centroid S^(t+r) of Lloyd's algorithm as X, in place of the mean one pass ahead.

    Paper: "Orientation Control with Past and Future Knowledge", which rejects it for its cost: every pass counts.
    """

    def move(self, step: Step, *, ledger: Ledger, rng: Randomness) -> Move:
        means = _means(step)
        end = reveal(step.engine.lloyd(means, MAX_PASSES_AHEAD), why=WHY)
        epsilon = float(step.budget.zone)
        made = zone_step(int(Controller.PRIOR), np.array(step.previous), means, end.centroids, epsilon, rng.generator)
        return Move(made.drawn, 1 + end.moves)


def update_of(problem: Problem, strategy: str, reading: str) -> Update:
    """The update of a strategy under a reading or an ablation."""
    controller = Controller.POSTERIOR if strategy == "posterior" else Controller.PRIOR
    variants: dict[str, Update] = {
        "zones kept inside": ZoneSampling(Controller.CLIPPED_PRIOR),
        "a record of the cluster": RecordInZone(problem, controller),
        "noise in two steps only": FirstStepsOnly(controller),
        "truncated Laplace": TruncatedLaplace(problem),
        "final centroid as controller": FinalController(),
    }
    return variants.get(reading, ZoneSampling(controller))


def _means(step: Step, centroids: FloatArray | None = None) -> FloatArray:
    """Means of the step's cells, or of those of other centroids, shape (k, d)."""
    exact = step.exact if centroids is None else step.engine.cell_statistics(centroids)
    return reveal(exact, why=WHY).means(empty=step.previous if centroids is None else centroids)


@lru_cache(maxsize=8)
def _points(problem: Problem) -> AnyArray:
    """The records on the grid in unit coordinates, shape (n, d)."""
    return grid_points(problem.data.unit_records(), problem.engine.bounds).astype(np.float64)
