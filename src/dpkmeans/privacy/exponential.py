"""exp(-x) for fractions x: enclosed by fractions, and compared with a uniform number without rounding."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction

WORD = 64


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
