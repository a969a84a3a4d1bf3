"""The mean of all records with all of ε, in two steps where the box is too wide. Proof: proofs/signs.md.

The noise of a mean grows with the radius to which residuals are clipped. In a box that is many times too wide, a first
mean with half of ε tells where the records are, and a second one, close to it, is asked for with a small radius.
"""

from __future__ import annotations

import math

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Laplace, LInfLaplace
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis import settings
from dpkmeans.synopsis.residual_queries import UNIT, Residuals, ResidualSizes
from dpkmeans.synopsis.tree import cube_variance
from dpkmeans.synopsis.view import Asked, NoisyMean
from dpkmeans.synopsis.weighted_points import NoisyTotal


def noisy_mean(view: Asked, epsilon: Epsilon, total: NoisyTotal, *, ledger: Ledger, rng: Randomness) -> NoisyMean:
    """The noisy mean of all records in a view's own coordinates, shrunk towards the middle of its box."""
    half = view.bounds.unit_box / 2
    offset, deviation = _clipped_mean(view, half, half, epsilon, total, ledger=ledger, rng=rng, label="signs: middle")
    wide = half > 0
    noise = np.mean((deviation / np.where(wide, half, 1.0))[wide] ** 2) if wide.any() else 0.0
    moved = np.mean((offset / np.where(wide, half, 1.0))[wide] ** 2) if wide.any() else 0.0
    trust = max(0.0, 1.0 - float(noise) / max(float(moved), 1e-300))
    return NoisyMean(half + trust * offset, deviation, epsilon)


def is_near(
    view: Asked, first: NoisyMean, n_records: float, epsilon: Epsilon, *, ledger: Ledger, rng: Randomness
) -> bool:
    """Whether most values of the records lie as close to a noisy mean as its noise: then the box is far too wide."""
    half = view.bounds.unit_box / 2
    wide = half > 0
    reach = settings.NEAR_DEVIATIONS * float(np.mean(first.deviation[wide] / half[wide]))
    query = ResidualSizes(first.place[None, :], half, np.array([0.0, reach]))
    near = Laplace(epsilon).release(view.answer(query), ledger=ledger, rng=rng, label="signs: near")[0, 0]
    n_wide = int(np.count_nonzero(wide))
    always = n_records * (view.n_features - n_wide)  # values of features without a width
    return float(near) - always > settings.MIN_NEAR * n_records * n_wide


def second_mean(
    view: Asked, first: NoisyMean, near: bool, epsilon: Epsilon, total: NoisyTotal, *, ledger: Ledger, rng: Randomness
) -> FloatArray:
    """The noisy mean again, (d,), with a small radius if records are `near` the first; both weighed by their noise."""
    if near:
        radius = settings.NEAR_DEVIATIONS * first.deviation
        move, deviation = _clipped_mean(
            view, first.place, radius, epsilon, total, ledger=ledger, rng=rng, label="signs: mean"
        )
        place = first.place + move
    else:
        again = noisy_mean(view, epsilon, total, ledger=ledger, rng=rng)
        place, deviation = again.place, again.deviation
    both = first.deviation**2 + deviation**2
    trust = np.where(both > 0, first.deviation**2 / np.where(both > 0, both, 1.0), 1.0)
    return view.bounds.clip_unit(trust * place + (1 - trust) * first.place)


def _clipped_mean(
    view: Asked,
    center: FloatArray,
    radius: FloatArray,
    epsilon: Epsilon,
    total: NoisyTotal,
    *,
    ledger: Ledger,
    rng: Randomness,
    label: str,
) -> tuple[FloatArray, FloatArray]:
    """The noisy mean of residuals to `center`, clipped to a `radius`, and the deviation of its noise; all (d,)."""
    reach = np.maximum(radius, settings.MIN_HALF_SIDE)
    query = Residuals(center[None, :], reach[None, :])
    noisy = LInfLaplace(epsilon).release(view.answer(query), ledger=ledger, rng=rng, label=label)[0] / UNIT
    entry = cube_variance(view.n_features) / float(epsilon) ** 2
    both = (float(noisy[0]) * total.variance + total.value * entry) / (total.variance + entry)
    count = max(both, 1.0)  # of two released numbers of records, by inverse variances
    return np.clip(noisy[1:] / count, -1.0, 1.0) * radius, math.sqrt(entry) / count * radius
