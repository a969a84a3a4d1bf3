"""Integer noise with P(z) ∝ exp(-z²/2σ²), the discrete Gaussian, drawn exactly and in bulk.

With t the least integer for which t² >= 2σ², a proposal (see `proposals`) stands for z = ±w, w = u + tv, and has

    x = z²/2σ² - v  >=  v² - v  >=  0.

Every integer z comes from one proposal, with weight e^-v · exp(-x) = exp(-z²/2σ²). The proposal is that of Canonne,
Kamath and Steinke, The Discrete Gaussian for Differential Privacy (2020), without its constant. Proof:
proofs/gaussian.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from dpkmeans._typing import AnyArray, FloatArray, IntArray
from dpkmeans.privacy.exponential import exp_of
from dpkmeans.privacy.proposals import SLACK, Proposals, Words, added

MAX_VARIANCE = 2**104
"""Then t < 2^53, and floats hold it."""


def add_gaussian(values: IntArray, variance: Fraction, words: Words) -> IntArray:
    """`values` plus independent draws with σ² = `variance`, any shape; saturates at 64 bits."""
    return added(values, gaussian_noise(words, values.size, variance).reshape(values.shape))


def gaussian_noise(words: Words, size: int, variance: Fraction, slack: float = SLACK) -> AnyArray:
    """Independent draws, shape (size,): int64, or Python integers where one does not fit."""
    return proposals_of(variance).noise(words, size, slack)


@lru_cache(maxsize=256)
def proposals_of(variance: Fraction) -> Proposals:
    """How to draw with σ² = `variance`."""
    if not 0 < variance <= MAX_VARIANCE:
        raise ValueError("The variance must be positive and at most 2^104.")
    return Proposals(
        step_of(variance), lambda size, v: chances(size, v, variance), lambda size, v: size * size / (2 * variance) - v
    )


def chances(size: IntArray, v: IntArray, variance: Fraction) -> FloatArray:
    """exp(-x) for proposals ±size, off by less than 2^-42 of it where x < 50; beyond, both are below 2^-70."""
    sized = size.astype(float)
    return exp_of(sized * sized * float(1 / (2 * variance)) - v)


def settle(proposal: tuple[int, int, int], variance: Fraction, more: Callable[[], int]) -> int | None:
    """What a proposal of three 64-bit words stands for, or None where it is rejected: the exact path, in integers."""
    return proposals_of(variance).settle(proposal, more)


def step_of(variance: Fraction) -> int:
    """The least integer t with t² >= 2 · variance."""
    return math.isqrt(math.ceil(2 * variance) - 1) + 1
