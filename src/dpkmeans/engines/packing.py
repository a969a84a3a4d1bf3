"""From columns of numbers, as files and frames hold them, to packed blocks. Errors name the place, not the value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpkmeans._typing import AnyArray, Float32Array, FloatArray
from dpkmeans.core.bounds import Bounds
from dpkmeans.engines.block_tasks import Block
from dpkmeans.errors import DataError
from dpkmeans.kernels.assign import GRID_STEP
from dpkmeans.kernels.jit import compiled
from dpkmeans.kernels.simd_f32 import LANES

Nulls = Literal["refuse", "midpoint"]
NULLS = ("refuse", "midpoint")
_LINE = 256  # a multiple of LANES


@dataclass(frozen=True, repr=False)
class Batch:
    """Some records, column by column; missing values are NaN. `place` names a row and column without their value."""

    columns: Sequence[AnyArray]
    place: Callable[[int, int], str]

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self.columns[0])


def pack_batch(
    batch: Batch,
    bounds: Bounds,
    nulls: Nulls = "refuse",
    *,
    part: int = 0,
    first: int = 0,
    room: Float32Array | None = None,
) -> Block:
    """Clip the records, put them on the grid and pack them. A missing value is refused, or becomes the box's middle.

    `room` is an array of tiles that may be written over, so that batch after batch needs no new memory.
    """
    if len(batch.columns) != bounds.n_features:
        raise DataError(f"records have {len(batch.columns)} features; the bounds have {bounds.n_features}.")
    n, n_tiles = batch.n, -(-batch.n // LANES)
    if room is None or len(room) < n_tiles:
        room = new_room(batch.n, bounds.n_features)
    tiles = room[:n_tiles]
    if n % LANES:
        tiles[-1] = 0.0
    scale = bounds.scale
    for j, column in enumerate(batch.columns):
        lower, upper = bounds.lower[j], bounds.upper[j]
        with np.errstate(over="ignore"):  # a long double may be infinite as a float64; it is clipped
            values = np.ascontiguousarray(column, dtype=np.float64)
        middle = np.rint((lower + (upper - lower) / 2 - lower) * scale) * GRID_STEP
        missing = pack_column(values, lower, upper, scale, middle, tiles, j)
        if missing and nulls == "refuse":
            row = int(np.flatnonzero(np.isnan(values))[0])
            raise DataError(
                f"{batch.place(row, j)} has empty cells or NaN.",
                hint="Drop or fill those records first, or put the middle of the bounds in their place with "
                "{nulls='midpoint'}.",
            )
    return Block(tiles, n, part, first)


def new_room(n: int, n_features: int) -> Float32Array:
    """Tiles for `n` records, not yet written."""
    return np.empty((-(-n // LANES), n_features, LANES), np.float32)


@compiled
def pack_column(
    values: FloatArray, lower: float, upper: float, scale: float, middle: float, tiles: Float32Array, j: int
) -> int:
    """Write one column into tiles as grid points, `middle` for NaN. Returns how many NaN there were.

    In two steps, through a line of `_LINE` points: compilers vectorise a plain loop over a line, and not one that
    jumps from tile to tile.
    """
    n, missing = len(values), 0
    line = np.empty(_LINE, np.float32)
    for start in range(0, n, _LINE):
        part = values[start : start + _LINE]
        for i in range(len(part)):
            x = part[i]
            missing += x != x
            clipped = x if x > lower else lower  # faster than max and min, same result
            clipped = clipped if clipped < upper else upper
            point = np.rint((clipped - lower) * scale) * GRID_STEP
            line[i] = point if x == x else middle
        for t in range(len(part) // LANES):
            tile = tiles[start // LANES + t, j]
            for w in range(LANES):
                tile[w] = line[t * LANES + w]
        for i in range(len(part) // LANES * LANES, len(part)):
            tiles[(start + i) // LANES, j, i % LANES] = line[i]
    return missing
