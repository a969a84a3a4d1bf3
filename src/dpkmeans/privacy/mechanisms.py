"""The only code that draws privacy noise. One call checks, records the spend and draws, in this order.

Each is a frozen value with a budget. Exact answers arrive wrapped, together with the sensitivity that their question
declares; they go in as 64-bit integers and come out as released integers; dividing and clipping come after. `scale`
below is the change that one record can make over epsilon, rounded up to a float64, whose exact value the sampler uses;
the variance of Gaussian noise is a fraction, and is not rounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from dpkmeans._typing import IntArray
from dpkmeans.core.epsilon import NANO, Epsilon
from dpkmeans.core.exact import Exact, reveal
from dpkmeans.core.rho import Rho
from dpkmeans.errors import BudgetError, DataError, DataTypeError
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.linf_laplace import cube_noise
from dpkmeans.privacy.randomness import NoiseSource, Randomness, float_above, next_float

MAX_VALUE = 2**62 - 1
MAX_SCALE = 2**52


@dataclass(frozen=True)
class Laplace:
    """Noise with P(z) ∝ exp(-|z|/scale) on each entry, scale = L1 sensitivity/epsilon; any shape.

    Formal guarantee
    ----------------
    epsilon-DP for add/remove-one neighbours, where the answer's question declares its L1 sensitivity rightly.
    Proof: proofs/laplace.md.
    """

    epsilon: Epsilon

    def __post_init__(self) -> None:
        _check_epsilon(self.epsilon)

    def release(self, exact: Exact[IntArray], *, ledger: Ledger, rng: Randomness, label: str) -> IntArray:
        """The noisy array, shape of the exact one."""
        values = _open(exact, label)
        scale = _scale_for(self.epsilon, exact.sensitivity.l1, "the L1 norm", rng, label)
        ledger.spend(self.epsilon, label)
        return rng.noise.laplace(values, scale)


@dataclass(frozen=True)
class LInfLaplace:
    """Noise with P(z) ∝ exp(-‖z‖∞/scale) on each row, scale = largest change/epsilon; shape (cells, entries).

    Serves counts and sums together without a split. An entry's deviation is √((D+1)(D+2)/3) · scale, against
    √2 · D · scale for Laplace.

    Formal guarantee
    ----------------
    epsilon-DP for add/remove-one neighbours, where the answer's question rightly declares that a record changes one
    row, and by how much at most in each entry (max norm). Proof: proofs/cube.md.
    """

    epsilon: Epsilon

    def __post_init__(self) -> None:
        _check_epsilon(self.epsilon)

    def release(self, exact: Exact[IntArray], *, ledger: Ledger, rng: Randomness, label: str) -> IntArray:
        """The noisy rows, shape of the exact ones."""
        values = _open(exact, label, ndim=2)
        largest = exact.sensitivity.linf if exact.sensitivity.one_row else None
        scale = _scale_for(self.epsilon, largest, "the max norm of one row", rng, label)
        ledger.spend(self.epsilon, label)
        noise = cube_noise(rng.noise, values.shape[0], values.shape[1], scale)
        released: IntArray = np.clip(values + noise, -(2**63), 2**63 - 1).astype(np.int64)
        return released


@dataclass(frozen=True)
class Gaussian:
    """Noise with P(z) ∝ exp(-z²/2σ²) on each entry, σ² = squared L2 sensitivity/(2 rho) as a fraction; any shape.

    Formal guarantee
    ----------------
    rho-zCDP for add/remove-one neighbours, where the answer's question rightly declares the square of its L2
    sensitivity, or more. Proof: proofs/gaussian.md.
    """

    rho: Rho

    def __post_init__(self) -> None:
        if not isinstance(self.rho, Rho) or self.rho.femto < 1:
            raise BudgetError(f"Gaussian noise needs a positive Rho; got {self.rho!r}. Write, say, Rho.of(0.02).")

    def release(self, exact: Exact[IntArray], *, ledger: Ledger, rng: Randomness, label: str) -> IntArray:
        """The noisy array, shape of the exact one."""
        values = _open(exact, label)
        variance = _variance_for(self.rho, exact.sensitivity.l2_squared, label)
        ledger.spend_rho(self.rho, label)
        return rng.noise.gaussian(values, variance)


@dataclass(frozen=True)
class PermuteAndFlip:
    """The index of a high score, from integers of shape (candidates,): the permute-and-flip mechanism.

    A candidate stays when a geometric draw of scale gap/epsilon reaches its distance from the best score, where `gap`
    is how far one record can move two scores apart; one of those that stay is chosen evenly. It never does worse than
    the exponential mechanism. OpenDP's `make_noisy_max` has the same law; here geometric draws serve, so that the
    seeded double takes the same steps.

    Formal guarantee
    ----------------
    epsilon-DP for add/remove-one neighbours, where the scores' question declares `gap` rightly; it is at most twice
    what a single score moves. Proof: proofs/choice.md.
    """

    epsilon: Epsilon

    def __post_init__(self) -> None:
        _check_epsilon(self.epsilon)

    def release(self, exact: Exact[IntArray], *, ledger: Ledger, rng: Randomness, label: str) -> int:
        """The index of the chosen candidate."""
        scores = _open(exact, label, ndim=1)
        scale = _scale_for(self.epsilon, exact.sensitivity.gap, "the gap between two scores", rng, label)
        ledger.spend(self.epsilon, label)
        stays = np.flatnonzero(rng.noise.geometric(scores.size, scale) >= scores.max() - scores)
        return int(stays[rng.noise.below(stays.size)])


@dataclass(frozen=True)
class PrivTreeSplits:
    """Which nodes of a binary tree to split: PrivTree's biased counts with integer noise.

    A node of depth h with c records splits when max(c - h·bias, -bias) + noise > 0, with noise of scale λ = 3/epsilon
    and bias ⌈λ ln 2⌉. The noise does not grow with the depth, because the bias makes the losses along a path fall
    geometrically. Source: Zhang, Xiao and Xie, PrivTree (2016); proved here for the discrete noise that is drawn.

    Formal guarantee
    ----------------
    epsilon-DP for add/remove-one neighbours, where the counts' question rightly declares that one cell changes, by 1:
    then the counts of one root-to-leaf path change by 1. Proof: proofs/tree.md.
    """

    epsilon: Epsilon
    max_leaves: int

    LOSSES: ClassVar[int] = 3  # along a path, in units of 1/λ
    LN2_ABOVE: ClassVar[Fraction] = Fraction(6931471805599454, 10**16)

    def __post_init__(self) -> None:
        _check_epsilon(self.epsilon)

    def release(
        self, exact: Exact[IntArray], *, ledger: Ledger, rng: Randomness, label: str
    ) -> tuple[IntArray, IntArray]:
        """Depth and prefix of every leaf, each (leaves,), from the counts of the 2^depth smallest cells, (cells, 1)."""
        cells = _open(exact, label, ndim=2)
        if exact.sensitivity.l1 != 1:
            raise BudgetError(
                f"{label!r} must declare that one record changes one count by 1. Ask for counts of cells."
            )
        if cells.shape[1] != 1:
            raise DataError(f"{label!r} must be one column of counts; got {cells.shape[1]} columns.")
        scale = _scale_for(self.epsilon, self.LOSSES, "the losses along a path", rng, label)
        bias = math.ceil(scale * self.LN2_ABOVE)
        levels = [cells[:, 0]]
        while levels[0].size > 1:
            levels.insert(0, levels[0].reshape(-1, 2).sum(axis=1))
        ledger.spend(self.epsilon, label)
        depths, prefixes, n_leaves = [], [], 1
        tested: IntArray = np.zeros(1, dtype=np.int64)
        for depth, counts in enumerate(levels[:-1]):
            biased = np.maximum(counts[tested] - depth * bias, -bias)
            splits = rng.noise.laplace(biased, scale) > 0
            splits &= np.cumsum(splits) <= self.max_leaves - n_leaves
            n_leaves += int(splits.sum())
            depths.append(np.full(int((~splits).sum()), depth))
            prefixes.append(tested[~splits])
            tested = (2 * tested[splits, None] + np.array([0, 1])).ravel()
            if tested.size == 0:
                break
        depths.append(np.full(tested.size, len(levels) - 1))
        prefixes.append(tested)
        return np.concatenate(depths).astype(np.int64), np.concatenate(prefixes).astype(np.int64)


def _check_epsilon(epsilon: Epsilon) -> None:
    """Refuse what is no budget."""
    if not isinstance(epsilon, Epsilon) or epsilon.nano < 1:
        raise BudgetError(f"A mechanism needs a positive Epsilon; got {epsilon!r}. Write, say, Epsilon.of(0.5).")


def _scale_for(epsilon: Epsilon, change: int | None, norm: str, rng: Randomness, label: str) -> Fraction:
    """The scale for a declared change. Refuses what would not be the noise that the mechanism promises."""
    if change is None or change < 1:
        raise BudgetError(
            f"{label!r} must declare a sensitivity of at least 1 in {norm}; got {change}. "
            "Take it from a query that declares it."
        )
    if change * NANO > MAX_SCALE * epsilon.nano:
        raise BudgetError(
            f"epsilon={epsilon} is too small for {label!r} with a sensitivity of {change}: the noise would not fit "
            "64 bits. Use a larger epsilon, a coarser grid, or fewer features."
        )
    return _scale(epsilon, change, rng.noise)


def _variance_for(rho: Rho, change_squared: int | None, label: str) -> Fraction:
    """The σ² for a declared square of the L2 sensitivity, not rounded. Refuses what would not fit 64 bits."""
    if change_squared is None or change_squared < 1:
        raise BudgetError(
            f"{label!r} must declare a sensitivity of at least 1 in the L2 norm; got a square of {change_squared}. "
            "Take it from a query that declares it."
        )
    variance = change_squared / (2 * rho.fraction)
    if variance > MAX_SCALE**2:
        raise BudgetError(
            f"rho={rho} is too small for {label!r} with a squared sensitivity of {change_squared}: the noise would not "
            "fit 64 bits. Use a larger rho, or a coarser grid."
        )
    return variance


def _open(exact: Exact[IntArray], label: str, ndim: int | None = None) -> IntArray:
    """The exact values, found fit for noise before anything is spent. No message tells what they are."""
    if not isinstance(exact, Exact):
        raise DataTypeError(f"{label!r} must be an Exact value from an engine; got {type(exact).__name__}.")
    values = reveal(exact, why="a mechanism adds noise to it")
    if not isinstance(values, np.ndarray) or values.dtype != np.int64:
        kind = getattr(values, "dtype", type(values).__name__)
        raise DataTypeError(f"{label!r} must be an array of int64; got {kind}. Put the answer on an integer grid.")
    if values.size == 0 or (ndim is not None and values.ndim != ndim):
        wanted = "at least one entry" if ndim is None else f"{ndim} dimensions and at least one entry"
        raise DataError(f"{label!r} must have {wanted}; got shape {values.shape}.")
    if values.max() > MAX_VALUE or values.min() < -MAX_VALUE:
        raise DataError(f"{label!r} has entries of 2^62 or more. Use a coarser grid, or narrower bounds.")
    return values


@lru_cache(maxsize=8)  # choices that follow each other mostly have the same scale
def _scale(epsilon: Epsilon, change: int, source: NoiseSource) -> Fraction:
    """The smallest float64 scale for which the source's own account of its loss stays within epsilon."""
    scale = float_above(change / epsilon.fraction)
    while source.loss(change, scale) > epsilon.fraction:
        scale = next_float(scale)
    assert source.loss(change, scale) <= epsilon.fraction
    return scale
