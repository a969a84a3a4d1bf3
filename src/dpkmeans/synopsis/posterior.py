"""Weights as posterior means: what a noisy count says about a cell when many cells may be empty. Post-processing.

Empirical Bayes: a cell is empty with a probability that is fitted to all noisy counts together, and otherwise holds n
records with a density in proportion to 1/(n + s), which prefers no scale; s is the deviation of the noise, whose law is
known. Where no count stands out, all cells are as good as empty.
"""

from __future__ import annotations

import math

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.synopsis import settings


def noise_density(z: FloatArray, entries: int) -> FloatArray:
    """Of one of D `entries` with the joint density exp(-‖z‖∞), up to a factor: Γ(D, |z|)/(2 Γ(D + 1)).

    For D = 1 this is Laplace's law.
    """
    away = np.abs(z)
    term, total = np.exp(-away), np.zeros_like(away)
    for i in range(entries):
        total += term
        term = term * away / (i + 1)
    return np.asarray(total / (2 * entries))


def posterior_means(noisy: FloatArray, scale: float, total: float, entries: int = 1) -> FloatArray:
    """Expected counts (m,) given noisy ones, with noise of this `scale`; all cells together hold about `total`.

    `entries` is 1 for Laplace noise, else the number of entries of a row of cube noise.
    """
    deviation = math.sqrt((entries + 1) * (entries + 2) / 3)
    steps = np.linspace(-1.0, 1.0, settings.POSTERIOR_STEPS) * settings.POSTERIOR_REACH * deviation
    law = noise_density(steps, entries)
    law /= law.sum()
    y = noisy / scale
    n = y[:, None] - steps
    most = max(total / scale, 2 * deviation)
    prior = np.where((n > 0) & (n < most), 1 / (np.maximum(n, 0.0) + deviation), 0.0) / math.log1p(most / deviation)
    full = prior @ law
    expected = (prior * n) @ law / np.maximum(full, 1e-300)
    empty = noise_density(y, entries)
    full, empty = np.maximum(full, 1e-300), np.maximum(empty, 1e-300)
    occupied = 0.5
    for _ in range(settings.POSTERIOR_PASSES):
        chance = occupied * full / (occupied * full + (1 - occupied) * empty)
        occupied = float(chance.sum()) / (len(y) + 1)
    chance = occupied * full / (occupied * full + (1 - occupied) * empty)
    return np.asarray(chance * np.maximum(expected, 0.0) * scale)
