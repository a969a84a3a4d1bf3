"""The start: centres in the subspace are split, moved by noisy means, and swapped. Proof: proofs/many_features.md."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.rho import Rho
from dpkmeans.progress import expect
from dpkmeans.wide.releases import Desk, Distances, Seen, Sight, best_radius, noise_of_means, shrunk
from dpkmeans.wide.settings import (
    OVERSEEDING,
    SPLIT_OFFSET,
    START_FORGET,
    START_RADIUS_NOISE,
    START_SPLIT,
    STEPS,
    SWAP_COST,
    SWAP_ROUNDS,
)
from dpkmeans.wide.ward import Merged, cheapest_pair, join, merge_to


@dataclass(frozen=True, eq=False)
class Seeds:
    """Released centres (m, p), relative to the origin, with noisy weights (m,): more than the clusters asked for.

    The noise of a weighted sum of residuals has `deviation` in each coordinate, that of a weight `count_deviation`.
    """

    centres: FloatArray
    weights: FloatArray
    deviation: float = 0.0
    count_deviation: float = 0.0

    def merged_to(self, k: int) -> Merged:
        """k of them, by Ward's rule."""
        return merge_to(self.centres, self.weights, min(k, len(self.centres)))


def schedule(k: int) -> list[int]:
    """How many centres each release of the start asks about: 1, 2, 4, ... up to 1.5 k, then rounds of swaps."""
    most = math.ceil(OVERSEEDING * k) if k > 1 else 1
    sizes = [1]
    while sizes[-1] < most:
        sizes.append(min(2 * sizes[-1], most))
    return sizes + [most] * (SWAP_ROUNDS if k > 1 else 0)


def find_seeds(
    desk: Desk, sight: Sight, scales: FloatArray, distances: Distances, n_records: float, k: int, rho: Rho
) -> Seeds:
    """Spend `rho` on about log2(1.5 k) + 4 releases, each in proportion to its number of centres."""
    sizes, p = schedule(k), len(scales)
    centres: FloatArray = np.zeros((1, p))
    rng = desk.rng.generator
    expect(len(sizes) + STEPS)
    for i, size in enumerate(sizes):
        part = rho.share(size / sum(sizes))
        noise = START_RADIUS_NOISE * noise_of_means(START_SPLIT, part, size, p, n_records)
        radius = best_radius(distances, sight.rings, noise, p)
        seen = desk.look(sight, centres, radius, START_SPLIT, part, f"start {i + 1} of {len(sizes)}")
        moved = move(seen)
        if i + 1 == len(sizes):
            break
        if sizes[i + 1] == size:
            centres = swapped(moved, seen, scales, rng)
        else:
            chosen = np.argsort(-seen.costs, kind="stable")[: sizes[i + 1] - size]
            centres = _with_splits(moved, _offsets(seen.costs, seen.sizes), chosen, scales, rng)
        distances = distances.taking_in(seen.bins, seen.bin_deviation, START_FORGET)
    return _kept(moved, seen, k)


def move(seen: Seen) -> FloatArray:
    """The noisy mean of each cell, shape (K, p), its move shrunk by the noise in it."""
    p = seen.sums.shape[1]
    return np.asarray(seen.centres + shrunk(seen.sums / seen.sizes[:, None], p * (seen.deviation / seen.sizes) ** 2))


def swapped(centres: FloatArray, seen: Seen, scales: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Merge pairs that cost little, and split as many of the centres that cost most, shape (K, p)."""
    centres, weights, costs = centres.copy(), seen.sizes.copy(), np.maximum(seen.costs, 0.0)
    free = np.ones(len(centres), np.int64)  # 1: may be merged or split; 0: merged away; -1: to be split
    chosen: list[int] = []
    while np.count_nonzero(free == 1) >= 3:
        a, b, cost = cheapest_pair(centres, weights, free)
        others = np.where(free == 1, costs, -1.0)
        others[[a, b]] = -1.0
        worst = int(np.argmax(others))
        if cost > SWAP_COST * others[worst]:
            break
        join(centres, weights, a, b)
        costs[a] += costs[b] + cost
        free[b], free[worst] = 0, -1
        chosen.append(worst)
    made = _with_splits(centres, _offsets(costs, weights), np.array(chosen, np.int64), scales, rng)
    return np.concatenate([made[: len(centres)][free != 0], made[len(centres) :]])


def _offsets(costs: FloatArray, weights: FloatArray) -> FloatArray:
    return np.asarray(SPLIT_OFFSET * np.sqrt(np.maximum(costs, 0.0) / weights))


def _with_splits(
    centres: FloatArray, offsets: FloatArray, chosen: np.ndarray, scales: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """The centres, each of the `chosen` moved one way by its offset, and after them one more moved the other way."""
    turns = (rng.random((len(chosen), len(scales))) - 0.5) * scales
    turns /= np.maximum(np.sqrt((turns * turns).sum(axis=1)), 1e-300)[:, None]
    step = offsets[chosen][:, None] * turns
    out = centres.copy()
    out[chosen] += step
    return np.concatenate([out, centres[chosen] - step])


def _kept(centres: FloatArray, seen: Seen, k: int) -> Seeds:
    """Drop centres whose count does not stand out of its noise, the lightest first, as long as k stay."""
    kept = np.ones(len(centres), bool)
    for i in np.argsort(seen.counts, kind="stable").tolist():
        if seen.counts[i] < seen.count_deviation and np.count_nonzero(kept) > k:
            kept[i] = False
    return Seeds(centres[kept], seen.sizes[kept], seen.deviation, seen.count_deviation)
