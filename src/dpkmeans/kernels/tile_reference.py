"""What the LLVM of `llvm_f32` computes, in plain NumPy and to the bit.

It is the definition that tests compare with, and what a fit of few records runs.
"""

from __future__ import annotations

import numpy as np

from dpkmeans._typing import AnyArray, Float32Array, FloatArray, IntArray


def points_of(tiles: Float32Array, n: int) -> FloatArray:
    """The first `n` points of the tiles, shape (n, d).

    In float64, as compiled code computes: NumPy 1 keeps float32 in float32 where it meets a single float64.
    """
    return np.asarray(tiles.transpose(0, 2, 1).reshape(-1, tiles.shape[1])[:n], np.float64)


def nearest(points: FloatArray, centroids: FloatArray) -> IntArray:
    """Nearest of the centroids (k, d) for points (n, d), by scores ½|c|² - x·c; the first of equal ones, shape (n,)."""
    half_norms = np.zeros(len(centroids))
    for j in range(centroids.shape[1]):
        half_norms += centroids[:, j] * centroids[:, j]
    return lowest(points, -centroids.astype(np.float32), (0.5 * half_norms).astype(np.float32))


def lowest(points: FloatArray, negated: Float32Array, half_norms: Float32Array) -> IntArray:
    """The same for centroids that were negated, shape (k, d), and given with ½|c|², shape (k,)."""
    scores = np.tile(half_norms, (len(points), 1))
    for j in range(points.shape[1]):
        scores = fused(points[:, j, None], negated[None, :, j], scores)
    labels: IntArray = scores.argmin(axis=1)
    return labels


def fused(x: FloatArray, c: Float32Array, total: Float32Array) -> Float32Array:
    """x·c + total, rounded once to float32: in float64, with an odd last bit where inexact, which rounds right."""
    product = x * c.astype(np.float64)  # exact
    wide = product + total
    back = wide - product
    error = (product - (wide - back)) + (total - back)
    towards = np.nextafter(wide, np.where(error > 0, np.inf, -np.inf))
    even = (wide.view(np.int64) & 1) == 0
    rounded: AnyArray = np.where((error != 0) & even, towards, wide)
    return rounded.astype(np.float32)
