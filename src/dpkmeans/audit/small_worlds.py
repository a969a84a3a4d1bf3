"""Small worlds: every data set of up to 3 records on a line of 5 points, every neighbour, every output, exactly.

The law of a mechanism's output is written down in full, with 80 digits, and the largest ratio over all of it is
compared with e^ε. So in these worlds the proof pages are checked without a gap, and without statistics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np

from dpkmeans._typing import IntArray
from dpkmeans.audit.choice_law import chance_of_choice
from dpkmeans.audit.losses import chance_of_split, exactly, loss_of
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.rho import Rho
from dpkmeans.privacy.mechanisms import Gaussian, Laplace, LInfLaplace, PrivTreeSplits

POINTS = 5
MOST = 3
DIGITS = 30
Records = tuple[int, ...]
Tree = frozenset[tuple[int, int]]


def worlds() -> Iterator[tuple[Records, Records]]:
    """Every data set of up to 3 records, as places on the line, with every one of one record more."""
    for size in range(MOST + 1):
        for records in combinations_with_replacement(range(POINTS), size):
            for extra in range(POINTS):
                yield records, (*records, extra)


@dataclass(frozen=True)
class Enumerated:
    """Over all worlds and outputs of a mechanism: how many, and the largest loss. Losses are exact to 30 digits."""

    mechanism: str
    worlds: int
    outputs: int
    largest: Decimal
    budget: Decimal

    @property
    def holds(self) -> bool:
        """Whether no loss is above the budget."""
        return Fraction(self.largest) <= Fraction(self.budget) + Fraction(1, 10**DIGITS)


def enumerated(epsilon: Fraction) -> tuple[Enumerated, ...]:
    """All mechanisms in all worlds, each at a budget of `epsilon`, or of so much rho."""
    return tuple(
        _largest(name, make(epsilon), epsilon)
        for name, make in {
            "Laplace": _laplace,
            "LInfLaplace": _cube,
            "Gaussian": _gaussian,
            "PermuteAndFlip": _choice,
            "PrivTreeSplits": _tree,
        }.items()
    )


Losses = Callable[[Records, Records], Sequence[Decimal]]
"""The loss at every output that can have the largest one, for a pair of neighbours."""


def _largest(name: str, losses: Losses, budget: Fraction) -> Enumerated:
    n_worlds = n_outputs = 0
    largest = Decimal(0)
    with exactly():
        for before, after in worlds():
            found = losses(before, after)
            n_worlds, n_outputs = n_worlds + 1, n_outputs + len(found)
            largest = max(largest, *map(abs, found))
        return Enumerated(name, n_worlds, n_outputs, largest, as_decimal(budget))


def counts(records: Records) -> IntArray:
    """How many records lie at each point, shape (POINTS,)."""
    return np.bincount(np.array(records, np.int64), minlength=POINTS).astype(np.int64)


def as_decimal(value: Fraction) -> Decimal:
    """A fraction in the digits of the context."""
    return Decimal(value.numerator) / Decimal(value.denominator)


def _laplace(epsilon: Fraction) -> Losses:
    """Noisy counts. Beyond both counts the loss of an entry no longer changes, so outputs reach one step beyond."""
    mechanism, scale = Laplace(_nanos(epsilon)), 1 / epsilon

    def losses(before: Records, after: Records) -> list[Decimal]:
        a, b = counts(before), counts(after)
        place = int(np.flatnonzero(a != b)[0])
        outputs = range(int(a.min()) - 1, int(b.max()) + 2)
        moved = np.tile(a, (len(outputs), 1))
        moved[:, place] = outputs
        return [as_decimal(loss_of(mechanism, a, b, output, scale)) for output in moved]

    return losses


def _cube(epsilon: Fraction) -> Losses:
    """A noisy count and a noisy sum of the left and of the right half, with one scale for both entries of a row."""
    mechanism, most = LInfLaplace(_nanos(epsilon)), POINTS - 1
    scale = most / epsilon

    def table(records: Records) -> IntArray:
        rows = np.zeros((2, 2), np.int64)
        for place in records:
            rows[int(place > most // 2)] += (most, place)
        return rows

    def losses(before: Records, after: Records) -> list[Decimal]:
        a, b = table(before), table(after)
        row = int(np.flatnonzero((a != b).any(axis=1))[0])
        low, high = np.minimum(a, b)[row] - 1, np.maximum(a, b)[row] + 1
        found = []
        for entries in product(*(range(int(lo), int(hi) + 1) for lo, hi in zip(low, high, strict=True))):
            output = a.copy()
            output[row] = entries
            found.append(as_decimal(loss_of(mechanism, a, b, output, scale)))
        return found

    return losses


def _gaussian(rho: Fraction) -> Losses:
    """Noisy counts: the divergence, for which outputs need not be told apart."""
    mechanism, variance = Gaussian(Rho.of(float(rho))), 1 / (2 * rho)

    def losses(before: Records, after: Records) -> list[Decimal]:
        a, b = counts(before), counts(after)
        return [as_decimal(loss_of(mechanism, a, b, a, variance))]

    return losses


def _choice(epsilon: Fraction) -> Losses:
    """A point with many records. A record moves one score by 1, so two scores by 1 apart."""
    scale = 1 / epsilon

    def losses(before: Records, after: Records) -> list[Decimal]:
        laws = [[chance_of_choice(counts(side), i, scale) for i in range(POINTS)] for side in (before, after)]
        _check_whole(laws)
        return [(here / there).ln() for here, there in zip(*laws, strict=True)]

    return losses


def _tree(epsilon: Fraction) -> Losses:
    """The shape of a tree over 4 cells with up to 3 leaves, so that leaves run out."""
    mechanism = PrivTreeSplits(_nanos(epsilon), 3)
    scale = mechanism.LOSSES / epsilon

    def law(records: Records) -> dict[Tree, Decimal]:
        cells = counts(tuple(min(place, 3) for place in records))[:4]
        return dict(law_of_tree(cells, mechanism, scale))

    def losses(before: Records, after: Records) -> list[Decimal]:
        here, there = law(before), law(after)
        _check_whole([list(here.values()), list(there.values())])
        return [(here[tree] / there[tree]).ln() for tree in here]

    return losses


def law_of_tree(cells: IntArray, mechanism: PrivTreeSplits, scale: Fraction) -> Iterator[tuple[Tree, Decimal]]:
    """Every tree that can be released, as its leaves (depth, prefix), with its probability."""
    bias, deepest = math.ceil(scale * mechanism.LN2_ABOVE), cells.size.bit_length() - 1

    def grow(depth: int, tested: list[int], leaves: Tree, n_leaves: int, p: Decimal) -> Iterator[tuple[Tree, Decimal]]:
        if not tested or depth == deepest:
            yield leaves | {(depth, node) for node in tested}, p
            return
        size, room = cells.size >> depth, mechanism.max_leaves - n_leaves
        for outcome in product((False, True), repeat=len(tested)):
            chance = p
            split: list[int] = []
            for node, splits in zip(tested, outcome, strict=True):
                if len(split) == room:
                    if splits:
                        break  # leaves have run out: whatever its noise, it does not split
                    continue
                count = int(cells[node * size : (node + 1) * size].sum())
                chance *= chance_of_split(max(count - depth * bias, -bias), splits, scale)
                split += [node] * splits
            else:
                rest = leaves | {(depth, node) for node in tested if node not in split}
                children = [child for node in split for child in (2 * node, 2 * node + 1)]
                yield from grow(depth + 1, children, rest, n_leaves + len(split), chance)

    return grow(0, [0], frozenset(), 1, Decimal(1))


def _check_whole(laws: Sequence[Sequence[Decimal]]) -> None:
    for law in laws:
        if abs(sum(law, Decimal(0)) - 1) > Decimal(10) ** -50:
            raise ArithmeticError("the probabilities of all outputs do not add up to 1.")


def _nanos(epsilon: Fraction) -> Epsilon:
    return Epsilon.of(float(epsilon))
