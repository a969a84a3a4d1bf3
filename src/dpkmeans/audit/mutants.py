"""Mutants: our mechanisms and methods with one fault each. The audit has to find every one of them.

None of this is private, and none of it is registered. Each mutant records in its ledger what the sound variant would
spend, as a faulty implementation does; the audit compares what it finds with that record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np

from dpkmeans._typing import AnyArray, FloatArray, IntArray
from dpkmeans.audit.gaussian_targets import ThinGaussian, gaussian_cases
from dpkmeans.audit.mechanism_targets import (
    SENSITIVITY,
    TableCase,
    choice_cases,
    cube_cases,
    laplace_cases,
    recentring_cases,
    step_cases,
)
from dpkmeans.audit.method_targets import MethodCase, release_scores
from dpkmeans.audit.neighbours import empty_cluster
from dpkmeans.audit.noise_sources import Wrapped
from dpkmeans.audit.protocols import Case, Target
from dpkmeans.audit.scores import laplace_ratio
from dpkmeans.core.conversion import pure_as_rho
from dpkmeans.core.engine import Engine
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import Exact, reveal
from dpkmeans.core.guarantee import Claim
from dpkmeans.core.query import Sensitivity
from dpkmeans.methods.loop.budgets import StepBudget
from dpkmeans.methods.loop.initializers import SampledRows
from dpkmeans.methods.loop.solver import Move, Step
from dpkmeans.methods.loop.updates import NoisyMean
from dpkmeans.methods.noisy_lloyd import blum
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Laplace, LInfLaplace, PermuteAndFlip
from dpkmeans.privacy.randomness import NoiseSource, Randomness

FACTORS = (1.2, 1.5, 2.0)
SHARES = (0.8, 0.5)
WHY = "a mutant is not private"


def _more(epsilon: Epsilon, factor: float) -> Epsilon:
    return Epsilon(int(epsilon.nano * factor))


@dataclass(frozen=True)
class Thin:
    """Noise of 1/factor of the scale."""

    kind: type[Laplace] | type[LInfLaplace] | type[PermuteAndFlip]
    epsilon: Epsilon
    factor: float

    def release(self, exact: Exact[IntArray], *, ledger: Ledger, rng: Randomness, label: str) -> Any:
        """Records epsilon and loses `factor` times as much."""
        ledger.spend(self.epsilon, label)
        thin = self.kind(_more(self.epsilon, self.factor))
        return thin.release(exact, ledger=Ledger(), rng=rng, label=label)


@dataclass(frozen=True)
class Forgetful:
    """Two releases, one spend: the second column's is not recorded."""

    epsilon: Epsilon

    def release(self, exact: Exact[IntArray], *, ledger: Ledger, rng: Randomness, label: str) -> IntArray:
        """Records half of what it loses."""
        half, table = Laplace(self.epsilon.share(0.5)), reveal(exact, why=WHY)
        first, second = (Exact(table[:, j : j + 1], exact.sensitivity) for j in range(2))
        recorded = half.release(first, ledger=ledger, rng=rng, label=label)
        forgotten = half.release(second, ledger=Ledger(), rng=rng, label=label)
        return np.hstack([recorded, forgotten])


@dataclass(frozen=True)
class FloatNoise:
    """NumPy's Laplace noise on float64: the right scale, and low bits that tell what it was added to."""

    epsilon: Epsilon

    def release(self, exact: Exact[IntArray], *, ledger: Ledger, rng: Randomness, label: str) -> FloatArray:
        """Answers in units of the sensitivity."""
        ledger.spend(self.epsilon, label)
        values = reveal(exact, why=WHY) / SENSITIVITY
        return np.asarray(values + rng.generator.laplace(0.0, 1 / float(self.epsilon), values.shape))


@dataclass(frozen=True)
class ClipsAfterSum:
    """Clips the sum to what n records inside the box could give, instead of each record to the box."""

    epsilon: Epsilon
    n_records: int

    def release(self, exact: Exact[IntArray], *, ledger: Ledger, rng: Randomness, label: str) -> IntArray:
        """Noise for one record inside the box; a record far outside moves the sum farther."""
        largest = self.n_records * SENSITIVITY
        clipped = Exact(np.clip(reveal(exact, why=WHY), -largest, largest), exact.sensitivity)
        return Laplace(self.epsilon).release(clipped, ledger=ledger, rng=rng, label=label)


@dataclass(frozen=True)
class ThinStep:
    """A noisy-mean step with 1/factor of the noise."""

    factor: float

    def move(self, step: Step, *, ledger: Ledger, rng: Randomness) -> Move:
        """Records the step's budget and uses more."""
        ledger.spend(step.budget.total, "step")
        more = StepBudget(counts=_more(step.budget.counts, self.factor), sums=_more(step.budget.sums, self.factor))
        return NoisyMean().move(replace(step, budget=more), ledger=Ledger(), rng=rng)


@dataclass(frozen=True)
class ForgetfulStep:
    """A noisy-mean step that records the spend on counts and forgets the one on sums."""

    def move(self, step: Step, *, ledger: Ledger, rng: Randomness) -> Move:
        """The right noise, half of the record."""
        ledger.spend(step.budget.counts, "counts")
        return NoisyMean().move(step, ledger=Ledger(), rng=rng)


@dataclass(frozen=True)
class SkipsEmpty:
    """A noisy-mean step that adds no noise where a cluster is empty."""

    def move(self, step: Step, *, ledger: Ledger, rng: Randomness) -> Move:
        """Branches on an exact count."""
        empty = reveal(step.exact, why=WHY).counts == 0
        return NoisyMean().move(step, ledger=ledger, rng=Randomness(rng.generator, _Skipping(rng.noise, empty)))


class _Skipping(Wrapped):
    """A source that leaves some rows as they are, in place."""

    def __init__(self, source: NoiseSource, rows: AnyArray) -> None:
        super().__init__(source)
        self._rows = rows

    def laplace(self, values: IntArray, scale: Fraction) -> IntArray:
        released = super().laplace(values, scale)
        released[self._rows] = values[self._rows]
        return released


@dataclass(frozen=True)
class RowsCalledPublic:
    """A start drawn from the records that claims not to look at them."""

    claim: ClassVar[Claim] = Claim.PROVED

    def centroids(self, engine: Engine, n_clusters: int, rng: np.random.Generator) -> FloatArray:
        return SampledRows().centroids(engine, n_clusters, rng)


def thin_targets(epsilon: float, factors: tuple[float, ...] = FACTORS) -> tuple[Target, ...]:
    """Every mechanism and step with too little noise."""
    budget = Epsilon.of(epsilon)
    targets = []
    for factor in factors:
        laplace, cube, choice = (Thin(kind, budget, factor) for kind in (Laplace, LInfLaplace, PermuteAndFlip))
        made: dict[str, tuple[Case, ...]] = {
            "Laplace": laplace_cases(laplace)[:1],
            "LInfLaplace": cube_cases(cube)[:1],
            "PermuteAndFlip": choice_cases(choice)[:1],
            "noisy-mean step": step_cases(ThinStep(factor), budget)[:1],
            "re-centring step": (replace(recentring_cases(budget)[0], mechanism=cube),),
        }
        targets += [_mutant(f"{name}, noise / {factor:g}", cases) for name, cases in made.items()]
    for share in SHARES:
        gaussian = ThinGaussian(pure_as_rho(budget), share)
        targets.append(_mutant(f"Gaussian, {share:g} of the noise", gaussian_cases(gaussian)[:1]))
    return tuple(targets)


def structural_targets(epsilon: float) -> tuple[Target, ...]:
    """Every fault that is not one of scale."""
    budget, step = Epsilon.of(epsilon), SENSITIVITY
    unit = step / float(budget)
    forgets, floats, clips, inside = Forgetful(budget), FloatNoise(budget), ClipsAfterSum(budget, 10), 5 * step
    per_feature = Laplace(budget)  # for the sensitivity of one feature, where a record moves all of them
    three = (step,) * 3
    crowded = replace(empty_cluster(), n_clusters=6)
    rows_start = MethodCase(blum(steps=1, init=RowsCalledPublic()), crowded, epsilon, release_scores)
    return (
        _mutant(
            "a spend not recorded",
            (
                _table("both columns", forgets, (0, 0), (step, step), (2 * unit,) * 2),
                *step_cases(ForgetfulStep(), budget)[:1],
            ),
        ),
        _mutant("sensitivity per feature", (_table("all", per_feature, (0, 0, 0), three, (unit,) * 3),)),
        _mutant("no noise for empty clusters", step_cases(SkipsEmpty(), budget)[1:]),
        _mutant("a start drawn from the records", (rows_start,), level="method"),
        _mutant("float noise", (_table("one entry", floats, (0,), (step,), (1 / float(budget),)),)),
        _mutant("clipping after the sum", (_table("far outside", clips, (inside,), (40 * step,), (unit,)),)),
    )


def mutant_targets(epsilon: float) -> tuple[Target, ...]:
    """All mutants."""
    return thin_targets(epsilon) + structural_targets(epsilon)


def _mutant(name: str, cases: tuple[Case, ...], level: Any = "mechanism") -> Target:
    return Target(f"mutant: {name}", level, "none", cases, mutant=True)


def _table(
    pair: str, mechanism: Any, answer: tuple[int, ...], answer_with: tuple[int, ...], scales: tuple[float, ...]
) -> TableCase:
    ratio = partial(laplace_ratio, scales=scales)
    return TableCase(pair, mechanism, Sensitivity(l1=SENSITIVITY), answer, answer_with, ratio)
