"""The samplers in small worlds: every draw that they read, with its exact probability, through the code that runs.

A source that enumerates stands in for the random one: a mechanism is run once for each way that its draws can come out,
and the probabilities of the ways to each output are added up. Draws beyond the point where they change nothing more are
taken together with the tail. The result is the law of what the code does, and not of what its formula says.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np

from dpkmeans._typing import AnyArray, IntArray
from dpkmeans.audit.choice_law import chance_of_choice
from dpkmeans.audit.losses import exactly
from dpkmeans.audit.small_worlds import POINTS, Records, as_decimal, counts, law_of_tree, worlds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import Exact
from dpkmeans.core.query import Sensitivity
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.linf_laplace import offsets, on_shell
from dpkmeans.privacy.mechanisms import PermuteAndFlip, PrivTreeSplits
from dpkmeans.privacy.randomness import NoiseSource, Randomness, SecureNoise, SeededNoise

WORD = 62  # bits of the words that offsets are drawn by
NORMS = 8
REACH = 90  # draws of a scale of 1 beyond it have a probability below 10^-39
Law = dict[Hashable, Decimal]


@dataclass(frozen=True)
class Enumerated:
    """A sampler: the worlds, the ways that draws came out, how far a probability is off its law, the largest loss."""

    sampler: str
    worlds: int
    ways: int
    off: Decimal
    largest: Decimal
    budget: Decimal


class Enumerating:
    """A noise source of which each call gives one of its outcomes; `ways` goes through all of them.

    `cap` is where a tail begins: draws of at least `cap` come out as `cap`, those of Laplace noise on both sides.
    """

    def __init__(self, script: tuple[int, ...], cap: int) -> None:
        self.script, self.cap, self.sizes, self.chance = script, cap, list[int](), Decimal(1)

    def _one_of(self, chances: list[Decimal]) -> int:
        at = len(self.sizes)
        self.sizes.append(len(chances))
        way = self.script[at] if at < len(self.script) else 0
        self.chance *= chances[way]
        return way

    def geometric(self, size: int, scale: Fraction) -> IntArray:
        """One draw after the other: 0, 1, ..., cap - 1, or more."""
        q = (-as_decimal(1 / scale)).exp()
        chances = [(1 - q) * q**j for j in range(self.cap)] + [q**self.cap]
        return np.array([self._one_of(chances) for _ in range(size)], dtype=np.int64)

    def laplace(self, values: IntArray, scale: Fraction) -> IntArray:
        """One draw after the other: -cap or less, ..., cap or more."""
        q = (-as_decimal(1 / scale)).exp()
        inner = [(1 - q) / (1 + q) * q ** abs(z) for z in range(1 - self.cap, self.cap)]
        tail = q**self.cap / (1 + q)
        draws = [self._one_of([tail, *inner, tail]) - self.cap for _ in range(values.size)]
        return values + np.array(draws, dtype=np.int64).reshape(values.shape)

    def below(self, n: int) -> int:
        """0, ..., n - 1."""
        return self._one_of([Decimal(1) / n] * n)

    def below_each(self, bounds: AnyArray) -> AnyArray:
        """One after the other."""
        return np.array([self.below(int(bound)) for bound in bounds.ravel()], dtype=np.int64).reshape(bounds.shape)

    def gaussian(self, values: IntArray, variance: Fraction) -> IntArray:
        """Has tests of its own, by the words that it reads."""
        raise NotImplementedError

    def loss(self, change: int, scale: Fraction) -> Fraction:
        """As of the source that it stands for."""
        return change / scale


def law_by_all_ways(run: Callable[[NoiseSource], Hashable], cap: int) -> tuple[Law, int]:
    """The law of an output, over all ways that the draws of a run can come out, and the number of ways."""
    law: Law = {}
    script: tuple[int, ...] | None = ()
    ways = 0
    while script is not None:
        source = Enumerating(script, cap)
        output = run(source)
        law[output] = law.get(output, Decimal(0)) + source.chance
        script, ways = _next(script, source.sizes), ways + 1
    return law, ways


def _next(script: tuple[int, ...], sizes: list[int]) -> tuple[int, ...] | None:
    """The way after this one: the last draw that can still come out otherwise does."""
    filled = (*script, *(0,) * (len(sizes) - len(script)))
    for at in reversed(range(len(sizes))):
        if filled[at] + 1 < sizes[at]:
            return (*filled[:at], filled[at] + 1)
    return None


def enumerated_samplers(pairs: int | None = None) -> Iterator[Enumerated]:
    """Every sampler at a budget of 1; choices and trees in the first so many pairs of small worlds, or in all."""
    with exactly():
        yield laplace_of_two()
        yield geometric_of_laplace()
        for dims in (1, 2, 3):
            yield max_norm(dims)
        yield choices(pairs)
        yield trees(pairs)


def laplace_of_two() -> Enumerated:
    """Integer Laplace noise of the seeded source: the difference of two geometric draws, all pairs of them."""
    pairs = np.array(list(product(range(REACH + NORMS), repeat=2)), dtype=np.int64)

    class Told(SeededNoise):
        def geometric(self, size: int, scale: Fraction) -> IntArray:
            return pairs.T.ravel()

    drawn = Told(0).laplace(np.zeros(len(pairs), dtype=np.int64), Fraction(1))
    q = Decimal(-1).exp()
    found = [Decimal(0)] * (NORMS + 1)
    for z, weight in zip(drawn.tolist(), pairs.sum(axis=1).tolist(), strict=True):
        if 0 <= z <= NORMS:
            found[z] += (1 - q) ** 2 * q**weight
    law = [(1 - q) / (1 + q) * q**z for z in range(NORMS + 1)]
    return _one("integer Laplace, seeded", len(pairs), found, law)


def geometric_of_laplace() -> Enumerated:
    """Geometric draws of the secure source: both halves of a Laplace draw."""
    draws = np.arange(-NORMS - 1, NORMS + 1)

    class Told(SecureNoise):
        def laplace(self, values: IntArray, scale: Fraction) -> IntArray:
            return draws

    q = Decimal(-1).exp()
    found = [Decimal(0)] * (NORMS + 1)
    for z, j in zip(draws.tolist(), Told().geometric(draws.size, Fraction(1)).tolist(), strict=True):
        found[j] += (1 - q) / (1 + q) * q ** abs(z)
    return _one("geometric, secure", draws.size, found, [(1 - q) * q**j for j in range(NORMS + 1)])


def max_norm(dims: int) -> Enumerated:
    """Noise of one scale on a row: offset by all words in groups, geometric draws, and all ways onto a shell."""
    q = Decimal(-1).exp()
    offset, ways = _offset_law(dims)
    parts = [q**m * (1 - q) ** dims * _ways_to_sum(m, dims) for m in range(NORMS + 1)]
    total = ((1 - q) ** dims) / sum(weight * q**j for j, weight in enumerate(_eulerian_by_counting(dims)))
    found, law = [], []
    for norm in range(NORMS + 1):
        chance = sum((offset[j] * parts[norm - j] for j in range(min(dims, norm) + 1)), Decimal(0))
        if norm <= 2:
            ways += _check_shell(norm, dims)
        points = (2 * norm + 1) ** dims - (max(2 * norm - 1, 0)) ** dims
        found.append(chance / points)
        law.append(total * q**norm)
    return _one(f"max norm, {dims} entries" if dims > 1 else "max norm, 1 entry", ways, found, law)


def _one(sampler: str, ways: int, found: list[Decimal], law: list[Decimal]) -> Enumerated:
    """Of noise at 0, 1, ... from the answer, where a record moves the answer by 1."""
    off = max(abs(a - b) for a, b in zip(found, law, strict=True))
    largest = max(abs((a / b).ln()) for a, b in pairwise(found))
    return Enumerated(sampler, 1, ways, off, largest, Decimal(1))


def _ways_to_sum(total: int, parts: int) -> int:
    """Ways to write a number as so many numbers from 0 on, in order."""
    return 1 if parts == 1 else sum(_ways_to_sum(total - first, parts - 1) for first in range(total + 1))


def _eulerian_by_counting(dims: int) -> list[int]:
    """The numerator of Σ N(m) q^m = Σ B(j) q^j / (1 - q)^D, from the numbers N(m) of points with norm m."""
    row = [(2 * m + 1) ** dims - (max(2 * m - 1, 0)) ** dims for m in range(dims + 1)]
    for _ in range(dims):
        row = [value - before for before, value in zip([0, *row], row, strict=False)]
    return row


class _Words:
    """A source whose next words are given."""

    def __init__(self, words: list[int]) -> None:
        self.words = words

    def below(self, n: int) -> int:
        return self.words.pop(0)

    def below_each(self, bounds: AnyArray) -> AnyArray:
        return np.array([self.words.pop(0) for _ in range(bounds.size)], dtype=np.int64)


def _offset_law(dims: int) -> tuple[list[Decimal], int]:
    """P(offset), from all words of 62 bits, and behind those that leave it open all second words.

    A larger word never gives a smaller offset, so words between two that give the same one give it too: a border is
    found by halving, with the code that runs. A word is open where it reads a second one.
    """
    asked = 0

    def drawn(*words: int) -> int:
        nonlocal asked
        asked += 1
        source: Any = _Words([*words, 0] if len(words) == 1 else [*words, 2**WORD // 2])
        return int(offsets(source, 1, dims, Fraction(1))[0])

    def first_above(j: int, *before: int) -> int:
        low, high = 0, 2**WORD
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if drawn(*before, middle) > j else (middle + 1, high)
        return low

    reached = []
    for j in range(dims):
        word = first_above(j) - 1  # with a second word of 0 the open word still gives j
        reached.append(Decimal(word * 2**WORD + first_above(j, word)) / 2 ** (2 * WORD))
    reached.append(Decimal(1))
    return [b - a for a, b in zip([Decimal(0), *reached], reached, strict=False)], asked


def _check_shell(norm: int, dims: int) -> int:
    """All ways onto a shell: each of its points has the same number of them. Returns how many there are."""
    if norm == 0:
        return 1
    sides = [range(2 * norm + 1)] * dims
    hits: dict[tuple[int, ...], int] = {}
    ways = 0
    for *places, face in product(*sides, range(2 * dims)):
        source: Any = _Words([*places, face, *_accepted(norm, dims)])
        ways += 1
        point = tuple(on_shell(source, np.array([norm]), dims)[0].tolist())
        if source.words:  # accepted at once: the rest was not read
            hits[point] = hits.get(point, 0) + 1
    expected = (2 * norm + 1) ** dims - (2 * norm - 1) ** dims
    if len(hits) != expected or len(set(hits.values())) != 1:
        raise ArithmeticError("points of a shell are not equally likely.")
    return ways


def _accepted(norm: int, dims: int) -> list[int]:
    """Words that are accepted: the middle of each side, and the first face."""
    return [norm] * dims + [1]


def choices(pairs: int | None = None) -> Enumerated:
    """Permute-and-flip, by all geometric draws and all even choices among those that stay."""
    scale, mechanism = Fraction(1), PermuteAndFlip(Epsilon.of(1.0))

    def law(records: Records) -> tuple[Law, int, Decimal]:
        scores = counts(records)
        found, ways = law_by_all_ways(
            lambda source: mechanism.release(
                Exact(scores, Sensitivity(gap=1)), ledger=Ledger(), rng=_with(source), label="choice"
            ),
            cap=int(scores.max() - scores.min()) + 1,
        )
        off = max(abs(found.get(i, Decimal(0)) - chance_of_choice(scores, i, scale)) for i in range(POINTS))
        return found, ways, off

    return _in_worlds("permute-and-flip", law, pairs)


def trees(pairs: int | None = None) -> Enumerated:
    """The shape of a tree over 4 cells with up to 3 leaves, by all draws of all nodes that are tested."""
    mechanism = PrivTreeSplits(Epsilon.of(1.0), 3)
    scale = Fraction(mechanism.LOSSES)

    def law(records: Records) -> tuple[Law, int, Decimal]:
        cells = counts(tuple(min(place, 3) for place in records))[:4]

        def shape(source: NoiseSource) -> Hashable:
            exact = Exact(cells[:, None], Sensitivity.of_row((1,)))
            depths, prefixes = mechanism.release(exact, ledger=Ledger(), rng=_with(source), label="tree")
            return frozenset(zip(depths.tolist(), prefixes.tolist(), strict=True))

        found, ways = law_by_all_ways(shape, cap=4)  # counts less their bias lie between -3 and 4
        expected = dict(law_of_tree(cells, mechanism, scale))
        return found, ways, max(abs(found.get(tree, Decimal(0)) - expected[tree]) for tree in expected)

    return _in_worlds("shape of a tree", law, pairs)


def _with(source: NoiseSource) -> Randomness:
    return Randomness(np.random.default_rng(0), source)


def _in_worlds(name: str, law: Callable[[Records], tuple[Law, int, Decimal]], pairs: int | None) -> Enumerated:
    laws: dict[Records, tuple[Law, int, Decimal]] = {}

    def of(records: Records) -> tuple[Law, int, Decimal]:
        key = tuple(sorted(records))
        if key not in laws:
            laws[key] = law(key)
        return laws[key]

    largest, n = Decimal(0), 0
    for n, (before, after) in enumerate(worlds(), start=1):
        here, there = of(before)[0], of(after)[0]
        largest = max(largest, *(abs((here[output] / there[output]).ln()) for output in here.keys() & there.keys()))
        if n == pairs:
            break
    off = max(found[2] for found in laws.values())
    return Enumerated(name, n, sum(found[1] for found in laws.values()), off, largest, Decimal(1))
