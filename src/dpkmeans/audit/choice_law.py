"""The exact law of a choice by permute-and-flip, enclosed: thousands of candidates in a fraction of a second.

A candidate stays with probability q = exp(-distance/scale), and one of those that stay is chosen evenly. So P(i) is q_i
times the mean of 1/(1 + S), where S is the number of the others that stay. The law of S is a product of one polynomial
per candidate, (1 - q) + q t. All coefficients are positive, and all are rounded down here. What the rounded ones lack
to 1 is the error of the whole: the mean lies between what they give and that plus what is lacking.
"""

from __future__ import annotations

from collections import Counter
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from heapq import heapify, heappop, heappush
from typing import Any

from dpkmeans._typing import IntArray

BITS = 192
ONE = 1 << BITS
DIGITS = 70  # more than 192 bits
Law = tuple[int, tuple[int, ...]]
"""The least number that stay, and the probabilities of it and of more, in units of 2^-192, rounded down."""


def loss_of_choice(before: IntArray, after: IntArray, chosen: int, scale: Fraction) -> tuple[Fraction, Fraction]:
    """Bounds of ln P(chosen | D) - ln P(chosen | D'), from the scores on D and on D'."""
    distance = [int(scores.max()) - int(scores[chosen]) for scores in (before, after)]
    (low, high), (low_after, high_after) = (mean_share(scores, chosen, scale) for scores in (before, after))
    stays = (distance[1] - distance[0]) / scale  # of ln q, without rounding
    return stays + _ln(low / high_after)[0], stays + _ln(high / low_after)[1]


def mean_share(scores: IntArray, chosen: int, scale: Fraction) -> tuple[Fraction, Fraction]:
    """Bounds of the mean of 1/(1 + S)."""
    best = int(scores.max())
    distances = Counter(best - score for score in scores.tolist())
    distances[best - int(scores[chosen])] -= 1
    first, chances = _stay(distances, scale)
    low = sum(chance // (first + i + 1) for i, chance in enumerate(chances))
    return Fraction(low, ONE), Fraction(low + len(chances) + ONE - sum(chances), ONE)


def chance_of_choice(scores: IntArray, chosen: int, scale: Fraction) -> Decimal:
    """P(chosen), rounded down by less than 10^-50."""
    low, _ = mean_share(scores, chosen, scale)
    distance = int(scores.max()) - int(scores[chosen])
    with _context():
        stays = (-Decimal(distance) * scale.denominator / scale.numerator).exp()
        return stays * low.numerator / low.denominator


def _stay(distances: Counter[int], scale: Fraction) -> Law:
    """The law of how many stay, of so many candidates at each distance."""
    never, laws = 0, []
    for distance, times in distances.items():
        low, high = stay_chance(distance, scale)
        if low:
            laws.append(_power((0, (ONE - high, low)), times))
        else:
            never += times * high
    heap = [(len(law[1]), i, law) for i, law in enumerate([(0, (max(ONE - never, 0),)), *laws])]
    heapify(heap)
    while len(heap) > 1:
        (_, _, a), (_, i, b) = heappop(heap), heappop(heap)
        both = _both(a, b)
        heappush(heap, (len(both[1]), i, both))
    return heap[0][2]


def stay_chance(distance: int, scale: Fraction) -> tuple[int, int]:
    """Bounds of exp(-distance/scale) in units of 2^-192."""
    if distance == 0:
        return ONE, ONE
    with _context():
        value = (-Decimal(distance) * scale.denominator / scale.numerator).exp() * ONE
        low = max(int(value) - 1, 0)  # the digits beyond 192 bits are far fewer than one unit off
    return low, low + 3


def _power(law: Law, times: int) -> Law:
    result: Law = (0, (ONE,))
    while times:
        if times & 1:
            result = _both(result, law)
        times >>= 1
        law = _both(law, law) if times else law
    return result


def _both(a: Law, b: Law) -> Law:
    """Of two groups together: a product of polynomials, done as one product of integers with coefficients as digits."""
    slot = (2 * BITS + min(len(a[1]), len(b[1])).bit_length()) // 8 + 1
    product = _packed(a[1], slot) * _packed(b[1], slot)
    size = len(a[1]) + len(b[1]) - 1
    digits = product.to_bytes(size * slot, "little")
    found = [int.from_bytes(digits[i * slot : (i + 1) * slot], "little") >> BITS for i in range(size)]
    first = 0
    while len(found) > 1 and not found[-1]:
        found.pop()
    while first < len(found) - 1 and not found[first]:
        first += 1
    return a[0] + b[0] + first, tuple(found[first:])


def _packed(chances: tuple[int, ...], slot: int) -> int:
    return int.from_bytes(b"".join(chance.to_bytes(slot, "little") for chance in chances), "little")


def _ln(value: Fraction) -> tuple[Fraction, Fraction]:
    """Bounds of a logarithm. The quotient and its logarithm are off by less than 10^-60."""
    with _context():
        found = Fraction((Decimal(value.numerator) / Decimal(value.denominator)).ln())
    error = Fraction(1, 10**60)
    return found - error, found + error


def _context() -> Any:
    return localcontext(Context(prec=DIGITS, rounding=ROUND_HALF_EVEN, Emin=-(10**9), Emax=10**9))
