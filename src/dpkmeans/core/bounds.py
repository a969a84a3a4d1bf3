"""`Bounds`: the public box, with the grid that records are put on and the sensitivities that follow."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpkmeans._typing import AnyArray, FloatArray, IntArray
from dpkmeans.core.ball import Ball
from dpkmeans.errors import BoundsError

GRID = 2**20
LIMIT = 2.0**500
FROM_DATA = "from data"

_WHAT_TO_DO = (
    "Give bounds that are known without looking at the data, such as {bounds=(0, 1)} or, one by one for each feature, "
    "{bounds=([0, -5], [10, 5])}; {bounds='from data'} reads them from the records and makes the result not private."
)


def _sides(bounds: Any) -> tuple[FloatArray, FloatArray]:
    """The lower and the upper ends as a user writes them: one number, or one per feature, each."""
    try:
        low, high = (np.atleast_1d(np.asarray(side, dtype=np.float64)) for side in bounds)
    except (TypeError, ValueError):
        low = high = np.empty((0, 0))
    if low.ndim != 1 or high.ndim != 1 or not low.size or not high.size:
        raise BoundsError(
            f"must be a pair (lower, upper), each one number or one per feature; got {type(bounds).__name__}.",
            parameter="bounds",
            hint=_WHAT_TO_DO,
        )
    return low, high


@dataclass(frozen=True)
class Bounds:
    """A box `lower` to `upper`, one number per feature, that is known without looking at the records.

    Records enter as grid points: clipped to the box, shifted by `lower`, divided by the longest side and rounded
    to multiples of 2^-20. One divisor for all features keeps Euclidean geometry, and makes sums exact integers in
    grid units whose sensitivity is `side`.

    `weights`, one per feature, say how much a difference in a feature counts: distances are those of the features
    times their weights, and the longest side is the longest after weighing. Without them units are kept as they are.

    A `ball` in the box bounds a record as a whole: it is moved into the ball before it is put on the grid.

    `from_data` says that the box was read from the records; no result with such a box is private.

    Guarantee: none of its own. It is public, and every sensitivity is taken from it.
    Source: docs/architecture.md, exact arithmetic.

    >>> Bounds.of((0, [10, 5]), n_features=2).unit_box.tolist()
    [1.0, 0.5]
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    from_data: bool = False
    weights: tuple[float, ...] | None = None
    ball: Ball | None = None

    @classmethod
    def of(cls, bounds: Any, n_features: int) -> Bounds:
        """Read `bounds` as a user writes them: `(low, high)`, each a number or one number per feature; or a `Ball`."""
        if isinstance(bounds, Ball):
            return cls(*bounds.ends(n_features), ball=bounds)._with_a_side()
        if isinstance(bounds, Bounds):
            if len(bounds.lower) != n_features:
                raise BoundsError(
                    f"are given for {len(bounds.lower)} features; the records have {n_features}.",
                    parameter="bounds",
                    hint="Give one pair for all features, or one for each.",
                )
            return bounds._with_a_side()
        if bounds is None:
            raise BoundsError("are missing.", parameter="bounds", hint=_WHAT_TO_DO)
        if isinstance(bounds, str):
            raise BoundsError(f"must be a pair (lower, upper); got {bounds!r}.", parameter="bounds", hint=_WHAT_TO_DO)
        lower, upper = _sides(bounds)
        for side in (lower, upper):
            if len(side) not in (1, n_features):
                raise BoundsError(
                    f"are given for {len(side)} features; the records have {n_features}.",
                    parameter="bounds",
                    hint="Give one pair for all features, or one for each.",
                )
        lower, upper = np.broadcast_to(lower, (n_features,)), np.broadcast_to(upper, (n_features,))
        return cls(tuple(lower.tolist()), tuple(upper.tolist()))._with_a_side()

    @classmethod
    def check(cls, bounds: Any, n_features: int | None = None) -> None:
        """Refuse what no records can have as bounds, or none with `n_features` features."""
        if n_features is None and isinstance(bounds, Bounds):
            n_features = bounds.n_features
        elif n_features is None and isinstance(bounds, Ball):
            n_features = len(bounds.center) if isinstance(bounds.center, tuple) else 1
        elif n_features is None and bounds is not None and not isinstance(bounds, str):
            n_features = max(map(len, _sides(bounds)))
        cls.of(bounds, n_features or 1)

    @classmethod
    def read_from(cls, X: AnyArray) -> Bounds:
        """The smallest box around the records `X`, shape (n, d). Not private."""
        with np.errstate(over="ignore"):  # a long double may be infinite as a float64
            lower, upper = np.asarray(X.min(axis=0), np.float64), np.asarray(X.max(axis=0), np.float64)
        if not (np.isfinite(lower).all() and np.isfinite(upper).all()):
            raise BoundsError("bounds cannot be read from records that hold NaN or infinity.", hint=_WHAT_TO_DO)
        if max(np.abs(lower).max(), np.abs(upper).max()) > LIMIT:  # the values are records' own: not shown
            raise BoundsError("bounds must lie within 2^500; some records do not. Rescale the features.")
        return cls(tuple(lower.tolist()), tuple(upper.tolist()), from_data=True)

    def __post_init__(self) -> None:
        if len(self.lower) != len(self.upper) or not self.lower:
            raise BoundsError(
                f"lower and upper must have the same, positive length; got {len(self.lower)} and {len(self.upper)}."
            )
        for j, (lo, hi) in enumerate(zip(self.lower, self.upper, strict=True)):
            has = f"feature {j} has lower={lo}, upper={hi}."
            if not (np.isfinite(lo) and np.isfinite(hi)):
                raise BoundsError(f"bounds must be finite; {has}", hint=_WHAT_TO_DO)
            if lo > hi:
                raise BoundsError(f"lower must be below upper; {has} Did you mean {hi:g} to {lo:g}?", hint=_WHAT_TO_DO)
            if max(abs(lo), abs(hi)) > LIMIT:
                raise BoundsError(f"bounds must lie within 2^500; {has} Rescale the feature.")
        if self.weights is not None:
            if len(self.weights) != len(self.lower):
                raise BoundsError(f"there must be a weight per feature: {len(self.lower)}; got {len(self.weights)}.")
            if not all(1 / LIMIT <= weight <= LIMIT for weight in self.weights):
                raise BoundsError("weights must be positive numbers within 2^500.")
        if self.ball is not None and (
            self.weights is not None or self.from_data or (self.lower, self.upper) != self.ball.ends(len(self.lower))
        ):
            raise BoundsError("a ball has its own box, without weights. Write Bounds.of(Ball(0, 1), n_features).")
        if 0 < self._longest() < 1 / LIMIT or self._longest() > 2 * LIMIT:
            raise BoundsError("the longest side of the bounds must lie between 2^-500 and 2^501. Rescale the features.")

    def _with_a_side(self) -> Bounds:
        if not self.from_data and self.lower == self.upper:
            message = f"lower must be below upper; every feature has lower=upper (first: {self.lower[0]})."
            if len(self.lower) == len(set(self.lower)) == 2:  # as in [(0, 100), (0, 100)]
                message += " bounds are (all lower, all upper), not one pair per feature."
            raise BoundsError(message, hint=_WHAT_TO_DO)
        return self

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.lower)

    @property
    def widths(self) -> tuple[float, ...]:
        """Width of each feature, in its own unit."""
        return tuple(hi - lo for lo, hi in zip(self.lower, self.upper, strict=True))

    @property
    def longest_side(self) -> float:
        """Length of the longest side, after weighing: the unit of the grid's coordinates. 1 if the box is a point."""
        return self._longest() or 1.0

    def _longest(self) -> float:
        return max(width * weight for width, weight in zip(self.widths, self._weights, strict=True))

    @property
    def _weights(self) -> tuple[float, ...]:
        return self.weights or (1.0,) * len(self.lower)

    @cached_property
    def unit(self) -> FloatArray:
        """One unit of the grid's coordinates in the unit of each feature, shape (d,)."""
        units: FloatArray = self.longest_side / np.array(self._weights)
        return units

    @cached_property
    def grid(self) -> FloatArray:
        """What puts a number on the grid, shape (3, d): the lower ends, the upper ends, and grid steps per unit."""
        return np.array([self.lower, self.upper, GRID / self.unit])

    @property
    def side(self) -> IntArray:
        """Each feature's side in whole grid steps, shape (d,): what one record can add to a sum, exactly."""
        lower, upper, scale = self.grid
        steps: IntArray = np.rint((upper - lower) * scale).astype(np.int64)
        return steps

    @property
    def unit_box(self) -> FloatArray:
        """Upper corner of the box in unit coordinates, shape (d,); the lower corner is zero."""
        corner: FloatArray = self.side / GRID
        return corner

    def from_unit(self, points: AnyArray) -> FloatArray:
        """Unit coordinates back in the units of the data, any shape (..., d)."""
        out: FloatArray = self.grid[0] + np.asarray(points, np.float64) * self.unit
        return out

    def unit_of(self, points: AnyArray) -> FloatArray:
        """Points in the units of the data as unit coordinates, neither clipped nor rounded, any shape (..., d)."""
        out: FloatArray = (np.asarray(points, np.float64) - self.grid[0]) / self.unit
        return out

    def take_in(self, points: FloatArray) -> FloatArray:
        """Points (m, d) in the units of the data, moved into the box, and into the ball where there is one."""
        inside: FloatArray = np.clip(points, self.lower, self.upper)
        return inside if self.ball is None else self.ball.take_in(inside)

    def clip_unit(self, points: FloatArray) -> FloatArray:
        """Points moved to the nearest place inside the box, in unit coordinates."""
        clipped: FloatArray = np.clip(points, 0.0, self.unit_box)
        return clipped
