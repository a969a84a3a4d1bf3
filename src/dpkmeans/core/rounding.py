"""Numbers as people write them: no exponents, thousands set apart, and no digits that noise has made up."""

from __future__ import annotations

import math

DIGITS = 6  # of a number whose noise is not known
LARGEST, SMALLEST = 1e15, 1e-9  # beyond, an exponent reads better than zeros


def number(value: float) -> str:
    """A number with at most six digits.

    >>> number(1030624.9), number(0.25), number(-12.0), number(1e-12)
    ('1,030,620', '0.25', '-12', '1e-12')
    """
    if value == 0 or not math.isfinite(value) or not SMALLEST <= abs(value) < LARGEST:
        return f"{value:.6g}"
    decimals = DIGITS - 1 - math.floor(math.log10(abs(value)))
    shown = f"{round(value, decimals):,.{max(decimals, 0)}f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def at_tick(value: float) -> str:
    """A number at an axis, with a word in place of many zeros.

    >>> at_tick(350_000_000_000), at_tick(0.75), at_tick(200_000), at_tick(-1.5e6)
    ('350 billion', '0.75', '200,000', '-1.5 million')
    """
    for word, unit in (("trillion", 1e12), ("billion", 1e9), ("million", 1e6)):
        if unit <= abs(value) < LARGEST:
            return f"{number(value / unit)} {word}"
    return number(value)


def with_margin(value: float, margin: float, unit: str = "") -> str:
    """A number and how far off it may be, both to the digit that the margin leaves; the margin is rounded up.

    >>> with_margin(82.0321, 0.183), with_margin(6547.81, 23.4), with_margin(70.2, 3.1, " %")
    ('82.03 ± 0.19', '6,550 ± 30', '70 % ± 4 %')
    """
    if not SMALLEST <= margin < LARGEST or abs(value) >= LARGEST:
        return number(value) + unit
    place = math.floor(math.log10(margin))
    if margin / 10.0**place < 2:  # a first digit of 1 says too little alone
        place -= 1
    step = 10.0**place
    rounded = math.ceil(margin / step - 1e-9) * step
    decimals = max(-place, 0)
    return f"{round(value / step) * step:,.{decimals}f}{unit} ± {rounded:,.{decimals}f}{unit}"
