"""Budgets of zero-concentrated differential privacy as exact numbers: whole femto-rhos."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpkmeans.core.units import as_decimal, equal_shares, share_of, units_of
from dpkmeans.errors import BudgetError

FEMTO = 10**15
MAX_RHO = 1000


@dataclass(frozen=True, order=True)
class Rho:
    """A budget of `femto` / 10^15 of zero-concentrated differential privacy. Source: Bun and Steinke (2016).

    >>> total = Rho.of(0.02)
    >>> sum(total.over(7), Rho(0)) == total
    True
    """

    femto: int

    def __post_init__(self) -> None:
        if type(self.femto) is not int:
            raise BudgetError(f"A rho is a whole number of femtos; got {self.femto!r}. Write Rho.of(0.02).")

    @classmethod
    def of(cls, value: float | Rho, name: str = "rho") -> Rho:
        """The budget that was written as `value`; refuses what is no positive, finite number."""
        if not isinstance(value, Rho):
            return cls(units_of(value, FEMTO, most=MAX_RHO, name=name, example="0.02")).as_written()
        if value.femto < 1:
            raise BudgetError(f"must be at least 1e-15; got {value}.", parameter=name)
        return value

    def as_written(self) -> Rho:
        """The budget to 15 significant digits, rounded down: so many go into a float and out of it unchanged."""
        unit = 10 ** max(len(str(self.femto)) - 15, 0)
        return Rho(self.femto // unit * unit)

    @property
    def fraction(self) -> Fraction:
        """The budget as an exact fraction."""
        return Fraction(self.femto, FEMTO)

    def __float__(self) -> float:
        return self.femto / FEMTO

    def __add__(self, other: Rho) -> Rho:
        return Rho(self.femto + other.femto)

    def __sub__(self, other: Rho) -> Rho:
        return Rho(self.femto - other.femto)

    def share(self, part: float) -> Rho:
        """`part` of the budget, rounded down, with 0 < part <= 1."""
        femto = share_of(self.femto, part)
        if femto < 1:
            raise BudgetError(f"rho={self} has no share of {part:.3g} that is at least 1e-15. Use a larger rho.")
        return Rho(femto)

    def over(self, n: int) -> tuple[Rho, ...]:
        """`n` equal shares that add up to the whole; the first ones take the odd femtos."""
        shares = equal_shares(self.femto, n)
        if shares[-1] < 1:
            raise BudgetError(
                f"rho={self} cannot be split into {n} shares of at least 1e-15. Use a larger rho, or fewer steps."
            )
        return tuple(map(Rho, shares))

    def __str__(self) -> str:
        return as_decimal(self.femto, FEMTO)
