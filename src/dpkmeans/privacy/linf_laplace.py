"""Integer noise with P(z) ∝ exp(-‖z‖∞/scale), drawn exactly. Only `mechanisms.LInfLaplace` calls this.

With q = exp(-1/scale), the norm m has weight N(m) q^m, where N(m) integer points of D entries have norm m.
Since

    Σ_m N(m) q^m  =  Σ_j B(D, j) q^j / (1 - q)^D,        B: Eulerian numbers of type B,

m is an offset j, drawn with weight B(D, j) q^j, plus D geometric draws. The point is then uniform on its
shell. Nothing is rounded: a choice that a word of random bits leaves open is settled by more bits.
Proof: proofs/cube.md.
"""

from __future__ import annotations

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

    P(offset <= j) falls as q grows, so its values at two fractions around q enclose it. Their digits are
    doubled until both have the same floor; that ends, for at a transcendental q the probability is no fraction.
    """
    digits = 40 + bits
    while True:
        low, high = _around(scale, digits)
        cuts = _cuts_at(high, dims, bits)
        if cuts == _cuts_at(low, dims, bits):
            return cuts
        digits *= 2


def _cuts_at(q: Fraction, dims: int, bits: int) -> tuple[int, ...]:
    top, bottom = q.numerator, q.denominator
    weights = [count * top**j * bottom ** (dims - j) for j, count in enumerate(eulerian(dims))]
    *below, total = accumulate(weights)
    return tuple((weight << bits) // total for weight in below)


def _around(scale: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Fractions below and above exp(-1/scale)."""
    return exp_around(1 / scale, digits)


@lru_cache(maxsize=256)
def eulerian(dims: int) -> tuple[int, ...]:
    """The Eulerian numbers of type B, B(dims, 0), ..., B(dims, dims); their sum is 2^dims dims!."""
    row = [1]
    for size in range(1, dims + 1):
        keep, move = [*row, 0], [0, *row]
        row = [(2 * j + 1) * keep[j] + (2 * (size - j) + 1) * move[j] for j in range(size + 1)]
    return tuple(row)


def _resume(source: NoiseSource, parts: AnyArray, scale: Fraction) -> AnyArray:
    """The same draws as Python integers. A saturated one goes on: a geometric draw has no memory."""
    whole = parts.astype(object)
    for place in zip(*np.nonzero(parts == SATURATED), strict=True):
        more = SATURATED
        while more == SATURATED:
            more = int(source.geometric(1, scale)[0])
            whole[place] += more
    return whole
