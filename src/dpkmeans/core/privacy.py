"""`Privacy`: what is promised, as pure epsilon, as (epsilon, delta) or as rho; `Loss`: what was spent under it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from dpkmeans.core.conversion import capacity, epsilon_of, pure_as_rho, rho_as_pure
from dpkmeans.core.epsilon import Epsilon, Spend
from dpkmeans.core.rho import Rho
from dpkmeans.errors import BudgetError


@dataclass(frozen=True)
class Loss:
    """What was spent: a sum of pure epsilons, and a sum of rhos."""

    pure: Epsilon = Epsilon(0)
    rho: Rho = Rho(0)

    def __add__(self, other: Loss) -> Loss:
        return Loss(self.pure + other.pure, self.rho + other.rho)

    def __sub__(self, other: Loss) -> Loss:
        return Loss(self.pure - other.pure, self.rho - other.rho)

    @classmethod
    def of(cls, spend: Spend) -> Loss:
        """What one entry spends, in its own currency."""
        return cls(spend.epsilon, spend.rho or Rho(0))

    def in_rho(self) -> Loss:
        """The same, with the pure part as what it is in zero-concentrated differential privacy."""
        return Loss(rho=self.rho + pure_as_rho(self.pure))

    def __str__(self) -> str:
        amounts = [f"epsilon={self.pure}"] * (self.pure.nano != 0) + [f"rho={self.rho}"] * (self.rho.femto != 0)
        return " and ".join(amounts) or "nothing"


@dataclass(frozen=True)
class Privacy:
    """A promise: `epsilon` (pure), `epsilon` and `delta` (approximate), or `rho` (zero-concentrated).

    It says what spends cost and whether they stay within it. Pure spends under (epsilon, delta) count as themselves
    until the first spend in rho. That one turns what is left of epsilon into the largest rho that it pays for at
    `delta`, and from then on a pure spend e costs e²/2 of that rho. So the pure part is fixed before the first rho is
    drawn, and the account holds for budgets that are chosen from released values. With all three, the promise is
    accounted for in rho from the beginning, and means (epsilon, delta). Proof: proofs/ledger.md.

    >>> promise = Privacy.of(epsilon=1.0, delta=1e-6)
    >>> print(promise.left_rho(Loss()))
    0.024355970359538
    """

    epsilon: Epsilon | None = None
    delta: float | None = None
    rho: Rho | None = None

    def __post_init__(self) -> None:
        """Refuse what is no promise: above all an (epsilon, delta) that its rho does not give."""
        given = self.epsilon is not None, self.delta is not None, self.rho is not None
        if given not in ((True, False, False), (True, True, False), (False, False, True), (True, True, True)):
            raise BudgetError("a promise is an epsilon, an epsilon with a delta, or a rho, alone or with both of them.")
        if self.epsilon is None or self.delta is None or self.rho is None:
            return
        if epsilon_of(self.rho, self.delta) > self.epsilon:
            raise BudgetError(f"rho={self.rho} does not give epsilon={self.epsilon} at delta={self.delta!r}.")

    @classmethod
    def of(cls, epsilon: Any = None, delta: Any = None, rho: Any = None) -> Privacy | None:
        """The promise that a caller wrote, also as a `Privacy`; None where nothing was promised."""
        if isinstance(epsilon, Privacy) and delta is None and rho is None:
            return epsilon
        if rho is not None:
            if epsilon is not None or delta is not None:
                raise BudgetError(
                    "stands alone: it is a promise of another kind than epsilon and delta.",
                    parameter="rho",
                    hint="Give {rho}, or {epsilon} with {delta}.",
                )
            return cls(rho=Rho.of(rho))
        if delta is None:
            return None if epsilon is None else cls(Epsilon.of(epsilon))
        if epsilon is None:
            raise BudgetError("needs an epsilon beside it.", parameter="delta", hint="Write, say, {epsilon=1.0}.")
        made = cls(Epsilon.of(epsilon), checked_delta(delta))
        if made.as_rho().femto < 1:
            raise BudgetError(
                f"is too small for {{delta={delta}}}: no noise fits. Use a larger one.",
                parameter="epsilon",
                value=epsilon,
            )
        return made

    @property
    def kind(self) -> str:
        """How it is accounted for: `epsilon`, `epsilon-delta` or `rho`."""
        if self.rho is not None:
            return "rho"
        return "epsilon" if self.delta is None else "epsilon-delta"

    @property
    def pure(self) -> Epsilon:
        """The pure epsilon that it pays for: what a method without Gaussian noise gets."""
        if self.rho is not None:
            return rho_as_pure(self.rho)
        assert self.epsilon is not None
        return self.epsilon

    def as_pure(self) -> Privacy:
        """The promise to a method without Gaussian noise: pure, and no weaker than this one."""
        return Privacy(Epsilon.of(self.pure))

    def as_rho(self) -> Rho:
        """The rho that it pays for, where it is no promise in pure epsilon."""
        if self.rho is not None:
            return self.rho
        if self.delta is None or self.epsilon is None:
            raise BudgetError(
                "Gaussian noise has no pure epsilon, and nothing else was promised.",
                hint="Give {delta} beside {epsilon}, say {delta=1e-6}, or {rho} in place of both.",
            )
        return capacity(self.epsilon, self.delta)

    def in_rho(self) -> Privacy:
        """The same promise, accounted for in rho from the beginning."""
        return replace(self, rho=self.as_rho())

    # --- what spends cost ---------------------------------------------------------------------------

    def charged(self, held: Loss, cost: Loss) -> Loss:
        """What `cost` comes to, after `held`: in pure epsilon or in rho. An error where it cannot be accounted for."""
        if self.kind == "epsilon" and cost.rho.femto:
            raise BudgetError(
                f"rho={cost.rho} is asked for, but pure epsilon was promised, and Gaussian noise cannot keep it."
            )
        if self.kind == "epsilon" or (self.kind == "epsilon-delta" and not (cost.rho.femto or held.rho.femto)):
            return cost
        return cost.in_rho()

    def covers(self, held: Loss) -> bool:
        """Whether spends that come to `held` stay within the promise."""
        if self.kind == "rho" or held.rho.femto:
            return held.rho <= self.cap_in_rho(held)
        return held.pure <= self.pure

    def cap_in_rho(self, held: Loss) -> Rho:
        """The most that may be spent in rho, after the pure spends of `held`."""
        if self.kind == "epsilon-delta" and self.delta is not None:
            return capacity(self.pure - held.pure, self.delta)
        return self.as_rho()

    def left(self, held: Loss) -> Epsilon:
        """The pure epsilon that may still be spent; below nothing where more was spent than promised."""
        if self.kind != "rho" and not held.rho.femto:
            return self.pure - held.pure
        return rho_as_pure(self.left_rho(held))

    def left_rho(self, held: Loss) -> Rho:
        """The rho that may still be spent."""
        return self.cap_in_rho(held) - held.rho

    def total(self, held: Loss) -> Epsilon | None:
        """The epsilon of what was spent, at the promised delta, rounded up; None for rho without a delta."""
        if not held.rho.femto:
            return held.pure
        return None if self.delta is None else held.pure + epsilon_of(held.rho, self.delta)

    def held_after(self, spends: Iterable[Spend]) -> Loss:
        """What a sequence of spends comes to."""
        held = Loss()
        for spend in spends:
            held += self.charged(held, Loss.of(spend))
        return held

    def __str__(self) -> str:
        if self.delta is not None:
            return f"epsilon={self.epsilon} at delta={self.delta!r}"
        return f"rho={self.rho}" if self.epsilon is None else f"epsilon={self.epsilon}"


def checked_delta(value: Any) -> float:
    """A delta as it was written; refuses what is no probability between 0 and 1."""
    example = "Write, say, {delta=1e-6}: well below one over the number of records."
    try:
        delta = float(value)
    except (TypeError, ValueError, OverflowError):
        raise BudgetError(f"must be a number; got {value!r}.", parameter="delta", hint=example) from None
    if not 0 < delta < 1:
        raise BudgetError(f"must be above 0 and below 1; got {delta}.", parameter="delta", hint=example)
    if delta < 1e-300:
        raise BudgetError(f"must be at least 1e-300; got {delta}.", parameter="delta", hint=example)
    return delta
