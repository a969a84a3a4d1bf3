"""What budgets have in common: whole numbers of a small unit, so that shares add up and nothing is rounded away."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from dpkmeans.errors import BudgetError


def units_of(value: Any, per_one: int, *, most: int, name: str, example: str) -> int:
    """The whole units of a budget that was written as `value`, rounded down from its decimal digits.

    Refuses what is no positive, finite number up to `most`.
    """
    hint = f"Write {{{name}={example}}}, for example."
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise BudgetError(f"must be a number; got {value!r}.", parameter=name, hint=hint) from None
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number <= 0:
        raise BudgetError(f"must be positive and finite; got {number}.", parameter=name, hint=hint)
    if number > most:
        raise BudgetError(
            f"must be at most {most}; got {number}. A budget that large protects nothing.",
            parameter=name,
            hint="If that is meant, use {method='lloyd'} with {guarantee='none'}.",
        )
    units = int(Fraction(repr(number)) * per_one)
    if units < 1:
        raise BudgetError(
            f"must be at least {1 / per_one:.0e}; got {number}. Nothing useful can be released.", parameter=name
        )
    return units


def share_of(units: int, part: float) -> int:
    """`part` of the units, rounded down, with 0 < part <= 1."""
    if not 0 < part <= 1:
        raise BudgetError(f"A share must be above 0 and at most 1; got {part}.")
    return int(Fraction(part) * units)


def equal_shares(units: int, n: int) -> tuple[int, ...]:
    """`n` shares that add up to the units; the first ones take the odd units, and those at the end may be none."""
    if n < 1:
        raise BudgetError(f"A budget can be split into 1 or more shares; got {n}.")
    each, odd = divmod(units, n)
    return tuple(each + (i < odd) for i in range(n))


def as_decimal(units: int, per_one: int) -> str:
    """The units as a decimal number, in full."""
    digits = len(str(per_one)) - 1
    whole, part = divmod(abs(units), per_one)
    return f"{'-' * (units < 0)}{whole}.{part:0{digits}d}".rstrip("0").rstrip(".")
