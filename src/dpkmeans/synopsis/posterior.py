"""Weights as posterior means: what a noisy count says about a cell when many cells may be empty. Post-processing.

Empirical Bayes: a cell is empty with a probability that is fitted to all noisy counts together, and otherwise holds n
records with a density in proportion to 1/(n + s), which prefers no scale; s is the deviation of the noise, whose law is
known. Where no count stands out, all cells are as good as empty.
"""

from __future__ import annotations

import math

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.kernels.jit import compiled_or
from dpkmeans.synopsis import settings

MOST_EXPONENT, HUGE, DOWN = 500.0, 1e150, 300.0
"""exp(-z) underflows from z = 745 on: no more than the first is taken at once, and the last where sums grow huge."""


def _noise_density_plain(z: FloatArray, entries: int) -> FloatArray:
    away = np.abs(z)
    left = np.maximum(away - MOST_EXPONENT, 0.0)
    term, total = np.array([math.exp(one) for one in (left - away).tolist()]), np.zeros(len(z))
    for j in range(entries):
        total += term
        term = term * away / (j + 1)
        for i in np.flatnonzero((term > HUGE) & (left > 0.0)):
            down = math.exp(-min(left[i], DOWN))
            term[i], total[i], left[i] = term[i] * down, total[i] * down, max(left[i] - DOWN, 0.0)
    rest = np.array([math.exp(-one) for one in left.tolist()])
    return np.asarray(total * rest / (2 * entries))


@compiled_or(_noise_density_plain, lambda z, entries: 8 * len(z) * (10 + entries))
def noise_density(z: FloatArray, entries: int) -> FloatArray:
    """Of one of D `entries` with the joint density exp(-‖z‖∞), up to a factor: Γ(D, |z|)/(2 Γ(D + 1)); (m,) -> (m,).

    For D = 1 this is Laplace's law. The exponential is the C library's: that of NumPy differs between processors in the
    last place.
    """
    density = np.empty(len(z))
    for i in range(len(z)):
        away = abs(z[i])
        left = max(away - MOST_EXPONENT, 0.0)
        term, total = math.exp(left - away), 0.0
        for j in range(entries):
            total += term
            term = term * away / (j + 1)
            if term > HUGE and left > 0.0:
                down = math.exp(-min(left, DOWN))
                term, total, left = term * down, total * down, max(left - DOWN, 0.0)
        density[i] = total * math.exp(-left) / (2 * entries)
    return density


def _occupied_plain(y: FloatArray, steps: FloatArray, law: FloatArray, deviation: float, most: float) -> FloatArray:
    sums = np.zeros((2, len(y)))
    for step, weight in zip(steps, law, strict=True):
        n = y - step
        within = (n > 0.0) & (n < most)
        prior = weight / (n[within] + deviation)
        sums[0, within] += prior
        sums[1, within] += prior * n[within]
    return sums


@compiled_or(_occupied_plain, lambda y, steps, *_: 16 * len(y) * len(steps))
def _occupied(y: FloatArray, steps: FloatArray, law: FloatArray, deviation: float, most: float) -> FloatArray:
    """For cells that are not empty, shape (2, m): the density of each noisy count, and it times the expected count."""
    sums = np.zeros((2, len(y)))
    for i in range(len(y)):
        for j in range(len(steps)):
            n = y[i] - steps[j]
            if 0.0 < n < most:
                prior = law[j] / (n + deviation)
                sums[0, i] += prior
                sums[1, i] += prior * n
    return sums


def posterior_means(
    noisy: FloatArray, scale: float, total: float, entries: int = 1, occupied: FloatArray | None = None
) -> FloatArray:
    """Expected counts (m,) given noisy ones, with noise of this `scale`; all cells together hold about `total`.

    `entries` is 1 for Laplace noise, else the number of entries of a row of cube noise. `occupied` (m,) is the
    probability that a cell is not empty; None fits one for all to the counts.
    """
    deviation = math.sqrt((entries + 1) * (entries + 2) / 3)
    steps = np.linspace(-1.0, 1.0, settings.POSTERIOR_STEPS) * settings.POSTERIOR_REACH * deviation
    law = noise_density(steps, entries)
    law /= law.sum()
    y = noisy / scale
    most = max(total / scale, 2 * deviation, float(y.max()))
    full, weighted = _occupied(y, steps, law, deviation, most) / math.log1p(most / deviation)
    expected = weighted / np.maximum(full, 1e-300)
    empty = noise_density(y, entries)
    full, empty = np.maximum(full, 1e-300), np.maximum(empty, 1e-300)
    if occupied is None:
        occupied = np.array(0.5)
        for _ in range(settings.POSTERIOR_PASSES):
            chance = occupied * full / (occupied * full + (1 - occupied) * empty)
            occupied = chance.sum() / (len(y) + 1)
    chance = occupied * full / (occupied * full + (1 - occupied) * empty)
    return np.asarray(chance * np.maximum(expected, 0.0) * scale)
