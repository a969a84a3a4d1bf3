"""From columns of numbers, as files and frames hold them, to packed blocks. Errors name the place, not the value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpkmeans.arrays import AnyArray, Float32Array, FloatArray
from dpkmeans.bounds import Bounds
from dpkmeans.engines.kernels import GRID_STEP, compiled
from dpkmeans.engines.tasks import Block
from dpkmeans.engines.tiles import LANES
from dpkmeans.errors import DataError

Nulls = Literal["refuse", "midpoint"]
NULLS = ("refuse", "midpoint")


@dataclass(frozen=True, repr=False)
class Batch:
    """Some records, column by column; missing values are NaN. `place` names a row and column without their value."""

    columns: Sequence[AnyArray]
    place: Callable[[int, int], str]

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self.columns[0])


def pack_batch(batch: Batch, bounds: Bounds, nulls: Nulls = "refuse", *, part: int = 0, first: int = 0) -> Block:
    """Clip the records, put them on the grid and pack them. A missing value is refused, or becomes the box's middle."""
    if len(batch.columns) != bounds.n_features:
        raise DataError(f"records have {len(batch.columns)} features; the bounds have {bounds.n_features}.")
    n = batch.n
    tiles = np.zeros((-(-n // LANES), bounds.n_features, LANES), np.float32)
    for j, column in enumerate(batch.columns):
        lower, upper = bounds.lower[j], bounds.upper[j]
        with np.errstate(over="ignore"):  # a long double may be infinite as a float64; it is clipped
            values = np.ascontiguousarray(column, dtype=np.float64)
        middle = np.rint((lower + (upper - lower) / 2 - lower) * bounds.scale) * GRID_STEP
        missing = pack_column(values, lower, upper, bounds.scale, middle, tiles, j)
        if missing and nulls == "refuse":
            row = int(np.flatnonzero(np.isnan(values))[0])
            raise DataError(
                f"{batch.place(row, j)} has empty cells or NaN. Drop or fill those records first, or put the middle "
                "of the bounds in their place with nulls='midpoint'."
            )
    return Block(tiles, n, part, first)


@compiled
def pack_column(
    values: FloatArray, lower: float, upper: float, scale: float, middle: float, tiles: Float32Array, j: int
) -> int:
    """Write one column into tiles as grid points, `middle` for NaN. Returns how many NaN there were."""
    n = len(values)
    missing = 0
    whole = n // LANES
    for t in range(whole):  # a loop of fixed length becomes a few vector instructions
        for w in range(LANES):
            x = values[t * LANES + w]
            missing += x != x
            point = np.rint((min(max(x, lower), upper) - lower) * scale) * GRID_STEP
            tiles[t, j, w] = point if x == x else middle
    for i in range(whole * LANES, n):
        x = values[i]
        missing += x != x
        point = np.rint((min(max(x, lower), upper) - lower) * scale) * GRID_STEP
        tiles[whole, j, i % LANES] = point if x == x else middle
    return missing
