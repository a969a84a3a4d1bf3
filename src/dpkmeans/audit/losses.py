"""The privacy loss of one mechanism call, exactly: how much more likely its output was on D than on D'.

Noise on integers gives a fraction. A choice and a tree give logarithms, which are enclosed to 40 digits; the law of a
choice is in `choice_law`. Formulas: proofs/laplace.md, cube.md, choice.md, tree.md and gaussian.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

from dpkmeans._typing import AnyArray, IntArray
from dpkmeans.audit.choice_law import loss_of_choice
from dpkmeans.privacy.mechanisms import Gaussian, Laplace, LInfLaplace, PermuteAndFlip, PrivTreeSplits
from dpkmeans.privacy.randomness import SATURATED

DIGITS = 80
SLACK = Fraction(1, 10**40)
"""More than what rounding at 80 digits can add up to along a path."""


def loss_of(mechanism: Any, before: IntArray, after: IntArray, output: Any, scale: Fraction) -> Fraction:
    """ln P(output | D) - ln P(output | D'), from exact answers `before` on D and `after` on D'.

    A logarithm is rounded towards 0, by at most 10^-39. For Gaussian noise, whose loss has no bound, the divergence
    that the call's rho bounds: |change|²/2σ², never negative; `scale` is then σ².
    """
    for kind, loss in _LOSSES:
        if isinstance(mechanism, kind):
            return loss(mechanism, before, after, output, scale)
    raise TypeError(f"no loss is known for {type(mechanism).__name__}.")


def change_of(mechanism: Any, before: IntArray, after: IntArray) -> int:
    """What the record changed, in the norm that the mechanism's noise is scaled to. Of Gaussian noise, its square."""
    changes = [b - a for a, b in _entries(before, after)]
    if isinstance(mechanism, Gaussian):
        return sum(change * change for change in changes)
    if isinstance(mechanism, LInfLaplace):
        return max(map(abs, changes), default=0)
    if isinstance(mechanism, PermuteAndFlip):
        still = [0] if len(changes) < before.size else []
        return max(changes + still) - min(changes + still)
    return sum(map(abs, changes))


def declared_change(mechanism: Any, sensitivity: Any) -> int:
    """The same as the question declares it."""
    if isinstance(mechanism, Gaussian):
        return int(sensitivity.l2_squared)
    if isinstance(mechanism, LInfLaplace):
        return int(sensitivity.linf)
    if isinstance(mechanism, PermuteAndFlip):
        return int(sensitivity.gap)
    return int(sensitivity.l1)


def _laplace(_: Laplace, before: IntArray, after: IntArray, output: IntArray, scale: Fraction) -> Fraction:
    return sum((_nearer(a, b, o, scale) for a, b, o in _entries(before, after, output)), Fraction(0))


def _nearer(before: int, after: int, output: int, scale: Fraction) -> Fraction:
    """Of one entry. Beyond 64 bits an output stands for a tail, whose loss lies between 0 and that of its end."""
    if abs(output) >= SATURATED:
        raise OverflowError("an output was cut at 64 bits; its loss is not computed.")
    return (abs(output - after) - abs(output - before)) / scale


def _cube(_: LInfLaplace, before: IntArray, after: IntArray, output: IntArray, scale: Fraction) -> Fraction:
    total = Fraction(0)
    for row in np.flatnonzero((before != after).any(axis=1)):
        near, far = (
            max(abs(int(o) - int(v)) for o, v in zip(output[row], side[row], strict=True)) for side in (before, after)
        )
        total += (far - near) / scale
    return total


def _gaussian(mechanism: Gaussian, before: IntArray, after: IntArray, _: IntArray, variance: Fraction) -> Fraction:
    return change_of(mechanism, before, after) / (2 * variance)


def _choice(_: PermuteAndFlip, before: IntArray, after: IntArray, output: int, scale: Fraction) -> Fraction:
    low, high = loss_of_choice(before, after, output, scale)
    if high - low > SLACK:
        raise ArithmeticError("the loss of a choice is enclosed too loosely.")
    return max(low, Fraction(0)) if high > 0 else high


def _tree(mechanism: PrivTreeSplits, before: IntArray, after: IntArray, output: Any, scale: Fraction) -> Fraction:
    """Of a tree only its splits are released. Nodes that are tested after the last leaf is used up decide nothing."""
    bias = math.ceil(scale * mechanism.LN2_ABOVE)
    with exactly():
        total = Decimal(0)
        for depth, splits, sides in _tested(mechanism, before[:, 0], after[:, 0], output):
            here, there = (max(int(side) - depth * bias, -bias) for side in sides)
            if here != there:
                total += (chance_of_split(here, splits, scale) / chance_of_split(there, splits, scale)).ln()
        return _surely(total)


def _tested(
    mechanism: PrivTreeSplits, before: IntArray, after: IntArray, output: Any
) -> Iterator[tuple[int, bool, tuple[int, int]]]:
    """Depth, outcome and both counts of every node whose own noise decided whether it splits."""
    depths, prefixes = output
    leaves = set(zip(depths.tolist(), prefixes.tolist(), strict=True))
    deepest = before.size.bit_length() - 1
    tested, n_leaves = [0], 1
    for depth in range(deepest):
        size = before.size >> depth
        room = mechanism.max_leaves - n_leaves
        split: list[int] = []
        for node in tested:
            if len(split) < room:
                cells = slice(node * size, (node + 1) * size)
                splits = (depth, node) not in leaves
                yield depth, splits, (int(before[cells].sum()), int(after[cells].sum()))
            else:
                splits = False
            split += [node] * splits
        n_leaves += len(split)
        tested = [child for node in split for child in (2 * node, 2 * node + 1)]


def chance_of_split(biased: int, splits: bool, scale: Fraction) -> Decimal:
    """P(biased + Z > 0), or its complement, for Z with P(z) ∝ exp(-|z|/scale)."""
    q = (-_decimal(1 / scale)).exp()
    least = 1 - biased  # splits at Z >= least; the law is symmetric
    tail = (-_decimal(max(least, 1 - least) / scale)).exp() / (1 + q)  # P(Z >= m) = q^m/(1 + q) from m = 1 on
    return tail if splits == (least >= 1) else 1 - tail


def _entries(*arrays: AnyArray) -> Iterator[tuple[int, ...]]:
    """The entries that differ between the first two arrays, as Python integers."""
    flat = [array.ravel() for array in arrays]
    for i in np.flatnonzero(flat[0] != flat[1]):
        yield tuple(int(array[i]) for array in flat)


def exactly() -> Any:
    """A context of 80 digits."""
    return localcontext(Context(prec=DIGITS, rounding=ROUND_HALF_EVEN, Emin=-(10**9), Emax=10**9))


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _surely(value: Decimal) -> Fraction:
    """As a fraction that is not farther from 0 than the number that was rounded: what was surely lost.

    Proofs are tight, so a loss is often the budget itself; one above it by less than 10^-39 is not told apart.
    """
    found = Fraction(value)
    return max(found - SLACK, Fraction(0)) if value > 0 else min(found + SLACK, Fraction(0))


_LOSSES: tuple[tuple[type, Callable[..., Fraction]], ...] = (
    (Laplace, _laplace),
    (LInfLaplace, _cube),
    (Gaussian, _gaussian),
    (PermuteAndFlip, _choice),
    (PrivTreeSplits, _tree),
)
MECHANISMS: tuple[Any, ...] = tuple(kind for kind, _ in _LOSSES)
