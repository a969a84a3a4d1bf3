"""Convergent and sampling zones of Lu and Shen, for all clusters at once.

Shapes: k clusters, d features. Nothing here is private: zones are built from exact means. Every draw has a closed
inverse or an exact rejection step; no density is cut into a grid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkmeans._typing import FloatArray

SCORE_SENSITIVITY = 2.0  # Delta q of the paper
SCORE_NAME = "(1 - delta) + (1 - 2|alpha|/pi)"


@dataclass(frozen=True)
class Zones:
    """Sampling zones: balls around `center`, shape (k, d), with `radius`, shape (k,). What the paper publishes."""

    center: FloatArray
    radius: FloatArray


def truncated_exponential(
    rate: FloatArray | float, low: FloatArray | float, high: FloatArray | float, u: FloatArray
) -> FloatArray:
    """The point where the density ∝ exp(-rate·x) on [low, high] has the share `u` below it."""
    width = np.asarray(high) - low
    return np.asarray(low - np.log1p(u * np.expm1(-np.asarray(rate) * width)) / rate)


def convergent_radius(previous: FloatArray, means: FloatArray) -> FloatArray:
    """a = |previous - mean|, shape (k,): radius of the open ball in which the cost falls. Paper: Lemma 1."""
    radius: FloatArray = np.linalg.norm(previous - means, axis=1)
    return radius


def far_point(previous: FloatArray, means: FloatArray) -> FloatArray:
    """Where each line previous -> mean leaves the convergent zone, shape (k, d). Paper: Algorithm 2, line 4 (Y)."""
    return 2 * means - previous


def sample_turn(k: int, rng: np.random.Generator) -> FloatArray:
    """γ, shape (k,): density ∝ exp(1 - 2γ/π) on [0, π/2]. Paper: Algorithm 2, line 5."""
    return truncated_exponential(2 / np.pi, 0.0, np.pi / 2, rng.random(k))


def sample_offset(k: int, rng: np.random.Generator) -> FloatArray:
    """λ, shape (k,): density ∝ exp(2 - 2λ) on (1/2, 1). Paper: Algorithm 2, line 8."""
    return truncated_exponential(2.0, 0.5, 1.0, rng.random(k))


def orthogonal_directions(axes: FloatArray, rng: np.random.Generator) -> FloatArray:
    """A uniformly random unit vector orthogonal to each unit vector of `axes`, shape (k, d); zero where d = 1."""
    if axes.shape[1] == 1:
        return np.zeros_like(axes)
    draws = rng.standard_normal(axes.shape)
    for _ in range(2):  # the second pass removes what rounding left of the axis
        draws -= np.sum(draws * axes, axis=1, keepdims=True) * axes
        draws /= np.linalg.norm(draws, axis=1, keepdims=True)
    return draws


def place(
    origin: FloatArray, toward: FloatArray, ratio: FloatArray, angle: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Points at `ratio` times the distance origin -> toward, `angle` off that line in a random plane, shape (k, d)."""
    line = toward - origin
    length = np.linalg.norm(line, axis=1, keepdims=True)
    axes = np.divide(line, length, out=np.zeros_like(line), where=length > 0)
    aside = orthogonal_directions(axes, rng)
    if axes.shape[1] == 1:  # one feature has no plane to turn in
        angle = np.zeros_like(angle)
    turned = np.cos(angle)[:, None] * axes + np.sin(angle)[:, None] * aside
    points: FloatArray = origin + ratio[:, None] * length * turned
    return points


def sampling_zones(means: FloatArray, controller: FloatArray, offset: FloatArray) -> Zones:
    """P = mean + λ(X - mean), r = (1 - λ)|X - mean|: the zone touches X and leaves the mean outside."""
    reach = np.linalg.norm(controller - means, axis=1)
    return Zones(means + offset[:, None] * (controller - means), (1 - offset) * reach)


def largest_angle(ratio: FloatArray, offset: FloatArray) -> FloatArray:
    """The widest α for which (δ, α) lies in the zone: cos α = (δ² + 2λ - 1) / (2δλ)."""
    cosine = (ratio**2 + 2 * offset - 1) / (2 * ratio * offset)
    return np.arccos(np.clip(cosine, -1.0, 1.0))


def sample_pair(
    offset: FloatArray, epsilon: FloatArray, rng: np.random.Generator, *, flat: bool
) -> tuple[FloatArray, FloatArray]:
    """(δ, α), each (k,): density ∝ exp(ε q / (2 Δq)) over the pairs inside the zones with the given λ.

    q = (1 - δ) + (1 - 2|α|/π). δ is proposed from its exponential factor and kept with the probability that its range
    of angles has relative to the widest range of all, at the tangent sin α = (1 - λ)/λ. The sign of α is left to the
    random plane. With one feature (`flat`), α = 0.
    """
    rate = epsilon / (2 * SCORE_SENSITIVITY)
    angle_rate = rate * 2 / np.pi
    low = 2 * offset - 1
    if flat:
        return truncated_exponential(rate, low, 1.0, rng.random(len(offset))), np.zeros(len(offset))
    widest = np.expm1(-angle_rate * np.arcsin(np.minimum((1 - offset) / offset, 1.0)))
    ratio, range_of_angles = np.empty(len(offset)), np.empty(len(offset))
    todo = np.arange(len(offset))
    while len(todo):
        ratio[todo] = truncated_exponential(rate[todo], low[todo], 1.0, rng.random(len(todo)))
        range_of_angles[todo] = largest_angle(ratio[todo], offset[todo])
        kept = np.expm1(-angle_rate[todo] * range_of_angles[todo]) / widest[todo]
        todo = todo[rng.random(len(todo)) >= kept]
    angle = truncated_exponential(angle_rate, 0.0, range_of_angles, rng.random(len(offset)))
    return ratio, angle
