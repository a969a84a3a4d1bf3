"""Mutants that replay has to find: one fault each, in a mechanism, a ledger, a start or the rule for persons.

None of this is private, and none of it is registered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from dpkmeans._typing import IntArray
from dpkmeans.audit.gaussian_targets import ThinGaussian
from dpkmeans.audit.mechanism_targets import SENSITIVITY, recentring_cases
from dpkmeans.audit.mutants import (
    WHY,
    ClipsAfterSum,
    FloatNoise,
    Forgetful,
    ForgetfulStep,
    RowsCalledPublic,
    SkipsEmpty,
    Thin,
    ThinStep,
)
from dpkmeans.audit.neighbours import worst_pairs
from dpkmeans.audit.person_targets import PersonCountCase, mutant_doors
from dpkmeans.audit.replay import Outcome, Replayed, Run, replay
from dpkmeans.core.engine import Engine
from dpkmeans.core.epsilon import Epsilon, Spend
from dpkmeans.core.exact import Exact, reveal
from dpkmeans.core.query import Sensitivity
from dpkmeans.core.rho import Rho
from dpkmeans.errors import BudgetError
from dpkmeans.methods.loop.budgets import noisy_mean_budget
from dpkmeans.methods.loop.solver import Step
from dpkmeans.methods.noisy_lloyd import blum
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Laplace, LInfLaplace, PermuteAndFlip
from dpkmeans.privacy.randomness import Randomness

EPSILON = Epsilon.of(1.0)
FULL = (SENSITIVITY,) * 2


class LateLedger(Ledger):
    """Records a spend when the next one comes: a crash in between would leave a draw that nobody paid for."""

    late: Spend | None = None

    def record(self, spend: Spend) -> None:
        """Take in the spend before this one."""
        if self.late is not None:
            super().record(self.late)
        self.late = spend


@dataclass(frozen=True)
class SpendsLate:
    """The right noise, recorded too late."""

    epsilon: Epsilon

    def release(self, exact: Exact[IntArray], *, ledger: Ledger, rng: Randomness, label: str) -> IntArray:
        """Draws under a ledger that is not up to date."""
        late = LateLedger(parent=ledger)
        noisy = Laplace(self.epsilon).release(exact, ledger=late, rng=rng, label=label)
        ledger.spend(self.epsilon, label)
        return noisy


@dataclass(frozen=True)
class OffByOneStep:
    """Declares one grid step less than a record can add."""

    epsilon: Epsilon

    def release(self, exact: Exact[IntArray], *, ledger: Ledger, rng: Randomness, label: str) -> IntArray:
        """Noise for what is declared."""
        less = Sensitivity(l1=(exact.sensitivity.l1 or 0) - 1)
        closer = Exact(reveal(exact, why=WHY), less)
        return Laplace(self.epsilon).release(closer, ledger=ledger, rng=rng, label=label)


@dataclass(frozen=True)
class SplitsOverOneLess:
    """Gives each of two features the whole of epsilon, and records the whole once."""

    epsilon: Epsilon

    def release(self, exact: Exact[IntArray], *, ledger: Ledger, rng: Randomness, label: str) -> list[IntArray]:
        """One release per feature."""
        values = reveal(exact, why=WHY)
        ledger.spend(self.epsilon, label)
        each = Sensitivity(l1=SENSITIVITY)
        return [
            Laplace(self.epsilon).release(Exact(column.copy(), each), ledger=Ledger(), rng=rng, label=label)
            for column in values.T
        ]


@dataclass(frozen=True)
class PerPartition:
    """Noise per partition, scaled as if a record could not move others to another partition."""

    epsilon: Epsilon

    def release(self, exact: Exact[IntArray], *, ledger: Ledger, rng: Randomness, label: str) -> list[IntArray]:
        """Splits the table by the parity of its first entry, which a record changes, and releases both parts."""
        values = reveal(exact, why=WHY)
        odd = values[0, 0] % 2
        parts = [values[:1], values[1:]] if odd else [values[1:], values[:1]]
        return [
            Laplace(self.epsilon).release(Exact(part.copy(), exact.sensitivity), ledger=ledger, rng=rng, label=label)
            for part in parts
            if part.size
        ]


def _table_run(mechanism: Any, values: Any, sensitivity: Sensitivity) -> Run:
    def run(rng: Randomness) -> Outcome:
        ledger, exact = Ledger(), Exact(np.array(values, dtype=np.int64), sensitivity)
        shown = mechanism.release(exact, ledger=ledger, rng=rng, label="mutant")
        return Outcome(shown, ledger.loss.pure.fraction, ledger.loss.rho.fraction)

    return run


def _tables(mechanism: Any, before: Any, after: Any, sensitivity: Sensitivity, records: int = 1) -> Iterator[Replayed]:
    for seed in range(40):  # a loss of full size needs an output on the far side
        sides = (_table_run(mechanism, values, sensitivity) for values in (before, after))
        yield replay(next(sides), next(sides), seed, records=records)


def _steps(update: Any) -> Iterator[Replayed]:
    budget = noisy_mean_budget(EPSILON, 2, 1.0)
    starts = np.array([[0.25, 0.25], [0.875, 0.75]])

    def run_on(engine: Engine) -> Run:
        def run(rng: Randomness) -> Outcome:
            ledger = Ledger()
            step = Step(1, engine, starts, engine.cell_statistics(starts), budget)
            moved = update.move(step, ledger=ledger, rng=rng)
            return Outcome(moved.centroids, ledger.loss.pure.fraction)

        return run

    for seed in range(8):
        for pair in worst_pairs():
            yield replay(run_on(pair.engine(False)), run_on(pair.engine(True)), seed)


def _fits(method: Any) -> Iterator[Replayed]:
    def run_on(engine: Engine) -> Run:
        def run(rng: Randomness) -> Outcome:
            ledger = Ledger(1.0)
            release = method.run(engine, 3, ledger=ledger, rng=rng)
            return Outcome(release.centroids, ledger.loss.pure.fraction)

        return run

    for pair in worst_pairs():
        yield replay(run_on(pair.engine(False)), run_on(pair.engine(True)), 0)


def _persons(case: PersonCountCase) -> Iterator[Replayed]:
    """A count of rows on one side of the box, without and with all rows of a person."""

    def run_on(with_person: bool) -> Run:
        def run(rng: Randomness) -> Outcome:
            sample = case.draw(with_person, 1, rng)
            return Outcome(sample.outputs, Fraction(float(sample.spent[0])))

        return run

    for seed in range(8):
        yield replay(run_on(False), run_on(True), seed, records=case.unit.records)


def _no_rescale() -> Iterator[Replayed]:
    """Three rows of a person, released and booked as if they were one."""
    return _tables(Laplace(EPSILON), [[0]], [[3 * SENSITIVITY]], Sensitivity(l1=SENSITIVITY), records=1)


def mutants() -> dict[str, Callable[[], Iterator[Replayed]]]:
    """Every mutant by name, with its replays; at least one of them must not hold."""
    one, both = Sensitivity(l1=SENSITIVITY), Sensitivity(l1=2 * SENSITIVITY, l2_squared=2 * SENSITIVITY**2)
    row = replace(Sensitivity.of_row(FULL), gap=2 * SENSITIVITY)
    zero, full = [[0, 0]], [list(FULL)]
    cell = recentring_cases(EPSILON)[0]
    found: dict[str, Callable[[], Iterator[Replayed]]] = {}
    for factor in (1.2, 1.5, 2.0):
        laplace, cube, choice = (Thin(kind, EPSILON, factor) for kind in (Laplace, LInfLaplace, PermuteAndFlip))
        made = {
            "Laplace": partial(_tables, laplace, [[0]], [[SENSITIVITY]], one),
            "LInfLaplace": partial(_tables, cube, zero, full, row),
            "PermuteAndFlip": partial(_tables, choice, [0, 2 * SENSITIVITY], list(FULL), row),
            "noisy-mean step": partial(_steps, ThinStep(factor)),
            "re-centring step": partial(_tables, cube, [cell.answer], [cell.answer_with], cell.sensitivity),
        }
        found |= {f"{name}, noise / {factor:g}": replays for name, replays in made.items()}
    found |= {
        "Gaussian, 0.8 of the noise": lambda: _tables(ThinGaussian(Rho.of(0.02), 0.8), zero, full, both),
        "Gaussian, 0.5 of the noise": lambda: _tables(ThinGaussian(Rho.of(0.02), 0.5), zero, full, both),
        "a spend not recorded": lambda: _tables(Forgetful(EPSILON), zero, full, one),
        "a spend of a step not recorded": lambda: _steps(ForgetfulStep()),
        "a spend recorded after the draw": lambda: _tables(SpendsLate(EPSILON), [[0]], [[SENSITIVITY]], one),
        "sensitivity per feature": lambda: _tables(Laplace(EPSILON), zero, full, one),
        "sensitivity off by one step": lambda: _tables(OffByOneStep(EPSILON), [[0]], [[SENSITIVITY]], one),
        "epsilon split over one feature less": lambda: _tables(SplitsOverOneLess(EPSILON), zero, full, both),
        "noise drawn per partition": lambda: _tables(PerPartition(EPSILON), [[0], [9999]], [[1], [9999]], one),
        "no noise for empty clusters": lambda: _steps(SkipsEmpty()),
        "a start drawn from the records": lambda: _fits(blum(steps=1, init=RowsCalledPublic())),
        "float noise": lambda: _tables(FloatNoise(EPSILON), [[0]], [[SENSITIVITY]], one),
        "clipping after the sum": lambda: _tables(
            ClipsAfterSum(EPSILON, 10), [[5 * SENSITIVITY]], [[40 * SENSITIVITY]], one
        ),
        "epsilon not divided by the rows of a person": _no_rescale,
    }
    return found | {name: partial(_persons, case) for name, case in mutant_doors(float(EPSILON)).items()}


def is_found(replays: Iterator[Replayed]) -> bool:
    """Whether one of the replays does not hold. A ledger that refuses a spend has found the fault itself."""
    try:
        return any(not replayed.holds for replayed in replays)
    except BudgetError:
        return True
