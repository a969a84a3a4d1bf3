"""Where an iteration starts: k centroids in unit coordinates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.engine import Engine
from dpkmeans.core.exact import reveal
from dpkmeans.core.guarantee import Claim
from dpkmeans.errors import DataError, MethodError
from dpkmeans.kernels.sphere_packing import first_apart


class Initializer(Protocol):
    """Chooses the first centroids."""

    def centroids(self, engine: Engine, n_clusters: int, rng: np.random.Generator) -> FloatArray:
        """First centroids, shape (k, d), in unit coordinates."""


@dataclass(frozen=True)
class SampledRows:
    """k different records, as in the paper's Algorithm 1. Not private."""

    claim: ClassVar[Claim] = Claim("paper", ("The start is drawn from the records; give a public init.",))

    def centroids(self, engine: Engine, n_clusters: int, rng: np.random.Generator) -> FloatArray:
        n = reveal(engine.count(), why="a start from the records is not private")
        if not engine.released and n_clusters > n:
            raise DataError(
                "is larger than the number of records; a start from the records needs at least one sample per cluster.",
                parameter="n_clusters",
                value=n_clusters,
                hint="Ask for fewer clusters, or give an {init} that is not drawn from the records.",
            )
        return reveal(engine.sample_rows(n_clusters, rng), why="a start from the records is not private")


@dataclass(frozen=True)
class Given:
    """Centroids given by the caller, in the units of the data. Public if the caller chose them without the records."""

    points: tuple[tuple[float, ...], ...]
    claim: ClassVar[Claim] = Claim.PROVED

    @classmethod
    def of(cls, points: Any) -> Given:
        """Read an array-like of shape (k, d)."""
        try:
            array = np.asarray(points, dtype=np.float64)
        except (TypeError, ValueError):
            raise MethodError(
                "must be an array of numbers, shape (n_clusters, n_features); it is not.", parameter="init"
            ) from None
        if array.ndim != 2 or not np.isfinite(array).all():
            raise MethodError(
                f"must be a finite array of shape (n_clusters, n_features); got shape {array.shape}.", parameter="init"
            )
        return cls(tuple(map(tuple, array.tolist())))

    def centroids(self, engine: Engine, n_clusters: int, rng: np.random.Generator) -> FloatArray:
        points = np.asarray(self.points)
        if points.shape != (n_clusters, engine.n_features):
            raise MethodError(
                f"must have shape (n_clusters, n_features) = {(n_clusters, engine.n_features)}; got {points.shape}.",
                parameter="init",
            )
        return engine.bounds.unit_of(points)


@dataclass(frozen=True)
class UniformInBox:
    """Independent uniform points in the box."""

    claim: ClassVar[Claim] = Claim.PROVED

    def centroids(self, engine: Engine, n_clusters: int, rng: np.random.Generator) -> FloatArray:
        return rng.random((n_clusters, engine.n_features)) * engine.bounds.unit_box


@dataclass(frozen=True)
class SpherePacking:
    """Random points in the box, no two closer than twice a radius, none closer to the border than it.

    The radius is the largest found by binary search at which random tries still place all points. Source: Su, Cao,
    Li, Bertino and Jin, Differentially Private k-Means Clustering (2016), section 4.
    """

    tries: int = 100
    halvings: int = 20
    claim: ClassVar[Claim] = Claim.PROVED

    def centroids(self, engine: Engine, n_clusters: int, rng: np.random.Generator) -> FloatArray:
        box = engine.bounds.unit_box
        low, high = 0.0, math.sqrt(float((box * box).sum())) / 2
        best = UniformInBox().centroids(engine, n_clusters, rng)
        for _ in range(self.halvings):
            radius = (low + high) / 2
            packed = self._pack(box, n_clusters, radius, rng)
            if packed is None:
                high = radius
            else:
                low, best = radius, packed
        return best

    def _pack(self, box: FloatArray, k: int, radius: float, rng: np.random.Generator) -> FloatArray | None:
        margin = np.minimum(radius, box / 2)
        points = np.empty((k, len(box)))
        for placed in range(k):
            point = self._place(box, margin, points[:placed], radius, rng)
            if point is None:
                return None
            points[placed] = point
        return points

    def _place(
        self, box: FloatArray, margin: FloatArray, points: FloatArray, radius: float, rng: np.random.Generator
    ) -> FloatArray | None:
        """A point far enough from all `points`, or nothing after all tries. One of the first mostly does."""
        first = min(4, self.tries)
        for n_tries in (first, self.tries - first):
            tries = margin + rng.random((n_tries, len(box))) * (box - 2 * margin)
            found = first_apart(tries, points, 4 * radius * radius)
            if found >= 0:
                place: FloatArray = tries[found]
                return place
        return None


INITIALIZERS: dict[str, Initializer] = {"rows": SampledRows(), "uniform": UniformInBox(), "packing": SpherePacking()}


def as_initializer(init: str | Initializer | Sequence[Any] | FloatArray) -> Initializer:
    """An initializer from what a user writes: a name, an initializer, or an array of centroids."""
    if isinstance(init, str):
        if init not in INITIALIZERS:
            known = ", ".join(sorted(INITIALIZERS))
            raise MethodError(f"must be one of {known}, or an array of centroids; got {init!r}.", parameter="init")
        return INITIALIZERS[init]
    if hasattr(init, "centroids"):
        return init
    return Given.of(init)
