"""From columns of numbers, as files and frames hold them, to packed blocks of grid points."""

from __future__ import annotations

import numpy as np

from dpkmeans._typing import AnyArray, Float32Array, FloatArray
from dpkmeans.core.bounds import GRID, Bounds
from dpkmeans.data.numbers import real_numbers
from dpkmeans.data.source import Batch, Nulls, array_batch
from dpkmeans.engines.block_tasks import Block
from dpkmeans.errors import DataError
from dpkmeans.kernels.quantise import into_ball, quantise
from dpkmeans.kernels.simd_f32 import LANES


def grid_points(X: AnyArray, bounds: Bounds) -> Float32Array:
    """Records `X`, shape (n, d), as grid points in unit coordinates, exact in float32. NaN is an error.

    >>> box = Bounds.of((0, [10, 5]), n_features=2)
    >>> grid_points(np.array([[10.0, 99.0]]), box).tolist()
    [[1.0, 0.5]]
    """
    return pack_batch(array_batch(X), bounds).rows(np.arange(len(X)))


def pack_batch(
    batch: Batch,
    bounds: Bounds,
    nulls: Nulls = "refuse",
    *,
    part: int = 0,
    first: int = 0,
    buffer: Float32Array | None = None,
) -> Block:
    """A block of the records as grid points; see `write_batch`.

    `buffer` is an array of tiles that may be written over, so that batch after batch needs no new memory.
    """
    n_tiles = -(-batch.n // LANES)
    if buffer is None or len(buffer) < n_tiles:
        buffer = new_buffer(batch.n, bounds.n_features)
    tiles = buffer[:n_tiles]
    if batch.n % LANES:
        tiles[-1] = 0.0
    write_batch(batch, bounds, nulls, tiles)
    return Block(tiles, batch.n, part, first)


def write_batch(batch: Batch, bounds: Bounds, nulls: Nulls, tiles: Float32Array, start: int = 0) -> None:
    """Put the records on the grid and write them into tiles, from point `start` on.

    A missing value is refused, or becomes the middle of the box; each record is looked at by itself. What is
    on the grid already stays as it is.
    """
    if len(batch.columns) != bounds.n_features:
        raise DataError(f"records have {len(batch.columns)} features; the bounds have {bounds.n_features}.")
    grid = bounds.grid
    if batch.on_grid:
        grid = np.stack([np.zeros(bounds.n_features), bounds.side.astype(np.float64), np.ones(bounds.n_features)])
    lower, upper, _ = grid
    ball = None if batch.on_grid else bounds.ball
    held = batch.columns if ball is None else np.asarray(batch.columns)
    for j, values in enumerate([held] if isinstance(held, np.ndarray) else [column[None] for column in held]):
        columns = _as_float64(values)
        if nulls == "midpoint":
            middle = (lower + (upper - lower) / 2)[j : j + len(columns), None]
            columns = np.where(np.isnan(columns), middle, columns)
        if ball is not None:
            center = np.array(ball.center_of(len(columns)))
            columns = into_ball(columns, center, ball.radius, ball.normalize)
        if quantise(columns, grid, 1 / GRID, tiles, start, j):
            batch.refuse_missing()


def _as_float64(values: AnyArray) -> FloatArray:
    """As the kernel reads it: rows or columns lie together."""
    columns = real_numbers(values)
    return columns if columns.flags.forc else np.ascontiguousarray(columns)


def new_buffer(n: int, n_features: int) -> Float32Array:
    """Tiles for `n` records, not yet written."""
    return np.empty((-(-n // LANES), n_features, LANES), np.float32)
