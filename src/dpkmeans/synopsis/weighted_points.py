"""Weighted points that stand for the records, and what was known before them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.epsilon import Epsilon


@dataclass(frozen=True)
class WeightedPoints:
    """Points (m, d) in unit coordinates with positive weights (m,)."""

    points: FloatArray
    weights: FloatArray

    @classmethod
    def of(cls, points: FloatArray, weights: FloatArray) -> WeightedPoints:
        """Leave out points without weight; keep at least one."""
        kept = weights > 0
        if not kept.any():
            return cls(points[:1], np.ones(1))
        return cls(points[kept], weights[kept])


@dataclass(frozen=True)
class NoisyCells:
    """All cells that were counted, empty ones too: centers (m, d), noisy counts (m,), the variance of their noise."""

    centers: FloatArray
    counts: FloatArray
    variance: float


@dataclass(frozen=True)
class Near:
    """How far records may be from the points of a synopsis: deviation of the noise and half sides of the view, (d,)."""

    deviation: FloatArray
    half: FloatArray


@dataclass(frozen=True)
class Built:
    """A synopsis, for how many clusters it has signal, and the noisy cells behind it if clusters are tested on them.

    `near` says where to put centroids where there are fewer points than clusters.
    """

    points: WeightedPoints
    signal: int
    cells: NoisyCells | None = None
    near: Near | None = None


@dataclass(frozen=True)
class NoisyTotal:
    """The number of records as it was released or given, with the variance of its noise."""

    value: float
    variance: float

    @classmethod
    def released(cls, value: float, epsilon: Epsilon) -> NoisyTotal:
        """Released by integer Laplace noise with `epsilon`."""
        return cls(value, 2 / float(epsilon) ** 2)
