"""Convergent and sampling zones of Lu and Shen: every draw, one step, and whole runs of steps over packed records.

Shapes: k clusters, d features. Nothing here is private: zones are built from exact means. Every draw has a closed
inverse or an exact rejection step; no density is cut into a grid. `zone_step` is the one definition of a step: the
solver calls it after each answer of an engine, `zone_run` calls it in a loop. Loops and scalar functions only, so that
both give the same bits whatever NumPy's vector functions do on this processor.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dpkmeans._typing import AnyArray, Float32Array, FloatArray
from dpkmeans.kernels.assign import interleave_centroids, move_to_means, reassign
from dpkmeans.kernels.jit import compiled

POSTERIOR, PRIOR, CLIPPED_PRIOR = 0, 1, 2
SCORE_SENSITIVITY = 2.0  # Delta q of the paper
RIGHT_ANGLE = math.pi / 2


class ZoneStep(NamedTuple):
    """Sampling zones, `center` (k, d) and `radius` (k,), and the centroids `drawn` in them, (k, d)."""

    center: FloatArray
    radius: FloatArray
    drawn: FloatArray


class ZoneHistory(NamedTuple):
    """A run of `n_steps` steps, one row a step: `counts` and `sums` of the cells before it, its zones and draws.

    Where the run `stopped`, row `n_steps` of `counts` and `sums` belongs to the cells of the last centroids.
    """

    n_steps: int
    stopped: bool
    counts: FloatArray
    sums: FloatArray
    center: FloatArray
    radius: FloatArray
    drawn: FloatArray


@compiled
def truncated_exponential(rate: float, low: float, high: float, u: float) -> float:
    """The point where the density ∝ exp(-rate·x) on [low, high] has the share `u` below it."""
    return low - math.log1p(u * math.expm1(-rate * (high - low))) / rate


@compiled
def product(a: FloatArray, b: FloatArray) -> float:
    """Inner product of two vectors, added up in order."""
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@compiled
def distances(a: FloatArray, b: FloatArray) -> FloatArray:
    """Distance of each row of `a` from the same row of `b`, shape (k,).

    From the previous centroids to the means it is the radius of the convergent zone, the open ball in which the cost
    falls. Paper: Lemma 1.
    """
    out = np.empty(len(a))
    for i in range(len(a)):
        apart = a[i] - b[i]
        out[i] = math.sqrt(product(apart, apart))
    return out


@compiled
def far_point(previous: FloatArray, means: FloatArray) -> FloatArray:
    """Where each line previous -> mean leaves the convergent zone, shape (k, d). Paper: Algorithm 2, line 4 (Y)."""
    out: FloatArray = 2 * means - previous
    return out


@compiled
def sample_turn(k: int, rng: np.random.Generator) -> FloatArray:
    """γ, shape (k,): density ∝ exp(1 - 2γ/π) on [0, π/2]. Paper: Algorithm 2, line 5."""
    turn = np.empty(k)
    for i in range(k):
        turn[i] = truncated_exponential(1 / RIGHT_ANGLE, 0.0, RIGHT_ANGLE, rng.random())
    return turn


@compiled
def sample_offset(k: int, rng: np.random.Generator) -> FloatArray:
    """λ, shape (k,): density ∝ exp(2 - 2λ) on (1/2, 1). Paper: Algorithm 2, line 8."""
    offset = np.empty(k)
    for i in range(k):
        offset[i] = truncated_exponential(2.0, 0.5, 1.0, rng.random())
    return offset


@compiled
def orthogonal_directions(axes: FloatArray, rng: np.random.Generator) -> FloatArray:
    """A uniformly random unit vector orthogonal to each unit vector of `axes`, shape (k, d); zero where d = 1."""
    k, d = axes.shape
    aside = np.zeros((k, d))
    if d == 1:
        return aside
    for i in range(k):
        for j in range(d):
            aside[i, j] = rng.standard_normal()
        for _ in range(2):  # the second pass removes what rounding left of the axis
            along = product(aside[i], axes[i])
            for j in range(d):
                aside[i, j] -= along * axes[i, j]
            length = math.sqrt(product(aside[i], aside[i]))
            for j in range(d):
                aside[i, j] /= length
    return aside


@compiled
def place(
    origin: FloatArray, toward: FloatArray, ratio: FloatArray, angle: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Points at `ratio` times the distance origin -> toward, `angle` off that line in a random plane, shape (k, d).

    One feature has no plane to turn in.
    """
    k, d = origin.shape
    length = distances(toward, origin)
    axes = np.zeros((k, d))
    for i in range(k):
        if length[i] > 0.0:
            for j in range(d):
                axes[i, j] = (toward[i, j] - origin[i, j]) / length[i]
    aside = orthogonal_directions(axes, rng)
    points = np.empty((k, d))
    for i in range(k):
        turn = angle[i] if d > 1 else 0.0
        forward, sideways = math.cos(turn), math.sin(turn)
        for j in range(d):
            turned = forward * axes[i, j] + sideways * aside[i, j]
            points[i, j] = origin[i, j] + ratio[i] * length[i] * turned
    return points


@compiled
def largest_angle(ratio: float, offset: float) -> float:
    """The widest α for which (δ, α) lies in the zone: cos α = (δ² + 2λ - 1) / (2δλ)."""
    cosine = (ratio * ratio + 2 * offset - 1) / (2 * ratio * offset)
    return math.acos(min(max(cosine, -1.0), 1.0))


@compiled
def sample_pair(
    offset: FloatArray, epsilon: float, rng: np.random.Generator, flat: bool
) -> tuple[FloatArray, FloatArray]:
    """(δ, α), each (k,): density ∝ exp(ε q / (2 Δq)) over the pairs inside the zones with the given λ.

    q = (1 - δ) + (1 - 2|α|/π). δ is proposed from its exponential factor and kept with the probability that its range
    of angles has relative to the widest range of all, at the tangent sin α = (1 - λ)/λ. The sign of α is left to the
    random plane. With one feature (`flat`), α = 0.
    """
    k = len(offset)
    rate = epsilon / (2 * SCORE_SENSITIVITY)
    angle_rate = rate * 2 / math.pi
    ratio, angle = np.empty(k), np.zeros(k)
    if flat:
        for i in range(k):
            ratio[i] = truncated_exponential(rate, 2 * offset[i] - 1, 1.0, rng.random())
        return ratio, angle
    todo = np.arange(k)
    n_todo = k
    while n_todo > 0:
        for i in todo[:n_todo]:
            ratio[i] = truncated_exponential(rate, 2 * offset[i] - 1, 1.0, rng.random())
            angle[i] = largest_angle(ratio[i], offset[i])
        n_left = 0
        for i in todo[:n_todo]:
            widest = math.expm1(-angle_rate * math.asin(min((1 - offset[i]) / offset[i], 1.0)))
            if rng.random() >= math.expm1(-angle_rate * angle[i]) / widest:
                todo[n_left] = i
                n_left += 1
        n_todo = n_left
    for i in range(k):
        angle[i] = truncated_exponential(angle_rate, 0.0, angle[i], rng.random())
    return ratio, angle


@compiled
def sampling_zones(means: FloatArray, points: FloatArray, offset: FloatArray) -> tuple[FloatArray, FloatArray]:
    """P = mean + λ(X - mean), r = (1 - λ)|X - mean|: the zone touches X and leaves the mean outside."""
    center, radius = np.empty(means.shape), (1 - offset) * distances(points, means)
    for i in range(len(means)):
        for j in range(means.shape[1]):
            center[i, j] = means[i, j] + offset[i] * (points[i, j] - means[i, j])
    return center, radius


@compiled
def controller_points(
    controller: int, previous: FloatArray, means: FloatArray, ahead: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """X of the paper, shape (k, d): where the zones point to; the mean where the centroid stands on it already.

    POSTERIOR: the far point, turned about the mean by γ. PRIOR: the mean one Lloyd pass ahead, which may lie beyond
    the convergent zone. CLIPPED_PRIOR: the same, pulled back to the zone's border.
    """
    k, d = means.shape
    border = distances(previous, means)
    if controller == POSTERIOR:
        points = place(means, far_point(previous, means), np.ones(k), sample_turn(k, rng), rng)
    else:
        points = ahead.copy()
    reach = distances(points, means)
    for i in range(k):
        if not border[i] > 0.0:
            points[i] = means[i]
        elif controller == CLIPPED_PRIOR and reach[i] > 0.0:
            share = min(1.0, border[i] / reach[i])
            for j in range(d):
                points[i, j] = means[i, j] + share * (ahead[i, j] - means[i, j])
    return points


@compiled
def zone_step(
    controller: int,
    previous: FloatArray,
    means: FloatArray,
    ahead: FloatArray,
    epsilon: float,
    rng: np.random.Generator,
) -> ZoneStep:
    """One step from the `previous` centroids: zones around the `means` of their cells, and a draw in each.

    `ahead`, the means one pass later, is read by the prior strategies only.
    """
    points = controller_points(controller, previous, means, ahead, rng)
    offset = sample_offset(len(means), rng)
    center, radius = sampling_zones(means, points, offset)
    ratio, angle = sample_pair(offset, epsilon, rng, means.shape[1] == 1)
    return ZoneStep(center, radius, place(means, points, ratio, angle, rng))


@compiled
def zone_run(
    tiles: Float32Array,
    n: int,
    start: FloatArray,
    before: FloatArray,
    labels: AnyArray,
    controller: int,
    epsilons: FloatArray,
    rng: np.random.Generator,
) -> ZoneHistory:
    """Steps from the centroids `start`, (k, d), one for each of `epsilons`, until an assignment repeats.

    The first assignment is compared with the one of the centroids `before`, or with none where that is empty. `labels`
    is scratch, shape (3, tiles, LANES).
    """
    (k, d), steps = start.shape, len(epsilons)
    all_counts, all_sums = np.empty((steps, k)), np.empty((steps, k, d))
    center, radius, drawn = np.empty((steps, k, d)), np.empty((steps, k)), np.empty((steps, k, d))
    counts, sums, centroids = np.zeros(k), np.zeros((k, d)), start
    now, old, ahead_labels = labels[0], labels[1], labels[2]
    compared = old[:0]
    if len(before) > 0:
        negated, half_norms = interleave_centroids(before)
        reassign(tiles, n, negated, half_norms, compared, old, counts, sums)
        compared = old
    for step in range(steps):
        negated, half_norms = interleave_centroids(centroids)
        moved = reassign(tiles, n, negated, half_norms, compared, now, counts, sums)
        all_counts[step], all_sums[step] = counts, sums
        if moved == 0:
            return ZoneHistory(step, True, all_counts, all_sums, center, radius, drawn)
        means = centroids.copy()
        move_to_means(means, counts, sums)
        ahead = means
        if controller != POSTERIOR:
            negated, half_norms = interleave_centroids(means)
            ahead_counts, ahead_sums, ahead = counts.copy(), sums.copy(), means.copy()
            reassign(tiles, n, negated, half_norms, now, ahead_labels, ahead_counts, ahead_sums)
            move_to_means(ahead, ahead_counts, ahead_sums)
        made = zone_step(controller, centroids, means, ahead, epsilons[step], rng)
        center[step], radius[step], drawn[step] = made.center, made.radius, made.drawn
        centroids = made.drawn
        now, old = old, now
        compared = old
    return ZoneHistory(steps, False, all_counts, all_sums, center, radius, drawn)
