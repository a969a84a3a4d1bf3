"""Integer noise with P(z) ∝ exp(-‖z‖∞/scale), drawn exactly. Only `mechanisms.LInfLaplace` calls this.

With q = exp(-1/scale), the norm m has weight N(m) q^m, where N(m) integer points of D entries have norm m.
Since

    Σ_m N(m) q^m  =  Σ_j B(D, j) q^j / (1 - q)^D,        B: Eulerian numbers of type B,

m is an offset j, drawn with weight B(D, j) q^j, plus D geometric draws. The point is then uniform on its
shell. Nothing is rounded: a choice that a word of random bits leaves open is settled by more bits.
Proof: proofs/cube.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np

from dpkmeans._typing import AnyArray, IntArray
from dpkmeans.privacy.exponential import exp_around
from dpkmeans.privacy.randomness import SATURATED, NoiseSource

WORD = 62
MAX_NORM = 2**61
"""Norms up to here are added in 64 bits; beyond, in Python integers."""


def cube_noise(source: NoiseSource, rows: int, dims: int, scale: Fraction) -> AnyArray:
    """Independent rows of noise, shape (rows, dims): int64, or Python integers where one would not fit."""
    parts = source.geometric(rows * dims, scale).reshape(rows, dims)
    if parts.max() >= MAX_NORM // (dims + 1):
        parts = _resume(source, parts, scale)
    return on_shell(source, parts.sum(axis=1) + offsets(source, rows, dims, scale), dims)


def on_shell(source: NoiseSource, norms: AnyArray, dims: int) -> AnyArray:
    """For each norm m a uniform integer point with ‖z‖∞ = m, shape (rows, dims).

    Puts ±m on a random entry and anything from -m to m on the others. A point with several entries of size m
    would come up once for each of them; only the first one counts, so every point has one way in.
    """
    points = np.zeros((norms.size, dims), dtype=norms.dtype)
    pending = np.flatnonzero(norms)
    while pending.size:
        norm = norms[pending, None]
        draw = source.below_each(np.repeat(2 * norm + 1, dims, axis=1)) - norm
        face, side = np.divmod(source.below_each(np.full(pending.size, 2 * dims)), 2)
        draw[np.arange(pending.size), face] = (2 * side - 1) * norm[:, 0]
        accepted = np.argmax(np.abs(draw) == norm, axis=1) == face
        points[pending[accepted]] = draw[accepted]
        pending = pending[~accepted]
    return points


def offsets(source: NoiseSource, rows: int, dims: int, scale: Fraction, bits: int = WORD) -> IntArray:
    """Draws of j = 0, ..., dims with P(j) ∝ B(dims, j) exp(-j/scale), shape (rows,)."""
    cuts = np.array(_cuts(dims, scale, bits), dtype=np.int64)
    words = source.below_each(np.full(rows, 2**bits, dtype=np.int64))
    drawn = np.searchsorted(cuts, words).astype(np.int64)
    undecided = cuts[np.minimum(drawn, dims - 1)] == words
    for row in np.flatnonzero(undecided):
        drawn[row] = _decide(source, int(words[row]), dims, scale, bits)
    return drawn


def _decide(source: NoiseSource, word: int, dims: int, scale: Fraction, bits: int) -> int:
    """Continue a uniform number in [0, 1) that begins with `word` until it lies clear of every cut."""
    while True:
        cuts = _cuts(dims, scale, bits)
        drawn = bisect_left(cuts, word)
        if drawn == dims or cuts[drawn] != word:
            return drawn
        word, bits = word << WORD | source.below(2**WORD), bits + WORD


@lru_cache(maxsize=256)
def _cuts(dims: int, scale: Fraction, bits: int) -> tuple[int, ...]:
    """⌊2^bits P(offset <= j)⌋ for j = 0, ..., dims-1, exactly.

    Enclosed in fixed point. The precision is doubled until both ends have the same floors; that ends, for at a
    transcendental q the probability is no fraction.
    """
    precision = bits + 64
    while True:
        cuts, above = _cuts_around(dims, scale, bits, precision)
        if cuts == above:
            return cuts
        precision *= 2


def _cuts_around(dims: int, scale: Fraction, bits: int, precision: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The cuts from below and from above, from weights B(dims, j) q^j with so many bits behind the point.

    No cut reaches 2^bits, since every offset is possible: that is known without the bits of the last weights.
    """
    low, high = (math.floor(end * 2**precision) for end in _around(scale, 10 + precision // 3))
    error, least_power, most_power = off_by(dims), 2**precision, 2**precision
    least, most = [], []
    for share in shares(dims, precision):
        least.append(share * least_power)
        most.append((share + error) * most_power)
        least_power = least_power * low >> precision
        most_power = (most_power * (high + 1) >> precision) + 1
    at_least, at_most = list(accumulate(least)), list(accumulate(most))
    sums = list(zip(at_least, at_most, strict=True))[:-1]
    below = tuple((s << bits) // (s + at_most[-1] - t) for s, t in sums)
    above = tuple(min((t << bits) // (t + at_least[-1] - s), 2**bits - 1) for s, t in sums)
    return below, above


def _around(scale: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Fractions below and above exp(-1/scale)."""
    return exp_around(1 / scale, digits)


@lru_cache(maxsize=32)
def shares(dims: int, precision: int) -> tuple[int, ...]:
    """B(dims, j)/(2^dims dims!) for j = 0, ..., dims in units of 2^-precision, from below by less than `off_by(dims)`.

    By the recurrence of the Eulerian numbers, each row divided by 2 · size and cut off. A cut off number has
    `precision` bits whatever the size, and those far from the middle are 0 and not computed: about
    dims^1.5 √precision steps in all, where the numbers themselves would have dims · log(dims) bits.
    """
    first, row = 0, [2**precision]
    for size in range(1, dims + 1):
        pairs = zip([*row, 0], [0, *row], strict=True)
        row = [((2 * j + 1) * a + (2 * (size - j) + 1) * b) // (2 * size) for j, (a, b) in enumerate(pairs, first)]
        there = [i for i, share in enumerate(row) if share]
        if not there:
            return (0,) * (dims + 1)
        first, row = first + there[0], row[there[0] : there[-1] + 1]
    return (*(0,) * first, *row, *(0,) * (dims + 1 - first - len(row)))


def off_by(dims: int) -> int:
    """More than what `shares` are short of: e(D) < 1 + (1 + 1/D) e(D-1) and e(0) = 0, so e(D) < (D+1) ln(D+1)."""
    return (dims + 1) * (dims + 1).bit_length()


def _resume(source: NoiseSource, parts: AnyArray, scale: Fraction) -> AnyArray:
    """The same draws as Python integers. A saturated one goes on: a geometric draw has no memory."""
    whole = parts.astype(object)
    for place in zip(*np.nonzero(parts == SATURATED), strict=True):
        more = SATURATED
        while more == SATURATED:
            more = int(source.geometric(1, scale)[0])
            whole[place] += more
    return whole
