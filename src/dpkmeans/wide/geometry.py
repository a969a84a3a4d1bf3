"""The public ball around the records, in grid steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpkmeans._typing import IntArray
from dpkmeans.core.bounds import GRID, Bounds


@dataclass(frozen=True, eq=False)
class PublicBall:
    """A centre on the grid, shape (d,), and a radius in whole grid steps that no record is meant to pass.

    A record that does, by rounding, is clipped by the queries themselves: no sensitivity hangs on it.
    """

    centre: IntArray
    radius: int


def public_ball(bounds: Bounds) -> PublicBall:
    """The ball of the bounds where they are one, else the ball around their box: half its diagonal."""
    centre = bounds.side // 2
    if bounds.ball is not None:
        steps = bounds.ball.radius / bounds.longest_side * GRID
        return PublicBall(centre, math.ceil(steps + math.sqrt(bounds.n_features)))  # records and centre are rounded
    half = (bounds.side - centre).tolist()
    return PublicBall(centre, math.isqrt(sum(h * h for h in half)) + 1)


def whole(points: object) -> IntArray:
    """Points on the grid next to these, in grid steps."""
    steps: IntArray = np.rint(np.asarray(points, np.float64)).astype(np.int64)
    return steps
