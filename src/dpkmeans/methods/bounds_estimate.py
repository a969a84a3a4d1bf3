"""A private estimate of the box, for those who have no public one: one noisy histogram. Proof: proofs/bounds.md."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from dpkmeans._typing import AnyArray, FloatArray, IntArray
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import Exact
from dpkmeans.core.query import Sensitivity
from dpkmeans.errors import BoundsError
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Laplace
from dpkmeans.privacy.randomness import Randomness

MIN_EXPONENT, MAX_EXPONENT = -32, 64  # powers of two; smaller values count as 0, larger ones as the largest
EXPONENTS = MAX_EXPONENT - MIN_EXPONENT + 1
CELLS = 2 * EXPONENTS + 1
FALSE_CELL = 1e-3  # chance that some empty cell widens the box
TO_ZERO = 4.0  # a positive feature whose lower edge is below upper/4 starts at 0
LABEL = "bounds"


def cells_of(values: AnyArray) -> IntArray:
    """The cell of each value, same shape: 0 … CELLS - 1 in the order of the number line, the middle one for 0.

    A positive value in [2^(e-1), 2^e) belongs to exponent e. Reads each value by itself alone.
    """
    exponent = np.frexp(values)[1].astype(np.int64)
    exponent = np.where(np.isinf(values), MAX_EXPONENT, exponent)
    rank = np.clip(exponent, MIN_EXPONENT - 1, MAX_EXPONENT) - (MIN_EXPONENT - 1)
    rank = np.where(values == 0, 0, rank)
    cells: IntArray = EXPONENTS + np.where(values < 0, -rank, rank)
    return cells


def edges() -> FloatArray:
    """Borders of the cells, shape (CELLS + 1,)."""
    powers = np.ldexp(1.0, np.arange(MIN_EXPONENT - 1, MAX_EXPONENT + 1))
    return np.concatenate([-powers[::-1], powers])


def histogram(chunks: Iterable[AnyArray], n_features: int) -> Exact[IntArray]:
    """Records per feature and cell, shape (d, CELLS). A record adds 1 in one cell of each feature.

    A missing value (NaN) adds nothing: there is no box yet whose middle could take its place.
    """
    table: IntArray = np.zeros((n_features, CELLS), dtype=np.int64)
    for chunk in chunks:
        with np.errstate(over="ignore"):  # a long double may be infinite as a float64
            values = chunk.astype(np.float64)
        for j, column in enumerate(values.T):
            table[j] += np.bincount(cells_of(column[~np.isnan(column)]), minlength=CELLS)
    return Exact(table, histogram_sensitivity(n_features))


def histogram_sensitivity(n_features: int) -> Sensitivity:
    """One record adds 1 in at most one cell of each feature, which is a row."""
    return Sensitivity(n_features, n_features, 1, 1, (1,) * CELLS, one_row=n_features == 1)


def estimate_bounds(
    chunks: Iterable[AnyArray],
    n_features: int,
    epsilon: Epsilon,
    *,
    ledger: Ledger,
    rng: Randomness,
    names: Sequence[str] | None = None,
) -> Bounds:
    """A box around most of the records in `chunks`, shape (n, d) each; cells with few records are left outside.

    Each side is a power of two or zero, so far from zero the box may be much too wide; a public box is better.

    Formal guarantee
    ----------------
    epsilon-DP for add/remove-one neighbours. Proof: proofs/bounds.md.
    """
    exact = histogram(chunks, n_features)
    noisy = Laplace(epsilon).release(exact, ledger=ledger, rng=rng, label=LABEL)
    return box_of(noisy, epsilon, names)


def box_of(noisy: IntArray, epsilon: Epsilon, names: Sequence[str] | None = None) -> Bounds:
    """The box from the noisy histogram, shape (d, CELLS). Post-processing."""
    d = len(noisy)
    threshold = d / float(epsilon) * math.log(d * CELLS / FALSE_CELL)
    borders = edges()
    lower, upper = [], []
    for j, counts in enumerate(noisy):
        held = np.flatnonzero(counts > threshold)
        if len(held) == 0:
            raise BoundsError(
                f"the private estimate of the bounds found nothing for feature {names[j] if names else j}: "
                "there are too few records for its share of epsilon. The share is spent; a durable ledger keeps the "
                "whole epsilon of the fit as spent.",
                hint="Give {bounds}, or more for {bounds_epsilon}.",
            )
        low, high = float(borders[held[0]]), float(borders[held[-1] + 1])
        if 0 < low < high / TO_ZERO:
            low = 0.0
        if high < 0 and -high < -low / TO_ZERO:
            high = 0.0
        lower.append(low)
        upper.append(high)
    return Bounds(tuple(lower), tuple(upper))
