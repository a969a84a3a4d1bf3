"""Privacy budgets as exact numbers: whole nano-epsilons, so that shares add up to their total; and spends of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dpkmeans.core.rho import Rho
from dpkmeans.core.units import as_decimal, equal_shares, share_of, units_of
from dpkmeans.errors import BudgetError

NANO = 10**9
MAX_EPSILON = 1000


@dataclass(frozen=True, order=True)
class Epsilon:
    """A budget of `nano` / 10^9.

    >>> total = Epsilon.of(0.3)
    >>> sum(total.over(7), Epsilon(0)) == total
    True
    """

    nano: int

    def __post_init__(self) -> None:
        if type(self.nano) is not int:
            raise BudgetError(f"A budget is a whole number of nanos; got {self.nano!r}. Write Epsilon.of(0.5).")

    @classmethod
    def of(cls, value: float | Epsilon, name: str = "epsilon") -> Epsilon:
        """The budget that was written as `value`; refuses what is no positive, finite number."""
        if isinstance(value, Epsilon):
            if value.nano < 1:
                raise BudgetError(f"must be at least 1e-9; got {value}.", parameter=name)
            return value
        return cls(units_of(value, NANO, most=MAX_EPSILON, name=name, example="1.0"))

    @property
    def fraction(self) -> Fraction:
        """The budget as an exact fraction."""
        return Fraction(self.nano, NANO)

    def __float__(self) -> float:
        return self.nano / NANO

    def __add__(self, other: Epsilon) -> Epsilon:
        return Epsilon(self.nano + other.nano)

    def __sub__(self, other: Epsilon) -> Epsilon:
        return Epsilon(self.nano - other.nano)

    def share(self, part: float) -> Epsilon:
        """`part` of the budget, rounded down, with 0 < part <= 1."""
        nano = share_of(self.nano, part)
        if nano < 1:
            raise BudgetError(f"epsilon={self} has no share of {part:.3g} that is at least 1e-9. Use a larger epsilon.")
        return Epsilon(nano)

    def per(self, n: int) -> Epsilon:
        """An `n`-th of the budget, rounded down: `n` times it is never more than the whole."""
        if self.nano < n:
            raise BudgetError(f"epsilon={self} has no {n}-th part of at least 1e-9. Use a larger epsilon.")
        return Epsilon(self.nano // n)

    def over(self, n: int) -> tuple[Epsilon, ...]:
        """`n` equal shares that add up to the whole; the first ones take the odd nanos."""
        shares = equal_shares(self.nano, n)
        if shares[-1] < 1:
            raise BudgetError(
                f"epsilon={self} cannot be split into {n} shares of at least 1e-9. "
                "Use a larger epsilon, fewer steps or fewer features."
            )
        return tuple(map(Epsilon, shares))

    def __str__(self) -> str:
        return format_epsilon(self)


@dataclass(frozen=True)
class Spend:
    """One entry: a label, and what was spent, in pure epsilon or in `rho` of zero-concentrated differential privacy.

    `parts` are the epsilons of the disjoint cells it was spent on (one, if it covers all records).
    """

    label: str
    parts: tuple[Epsilon, ...] = ()
    rho: Rho | None = None

    def __post_init__(self) -> None:
        if self.parts and self.rho is not None:
            raise BudgetError(f"A spend is in epsilon or in rho; {self.label!r} is in both.")
        amounts = [part.nano for part in self.parts] if self.rho is None else [self.rho.femto]
        if min(amounts, default=0) < 1:
            raise BudgetError(f"A spend must be positive in every part; {self.label!r} is not.")

    @property
    def epsilon(self) -> Epsilon:
        """The pure part. By parallel composition a record lies in one of the cells, so the largest part counts.

        Nothing for a spend in rho, which has no pure epsilon.
        """
        return max(self.parts, default=Epsilon(0))

    @property
    def composition(self) -> str:
        """How the parts of this entry compose."""
        return "parallel" if len(self.parts) > 1 else "sequential"


def format_epsilon(value: float | Epsilon) -> str:
    """A budget as it is printed: to the nano, rounded up where it is no whole number of them. Never too little.

    >>> format_epsilon(1.0000049), format_epsilon(0.1 + 0.2), format_epsilon(Epsilon(-5))
    ('1.0000049', '0.300000001', '-0.000000005')
    """
    if not isinstance(value, Epsilon):
        if not math.isfinite(value):
            return str(float(value))
        value = Epsilon(math.ceil(Fraction(repr(float(value))) * NANO))
    return as_decimal(value.nano, NANO)
