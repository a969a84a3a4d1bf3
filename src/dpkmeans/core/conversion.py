"""From zero-concentrated to approximate differential privacy, rounded to the safe side.

A mechanism whose Rényi divergence of one order α > 1 is at most τ is (ε, δ)-DP for

    ε  =  τ + c(α, δ),        c(α, δ)  =  ln(1 - 1/α) + ln(1/(αδ))/(α - 1),

and τ = αρ at every order for one that is ρ-zCDP. Source: Canonne, Kamath and Steinke, The Discrete Gaussian for
Differential Privacy (2020), proposition 12. It holds for every α, so α may be found in floats; the value at that α is
then enclosed by decimals of 50 digits. Proof: proofs/ledger.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from dpkmeans.core.epsilon import NANO, Epsilon
from dpkmeans.core.rho import FEMTO, Rho

DIGITS = 50
MARGIN = Fraction(1, 10**25)
"""Added to c. Decimals of 50 digits round logarithms correctly, so they are off by less than 10^-40 here."""
ORDER_DIGITS = 12
"""Digits of an order. A rounded one costs nothing that shows, and is the same on every processor."""


def pure_as_rho(epsilon: Epsilon) -> Rho:
    """ε²/2, rounded up: what an ε-DP mechanism is in zCDP. Source: Bun and Steinke (2016), proposition 1.4."""
    return Rho(-(-(epsilon.nano**2) // (2 * NANO * NANO // FEMTO)))


def rho_as_pure(rho: Rho) -> Epsilon:
    """The largest ε for which ε²/2 is at most rho."""
    return Epsilon(math.isqrt(2 * NANO * NANO // FEMTO * max(rho.femto, 0)))


@lru_cache(maxsize=1024)
def epsilon_of(rho: Rho, delta: float) -> Epsilon:
    """An ε for which rho-zCDP implies (ε, δ)-DP: the best one, rounded up to the nano. Nothing for no rho."""
    if rho.femto == 0:
        return Epsilon(0)
    spread, log = float(rho), math.log(1 / delta)
    order = _order_where(lambda a: log - math.log1p(a) - spread * a * a)  # the derivative of αρ + c(α, δ) is 0 there
    return _up_to_nano(order * rho.fraction + offset_above(order, delta))


@lru_cache(maxsize=1024)
def capacity(epsilon: Epsilon, delta: float) -> Rho:
    """The largest rho whose `epsilon_of` at δ is at most epsilon, to 15 digits."""
    if epsilon.nano < 1:
        return Rho(0)
    total, log = float(epsilon), math.log(1 / delta)

    def slope(a: float) -> float:  # of (ε - c(α, δ))/α, times something positive
        return (log - math.log1p(a)) * (2 * a + 1) / (a * a) + math.log(a) - math.log1p(a) - total

    order = _order_where(slope)
    femto = max(math.floor((epsilon.fraction - offset_above(order, delta)) / order * FEMTO), 0)
    while femto and epsilon_of(Rho(femto), delta) > epsilon:
        femto -= 1
    return Rho(femto).as_written()


def offset_above(order: Fraction, delta: float) -> Fraction:
    """c(α, δ), or a little more."""
    with localcontext(Context(prec=DIGITS, rounding=ROUND_HALF_EVEN, traps=[])):
        alpha, written = Decimal(order.numerator) / Decimal(order.denominator), Decimal(repr(delta))
        value = (1 - 1 / alpha).ln() - (alpha * written).ln() / (alpha - 1)
    return Fraction(value) + MARGIN


def _order_where(falling: Callable[[float], float]) -> Fraction:
    """The order 1 + a at which a function of a goes from plus to minus, rounded to a few digits of a."""
    low, high = -25.0, 45.0  # ln a
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(math.exp(middle)) > 0 else (low, middle)
    return 1 + Fraction(f"{math.exp(low):.{ORDER_DIGITS - 1}e}")


def _up_to_nano(value: Fraction) -> Epsilon:
    return Epsilon(max(math.ceil(value * NANO), 0))
