"""A pass of Lloyd's algorithm that skips the points which cannot have changed their cell (Hamerly's bounds).

Each point keeps an upper bound on the distance to its own centroid and a lower bound on the distance to any other. When
centroids move, the bounds are loosened by as much; as long as they do not overlap, the point keeps its label. The other
points are gathered from their tiles into a new tile, so that the tile kernel always works on a full one.

Labels are the tile kernel's own, to the bit: the gap between two bounds must exceed all its rounding errors.
"""

from __future__ import annotations

import numpy as np

from dpkmeans._typing import AnyArray, Float32Array, FloatArray
from dpkmeans.kernels.jit import compiled
from dpkmeans.kernels.simd_f32 import LANES, two_nearest_in_tile

UP, DOWN = 1 + 2.0**-21, 1 - 2.0**-21  # cover a few roundings to float32
MAX_GATHERED = LANES // 2  # if more points of a tile are in doubt, the whole tile is scored where it is
UPPER, LOWER, SQUARE = 0, 1, 2  # rows of the bounds of a tile; the last is |x|²


def new_bounds(n_tiles: int) -> Float32Array:
    """A buffer for the bounds of the points of `n_tiles` tiles."""
    return np.zeros((n_tiles, 3, LANES), np.float32)


@compiled
def distances_moved(before: FloatArray, after: FloatArray) -> FloatArray:
    """Upper bound on how far each centroid moved, rounded to float32 as in the tile kernel; shape (k,)."""
    distances = np.zeros(len(after))
    for c in range(len(after)):
        for j in range(after.shape[1]):
            distances[c] += (np.float64(np.float32(after[c, j])) - np.float64(np.float32(before[c, j]))) ** 2
        distances[c] = np.sqrt(distances[c]) * UP if distances[c] >= 0.0 else np.inf
    return distances


@compiled
def farthest_other(moved_by: FloatArray) -> FloatArray:
    """For each centroid, the largest distance that any other one moved; shape (k,)."""
    largest, second, which = 0.0, 0.0, 0
    for c in range(len(moved_by)):
        if moved_by[c] > largest:
            largest, second, which = moved_by[c], largest, c
        else:
            second = max(second, moved_by[c])
    others = np.full(len(moved_by), largest)
    others[which] = second
    return others


@compiled
def reassign_hamerly(
    tiles: Float32Array,
    n: int,
    groups: tuple[Float32Array, Float32Array],
    error: float,
    moved_by: FloatArray,
    labels: AnyArray,
    bounds: Float32Array,
    totals: tuple[FloatArray, FloatArray],
) -> tuple[int, int]:
    """`assign.reassign` in place: `labels` and `bounds` belong to centroids that have since `moved_by` (k,).

    If `moved_by` is empty, there are labels but no bounds yet. `groups` and `error` come from
    `assign.interleave_centroids` and `assign.score_error`; `totals` are counts (k,) and sums (k, d). Returns how many
    points changed their cell and how many were scored.
    """
    negated, half_norms = groups
    fresh, fresh_bounds = np.zeros((1, tiles.shape[1], LANES), np.float32), np.zeros((3, LANES), np.float32)
    found, scores = np.zeros((1, LANES), labels.dtype), np.zeros((2, LANES), np.float32)
    doubtful, rows, waiting = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64), 0
    others = farthest_other(moved_by)
    moved, seen = 0, 0
    for t in range(len(tiles)):
        n_real = min(LANES, n - t * LANES)
        if len(moved_by) == 0:
            squared_norms(tiles[t], bounds[t])
            n_doubtful = LANES
        else:
            n_doubtful = loosen_bounds(bounds[t], n_real, labels[t], moved_by, others, error, doubtful)
        seen += min(n_doubtful, n_real)
        if n_doubtful > MAX_GATHERED:
            two_nearest_in_tile(tiles, t, negated, half_norms, found, scores)
            bounds_from_scores(scores, error, bounds[t])
            for w in range(n_real):
                if found[0, w] != labels[t, w]:
                    moved += 1
                    move_point(tiles, t, w, labels[t, w], found[0, w], totals)
                    labels[t, w] = found[0, w]
            continue
        for i in range(n_doubtful):
            for j in range(tiles.shape[1]):
                fresh[0, j, waiting] = tiles[t, j, doubtful[i]]
            fresh_bounds[SQUARE, waiting] = bounds[t, SQUARE, doubtful[i]]
            rows[waiting] = t * LANES + doubtful[i]
            waiting += 1
            if waiting == LANES:
                two_nearest_in_tile(fresh, 0, negated, half_norms, found, scores)
                bounds_from_scores(scores, error, fresh_bounds)
                moved += scatter_back(fresh, fresh_bounds, rows, waiting, found, labels, bounds, totals)
                waiting = 0
    two_nearest_in_tile(fresh, 0, negated, half_norms, found, scores)
    bounds_from_scores(scores, error, fresh_bounds)
    moved += scatter_back(fresh, fresh_bounds, rows, waiting, found, labels, bounds, totals)
    return moved, seen


@compiled
def squared_norms(tile: Float32Array, bounds: Float32Array) -> None:
    """|x|² of each point of a tile."""
    bounds[SQUARE] = 0.0
    for j in range(len(tile)):
        for w in range(LANES):
            bounds[SQUARE, w] += tile[j, w] * tile[j, w]


@compiled
def loosen_bounds(
    bounds: Float32Array,
    n: int,
    labels: AnyArray,
    moved_by: FloatArray,
    others: FloatArray,
    error: float,
    doubtful: AnyArray,
) -> int:
    """Loosen the bounds of a tile; list the points whose label is no longer certain. Returns how many.

    A score is half of (squared distance - |x|²). Two scores, each off by at most `error`, are in the right order if the
    squared distances differ by more than four times that.
    """
    n_doubtful = 0
    for w in range(n):
        upper = (bounds[UPPER, w] + moved_by[labels[w]]) * UP
        lower = (bounds[LOWER, w] - others[labels[w]]) * DOWN
        bounds[UPPER, w] = upper
        bounds[LOWER, w] = lower
        doubtful[n_doubtful] = w
        n_doubtful += not (lower > 0.0 and lower * lower - upper * upper > 4.0 * error)
    return n_doubtful


@compiled
def bounds_from_scores(scores: Float32Array, error: float, bounds: Float32Array) -> None:
    """Bounds from the lowest and second lowest score of each point; a distance² is |x|² + twice its score."""
    zero, two, slack, up, down = np.float32(0), np.float32(2), np.float32(4 * error), np.float32(UP), np.float32(DOWN)
    for w in range(LANES):
        bounds[UPPER, w] = np.sqrt(max(bounds[SQUARE, w] + two * scores[0, w] + slack, zero)) * up
        bounds[LOWER, w] = np.sqrt(max(bounds[SQUARE, w] + two * scores[1, w] - slack, zero)) * down


@compiled
def move_point(tiles: Float32Array, t: int, w: int, old: int, new: int, totals: tuple[FloatArray, FloatArray]) -> None:
    """Move a point from its old cell to its new one."""
    counts, sums = totals
    counts[new] += 1.0
    counts[old] -= 1.0
    for j in range(tiles.shape[1]):
        sums[new, j] += tiles[t, j, w]
        sums[old, j] -= tiles[t, j, w]


@compiled
def scatter_back(
    fresh: Float32Array,
    fresh_bounds: Float32Array,
    rows: AnyArray,
    n: int,
    found: AnyArray,
    labels: AnyArray,
    bounds: Float32Array,
    totals: tuple[FloatArray, FloatArray],
) -> int:
    """Write labels and bounds of `n` gathered points to their `rows`. Returns how many changed their cell."""
    moved = 0
    for w in range(n):
        t, lane = rows[w] // LANES, rows[w] % LANES
        bounds[t, UPPER, lane] = fresh_bounds[UPPER, w]
        bounds[t, LOWER, lane] = fresh_bounds[LOWER, w]
        if found[0, w] != labels[t, lane]:
            moved += 1
            move_point(fresh, 0, w, labels[t, lane], found[0, w], totals)
            labels[t, lane] = found[0, w]
    return moved
