"""Iterative methods as values: start, schedule, update, stop, final."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

from dpkmeans.core.bounds import Bounds
from dpkmeans.core.engine import Engine
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.release import PublishedZone, Release
from dpkmeans.errors import NotConvergedWarning
from dpkmeans.methods.base import Claim, make_release
from dpkmeans.methods.loop.budgets import Schedule, Task
from dpkmeans.methods.loop.final_steps import AsIs, Final
from dpkmeans.methods.loop.initializers import Start
from dpkmeans.methods.loop.solver import Trajectory, Update
from dpkmeans.methods.loop.stopping import Repeats, Stop
from dpkmeans.methods.loop.whole import iterate_whole
from dpkmeans.methods.lu_shen.zones import SCORE_NAME
from dpkmeans.methods.record_count import NotNeeded, RecordCount
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness


@dataclass(frozen=True)
class IterativeMethod:
    """start -> { assign -> update -> stop } -> final, with a budget per step from the schedule."""

    name: str
    claim: Claim
    start: Start
    schedule: Schedule
    update: Update
    stop: Stop
    final: Final = AsIs()
    record_count: RecordCount = NotNeeded()
    publish_centroids: bool = False
    parameters: dict[str, Any] = field(default_factory=dict)

    def offers(self) -> Claim:
        """The claim it was built with."""
        return self.claim

    def run(self, engine: Engine, n_clusters: int, *, ledger: Ledger, rng: Randomness) -> Release:
        """Run to the end of the plan or to the stop rule, and release."""
        first = self.start.centroids(engine, n_clusters, rng.generator)
        n_records = self.record_count.get(engine, ledger=ledger, rng=rng)
        total = ledger.remaining if self.schedule.splits else Epsilon(0)
        plan = self.schedule.plan(Task(total, n_clusters, engine.n_features, n_records))
        end = iterate_whole(engine, first, plan, update=self.update, stop=self.stop, ledger=ledger, rng=rng)
        if isinstance(self.stop, Repeats) and not end.stopped:
            warnings.warn(
                NotConvergedWarning(
                    f"{self.name} was ended by max_iter before its assignment repeated;", hint="raise {max_iter}."
                ),
                stacklevel=3,
            )
        return make_release(
            self,
            engine,
            self.final.centroids(engine, end, ledger=ledger, rng=rng),
            ledger=ledger,
            rng=rng,
            n_passes=end.passes,
            n_iter=len(end.moves),
            converged=end.stopped if isinstance(self.stop, Repeats) else None,
            transcript=published(engine.bounds, end, centroids=self.publish_centroids),
            parameters=self.parameters,
        )


def published(bounds: Bounds, way: Trajectory, *, centroids: bool) -> tuple[PublishedZone, ...]:
    """The transcript of a way through zones, in the units of the data, with or without the centroids drawn."""
    lines = []
    for iteration, (budget, move) in enumerate(way.moves, start=1):
        if move.zones is None:
            continue
        centers = bounds.from_unit(move.zones.center).tolist()
        radii = (move.zones.radius * bounds.longest_side).tolist()
        drawn = bounds.from_unit(move.centroids).tolist()
        for cluster, (center, radius, centroid) in enumerate(zip(centers, radii, drawn, strict=True)):
            shown = tuple(centroid) if centroids else None
            lines.append(
                PublishedZone(iteration, cluster, tuple(center), radius, SCORE_NAME, float(budget.zone), shown)
            )
    return tuple(lines)
