"""Lloyd's algorithm over tiles in memory, with as few comparisons as possible; always the same centroids, to the bit.

| where | what |
| --- | --- |
| k·d is large | points that cannot have changed their cell are skipped: `hamerly` |
| k·d is large, and few points can be skipped | only centroids that moved are scored anew: `moved_centroids` |
| few features, many centroids | a block of points is compared only with centroids near it: `block_pruning` |
| else | all points with all centroids, in one compiled call when there is one thread: `assign` |
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeAlias

import numpy as np

from dpkmeans._typing import Float32Array, FloatArray
from dpkmeans.core.engine import LloydEnd
from dpkmeans.kernels.assign import interleave_centroids, lloyd, move_to_means, new_labels, reassign, score_error
from dpkmeans.kernels.block_pruning import BLOCK, bounding_balls, morton_sorted, reassign_pruned
from dpkmeans.kernels.hamerly import distances_moved, new_bounds, reassign_hamerly
from dpkmeans.kernels.moved_centroids import only, reassign_moved, unknown_scores, which_moved
from dpkmeans.kernels.simd_f32 import LANES
from dpkmeans.kernels.work_queue import drain, interleave, split_evenly

MAX_TILES_ALONE = 1024  # up to here, one thread is faster than several
MIN_HAMERLY_SIZE = 2048  # entries k·d from which the bounds pay for themselves
MAX_PRUNED_FEATURES, MIN_PRUNED_CENTROIDS = 3, 64  # where pruning by blocks pays for itself
MAX_PRUNED_BYTES = 2**25  # bytes for the sorted copy
MAX_MOVED = 4  # points that change cells, per centroid, from which on enough centroids stay where they are
MOST_MOVED = 0.75  # of the centroids; if more moved, all are scored as if all had
ITEMS_PER_THREAD = 8  # so that idle threads take over from a delayed one
CACHE_LINE_GAP = 16  # float64 entries between the partial sums of two threads, which must not share a cache line

Part: TypeAlias = Callable[[FloatArray, FloatArray, slice], int]
"""Reassigns the points of some tiles; adds to counts and sums what changes; returns how many points moved."""


def lloyd_over_tiles(tiles: Float32Array, n: int, start: FloatArray, max_iter: int, n_threads: int) -> LloydEnd:
    """Lloyd's algorithm from `start`, shape (k, d), until the assignment repeats or `max_iter` moves are made."""
    centroids = np.array(start, dtype=np.float64)
    k, d = centroids.shape
    strategy: FullPass
    if k * d >= MIN_HAMERLY_SIZE:
        strategy = HamerlyPass(tiles, n, k)
    elif d <= MAX_PRUNED_FEATURES and k >= MIN_PRUNED_CENTROIDS and tiles.nbytes <= MAX_PRUNED_BYTES:
        strategy = PrunedPass(tiles, n, k)
    elif n_threads == 1 or len(tiles) <= MAX_TILES_ALONE:
        moves, stopped = lloyd(tiles, n, centroids, max_iter, *(new_labels(len(tiles), k) for _ in range(2)))
        return LloydEnd(centroids, moves, stopped)
    else:
        strategy = FullPass(tiles, n, k)
    return _by_passes(strategy, centroids, max_iter, n_threads if len(tiles) > MAX_TILES_ALONE else 1)


def _by_passes(strategy: FullPass, centroids: FloatArray, max_iter: int, n_threads: int) -> LloydEnd:
    """Pass after pass, each cut into items of whole blocks. Sums are exact, so any thread may take any item."""
    counts, sums = np.zeros(len(centroids)), np.zeros(centroids.shape)
    blocks = split_evenly(-(-len(strategy.tiles) // BLOCK), n_threads * ITEMS_PER_THREAD if n_threads > 1 else 1)
    shares = [slice(share.start * BLOCK, min(share.stop * BLOCK, len(strategy.tiles))) for share in blocks]
    partial_counts = np.zeros((n_threads, len(counts) + CACHE_LINE_GAP))[:, : len(counts)]
    partial_sums = np.zeros((n_threads, len(sums) + CACHE_LINE_GAP, centroids.shape[1]))[:, : len(sums)]
    moved = strategy.n
    with ThreadPoolExecutor(max(n_threads - 1, 1)) as others:
        for t in range(max_iter):
            partial_counts[:] = 0.0
            partial_sums[:] = 0.0
            left, part = interleave(shares, n_threads), strategy.next_pass(centroids, t, moved)
            parts = [partial(part, *buffers) for buffers in zip(partial_counts, partial_sums, strict=True)]
            at_work = [others.submit(drain, left, one) for one in parts[1:]]
            moved = sum(drain(left, parts[0])) + sum(sum(task.result()) for task in at_work)
            counts += partial_counts.sum(axis=0)
            sums += partial_sums.sum(axis=0)
            if moved == 0 and t > 0:
                return LloydEnd(centroids, t, True)
            move_to_means(centroids, counts, sums)
    return LloydEnd(centroids, max_iter, False)


class FullPass:
    """Compare all points with all centroids."""

    def __init__(self, tiles: Float32Array, n: int, k: int) -> None:
        self.tiles = tiles
        self.n = n
        self.labels, self.scratch = new_labels(len(tiles), k), new_labels(len(tiles), k)

    def next_pass(self, centroids: FloatArray, t: int, moved: int) -> Part:
        """What pass `t` does with a share of the tiles; `moved` points changed their cell in the pass before."""
        groups = interleave_centroids(centroids)
        self.labels, self.scratch = self.scratch, self.labels

        def part(counts: FloatArray, sums: FloatArray, share: slice) -> int:
            before, labels = self.scratch[share if t > 0 else slice(0)], self.labels[share]
            n = self.n - share.start * LANES
            return int(reassign(self.tiles[share], n, *groups, before, labels, counts, sums))

        return part


class PrunedPass(FullPass):
    """Compare each block of points with the centroids near it. Works on a sorted copy."""

    def __init__(self, tiles: Float32Array, n: int, k: int) -> None:
        super().__init__(morton_sorted(tiles, n), n, k)
        self.balls = bounding_balls(self.tiles, n)

    def next_pass(self, centroids: FloatArray, t: int, moved: int) -> Part:
        groups, error = interleave_centroids(centroids), score_error(centroids)
        self.labels, self.scratch = self.scratch, self.labels

        def part(counts: FloatArray, sums: FloatArray, share: slice) -> int:
            before, labels = self.scratch[share if t > 0 else slice(0)], self.labels[share]
            n, tiles = self.n - share.start * LANES, self.tiles[share]
            balls = self.balls[share.start // BLOCK : -(-share.stop // BLOCK)]
            return int(reassign_pruned(tiles, n, groups, error, balls, before, labels, (counts, sums)))

        return part


class MovedPass(FullPass):
    """Compare all points with the centroids that moved, once so few points change cells that some do not."""

    def __init__(self, tiles: Float32Array, n: int, k: int) -> None:
        super().__init__(tiles, n, k)
        self.k = k
        self.keeps_scores = True
        self.scored: tuple[Float32Array, Float32Array] | None = None  # the centroids that the kept scores belong to
        self.kept = unknown_scores(0)

    def next_pass(self, centroids: FloatArray, t: int, moved: int) -> Part:
        if t == 0 or not self.keeps_scores or (self.scored is None and moved > MAX_MOVED * self.k):
            return super().next_pass(centroids, t, moved)
        groups = interleave_centroids(centroids)
        everything = np.ones(groups[1].shape[1], np.bool_)
        has_moved = everything if self.scored is None else which_moved(self.scored, groups)
        if np.mean(has_moved) > MOST_MOVED:  # then bounds on the others' scores are of little use
            self.kept, has_moved, moved_groups = unknown_scores(len(self.tiles)), everything, groups
        else:
            moved_groups = only(groups, has_moved)
        self.scored = groups

        def part(counts: FloatArray, sums: FloatArray, share: slice) -> int:
            n, labels, kept = self.n - share.start * LANES, self.labels[share], self.kept[share]
            tiles = self.tiles[share]
            return int(reassign_moved(tiles, n, groups, moved_groups, has_moved, labels, kept, (counts, sums)))

        return part


class HamerlyPass(MovedPass):
    """Compare only the points whose label is in doubt with all centroids.

    Keeping bounds pays only once most points stay in their cells. So they are set up when few points move, and dropped
    again, until half as many move, if nearly all points turn out to be in doubt. By then it may be cheaper to score
    only the centroids that moved; from then on bounds are not tried again.
    """

    def __init__(self, tiles: Float32Array, n: int, k: int) -> None:
        super().__init__(tiles, n, k)
        self.bounds = new_bounds(len(tiles))
        self.begin_at = n // 8
        self.before: FloatArray | None = None  # the centroids that the bounds belong to
        self.seen: list[int] = []
        self.keeps_scores = False  # until bounds have turned out to be of no use

    def next_pass(self, centroids: FloatArray, t: int, moved: int) -> Part:
        if 8 * sum(self.seen) > 7 * self.n:
            self.before, self.begin_at, self.keeps_scores = None, moved // 2, True
        self.seen = []
        if t == 0 or (self.before is None and (moved > self.begin_at or self.scored is not None)):
            return super().next_pass(centroids, t, moved)
        groups, error = interleave_centroids(centroids), score_error(centroids)
        moved_by = np.zeros(0) if self.before is None else distances_moved(self.before, centroids)
        self.before = centroids.copy()

        def part(counts: FloatArray, sums: FloatArray, share: slice) -> int:
            n, labels, bounds = self.n - share.start * LANES, self.labels[share], self.bounds[share]
            tiles = self.tiles[share]
            n_moved, seen = reassign_hamerly(tiles, n, groups, error, moved_by, labels, bounds, (counts, sums))
            if len(moved_by):
                self.seen.append(int(seen))
            return int(n_moved)

        return part
