"""Integer noise with P(z) ∝ exp(-|z|/b), drawn exactly and in bulk.

Write the scale as a fraction, b = t/s. A proposal (see `proposals`) with u and v is accepted with probability
exp(-u/t); then w = u + tv has weight exp(-u/t) e^-v = exp(-w/t), so P(w >= i) = exp(-i/t), and ⌊w/s⌋ is at least j with
probability exp(-js/t) = exp(-j/b). With a sign, where -0 is dropped, that is the noise. At least e^-1 of all proposals
are accepted, but for the sign. After Canonne, Kamath and Steinke (2020), algorithm 2. Proof: proofs/laplace.md.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from dpkmeans._typing import AnyArray, IntArray
from dpkmeans.privacy.exponential import exp_of
from dpkmeans.privacy.proposals import MAX_STEP, SLACK, Proposals, Words, added


def add_laplace(values: IntArray, scale: Fraction, words: Words) -> IntArray:
    """`values` plus independent draws of this scale, any shape; saturates at 64 bits."""
    return added(values, laplace_noise(words, values.size, scale).reshape(values.shape))


def laplace_noise(words: Words, size: int, scale: Fraction, slack: float = SLACK) -> AnyArray:
    """Independent draws, shape (size,): int64, or Python integers where one does not fit."""
    return proposals_of(scale).noise(words, size, slack)


@lru_cache(maxsize=256)
def proposals_of(scale: Fraction) -> Proposals:
    """How to draw with this scale, the exact value of a float64."""
    if scale <= 0 or Fraction(float(scale)) != scale:
        raise ValueError("A noise scale must be a float64 exactly; pass it through float_above first.")
    step = scale.numerator
    if step > MAX_STEP:
        raise ValueError("A noise scale must be at most 2^55.")
    return Proposals(
        step,
        lambda whole, v: exp_of((whole - step * v) / float(step)),
        lambda whole, v: Fraction(whole - step * v, step),
        scale.denominator,
    )
