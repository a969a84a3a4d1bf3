"""exp(-x): enclosed by fractions and compared with a uniform number without rounding; and in bulk, by floats."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpkmeans._typing import FloatArray

WORD = 64
PIECES = 256
"""Steps of the table of exp between two whole numbers."""


def exp_around(x: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Fractions below and above exp(-x), x > 0. `Decimal` rounds correctly; a unit on either side encloses."""
    with localcontext(Context(prec=digits, rounding=ROUND_HALF_EVEN, traps=[])):
        rate = Decimal(x.numerator) / Decimal(x.denominator)
        low, high = (-rate.next_plus()).exp().next_minus(), (-rate.next_minus()).exp().next_plus()
    return Fraction(low), Fraction(high)


def floor_of_exp(x: Fraction, bits: int) -> int:
    """⌊2^bits exp(-x)⌋ for x >= 0, exactly.

    The digits are doubled until both ends have the same floor. That ends: at a fraction x other than 0, exp(-x) is no
    fraction.
    """
    if x == 0:
        return 1 << bits
    if x >= bits:  # exp(-x) < 2^-x
        return 0
    digits = 30 + bits // 2
    while True:
        low, high = exp_around(x, digits)
        floor = (low.numerator << bits) // low.denominator
        if floor == (high.numerator << bits) // high.denominator:
            return floor
        digits *= 2


class Uniform:
    """A uniform number in [0, 1) of which the first `bits` are known; further ones are drawn where they decide."""

    def __init__(self, word: int, more: Callable[[], int], bits: int = WORD) -> None:
        self.word, self.more, self.bits = word, more, bits

    def below_exp(self, x: Fraction) -> bool:
        """Whether the number lies below exp(-x), x >= 0: true with a probability of exactly exp(-x).

        With w the known bits and c = ⌊2^bits exp(-x)⌋, w < c means below and w > c above. At w = c, which is one word
        in 2^bits, another 64 bits are drawn.
        """
        while True:
            cut = floor_of_exp(x, self.bits)
            if self.word != cut:
                return self.word < cut
            self.word, self.bits = self.word << WORD | self.more(), self.bits + WORD


def exp_of(x: FloatArray) -> FloatArray:
    """exp(-x), off by less than 2^-45 of it, for 0 <= x < 63; from there on and below 0, the value at the end.

    By a table and five terms of the series, in sums and products alone: the same floats on every processor.
    """
    whole, pieces = _table()
    x = np.minimum(np.maximum(x, 0.0), 63.0)
    at = np.floor(x)
    rest = (x - at) * PIECES
    piece = np.floor(rest)
    r = (rest - piece) / PIECES
    series = 1 - r * (1 - r / 2 * (1 - r / 3 * (1 - r / 4)))
    return whole[at.astype(np.int64)] * pieces[piece.astype(np.int64)] * series


@lru_cache(maxsize=1)
def _table() -> tuple[FloatArray, FloatArray]:
    """exp(-i) for i = 0, ..., 63, and exp(-j/256) for j = 0, ..., 255, each rounded once or twice."""

    def rounded(x: Fraction) -> float:
        return 1.0 if x == 0 else float(exp_around(x, 40)[0])

    whole = np.array([rounded(Fraction(i)) for i in range(64)])
    return whole, np.array([rounded(Fraction(j, PIECES)) for j in range(PIECES)])
