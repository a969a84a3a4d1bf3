"""Lloyd's algorithm over tiles in memory, with no more comparisons than needed; always the same centroids, to the bit.

| where | what |
| --- | --- |
| k·d is large | points that cannot have changed their cell are left out: `bounded` |
| few features, many centroids | only centroids near a block of points are compared: `nearby` |
| else | all points with all centroids, the whole run in one call where one thread works: `kernels` |
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeAlias

import numpy as np

from dpkmeans._typing import Float32Array, FloatArray
from dpkmeans.core.engine import LloydEnd
from dpkmeans.engines.block_tasks import new_labels
from dpkmeans.engines.work_queue import drain, interleave, split_evenly
from dpkmeans.kernels.assign import group, lloyd, move_to_means, reassign, score_error
from dpkmeans.kernels.block_pruning import BLOCK, bounding_balls, morton_sorted, reassign_nearby
from dpkmeans.kernels.hamerly import distances_moved, new_bounds, reassign_bounded
from dpkmeans.kernels.simd_f32 import LANES

SMALL = 1024  # tiles that one thread had better do alone
BOUNDED_FROM = 2048  # k·d
NEARBY_FEATURES, NEARBY_FROM = 3, 64  # at most so many features, at least so many centroids
NEARBY_ROOM = 2**25  # bytes for the sorted copy
SHARES = 8  # per thread: one that is held up leaves the rest of its work to the others
APART = 16  # numbers between what two threads add to, so that they never write to one cache line

Part: TypeAlias = Callable[[FloatArray, FloatArray, slice], int]
"""Reassigns the points of some tiles; adds to counts and sums what changes; returns how many points moved."""


def lloyd_over_tiles(tiles: Float32Array, n: int, start: FloatArray, max_iter: int, n_threads: int) -> LloydEnd:
    """Lloyd's algorithm from `start`, shape (k, d), until the assignment repeats or `max_iter` moves are made."""
    centroids = np.array(start, dtype=np.float64)
    k, d = centroids.shape
    ways: _Plain
    if k * d >= BOUNDED_FROM:
        ways = _Bounded(tiles, n, k)
    elif d <= NEARBY_FEATURES and k >= NEARBY_FROM and tiles.nbytes <= NEARBY_ROOM:
        ways = _Nearby(tiles, n, k)
    elif n_threads == 1 or len(tiles) <= SMALL:
        moves, stopped = lloyd(tiles, n, centroids, max_iter, *(new_labels(len(tiles), k) for _ in range(2)))
        return LloydEnd(centroids, moves, stopped)
    else:
        ways = _Plain(tiles, n, k)
    return _by_passes(ways, centroids, max_iter, n_threads if len(tiles) > SMALL else 1)


def _by_passes(ways: _Plain, centroids: FloatArray, max_iter: int, n_threads: int) -> LloydEnd:
    """Pass after pass, each in shares of whole blocks. Sums are exact, so it does not matter who takes which."""
    counts, sums = np.zeros(len(centroids)), np.zeros(centroids.shape)
    blocks = split_evenly(-(-len(ways.tiles) // BLOCK), n_threads * SHARES if n_threads > 1 else 1)
    shares = [slice(share.start * BLOCK, min(share.stop * BLOCK, len(ways.tiles))) for share in blocks]
    partial_counts = np.zeros((n_threads, len(counts) + APART))[:, : len(counts)]
    partial_sums = np.zeros((n_threads, len(sums) + APART, centroids.shape[1]))[:, : len(sums)]
    moved = ways.n
    with ThreadPoolExecutor(max(n_threads - 1, 1)) as others:
        for t in range(max_iter):
            partial_counts[:] = 0.0
            partial_sums[:] = 0.0
            left, part = interleave(shares, n_threads), ways.next_pass(centroids, t, moved)
            parts = [partial(part, *room) for room in zip(partial_counts, partial_sums, strict=True)]
            at_work = [others.submit(drain, left, one) for one in parts[1:]]
            moved = sum(drain(left, parts[0])) + sum(sum(task.result()) for task in at_work)
            counts += partial_counts.sum(axis=0)
            sums += partial_sums.sum(axis=0)
            if moved == 0 and t > 0:
                return LloydEnd(centroids, t, True)
            move_to_means(centroids, counts, sums)
    return LloydEnd(centroids, max_iter, False)


class _Plain:
    """All points with all centroids."""

    def __init__(self, tiles: Float32Array, n: int, k: int) -> None:
        self.tiles = tiles
        self.n = n
        self.labels, self.scratch = new_labels(len(tiles), k), new_labels(len(tiles), k)

    def next_pass(self, centroids: FloatArray, t: int, moved: int) -> Part:
        """What pass `t` does with a share of the tiles. In the pass before, so many points `moved`."""
        negated, halves = group(centroids)
        self.labels, self.scratch = self.scratch, self.labels

        def part(counts: FloatArray, sums: FloatArray, share: slice) -> int:
            before, labels = self.scratch[share if t > 0 else slice(0)], self.labels[share]
            n = self.n - share.start * LANES
            return int(reassign(self.tiles[share], n, negated, halves, before, labels, counts, sums))

        return part


class _Nearby(_Plain):
    """All points with the centroids near them. Works on a sorted copy."""

    def __init__(self, tiles: Float32Array, n: int, k: int) -> None:
        super().__init__(morton_sorted(tiles, n), n, k)
        self.balls = bounding_balls(self.tiles, n)

    def next_pass(self, centroids: FloatArray, t: int, moved: int) -> Part:
        """See `_Plain`."""
        (negated, halves), error = group(centroids), score_error(centroids)
        self.labels, self.scratch = self.scratch, self.labels

        def part(counts: FloatArray, sums: FloatArray, share: slice) -> int:
            before, labels = self.scratch[share if t > 0 else slice(0)], self.labels[share]
            n, tiles = self.n - share.start * LANES, self.tiles[share]
            balls = self.balls[share.start // BLOCK : -(-share.stop // BLOCK)]
            return int(reassign_nearby(tiles, n, negated, halves, error, balls, before, labels, counts, sums))

        return part


class _Bounded(_Plain):
    """Doubtful points with all centroids.

    Bounds cost a little, and pay once most points stay where they are. So they are begun when few points move; where
    nearly all points are doubtful all the same, they are dropped until half as many points move.
    """

    def __init__(self, tiles: Float32Array, n: int, k: int) -> None:
        super().__init__(tiles, n, k)
        self.bounds = new_bounds(len(tiles))
        self.begin_at = n // 8
        self.before: FloatArray | None = None  # the centroids that the bounds belong to
        self.seen: list[int] = []

    def next_pass(self, centroids: FloatArray, t: int, moved: int) -> Part:
        """See `_Plain`."""
        if 8 * sum(self.seen) > 7 * self.n:
            self.before, self.begin_at = None, moved // 2
        self.seen = []
        if t == 0 or (self.before is None and moved > self.begin_at):
            return super().next_pass(centroids, t, moved)
        (negated, halves), error = group(centroids), score_error(centroids)
        moved_by = np.zeros(0) if self.before is None else distances_moved(self.before, centroids)
        self.before = centroids.copy()

        def part(counts: FloatArray, sums: FloatArray, share: slice) -> int:
            n, labels, bounds = self.n - share.start * LANES, self.labels[share], self.bounds[share]
            tiles = self.tiles[share]
            n_moved, seen = reassign_bounded(tiles, n, negated, halves, error, moved_by, labels, bounds, counts, sums)
            if len(moved_by):
                self.seen.append(int(seen))
            return int(n_moved)

        return part
