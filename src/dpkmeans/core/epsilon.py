"""Privacy budgets as exact numbers: whole nano-epsilons, so that shares add up to their total; and spends of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

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
        example = f"Write {{{name}=1.0}}, for example."
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise BudgetError(f"must be a number; got {value!r}.", parameter=name, hint=example) from None
        except OverflowError:
            number = math.inf
        if not math.isfinite(number) or number <= 0:
            raise BudgetError(f"must be positive and finite; got {number}.", parameter=name, hint=example)
        if number > MAX_EPSILON:
            raise BudgetError(
                f"must be at most {MAX_EPSILON}; got {number}. A budget that large protects nothing.",
                parameter=name,
                hint="If that is meant, use {method='lloyd'} with {guarantee='none'}.",
            )
        nano = int(Fraction(repr(number)) * NANO)
        if nano < 1:
            raise BudgetError(f"must be at least 1e-9; got {number}. Nothing useful can be released.", parameter=name)
        return cls(nano)

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
        if not 0 < part <= 1:
            raise BudgetError(f"A share must be above 0 and at most 1; got {part}.")
        nano = int(Fraction(part) * self.nano)
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
        if n < 1:
            raise BudgetError(f"A budget can be split into 1 or more shares; got {n}.")
        each, odd = divmod(self.nano, n)
        if each == 0:
            raise BudgetError(
                f"epsilon={self} cannot be split into {n} shares of at least 1e-9. "
                "Use a larger epsilon, fewer steps or fewer features."
            )
        return tuple(Epsilon(each + (i < odd)) for i in range(n))

    def __str__(self) -> str:
        return format_epsilon(self)


@dataclass(frozen=True)
class Spend:
    """One entry: a label and the budgets of the disjoint cells it was spent on (one, if it covers all records)."""

    label: str
    parts: tuple[Epsilon, ...]

    def __post_init__(self) -> None:
        if not self.parts or min(self.parts).nano < 1:
            raise BudgetError(f"A spend must be positive in every part; {self.label!r} is not.")

    @property
    def epsilon(self) -> Epsilon:
        """Parallel composition: a record lies in one of the disjoint cells, so the largest part counts."""
        return max(self.parts)

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
    whole, part = divmod(abs(value.nano), NANO)
    return f"{'-' * (value.nano < 0)}{whole}.{part:09d}".rstrip("0").rstrip(".")
