"""From records to grid points. The only place where a record is clipped, scaled and rounded."""

from __future__ import annotations

import numpy as np

from dpkmeans._typing import Float32Array, FloatArray
from dpkmeans.kernels.jit import compiled, compiled_or
from dpkmeans.kernels.simd_f32 import LANES


@compiled
def grid_point(x: float, low: float, high: float, scale: float, step: float) -> float:
    """The grid point of one number, in unit coordinates."""
    point: float = np.rint((min(max(x, low), high) - low) * scale) * step
    return point


@compiled
def into_ball(columns: FloatArray, center: FloatArray, radius: float, normalize: bool) -> FloatArray:
    """The columns, shape (d, n), with each point moved into the ball, or onto its surface with `normalize`.

    A point that is not finite stays so. Sums run over the features in their order, so a point depends on itself alone.
    """
    d, n = columns.shape
    out = np.empty((d, n))
    largest, squares = np.zeros(n), np.zeros(n)
    for j in range(d):
        for i in range(n):
            out[j, i] = columns[j, i] - center[j]
            largest[i] = max(largest[i], abs(out[j, i]))
    for j in range(d):
        for i in range(n):
            if largest[i] > 0.0:
                out[j, i] /= largest[i]  # at most 1, so that its square cannot overflow
            squares[i] += out[j, i] * out[j, i]
    for i in range(n):
        squares[i] = np.sqrt(squares[i])
    for j in range(d):
        for i in range(n):
            if largest[i] > 0.0 and (normalize or largest[i] * squares[i] > radius):
                out[j, i] = center[j] + out[j, i] * (radius / squares[i])
            else:
                out[j, i] = columns[j, i]
    return out


def _quantise_plain(
    columns: FloatArray, grid: FloatArray, step: float, tiles: Float32Array, start: int, feature: int
) -> int:
    m, n = columns.shape
    low, high, scale = grid[:, feature : feature + m, None]
    points = np.rint((np.minimum(np.maximum(columns, low), high) - low) * scale) * step
    place = np.arange(start, start + n)
    tiles[place // LANES, feature : feature + m, place % LANES] = points.T
    return int(np.count_nonzero(~(np.abs(columns) < np.inf)))


@compiled_or(_quantise_plain, lambda columns, *_: 8 * columns.size)
def quantise(columns: FloatArray, grid: FloatArray, step: float, tiles: Float32Array, start: int, feature: int) -> int:
    """Clip the columns, shape (m, n), shift, scale and round them, and write them into tiles as multiples of `step`.

    `grid` is that of the bounds: lower ends, upper ends and scales. The columns become features `feature` to
    `feature + m - 1` of points `start` to `start + n - 1`. Returns how many entries are not finite; what these become
    has no meaning. Each entry depends on itself and on the bounds alone.
    """
    m, n = columns.shape
    head = min(-start % LANES, n)
    whole = (n - head) // LANES
    missing = 0
    for t in range(whole):
        for j in range(m):
            low, high, scale = grid[0, feature + j], grid[1, feature + j], grid[2, feature + j]
            for w in range(LANES):  # a loop of fixed length becomes a few vector instructions
                x = columns[j, head + t * LANES + w]
                missing += not abs(x) < np.inf
                tiles[(start + head) // LANES + t, feature + j, w] = grid_point(x, low, high, scale, step)
    for r in range(n - whole * LANES):  # before and after the whole tiles
        i = r if r < head else r + whole * LANES
        for j in range(m):
            low, high, scale = grid[0, feature + j], grid[1, feature + j], grid[2, feature + j]
            x = columns[j, i]
            missing += not abs(x) < np.inf
            tiles[(start + i) // LANES, feature + j, (start + i) % LANES] = grid_point(x, low, high, scale, step)
    return missing
