"""Compiled loops over points. Plain functions of arrays; nothing here knows about privacy.

Points lie in tiles, shape (tiles, d, LANES), float32, padded with zeros; `n` is how many of them are real. Sums of
grid points are exact in float64, so their order does not matter.
"""

from __future__ import annotations

import numpy as np

from dpkmeans._typing import AnyArray, Float32Array, FloatArray, IntArray
from dpkmeans.kernels.jit import compiled, compiled_or
from dpkmeans.kernels.simd_f32 import GROUP, LANES, nearest_in_tile
from dpkmeans.kernels.tile_reference import lowest, points_of

SQUARE_STEP = 2.0**-40  # squares of grid points are multiples of it


def _interleave_plain(centroids: FloatArray) -> tuple[Float32Array, Float32Array]:
    k, d = centroids.shape
    n_groups = (k + GROUP - 1) // GROUP
    padded = np.zeros((n_groups * GROUP, d), np.float32)
    padded[:k] = -centroids
    half_norms = np.full((2, n_groups * GROUP), np.inf, np.float32)
    square = np.zeros(k)
    for j in range(d):
        square += centroids[:, j] * centroids[:, j]
    half_norms[0, :k] = 0.5 * square
    half_norms[1].view(np.int32)[:k] = np.arange(k)
    return np.ascontiguousarray(padded.reshape(n_groups, GROUP, d).transpose(0, 2, 1)), half_norms


@compiled_or(_interleave_plain, lambda centroids: 4 * centroids.size)
def interleave_centroids(centroids: FloatArray) -> tuple[Float32Array, Float32Array]:
    """Centroids (k, d) as the tile kernel reads them: negated, shape (k/GROUP, d, GROUP), and their half norms (2, k).

    The latter holds ½|c|², and each centroid's index as the bits of a float32: loading it is cheaper than counting.
    Both are padded to whole groups; ½|c|² with infinity, which is never the nearest.
    """
    k, d = centroids.shape
    n_groups = (k + GROUP - 1) // GROUP
    negated = np.zeros((n_groups, d, GROUP), np.float32)
    half_norms = np.full((2, n_groups * GROUP), np.inf, np.float32)
    indices = half_norms[1].view(np.int32)
    for c in range(k):
        square = 0.0
        for j in range(d):
            negated[c // GROUP, j, c % GROUP] = -centroids[c, j]
            square += centroids[c, j] * centroids[c, j]
        half_norms[0, c] = 0.5 * square
        indices[c] = c
    return negated, half_norms


def _reassign_plain(
    tiles: Float32Array,
    n: int,
    centroids: Float32Array,
    half_norms: Float32Array,
    before: AnyArray,
    labels: AnyArray,
    counts: FloatArray,
    sums: FloatArray,
) -> int:
    k, points = len(counts), points_of(tiles, labels.size)
    negated = centroids.transpose(0, 2, 1).reshape(-1, tiles.shape[1])[:k]
    found = lowest(points, negated, half_norms[0, :k])
    real = np.arange(labels.size) < n
    moved = real if len(before) == 0 else real & (found != before.reshape(-1))
    _add_points(counts, sums, found[moved], points[moved], 1.0)
    if len(before):
        _add_points(counts, sums, before.reshape(-1)[moved], points[moved], -1.0)
    labels[:] = found.reshape(labels.shape)
    return int(np.count_nonzero(moved))


def _add_points(counts: FloatArray, sums: FloatArray, labels: AnyArray, points: FloatArray, sign: float) -> None:
    """Add points to the statistics of their cells, or take them away."""
    counts += sign * np.bincount(labels, minlength=len(counts))
    for j in range(points.shape[1]):
        sums[:, j] += sign * np.bincount(labels, points[:, j], minlength=len(counts))


@compiled_or(_reassign_plain, lambda tiles, n, centroids, *_: (24 + 16 * centroids.size // tiles.shape[1]) * tiles.size)
def reassign(
    tiles: Float32Array,
    n: int,
    centroids: Float32Array,
    half_norms: Float32Array,
    before: AnyArray,
    labels: AnyArray,
    counts: FloatArray,
    sums: FloatArray,
) -> int:
    """Label the points; for each whose label differs from `before`, move it from its old cell to its new one.

    `before` may be empty: then every point is added to its cell. Returns how many points moved.
    """
    first = len(before) == 0
    if first:
        before = labels
    moved = 0
    for t in range(len(tiles)):
        changed = nearest_in_tile(tiles, t, centroids, half_norms, before, labels, t)
        if changed == 0 and not first:
            continue
        for w in range(min(LANES, n - t * LANES)):
            if first or changed >> np.uint32(w) & np.uint32(1):
                moved += 1
                counts[labels[t, w]] += 1.0
                for j in range(tiles.shape[1]):
                    sums[labels[t, w], j] += tiles[t, j, w]
                if not first:
                    counts[before[t, w]] -= 1.0
                    for j in range(tiles.shape[1]):
                        sums[before[t, w], j] -= tiles[t, j, w]
    return moved


def _move_to_means_plain(centroids: FloatArray, counts: FloatArray, sums: FloatArray) -> None:
    filled = counts > 0.0
    centroids[filled] = sums[filled] / counts[filled, None]


@compiled_or(_move_to_means_plain, lambda centroids, *_: 4 * centroids.size)
def move_to_means(centroids: FloatArray, counts: FloatArray, sums: FloatArray) -> None:
    """Put each centroid on the mean of its cell; that of an empty cell stays."""
    for c in range(len(centroids)):
        if counts[c] > 0.0:
            for j in range(centroids.shape[1]):
                centroids[c, j] = sums[c, j] / counts[c]


@compiled
def lloyd(
    tiles: Float32Array, n: int, centroids: FloatArray, max_iter: int, labels: AnyArray, before: AnyArray
) -> tuple[int, bool]:
    """Lloyd's algorithm in place, in one call. Returns the moves made and whether the assignment repeated.

    `labels` and `before` are scratch, shape (tiles, LANES).
    """
    counts, sums = np.zeros(len(centroids)), np.zeros(centroids.shape)
    for t in range(max_iter):
        negated, half_norms = interleave_centroids(centroids)
        old = before if t > 0 else before[:0]
        if reassign(tiles, n, negated, half_norms, old, labels, counts, sums) == 0 and t > 0:
            return t, True
        labels, before = before, labels
        move_to_means(centroids, counts, sums)
    return max_iter, False


@compiled
def score_error(centroids: FloatArray) -> float:
    """Upper bound on the error of the tile kernel's scores ½(distance² - |x|²), for points of the unit box.

    Every partial sum is at most ½|c|² + |c|₁, and d + 1 of them are rounded to 2^-24 of that; the centroids themselves
    are rounded to float32, which moves ½|c|² by 2^-24 |c|² at most. |x|² is at most d.
    """
    d = centroids.shape[1]
    largest = 0.0
    for c in range(len(centroids)):
        size = 0.0
        for j in range(d):
            size += abs(centroids[c, j]) + 0.5 * centroids[c, j] * centroids[c, j]
        largest = max(largest, size)
    error: float = 2.0**-24 * (d + 8) * (largest + d)
    return error


@compiled
def take(tiles: Float32Array, rows: IntArray, out: FloatArray) -> None:
    """Copy the points at `rows` out of the tiles, shape (rows, d)."""
    for i in range(len(rows)):
        for j in range(tiles.shape[1]):
            out[i, j] = tiles[rows[i] // LANES, j, rows[i] % LANES]


def new_labels(n_tiles: int, k: int) -> AnyArray:
    """A buffer for labels below `k`, shape (tiles, LANES), in the smallest type that holds them."""
    return np.zeros((n_tiles, LANES), np.uint8 if k <= 2**8 else np.uint16 if k <= 2**16 else np.uint32)


def cost_of(counts: FloatArray, sums: FloatArray, centroids: FloatArray, squares: int) -> float:
    """Σ|x - c|² = Σ|x|² + Σ_c (n_c |c|² - 2 c·s_c), with `squares` in steps of 2^-40."""
    rest = np.sum(counts * (centroids * centroids).sum(axis=1)) - 2 * np.sum(sums * centroids)
    return max(squares * SQUARE_STEP + float(rest), 0.0)
