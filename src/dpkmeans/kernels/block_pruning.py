"""A pass of Lloyd's algorithm for few features: a block of neighbouring points is compared only with nearby centroids.

Points are sorted along a Morton curve through a fine grid, so that a block of tiles lies in a small ball with
middle m and radius r. With a the centroid nearest to m, a point of the ball is at most |m - a| + r from it and at least
|m - c| - r from any other centroid c. If the second exceeds the first, c is nearest to no point of the block.

Labels are the same as with all centroids, to the bit: the test that leaves a centroid out allows for all rounding
errors of the scores, and the score of a centroid does not depend on the others.
"""

from __future__ import annotations

import numpy as np

from dpkmeans._typing import AnyArray, Float32Array, FloatArray, IntArray
from dpkmeans.kernels.assign import reassign
from dpkmeans.kernels.jit import compiled
from dpkmeans.kernels.simd_f32 import GROUP, LANES

BLOCK = 32  # tiles
ROUND_UP = 1 + 2.0**-40  # covers the rounding errors of a few operations in float64


def morton_sorted(tiles: Float32Array, n: int) -> Float32Array:
    """A copy of the tiles with the points sorted along a Morton curve through a grid of about one cell per block."""
    d = tiles.shape[1]
    bits = (max(len(tiles) // BLOCK, 1).bit_length() - 1) // d
    coordinate = np.arange(2**bits)
    parts = np.zeros((d, 2**bits), np.int32)
    for j in range(d):
        for b in range(bits):
            parts[j] += ((coordinate >> b & 1) << (b * d + j)).astype(np.int32)
    return _in_order(tiles, n, parts)


@compiled
def _in_order(tiles: Float32Array, n: int, parts: IntArray) -> Float32Array:
    """Counting sort by cell. `parts` (d, side) is what each coordinate adds to a cell's place on the curve."""
    d, side = parts.shape
    starts, cells = np.zeros(side**d + 1, np.int32), np.zeros((len(tiles), LANES), np.int32)
    for t in range(len(tiles)):
        for j in range(d):
            for w in range(LANES):
                cells[t, w] += parts[j, min(np.int32(tiles[t, j, w] * np.float32(side)), np.int32(side - 1))]
        for w in range(min(LANES, n - t * LANES)):
            starts[cells[t, w] + 1] += 1
    for cell in range(side**d):
        starts[cell + 1] += starts[cell]
    ordered = np.zeros(tiles.shape, np.float32)
    for t in range(len(tiles)):
        for w in range(min(LANES, n - t * LANES)):
            place = np.uint32(starts[cells[t, w]])  # without a sign, division by LANES is a shift
            starts[cells[t, w]] += 1
            for j in range(d):
                ordered[place // np.uint32(LANES), j, place % np.uint32(LANES)] = tiles[t, j, w]
    return ordered


@compiled
def bounding_balls(tiles: Float32Array, n: int) -> FloatArray:
    """Middle and radius of each block of tiles, shape (blocks, d + 1)."""
    d = tiles.shape[1]
    balls = np.zeros(((len(tiles) + BLOCK - 1) // BLOCK, d + 1))
    for b in range(len(balls)):
        for j in range(d):
            low, high = np.inf, -np.inf
            for i in range(b * BLOCK * LANES, min(n, (b + 1) * BLOCK * LANES)):
                x = tiles[i // LANES, j, i % LANES]
                low, high = min(low, x), max(high, x)
            balls[b, j] = 0.5 * (low + high)
            balls[b, d] += 0.25 * (high - low) ** 2
        balls[b, d] = np.sqrt(balls[b, d]) * ROUND_UP
    return balls


@compiled
def reassign_pruned(
    tiles: Float32Array,
    n: int,
    groups: tuple[Float32Array, Float32Array],
    error: float,
    balls: FloatArray,
    before: AnyArray,
    labels: AnyArray,
    totals: tuple[FloatArray, FloatArray],
) -> int:
    """`assign.reassign` for blocks of tiles with their balls. `error` comes from `assign.score_error`.

    `groups` come from `assign.interleave_centroids`; `totals` are counts (k,) and sums (k, d).
    """
    (negated, half_norms), (counts, sums) = groups, totals
    k, d = len(counts), tiles.shape[1]
    columns = np.zeros((d, k))
    for c in range(k):
        for j in range(d):
            columns[j, c] = -negated[c // GROUP, j, c % GROUP]
    near, near_half_norms, squares = np.zeros_like(negated), np.zeros_like(half_norms), np.zeros(k)
    moved = 0
    for b in range(len(balls)):
        n_groups = select_candidates(balls[b], columns, negated, half_norms, error, squares, near, near_half_norms)
        first, last = b * BLOCK, min((b + 1) * BLOCK, len(tiles))
        old = before[first:last] if len(before) else before
        rest, some, new = n - first * LANES, tiles[first:last], labels[first:last]
        moved += reassign(some, rest, near[:n_groups], near_half_norms, old, new, counts, sums)
    return moved


@compiled
def select_candidates(
    ball: FloatArray,
    columns: FloatArray,
    negated: Float32Array,
    half_norms: Float32Array,
    error: float,
    squares: FloatArray,
    near: Float32Array,
    near_half_norms: Float32Array,
) -> int:
    """Copy the centroids that may be nearest to a point of the ball into whole groups. Returns the number of groups.

    Two scores, each off by at most `error`, are in the right order if the squared distances differ by more than four
    times that; see `hamerly.loosen_bounds`.
    """
    d, k = columns.shape
    squares[:] = 0.0
    for j in range(d):
        for c in range(k):
            squares[c] += (columns[j, c] - ball[j]) ** 2
    reach = np.sqrt(squares.min()) + ball[d]
    limit = ((np.sqrt(reach * reach + 4.0 * error) + ball[d]) * ROUND_UP) ** 2
    chosen = 0
    for c in range(k):
        if not squares[c] > limit:
            for j in range(d):
                near[chosen // GROUP, j, chosen % GROUP] = negated[c // GROUP, j, c % GROUP]
            near_half_norms[0, chosen] = half_norms[0, c]
            near_half_norms[1, chosen] = half_norms[1, c]
            chosen += 1
    while chosen % GROUP:
        near_half_norms[0, chosen] = np.inf
        chosen += 1
    return chosen // GROUP
