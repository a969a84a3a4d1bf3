"""The subspace in which the start works, and the records in it. Post-processing of a noisy covariance, or public.

Directions are rounded to multiples of 2^-15, so that the projection of a grid point is an exact sum of products of
whole numbers. It is then put on a grid of its own. So what becomes of a record depends on it and on public values
alone, and is the same to the bit on every engine and processor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkmeans._typing import Float32Array, FloatArray, IntArray
from dpkmeans.core.bounds import GRID, Bounds
from dpkmeans.core.engine import Engine
from dpkmeans.core.exact import Exact
from dpkmeans.core.query import Query
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.kernels.jit import compiled
from dpkmeans.kernels.simd_f32 import LANES
from dpkmeans.synopsis.moved_query import MovedQuery
from dpkmeans.synopsis.view import Asked
from dpkmeans.wide.linear_algebra import leading_eigenvectors, orthonormalise, product
from dpkmeans.wide.settings import DIRECTION_BITS, ITERATIONS, OVERSAMPLED

HALF = GRID // 2
WHOLE_STEPS = float(GRID)  # for compiled loops
MIDDLE = float(HALF)


@dataclass(frozen=True, eq=False)
class Subspace:
    """p directions through `origin` (d,), in whole multiples of 2^-15, shape (p, d), and how far along each to look.

    `reach`, in grid steps, is the half side of the box in which projected records lie; `scales` (p,) say how far
    records spread along each direction, up to a common factor.
    """

    origin: IntArray
    directions: IntArray
    reach: float
    scales: FloatArray

    @property
    def step(self) -> float:
        """One step of the grid of projections in steps of the grid of records."""
        return self.reach / HALF

    @property
    def bounds(self) -> Bounds:
        """The box of projections."""
        return Bounds((0.0,) * len(self.directions), (1.0,) * len(self.directions))

    def lift(self, points: FloatArray) -> FloatArray:
        """Points (m, p), in steps of projections, as offsets (m, d) from the origin in steps of records."""
        return product(points * self.step, self._rows)

    def within(self, offsets: FloatArray) -> FloatArray:
        """The part of offsets (m, d) that lies in the subspace, shape (m, d)."""
        return product(product(offsets, np.ascontiguousarray(self._rows.T)), self._rows)

    @property
    def _rows(self) -> FloatArray:
        return np.asarray(self.directions / 2**DIRECTION_BITS, np.float64)

    def project(self, tiles: Float32Array) -> Float32Array:
        """Tiles of records (t, d, LANES) as tiles of projections (t, p, LANES)."""
        out = np.empty((len(tiles), len(self.directions), LANES), np.float32)
        factor = HALF / (self.reach * 2**DIRECTION_BITS)
        _project(tiles, (self.origin / GRID).astype(np.float32), self.directions.astype(np.float64), factor, out)
        return out


def leading_subspace(
    covariance: FloatArray, origin: IntArray, reach: float, n_directions: int, noise: float, rng: np.random.Generator
) -> Subspace:
    """The leading eigenvectors of a noisy covariance (d, d), whose noise has eigenvalues up to about `noise`."""
    d = len(covariance)
    start = rng.random((min(n_directions + OVERSAMPLED, d), d)) - 0.5
    values, rows = leading_eigenvectors(covariance, start, noise, ITERATIONS)
    scales = np.sqrt(np.maximum(values[:n_directions], 1e-6 * max(float(values[0]), 1.0)))
    return Subspace(origin, _rounded(rows[:n_directions]), reach, scales)


def random_subspace(origin: IntArray, reach: float, n_directions: int, rng: np.random.Generator) -> Subspace:
    """Public random directions."""
    rows = rng.random((n_directions, len(origin))) - 0.5
    orthonormalise(rows)
    return Subspace(origin, _rounded(rows), reach, np.ones(n_directions))


def _rounded(rows: FloatArray) -> IntArray:
    found: IntArray = np.rint(rows * 2**DIRECTION_BITS).astype(np.int64)
    return found


@compiled
def _project(
    tiles: Float32Array, origin: Float32Array, directions: FloatArray, factor: float, out: Float32Array
) -> None:
    """Projections of all points; sums of whole numbers below 2^15 · 2^20 · 2^13 are exact in any order."""
    d = tiles.shape[1]
    steps, total = np.empty((d, LANES)), np.empty(LANES)
    for t in range(len(tiles)):
        for j in range(d):
            for w in range(LANES):
                steps[j, w] = np.float64(tiles[t, j, w] - origin[j]) * WHOLE_STEPS
        for i in range(len(directions)):
            total[:] = 0.0
            for j in range(d):
                along = directions[i, j]
                for w in range(LANES):
                    total[w] += along * steps[j, w]
            for w in range(LANES):
                out[t, i, w] = min(max(np.rint(total[w] * factor) + MIDDLE, 0.0), WHOLE_STEPS) / WHOLE_STEPS


@dataclass(frozen=True)
class ProjectedView:
    """The records of an engine, projected anew in each pass: they may lie anywhere."""

    engine: Engine
    subspace: Subspace

    @property
    def bounds(self) -> Bounds:
        """The box of projections."""
        return self.subspace.bounds

    @property
    def n_features(self) -> int:
        """Number of directions."""
        return len(self.subspace.directions)

    def answer(self, query: Query) -> Exact[IntArray]:
        """The query's table over projections."""
        return self.engine.answer(MovedQuery(query, self.subspace.project))


def projected(engine: Engine, subspace: Subspace) -> Asked:
    """The records in the subspace: held as projections where the records are held, else projected in each pass."""
    if isinstance(engine, MemoryEngine):
        return engine.mapped(subspace.project, subspace.bounds)
    return ProjectedView(engine, subspace)
