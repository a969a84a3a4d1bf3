"""Integer noise with P(z) ∝ exp(-z²/2σ²), the discrete Gaussian, drawn exactly and in bulk.

With t the least integer for which t² >= 2σ², a proposal is a sign, u uniform in 0, ..., t-1, and v = 0, 1, ... with
P(v) ∝ e^-v. It stands for z = ±(u + tv), where -0 is dropped, and is accepted with probability exp(-x),

    x = z²/2σ² - v  >=  v² - v  >=  0.

Every integer z comes from one proposal, with weight e^-v · exp(-x) = exp(-z²/2σ²). The proposal is that of Canonne,
Kamath and Steinke, The Discrete Gaussian for Differential Privacy (2020), without its constant.

Nothing is rounded. A 64-bit word decides where it lies clear of an enclosure of 2^64 exp(-x) in floats; otherwise,
about once in 2^31 proposals, the exact path decides by the same word, and by more bits where even the exact floor is
met. So the draws depend on the words alone, on every processor. Not promised: the time a call takes, which depends on
the draws. Proof: proofs/gaussian.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpkmeans._typing import AnyArray, FloatArray, IntArray
from dpkmeans.privacy.exponential import Uniform, exp_around, floor_of_exp

MAX_VARIANCE = 2**104
"""Proposals decided by words then stay below 45 t + t < 2^59."""
BATCH = 2**15
"""Proposals at a time: the arrays of a batch stay in the cache."""
SLACK = 2.0**-32
"""Relative half-width of the enclosure. The floats in it are off by less than 2^-42."""
PIECES = 256
"""Steps of the table of exp between two whole numbers."""
FAR = 2**62
"""Beyond, noise is kept in Python integers until it is added."""

Words = Callable[[int], AnyArray]
"""Uniform 64-bit words, shape (size,), uint64."""


def add_gaussian(values: IntArray, variance: Fraction, words: Words) -> IntArray:
    """`values` plus independent draws with σ² = `variance`, any shape; saturates at 64 bits."""
    noise = gaussian_noise(words, values.size, variance).reshape(values.shape)
    if noise.dtype == object or (values.size and max(int(values.max()), -int(values.min())) > FAR):
        whole = values.astype(object) + noise.astype(object)
        saturated: IntArray = np.clip(whole, -(2**63), 2**63 - 1).astype(np.int64)
        return saturated
    noisy: IntArray = values + noise
    return noisy


def gaussian_noise(words: Words, size: int, variance: Fraction, slack: float = SLACK) -> AnyArray:
    """Independent draws, shape (size,): int64, or Python integers where one does not fit."""
    if not 0 < variance <= MAX_VARIANCE:
        raise ValueError("The variance must be positive and at most 2^104.")
    found: list[AnyArray] = [np.zeros(0, dtype=np.int64)]
    missing = size
    while missing > 0:
        drawn = _accepted(words, min(2 * missing + 16, BATCH), variance, slack)[:missing]
        found.append(drawn)
        missing -= drawn.size
    return np.concatenate(found)


def _accepted(words: Words, n: int, variance: Fraction, slack: float) -> AnyArray:
    """The accepted ones of `n` proposals, in their order."""
    step = step_of(variance)
    for_v, for_u, for_x = words(3 * n).reshape(3, n)
    cuts = _cuts()
    place = np.searchsorted(cuts, for_v, side="right")
    v = cuts.size - place
    runs = 2**63 // step * step  # words of the last, incomplete run are dropped
    size = ((for_u >> np.uint64(1)) % np.uint64(step)).astype(np.int64) + step * v
    chance = 2.0**64 * chances(size, v, variance)
    word = for_x.astype(np.float64)
    accepted = word < chance * (1 - slack) - 2
    is_open = (word <= chance * (1 + slack) + 2) & ~accepted | (for_v == cuts[place - 1])
    accepted &= ((for_u >> np.uint64(1)) < np.uint64(runs)) & ((size > 0) | (for_u & np.uint64(1) == 0))
    drawn: AnyArray = np.where(for_u & np.uint64(1) == 0, size, -size)
    for i in np.flatnonzero(is_open):
        exact = settle((int(for_v[i]), int(for_u[i]), int(for_x[i])), variance, lambda: int(words(1)[0]))
        accepted[i] = exact is not None
        if exact is not None:
            drawn = drawn.astype(object) if abs(exact) >= FAR else drawn
            drawn[i] = exact
    return drawn[accepted]


def chances(size: IntArray, v: IntArray, variance: Fraction) -> FloatArray:
    """exp(-x) for proposals ±size, off by less than 2^-42 of it where x < 50; beyond, both are below 2^-70."""
    sized = size.astype(np.float64)
    return exp_of(sized * sized * float(1 / (2 * variance)) - v)


def settle(proposal: tuple[int, int, int], variance: Fraction, more: Callable[[], int]) -> int | None:
    """What a proposal of three 64-bit words stands for, or None where it is rejected: the exact path, in integers."""
    for_v, for_u, for_x = proposal
    step, v = step_of(variance), 0
    if for_u >> 1 >= 2**63 // step * step:
        return None
    uniform = Uniform(for_v, more)
    while uniform.below_exp(Fraction(v + 1)):
        v += 1
    size = (for_u >> 1) % step + step * v
    if for_u & 1 and size == 0:
        return None
    if not Uniform(for_x, more).below_exp(size * size / (2 * variance) - v):
        return None
    return -size if for_u & 1 else size


@lru_cache(maxsize=256)
def step_of(variance: Fraction) -> int:
    """The least integer t with t² >= 2 · variance."""
    return math.isqrt(math.ceil(2 * variance) - 1) + 1


@lru_cache(maxsize=1)
def _cuts() -> AnyArray:
    """⌊2^64 e^-v⌋ for v = 45, ..., 1, shape (45,), uint64: from 0 up. A word has the v of the cuts above it."""
    return np.array([floor_of_exp(Fraction(v), 64) for v in range(45, 0, -1)], dtype=np.uint64)


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
