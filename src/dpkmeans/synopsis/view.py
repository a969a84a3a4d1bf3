"""`View`: the part of the public box that a synopsis looks at, in coordinates of its own. Proof: proofs/zoom.md.

A question about the part is put to all records. Those outside are squeezed into a border around the part, or another
question is asked about them, whose rows follow those of the first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpkmeans._typing import Float32Array, FloatArray, IntArray
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import Exact
from dpkmeans.core.query import Query, Sensitivity
from dpkmeans.engines.corner_check import add_checked
from dpkmeans.kernels.jit import compiled_or
from dpkmeans.kernels.simd_f32 import LANES
from dpkmeans.kernels.tile_reference import points_of
from dpkmeans.synopsis import settings
from dpkmeans.synopsis.moved_query import MovedQuery, pieces_of


@dataclass(frozen=True)
class Squeeze:
    """A map of all places into a box with a border: as it is within `half` sides of `center` (d,), then ever denser.

    With u for the distance in half sides, 2^s to 2^(s+1) becomes an equal part of the border for s = 0, ..., rings - 1.
    """

    center: FloatArray
    half: FloatArray
    rings: int
    border: float

    @property
    def longest(self) -> float:
        """The longest side of the box with its border."""
        return 2 * (1 + self.border) * float(self.half.max())

    @property
    def box(self) -> FloatArray:
        """The upper corner in unit coordinates, shape (d,)."""
        return np.asarray(2 * (1 + self.border) * self.half / self.longest)

    def move(self, tiles: Float32Array) -> Float32Array:
        """Tiles of records in these coordinates; those outside end in the border."""
        moved = np.empty_like(tiles)
        _squeeze(tiles, self.center, self.half, self.rings, self.border, self.longest, moved)
        return moved

    def into(self, points: FloatArray) -> FloatArray:
        """Points (..., d) of the part in these coordinates; those outside end where the border begins."""
        u = np.clip((points - self.center) / np.where(self.half > 0, self.half, 1.0), -1.0, 1.0)
        return np.asarray((u + 1 + self.border) * self.half / self.longest)

    def back(self, points: FloatArray, doubt: FloatArray | float = 0.0) -> FloatArray:
        """Where points (m, d) in these coordinates come from; those in the border drawn in by up to `doubt` (m, d)."""
        scale = self.longest / np.where(self.half > 0, self.half, 1.0)
        z = points * scale - 1 - self.border
        z = np.sign(z) * np.minimum(np.abs(z), np.maximum(np.abs(z) - doubt * scale, 1.0))
        parts = np.clip((np.abs(z) - 1) / self.border * self.rings, 0.0, self.rings)
        ring = np.minimum(np.floor(parts), self.rings - 1)
        away = np.where(np.abs(z) > 1, np.ldexp(1.0, ring.astype(np.int64)) * (1 + parts - ring), np.abs(z))
        return np.asarray(self.center + np.where(self.half > 0, np.sign(z) * away * self.half, 0.0))


class Asked(Protocol):
    """What a step of the synopsis needs to ask: an engine, or a view of it."""

    @property
    def bounds(self) -> Bounds: ...
    @property
    def n_features(self) -> int: ...
    def answer(self, query: Query) -> Exact[IntArray]: ...


@dataclass(frozen=True)
class NoisyMean:
    """A released mean of all records (d,) in unit coordinates of the engine's box, its noise, and what it cost."""

    place: FloatArray
    deviation: FloatArray
    epsilon: Epsilon


@dataclass(frozen=True)
class View:
    """The records of an engine, seen in `bounds`: a box in unit coordinates of the engine's own box.

    Its unit coordinates are those of `bounds`: shifted by its lower corner and divided by its longest side.
    """

    engine: Asked
    bounds: Bounds
    whole: bool
    mean: NoisyMean | None = None

    @classmethod
    def of(cls, engine: Asked) -> View:
        """All of the engine's box, in its own unit coordinates."""
        corner = engine.bounds.unit_box
        return cls(engine, Bounds((0.0,) * len(corner), tuple(corner.tolist())), whole=True)

    def part(self, lower: FloatArray, upper: FloatArray) -> View:
        """The box from `lower` to `upper`, both (d,), in unit coordinates of the engine's box."""
        return View(self.engine, Bounds(tuple(lower.tolist()), tuple(upper.tolist())), False, self.mean)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.bounds.n_features

    @property
    def center(self) -> FloatArray:
        """The middle, in unit coordinates of the engine's box, shape (d,)."""
        return np.asarray((np.asarray(self.bounds.lower) + np.asarray(self.bounds.upper)) / 2)

    @property
    def half(self) -> FloatArray:
        """Half of each side, in unit coordinates of the engine's box, shape (d,)."""
        return np.asarray((np.asarray(self.bounds.upper) - np.asarray(self.bounds.lower)) / 2)

    def answer_split(self, inside: Query, outside: Query) -> Exact[IntArray]:
        """`inside` about the records in the view, in its coordinates; rows of `outside`, in the engine's, follow."""
        return self.engine.answer(Split(inside, outside, self.bounds))

    def squeezed(self) -> SqueezedView:
        """All records, those outside moved into a border; the same as the engine where the view is all of its box."""
        if self.whole:
            return SqueezedView(self.engine, self.engine.bounds, None)
        wide = self.half > 0
        reach = np.maximum(self.center, self.engine.bounds.unit_box - self.center)[wide] / self.half[wide]
        rings = max(math.ceil(math.log2(float(reach.max()))), 1)
        squeeze = Squeeze(self.center, self.half, rings, settings.BORDER)
        return SqueezedView(self.engine, Bounds((0.0,) * self.n_features, tuple(squeeze.box.tolist())), squeeze)

    def place(self, points: FloatArray) -> FloatArray:
        """Points of the view in unit coordinates of the engine's box, shape (..., d)."""
        return self.engine.bounds.clip_unit(self.bounds.from_unit(points))


@dataclass(frozen=True)
class SqueezedView:
    """All records of an engine in the coordinates of a `squeeze`, whose box is `bounds`; None changes nothing."""

    engine: Asked
    bounds: Bounds
    squeeze: Squeeze | None

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.bounds.n_features

    @property
    def unit(self) -> float:
        """A length of 1 in these coordinates, in unit coordinates of the engine's box, but for the border."""
        return 1.0 if self.squeeze is None else self.squeeze.longest

    def answer(self, query: Query) -> Exact[IntArray]:
        """The query's table in these coordinates."""
        return self.engine.answer(query if self.squeeze is None else MovedQuery(query, self.squeeze.move))

    def into(self, points: FloatArray) -> FloatArray:
        """Points (..., d) of the engine's box in these coordinates."""
        return points if self.squeeze is None else self.squeeze.into(points)

    def place(self, points: FloatArray, doubt: FloatArray | float = 0.0) -> FloatArray:
        """Points (m, d) in unit coordinates of the engine's box; in the border drawn in by up to `doubt` (m, d)."""
        return points if self.squeeze is None else self.engine.bounds.clip_unit(self.squeeze.back(points, doubt))


@dataclass(frozen=True)
class Split:
    """`inside` about the records in `part`, in its unit coordinates; rows of `outside`, about all others, follow."""

    inside: Query
    outside: Query
    part: Bounds

    @property
    def shape(self) -> tuple[int, int]:
        return self.inside.shape[0] + self.outside.shape[0], self.inside.shape[1]

    @property
    def sensitivity(self) -> Sensitivity:
        """A record is inside or outside, and changes one row, by what one of the two declares."""
        columns = [self.inside.sensitivity.columns or (), self.outside.sensitivity.columns or ()]
        return Sensitivity.of_row(tuple(max(pair) for pair in zip(*columns, strict=True)))

    def add(self, tiles: Float32Array, n: int, table: IntArray) -> None:
        lower, upper = np.asarray(self.part.lower), np.asarray(self.part.upper)
        rows = self.inside.shape[0]
        for piece, size in pieces_of(tiles, n):
            inner, outer = np.zeros_like(piece), np.zeros_like(piece)
            n_inner = _part(piece, size, lower, upper, self.part.longest_side, inner, outer)
            add_checked(self.inside, inner[: -(-n_inner // LANES)], n_inner, table[:rows])
            n_outer = size - n_inner
            add_checked(self.outside, outer[: -(-n_outer // LANES)], n_outer, table[rows:])


def _squeeze_plain(
    tiles: Float32Array,
    center: FloatArray,
    half: FloatArray,
    rings: int,
    border: float,
    longest: float,
    moved: Float32Array,
) -> None:
    moved[:, half == 0.0] = 0.0
    for j in np.flatnonzero(half):
        u = (tiles[:, j].astype(np.float64) - center[j]) / half[j]
        away, ring, wide = np.abs(u), np.zeros(u.shape), np.ones(u.shape)
        while (outside := (ring < rings - 1) & (away > 2.0 * wide)).any():
            ring += outside
            wide[outside] *= 2.0
        far = 1.0 + border * (ring + np.minimum(away / wide - 1.0, 1.0)) / rings
        away = np.where(away > 1.0, far, away)
        moved[:, j] = (np.where(u > 0.0, away, -away) + 1.0 + border) * half[j] / longest


@compiled_or(_squeeze_plain, lambda tiles, center, half, rings, *_: 4 * (4 + rings) * tiles.size)
def _squeeze(
    tiles: Float32Array,
    center: FloatArray,
    half: FloatArray,
    rings: int,
    border: float,
    longest: float,
    moved: Float32Array,
) -> None:
    for t in range(len(tiles)):
        for j in range(len(center)):
            if half[j] == 0.0:
                moved[t, j, :] = 0.0
                continue
            for w in range(LANES):
                u = (np.float64(tiles[t, j, w]) - center[j]) / half[j]
                away = abs(u)
                if away > 1.0:
                    ring, wide = 0, 1.0
                    while ring < rings - 1 and away > 2.0 * wide:
                        ring += 1
                        wide *= 2.0
                    away = 1.0 + border * (ring + min(away / wide - 1.0, 1.0)) / rings
                z = away if u > 0.0 else -away
                moved[t, j, w] = (z + 1.0 + border) * half[j] / longest


def _part_plain(
    tiles: Float32Array,
    n: int,
    lower: FloatArray,
    upper: FloatArray,
    longest: float,
    inner: Float32Array,
    outer: Float32Array,
) -> int:
    points = points_of(tiles, n)
    within = ((lower <= points) & (points <= upper)).all(axis=1)
    for kept, out in (((points[within] - lower) / longest, inner), (points[~within], outer)):
        place = np.arange(len(kept))
        out[place // LANES, :, place % LANES] = kept
    return int(within.sum())


@compiled_or(_part_plain, lambda tiles, *_: 12 * tiles.size)
def _part(
    tiles: Float32Array,
    n: int,
    lower: FloatArray,
    upper: FloatArray,
    longest: float,
    inner: Float32Array,
    outer: Float32Array,
) -> int:
    """Pack records within the bounds into `inner`, in their unit coordinates, others as they are into `outer`."""
    n_inner, n_outer = 0, 0
    for i in range(n):
        t, w = i // LANES, i % LANES
        within = True
        for j in range(len(lower)):
            within = within and lower[j] <= tiles[t, j, w] <= upper[j]
        if within:
            for j in range(len(lower)):
                inner[n_inner // LANES, j, n_inner % LANES] = (np.float64(tiles[t, j, w]) - lower[j]) / longest
            n_inner += 1
        else:
            for j in range(len(lower)):
                outer[n_outer // LANES, j, n_outer % LANES] = tiles[t, j, w]
            n_outer += 1
    return n_inner
