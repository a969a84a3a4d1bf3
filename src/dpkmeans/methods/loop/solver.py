"""The loop that all iterative methods share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from dpkmeans._typing import FloatArray
from dpkmeans.core.engine import CellStatistics, Engine
from dpkmeans.core.exact import Exact
from dpkmeans.methods.loop.budgets import StepBudget
from dpkmeans.methods.loop.stopping import Stop
from dpkmeans.methods.lu_shen.zones import Zones
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness


@dataclass(frozen=True)
class Step:
    """What an update gets to see: the number of the step, its cells, their exact statistics, its budget."""

    number: int
    engine: Engine
    previous: FloatArray
    exact: Exact[CellStatistics]
    budget: StepBudget


@dataclass(frozen=True)
class Move:
    """What an update returns: new centroids, passes made, and the zones where the paper publishes them."""

    centroids: FloatArray
    passes: int = 1
    zones: Zones | None = None


class Update(Protocol):
    """Moves the centroids once."""

    def move(self, step: Step, *, ledger: Ledger, rng: Randomness) -> Move:
        """New centroids for this step's cells."""
        ...


@dataclass
class Trajectory:
    """Where the loop has been. `exact` belongs to the cells of `centroids` where the stop rule ended the loop."""

    centroids: FloatArray
    exact: Exact[CellStatistics] | None = None
    stopped: bool = False
    passes: int = 0
    moves: list[tuple[StepBudget, Move]] = field(default_factory=list)


def iterate(
    engine: Engine,
    start: FloatArray,
    plan: Iterable[StepBudget],
    *,
    update: Update,
    stop: Stop,
    ledger: Ledger,
    rng: Randomness,
) -> Trajectory:
    """Assign and update, one step per entry of `plan`, until the stop rule or the plan ends it.

    Passes are counted without the last, confirming one.
    """
    trajectory = Trajectory(start)
    before: FloatArray | None = None
    for number, budget in enumerate(plan, start=1):
        exact = engine.cell_statistics(trajectory.centroids, compare_with=before)
        if stop.ends(exact):
            trajectory.exact, trajectory.stopped = exact, True
            break
        step = Step(number, engine, trajectory.centroids, exact, budget)
        move = update.move(step, ledger=ledger, rng=rng)
        trajectory.moves.append((budget, move))
        trajectory.passes += move.passes
        before, trajectory.centroids = trajectory.centroids, move.centroids
    return trajectory
