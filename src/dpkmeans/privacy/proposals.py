"""Integer noise on both sides of 0 by proposals of three 64-bit words each, drawn exactly and in bulk.

A proposal is a sign, u uniform in 0, ..., t-1, and v = 0, 1, ... with P(v) ∝ e^-v. It is accepted with probability
exp(-x), where x >= 0 is a fraction that depends on w = u + tv and v, and stands for the integer ±size(w), where -0 is
dropped. The discrete Gaussian and integer Laplace noise are such laws.

Nothing is rounded. A 64-bit word decides where it lies clear of an enclosure of 2^64 exp(-x) in floats; otherwise,
about once in 2^31 proposals, the exact path decides by the same word, and by more bits where even the exact floor is
met. So the draws depend on the words alone, on every processor. Not promised: the time a call takes, which depends on
the draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpkmeans._typing import AnyArray, FloatArray, IntArray
from dpkmeans.privacy.exponential import Uniform, floor_of_exp

BATCH = 2**15
"""Proposals at a time: the arrays of a batch stay in the cache."""
SLACK = 2.0**-32
"""Relative half-width of the enclosure. The floats in it are off by less than 2^-42."""
FAR = 2**62
"""Beyond, noise is kept in Python integers until it is added."""
MAX_STEP = 2**55
"""Proposals decided by words then stay below 45 t + t < 2^61, and sums with values up to `FAR` fit 64 bits."""

Words = Callable[[int], AnyArray]
"""Uniform 64-bit words, shape (size,), uint64."""


@dataclass(frozen=True)
class Proposals:
    """A law: t, the floats exp(-x) of many (w, v), off by less than 2^-42 of them where x < 50, and x of one (w, v).

    Noise is ±⌊w/divisor⌋.
    """

    step: int
    chances: Callable[[IntArray, IntArray], FloatArray]
    exponent: Callable[[int, int], Fraction]
    divisor: int = 1

    def noise(self, words: Words, size: int, slack: float = SLACK) -> AnyArray:
        """Independent draws, shape (size,): int64, or Python integers where one does not fit."""
        found: list[AnyArray] = [np.zeros(0, dtype=np.int64)]
        missing = size
        while missing > 0:
            drawn = self._accepted(words, min(2 * missing + 16, BATCH), slack)[:missing]
            found.append(drawn)
            missing -= drawn.size
        return np.concatenate(found)

    def _accepted(self, words: Words, n: int, slack: float) -> AnyArray:
        """The accepted ones of `n` proposals, in their order."""
        for_v, for_u, for_x = words(3 * n).reshape(3, n)
        cuts = cuts_of_v()
        place = np.searchsorted(cuts, for_v, side="right")
        v = cuts.size - place
        runs = 2**63 // self.step * self.step  # words of the last, incomplete run are dropped
        whole = ((for_u >> np.uint64(1)) % np.uint64(self.step)).astype(np.int64) + self.step * v
        chance = 2.0**64 * self.chances(whole, v)
        word = for_x.astype(np.float64)
        accepted = word < chance * (1 - slack) - 2
        is_open = (word <= chance * (1 + slack) + 2) & ~accepted | (for_v == cuts[place - 1])
        size = whole // min(self.divisor, 2**63 - 1) if self.divisor > 1 else whole
        accepted &= ((for_u >> np.uint64(1)) < np.uint64(runs)) & ((size > 0) | (for_u & np.uint64(1) == 0))
        drawn: AnyArray = np.where(for_u & np.uint64(1) == 0, size, -size)
        for i in np.flatnonzero(is_open):
            exact = self.settle((int(for_v[i]), int(for_u[i]), int(for_x[i])), lambda: int(words(1)[0]))
            accepted[i] = exact is not None
            if exact is not None:
                drawn = drawn.astype(object) if abs(exact) >= FAR else drawn
                drawn[i] = exact
        return drawn[accepted]

    def settle(self, proposal: tuple[int, int, int], more: Callable[[], int]) -> int | None:
        """What a proposal of three words stands for, or None where it is rejected: the exact path, in integers."""
        for_v, for_u, for_x = proposal
        if for_u >> 1 >= 2**63 // self.step * self.step:
            return None
        uniform, v = Uniform(for_v, more), 0
        while uniform.below_exp(Fraction(v + 1)):
            v += 1
        whole = (for_u >> 1) % self.step + self.step * v
        size = whole // self.divisor
        if for_u & 1 and size == 0:
            return None
        if not Uniform(for_x, more).below_exp(self.exponent(whole, v)):
            return None
        return -size if for_u & 1 else size


def added(values: IntArray, noise: AnyArray) -> IntArray:
    """`values` plus noise of their shape; saturates at 64 bits."""
    if noise.dtype == object or (values.size and max(int(values.max()), -int(values.min())) > FAR):
        whole = values.astype(object) + noise.astype(object)
        saturated: IntArray = np.clip(whole, -(2**63), 2**63 - 1).astype(np.int64)
        return saturated
    noisy: IntArray = values + noise
    return noisy


@lru_cache(maxsize=1)
def cuts_of_v() -> AnyArray:
    """⌊2^64 e^-v⌋ for v = 45, ..., 1, shape (45,), uint64: from 0 up. A word has the v of the cuts above it."""
    return np.array([floor_of_exp(Fraction(v), 64) for v in range(45, 0, -1)], dtype=np.uint64)
