"""The solver of all iterative methods: initialise, then assign, move and test until the end, then the final step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from dpkmeans._typing import FloatArray
from dpkmeans.core.engine import CellStatistics, Engine
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import Exact
from dpkmeans.core.guarantee import Claim, claim_of
from dpkmeans.core.release import Release
from dpkmeans.errors import NotConvergedWarning, warn
from dpkmeans.methods.base import Outcome, make_release
from dpkmeans.methods.loop.budgets import Schedule, ScheduleInput, StepBudget, in_rho
from dpkmeans.methods.loop.initializers import Initializer
from dpkmeans.methods.loop.stopping import StopRule
from dpkmeans.methods.lu_shen.zones import Zones, transcript_of
from dpkmeans.methods.record_count import NotNeeded, RecordCount
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.progress import expect

EXACT_MEANS = Claim("none", ("The exact means of its cells are published.",), arithmetic="floating point")


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


@dataclass
class Trajectory:
    """Where the solver has been. `exact` belongs to the cells of `centroids`, if known when the stop rule ended it.

    Passes are counted without the last, confirming one. `moves` has every step, or none of a run that kept none.
    """

    centroids: FloatArray
    exact: Exact[CellStatistics] | None = None
    stopped: bool = False
    passes: int = 0
    n_steps: int = 0
    moves: list[tuple[StepBudget, Move]] = field(default_factory=list)

    def add(self, budget: StepBudget, move: Move) -> None:
        self.moves.append((budget, move))
        self.centroids = move.centroids
        self.passes += move.passes
        self.n_steps += 1


@dataclass(frozen=True)
class Run:
    """What a run of the solver is given besides its update: one step per entry of `plan`, until `stop` ends it."""

    engine: Engine
    start: FloatArray
    plan: Sequence[StepBudget]
    stop: StopRule
    ledger: Ledger
    rng: Randomness


class Update(Protocol):
    """Moves the centroids once."""

    def move(self, step: Step, *, ledger: Ledger, rng: Randomness) -> Move:
        """New centroids for this step's cells."""


class CompiledUpdate(Update, Protocol):
    """An update that can also make all steps in a few compiled calls, with the same result as step by step."""

    def run_compiled(self, run: Run) -> Trajectory | None:
        """The whole run, or None where this stop rule, engine or ledger needs it step by step."""


class FinalStep(Protocol):
    """Makes the released centroids from where the steps ended."""

    def centroids(self, engine: Engine, end: Trajectory, *, ledger: Ledger, rng: Randomness) -> FloatArray:
        """Released centroids, shape (k, d), in unit coordinates."""


def solve(run: Run, update: Update) -> Trajectory:
    """One step per entry of `plan`, until the stop rule or the plan ends it: compiled where the update can."""
    end = None
    if "run_compiled" in vars(type(update)):  # its own: a subclass may move in another way
        compiled = cast(CompiledUpdate, update)
        end = compiled.run_compiled(run)
    return iterate(run, update) if end is None else end


def iterate(run: Run, update: Update) -> Trajectory:
    """`solve`, step by step."""
    end = Trajectory(run.start)
    before: FloatArray | None = None
    if not run.engine.released:
        expect(None if run.stop.until_repeat else len(run.plan))
    for number, budget in enumerate(run.plan, start=1):
        exact = run.engine.cell_statistics(end.centroids, compare_with=before)
        if run.stop.ends(exact):
            end.exact, end.stopped = exact, True
            break
        before = end.centroids
        step = Step(number, run.engine, before, exact, budget)
        end.add(budget, update.move(step, ledger=run.ledger, rng=run.rng))
    return end


@dataclass(frozen=True)
class IterativeMethod:
    """init -> { assign -> update -> stop } -> final, with a budget per step from the schedule.

    Its claim is derived from what the parts support. A part of your own says it in an attribute `claim` of its class;
    without one the method is labelled `none`.
    """

    name: str
    init: Initializer
    schedule: Schedule
    update: Update
    stop: StopRule
    final: FinalStep
    record_count: RecordCount = NotNeeded()
    publish_centroids: bool = False
    publish_means: bool = False
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def claim(self) -> Claim:
        """The weakest of what the parts support."""
        published = EXACT_MEANS if self.publish_means else Claim.PROVED
        return claim_of(self.update, self.final, self.stop, self.schedule, self.init, self.record_count, published)

    @property
    def needs_epsilon(self) -> bool:
        """Whether it divides a promised total."""
        return self.schedule.splits or self.record_count.needs_epsilon

    @property
    def spends_rho(self) -> bool:
        """Whether its update adds Gaussian noise."""
        return bool(getattr(self.update, "spends_rho", False))

    def run(self, engine: Engine, n_clusters: int, *, ledger: Ledger, rng: Randomness) -> Release:
        """Run to the end of the plan or to the stop rule, and release."""
        start = self.init.centroids(engine, n_clusters, rng.generator)
        n_records = self.record_count.get(engine, n_clusters, ledger=ledger, rng=rng)
        total = ledger.remaining if self.schedule.splits else Epsilon(0)
        plan = self.schedule.plan(ScheduleInput(total, n_clusters, engine.n_features, n_records))
        if self.spends_rho:
            plan = in_rho(plan, total, ledger.remaining_rho)
        end = solve(Run(engine, start, plan, self.stop, ledger, rng), self.update)
        if self.stop.until_repeat and not end.stopped:
            warn(
                NotConvergedWarning(
                    f"{self.name} was ended by max_iter before its assignment repeated;", hint="raise {max_iter}."
                )
            )
        outcome = Outcome(
            self.final.centroids(engine, end, ledger=ledger, rng=rng),
            n_passes=end.passes,
            n_iter=end.n_steps,
            converged=end.stopped if self.stop.until_repeat else None,
            transcript=transcript_of(
                engine.bounds, end.moves, centroids=self.publish_centroids, means=self.publish_means
            ),
            parameters=self.parameters,
        )
        return make_release(self, outcome, engine, ledger=ledger, rng=rng)
