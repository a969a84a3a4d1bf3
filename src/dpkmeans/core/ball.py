"""`Ball`: public bounds on a whole record at once, by its distance from a centre. For vectors, such as embeddings."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.errors import BoundsError

_HOW = "Write, say, Ball(center=0, radius=1), with a radius that is known without looking at the data."
LIMIT = 2.0**499


@dataclass(frozen=True)
class Ball:
    """All points within `radius` of `center`, one number for all features or one per feature.

    A record outside is moved towards the centre until it lies on the surface. With `normalize`, every record is moved
    to the surface, so that only its direction counts; a record at the centre has none and stays there.

    Guarantee: none of its own. It is public, and what becomes of a record depends on that record alone.

    >>> Ball(center=0, radius=2).ends(3)
    ((-2.0, -2.0, -2.0), (2.0, 2.0, 2.0))
    """

    center: float | tuple[float, ...] = 0.0
    radius: float = 1.0
    normalize: bool = False

    def __post_init__(self) -> None:
        radius = _number(self.radius, "the radius of a ball")
        if not 1 / LIMIT <= radius <= LIMIT:
            raise BoundsError(f"the radius of a ball must be positive, within 2^499; got {self.radius!r}.", hint=_HOW)
        center: Any = self.center
        if isinstance(center, Iterable) and not isinstance(center, str | bytes):
            center = tuple(_number(value, "the centre of a ball") for value in center)
        else:
            center = _number(center, "the centre of a ball")
        if max(map(abs, center if isinstance(center, tuple) else (center,)), default=math.inf) > LIMIT:
            raise BoundsError("the centre of a ball must lie within 2^499.", hint=_HOW)
        if not isinstance(self.normalize, bool | np.bool_):
            raise BoundsError(f"normalize must be True or False; got {self.normalize!r}.", hint=_HOW)
        for name, value in (("radius", radius), ("center", center), ("normalize", bool(self.normalize))):
            object.__setattr__(self, name, value)

    def center_of(self, n_features: int) -> tuple[float, ...]:
        """The centre, one number per feature."""
        if not isinstance(self.center, tuple):
            return (self.center,) * n_features
        if len(self.center) != n_features:
            raise BoundsError(
                f"has a centre of {len(self.center)} features; the records have {n_features}.",
                parameter="bounds",
                hint="Give one number for all features, or one for each.",
            )
        return self.center

    def ends(self, n_features: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The lower and the upper ends of the box around the ball."""
        center = self.center_of(n_features)
        return tuple(c - self.radius for c in center), tuple(c + self.radius for c in center)

    def take_in(self, points: FloatArray) -> FloatArray:
        """Points (m, d) moved into the ball, or onto its surface where only directions count.

        In a few plain operations, so that the result is the same on every processor.
        """
        center = np.array(self.center_of(points.shape[1]))
        away = points - center
        largest = np.abs(away).max(axis=1, keepdims=True, initial=0.0)
        shape = away / np.where(largest > 0, largest, 1.0)
        length = np.sqrt((shape * shape).sum(axis=1, keepdims=True))  # from 1 to √d, but 0 at the centre
        with np.errstate(over="ignore"):
            moved = (largest > 0) if self.normalize else (largest * length > self.radius)
        surface = center + shape * (self.radius / np.where(length > 0, length, 1.0))
        found: FloatArray = np.where(moved, surface, points)
        return found


def ball_of(bounds: Any, max_norm: Any, normalize: Any) -> Any:
    """`bounds` as they are, or the ball that `max_norm` or `normalize` asks for in their place."""
    if max_norm is None and not normalize:
        return bounds
    given = "max_norm" if max_norm is not None else "normalize"
    if bounds is not None:
        raise BoundsError(
            "cannot be given beside bounds.",
            parameter=given,
            hint="Give one of them: {max_norm=1.0} stands for a ball around 0.",
        )
    if not isinstance(normalize, bool | np.bool_):
        raise BoundsError(f"must be True or False; got {normalize!r}.", parameter="normalize")
    if normalize:
        if max_norm is not None:
            raise BoundsError(
                "records that are normalised all have the norm 1.", hint="Give {max_norm} or {normalize}, not both."
            )
        return Ball(normalize=True)
    try:
        return Ball(radius=max_norm)
    except BoundsError:
        raise BoundsError(
            f"must be a positive number; got {max_norm!r}.",
            parameter="max_norm",
            hint="Give the largest norm that a record can have, as it is known without looking at the data.",
        ) from None


def _number(value: Any, what: str) -> float:
    try:
        found = math.nan if isinstance(value, bool | str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise BoundsError(f"{what} must be a finite number; got {value!r}.", hint=_HOW)
    return found
