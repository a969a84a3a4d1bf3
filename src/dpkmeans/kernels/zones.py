"""Whole fits of the two zone strategies in one compiled call, for experiments and audits of many small fits.

`iteration.loop.iterate` with `iteration.updates.ZoneSampling` is the definition; this does the same steps in the same
order with the same draws, and the tests compare the two to the bit. Not private: see `iteration.zones`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dpkmeans._typing import AnyArray, Float32Array, FloatArray
from dpkmeans.core.engine import CellStatistics
from dpkmeans.core.exact import Exact
from dpkmeans.kernels.assign import cost_of, interleave_centroids, new_labels, reassign
from dpkmeans.kernels.jit import compiled

POSTERIOR, PRIOR, CLIPPED_PRIOR = 0, 1, 2
ROOM = 32  # steps in one call


@dataclass
class ZoneHistory:
    """Steps of one call: statistics of the cells, the zones, and what was drawn in them. One entry a step."""

    counts: FloatArray
    sums: FloatArray
    center: FloatArray
    radius: FloatArray
    drawn: FloatArray
    n_steps: int = 0
    stopped: bool = False


@dataclass(repr=False)
class ZoneFit:
    """A fit under way on the `n` records in `tiles`, with `centroids` (k, d); `squares` is Σ|x|² in steps of 2^-40."""

    tiles: Float32Array
    n: int
    centroids: FloatArray
    strategy: int
    squares: int
    started: bool = False
    counts: FloatArray = field(init=False)
    sums: FloatArray = field(init=False)
    labels: AnyArray = field(init=False)
    before: AnyArray = field(init=False)

    def __post_init__(self) -> None:
        self.counts, self.sums = np.zeros(len(self.centroids)), np.zeros(self.centroids.shape)
        self.labels, self.before = (new_labels(len(self.tiles), len(self.centroids)) for _ in range(2))

    def go(self, epsilons: FloatArray, rng: np.random.Generator) -> Exact[ZoneHistory]:
        """As many steps as there are `epsilons`, or fewer where the assignment repeats."""
        steps, (k, d) = len(epsilons), self.centroids.shape
        sums, center, drawn = (np.empty((steps, k, d)) for _ in range(3))
        history = ZoneHistory(np.empty((steps, k)), sums, center, np.empty((steps, k)), drawn)
        history.n_steps, history.stopped = zone_steps(
            *(self.tiles, self.n, self.centroids, self.counts, self.sums, self.labels, self.before, self.started),
            *(self.strategy, epsilons, rng),
            *(history.counts, history.sums, history.center, history.radius, history.drawn),
        )
        if history.n_steps % 2:
            self.labels, self.before = self.before, self.labels
        self.started = True
        return Exact(history)

    def statistics(self) -> Exact[CellStatistics]:
        """Over the cells of `centroids`, once the assignment has repeated."""
        cost = cost_of(self.counts, self.sums, self.centroids, self.squares)
        return Exact(CellStatistics(self.counts, self.sums, cost, 0.0))


@compiled
def zone_steps(
    tiles: Float32Array,
    n: int,
    centroids: FloatArray,
    counts: FloatArray,
    sums: FloatArray,
    labels: AnyArray,
    before: AnyArray,
    started: bool,
    strategy: int,
    epsilons: FloatArray,
    rng: np.random.Generator,
    all_counts: FloatArray,
    all_sums: FloatArray,
    centers: FloatArray,
    radii: FloatArray,
    drawn: FloatArray,
) -> tuple[int, bool]:
    """Steps from `centroids`, in place. Returns how many were made, and whether the assignment repeated.

    `before` holds the labels of the step before where the fit has `started`. After an odd number of steps, `labels` and
    `before` have changed places.
    """
    means, controller, offset = np.empty(centroids.shape), np.empty(centroids.shape), np.empty(len(centroids))
    ahead_labels = np.empty_like(labels)
    for step in range(len(epsilons)):
        negated, half_norms = interleave_centroids(centroids)
        first = step == 0 and not started
        old = before[:0] if first else before
        if reassign(tiles, n, negated, half_norms, old, labels, counts, sums) == 0:
            return step, True
        all_counts[step], all_sums[step] = counts, sums
        _means(counts, sums, centroids, means)
        if strategy == POSTERIOR:
            _turned_far_points(centroids, means, rng, controller)
        else:
            negated, half_norms = interleave_centroids(means)
            ahead_counts, ahead_sums = counts.copy(), sums.copy()
            reassign(tiles, n, negated, half_norms, labels, ahead_labels, ahead_counts, ahead_sums)
            _means(ahead_counts, ahead_sums, means, controller)
            if strategy == CLIPPED_PRIOR:
                _pull_back(centroids, means, controller)
        for i in range(len(means)):
            offset[i] = _truncated(2.0, 0.5, 1.0, rng.random())
            if not _distance(centroids[i], means[i]) > 0.0:
                controller[i] = means[i]
            centers[step, i] = means[i] + offset[i] * (controller[i] - means[i])
            radii[step, i] = (1 - offset[i]) * _distance(controller[i], means[i])
        _draw(means, controller, offset, epsilons[step], rng, centroids)
        drawn[step] = centroids
        labels, before = before, labels
    return len(epsilons), False


@compiled
def _means(counts: FloatArray, sums: FloatArray, empty: FloatArray, means: FloatArray) -> None:
    for i in range(len(counts)):
        means[i] = sums[i] / counts[i] if counts[i] > 0.0 else empty[i]


@compiled
def _sum(values: FloatArray) -> float:
    """The sum in NumPy's order: eight partial sums, for up to 128 values; beyond that it is the plain one of blocks."""
    n = len(values)
    if n > 128:
        half = n // 2 - n // 2 % 8
        return _sum(values[:half]) + _sum(values[half:])
    total = 0.0
    start = 0
    if n >= 8:
        parts = values[:8].copy()
        start = n - n % 8
        for i in range(8, start):
            parts[i % 8] += values[i]
        total = ((parts[0] + parts[1]) + (parts[2] + parts[3])) + ((parts[4] + parts[5]) + (parts[6] + parts[7]))
    for i in range(start, n):
        total += values[i]
    return total


@compiled
def _distance(a: FloatArray, b: FloatArray) -> float:
    apart = a - b
    length: float = np.sqrt(_sum(apart * apart))
    return length


@compiled
def _truncated(rate: float, low: float, high: float, u: float) -> float:
    point: float = low - np.log1p(u * np.expm1(-rate * (high - low))) / rate
    return point


@compiled
def _turned_far_points(previous: FloatArray, means: FloatArray, rng: np.random.Generator, out: FloatArray) -> None:
    turn = np.empty(len(means))
    for i in range(len(means)):
        turn[i] = _truncated(2 / np.pi, 0.0, np.pi / 2, rng.random())
    _place(means, 2 * means - previous, np.ones(len(means)), turn, rng, out)


@compiled
def _pull_back(previous: FloatArray, means: FloatArray, ahead: FloatArray) -> None:
    for i in range(len(means)):
        reach = _distance(ahead[i], means[i])
        share = min(1.0, _distance(previous[i], means[i]) / reach) if reach > 0.0 else 1.0
        ahead[i] = means[i] + share * (ahead[i] - means[i])


@compiled
def _draw(
    means: FloatArray,
    controller: FloatArray,
    offset: FloatArray,
    epsilon: float,
    rng: np.random.Generator,
    out: FloatArray,
) -> None:
    """One draw in each zone: see `iteration.zones.sample_pair`."""
    k, d = means.shape
    rate = epsilon / 4.0
    angle_rate = rate * 2 / np.pi
    ratio, angle = np.empty(k), np.zeros(k)
    if d == 1:
        for i in range(k):
            ratio[i] = _truncated(rate, 2 * offset[i] - 1, 1.0, rng.random())
        _place(means, controller, ratio, angle, rng, out)
        return
    todo = np.arange(k)
    n_todo = k
    while n_todo > 0:
        for i in todo[:n_todo]:
            ratio[i] = _truncated(rate, 2 * offset[i] - 1, 1.0, rng.random())
            cosine = (ratio[i] * ratio[i] + 2 * offset[i] - 1) / (2 * ratio[i] * offset[i])
            angle[i] = np.arccos(min(max(cosine, -1.0), 1.0))
        n_left = 0
        for i in todo[:n_todo]:
            widest = np.expm1(-angle_rate * np.arcsin(min((1 - offset[i]) / offset[i], 1.0)))
            if rng.random() >= np.expm1(-angle_rate * angle[i]) / widest:
                todo[n_left] = i
                n_left += 1
        n_todo = n_left
    for i in range(k):
        angle[i] = _truncated(angle_rate, 0.0, angle[i], rng.random())
    _place(means, controller, ratio, angle, rng, out)


@compiled
def _place(
    origin: FloatArray,
    toward: FloatArray,
    ratio: FloatArray,
    angle: FloatArray,
    rng: np.random.Generator,
    out: FloatArray,
) -> None:
    """Points at `ratio` of the distance, `angle` off the line, in a random plane: see `iteration.zones.place`."""
    k, d = origin.shape
    aside = np.zeros((k, d))
    if d > 1:
        for i in range(k):
            for j in range(d):
                aside[i, j] = rng.standard_normal()
    for i in range(k):
        line = toward[i] - origin[i]
        length = np.sqrt(_sum(line * line))
        axis = line / length if length > 0.0 else np.zeros(d)
        turned = axis
        if d > 1:
            for _ in range(2):
                aside[i] -= _sum(aside[i] * axis) * axis
                aside[i] /= np.sqrt(_sum(aside[i] * aside[i]))
            turned = np.cos(angle[i]) * axis + np.sin(angle[i]) * aside[i]
        out[i] = origin[i] + ratio[i] * length * turned
