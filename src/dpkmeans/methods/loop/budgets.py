"""Schedules: how a method's budget is laid out over its steps. Every share has a name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias, overload

from dpkmeans.core.checks import check_integer
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.guarantee import Claim
from dpkmeans.core.rho import Rho
from dpkmeans.errors import MethodError

NOTHING = Epsilon(0)
StepEpsilon: TypeAlias = float | Sequence[float | Sequence[float]]
"""ε of a step: one for all, one for each step, or one for each step and cluster."""
RHO = 0.225  # Su et al. 2016: average share of the box's half side that a centroid lies away from its middle


@dataclass(frozen=True)
class ScheduleInput:
    """What a schedule may look at. Public: `n_records` is given by the caller or already released."""

    total: Epsilon
    n_clusters: int
    n_features: int
    n_records: float


@dataclass(frozen=True)
class StepBudget:
    """Shares of one step: `zone` for drawing in a sampling zone, `counts`, and `sums` of all features together.

    Where the zones of the clusters differ in ε, `clusters` has each, and `zone` the largest. With Gaussian noise,
    `counts_rho` and `sums_rho` are the same shares of a rho.
    """

    zone: Epsilon = NOTHING
    clusters: tuple[Epsilon, ...] = ()
    counts: Epsilon = NOTHING
    sums: Epsilon = NOTHING
    counts_rho: Rho = Rho(0)
    sums_rho: Rho = Rho(0)

    @property
    def total(self) -> Epsilon:
        """All shares together; they compose sequentially."""
        return self.zone + self.counts + self.sums

    def of_zones(self, k: int) -> tuple[Epsilon, ...]:
        """ε of each cluster's zone. The paper's ε_i^(t)."""
        return self.clusters or (self.zone,) * k


@dataclass(frozen=True)
class EqualSteps(Sequence[StepBudget]):
    """`n_steps` budgets: those of `first`, then always the same, without a list of them: there may be 2^31."""

    budget: StepBudget
    n_steps: int
    first: tuple[StepBudget, ...] = ()

    def __len__(self) -> int:
        return self.n_steps

    @overload
    def __getitem__(self, index: int) -> StepBudget: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[StepBudget]: ...
    def __getitem__(self, index: int | slice) -> StepBudget | Sequence[StepBudget]:
        chosen = range(self.n_steps)[index]
        return [self._at(i) for i in chosen] if isinstance(chosen, range) else self._at(chosen)

    def _at(self, i: int) -> StepBudget:
        return self.first[i] if i < len(self.first) else self.budget

    @property
    def kinds(self) -> tuple[StepBudget, ...]:
        """Every budget that occurs."""
        return (*self.first, self.budget)


def in_rho(plan: Sequence[StepBudget], total: Epsilon, rho: Rho) -> list[StepBudget]:
    """A plan that splits `total`, as one that splits `rho` in the same proportions, each share rounded down."""

    def share(part: Epsilon) -> Rho:
        return Rho(rho.femto * part.nano // total.nano)

    return [StepBudget(counts_rho=share(step.counts), sums_rho=share(step.sums)) for step in plan]


class Schedule(Protocol):
    """Lays out the steps, from public values alone."""

    @property
    def splits(self) -> bool:
        """Whether it splits a promised total (top-down)."""

    def plan(self, given: ScheduleInput) -> Sequence[StepBudget]:
        """One budget per step."""


def noisy_mean_budget(step: Epsilon, n_features: int, count_weight: float) -> StepBudget:
    """Split a step between the count and the features in the proportion `count_weight` : 1 : ... : 1."""
    counts = step.share(count_weight / (count_weight + n_features))
    return StepBudget(counts=counts, sums=step - counts)


@dataclass(frozen=True)
class Free:
    """Steps that spend nothing, at most `max_iter` of them."""

    max_iter: int
    splits: bool = False
    claim: ClassVar[Claim] = Claim.PROVED

    def plan(self, given: ScheduleInput) -> Sequence[StepBudget]:
        return EqualSteps(StepBudget(), self.max_iter)


@dataclass(frozen=True)
class PerStep:
    """Every step spends `step`; the total is known only after the run. Paper: Algorithm 1."""

    step: Epsilon
    max_iter: int
    splits: bool = False
    claim: ClassVar[Claim] = Claim.PROVED

    def plan(self, given: ScheduleInput) -> Sequence[StepBudget]:
        return EqualSteps(StepBudget(zone=self.step), self.max_iter)

    def as_given(self) -> float:
        """ε of a step, as a user writes it."""
        return float(self.step)


@dataclass(frozen=True)
class PerStepAndCluster:
    """ε_i^(t) from a table: a row per step, of one ε for all clusters or one for each; the last row is repeated.

    Paper: the input of Algorithm 1, and Theorem 5, by which a step counts as its largest ε.
    """

    table: tuple[tuple[Epsilon, ...], ...]
    max_iter: int
    splits: bool = False
    claim: ClassVar[Claim] = Claim.PROVED

    @classmethod
    def of(cls, steps: Sequence[float | Sequence[float]], max_iter: int) -> PerStepAndCluster:
        """Read a table as a user writes it."""
        rows = [row if isinstance(row, Sequence) else [row] for row in steps]
        if not rows or not all(rows):
            raise MethodError("needs at least one step, and at least one epsilon in each.", parameter="step_epsilon")
        return cls(tuple(tuple(Epsilon.of(e, "step_epsilon") for e in row) for row in rows), max_iter)

    def plan(self, given: ScheduleInput) -> Sequence[StepBudget]:
        """The rows of the table, then the last one again."""
        wrong = [len(row) for row in self.table if len(row) not in (1, given.n_clusters)]
        if wrong:
            raise MethodError(
                f"must have one epsilon for all clusters in a step, or {given.n_clusters}; a step has {wrong[0]}.",
                parameter="step_epsilon",
            )
        steps = [StepBudget(zone=max(row), clusters=row if len(row) > 1 else ()) for row in self.table]
        return EqualSteps(steps[-1], self.max_iter, first=tuple(steps))

    def as_given(self) -> list[list[float]]:
        """The table, as a user writes it."""
        return [[float(epsilon) for epsilon in row] for row in self.table]


def per_step(step_epsilon: StepEpsilon, max_iter: int) -> PerStep | PerStepAndCluster:
    """One ε for every step, or a table of them."""
    if isinstance(step_epsilon, Sequence):
        return PerStepAndCluster.of(step_epsilon, max_iter)
    return PerStep(Epsilon.of(step_epsilon, "step_epsilon"), max_iter)


@dataclass(frozen=True)
class EvenSplit:
    """ε/T in each of T steps. Source: Blum, Dwork, McSherry and Nissim (2005)."""

    steps: int = 5
    splits: bool = True
    claim: ClassVar[Claim] = Claim.PROVED

    def __post_init__(self) -> None:
        check_integer(self.steps, "steps")

    def plan(self, given: ScheduleInput) -> Sequence[StepBudget]:
        """T equal budgets that add up to the total; the count weighs as much as a feature."""
        return [noisy_mean_budget(step, given.n_features, 1.0) for step in given.total.over(self.steps)]


@dataclass(frozen=True)
class Halving:
    """Step i gets ε/2^i; the last takes what is left, so that all of ε is used. Source: Dwork (2011)."""

    steps: int = 7
    splits: bool = True
    claim: ClassVar[Claim] = Claim.PROVED

    def __post_init__(self) -> None:
        check_integer(self.steps, "steps")

    def plan(self, given: ScheduleInput) -> Sequence[StepBudget]:
        """T halving budgets that add up to the total."""
        left, plan = given.total, []
        for i in range(self.steps):
            step = left if i == self.steps - 1 else left.share(0.5)
            plan.append(noisy_mean_budget(step, given.n_features, 1.0))
            left = left - step
        return plan


@dataclass(frozen=True)
class SuSplit:
    """Steps and shares that minimise the expected error. Source: Su, Cao, Li, Bertino and Jin (2016), section 4.

    ε_m = √(500 k³/N² (d + ∛(4dρ²))³), T = ε/ε_m between 2 and 7, count : each feature = ∛(4dρ²) : 1.
    """

    min_steps: int = 2
    max_steps: int = 7
    splits: bool = True
    claim: ClassVar[Claim] = Claim.PROVED

    def count_weight(self, n_features: int) -> float:
        """∛(4dρ²): the count's weight against one feature."""
        return math.cbrt(4 * n_features * RHO**2)

    def smallest_step(self, given: ScheduleInput) -> float:
        """ε_m: the smallest budget with which a step still helps."""
        spread = (given.n_features + self.count_weight(given.n_features)) ** 3
        return math.sqrt(500 * given.n_clusters**3 / given.n_records**2 * spread)

    def plan(self, given: ScheduleInput) -> Sequence[StepBudget]:
        """T equal budgets that add up to the total."""
        affordable = float(given.total) / self.smallest_step(given)
        steps = int(min(max(affordable, self.min_steps), self.max_steps))
        weight = self.count_weight(given.n_features)
        return [noisy_mean_budget(step, given.n_features, weight) for step in given.total.over(steps)]
