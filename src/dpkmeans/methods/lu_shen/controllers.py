"""Orientation controllers X of Lu and Shen: where the sampling zone points to. Not private."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.methods.lu_shen.zones import convergent_radius, far_point, place, sample_turn


class Controller(Protocol):
    """Chooses X, shape (k, d), from the previous centroids, the means and, if it wants, a look one pass ahead."""

    passes: ClassVar[int]

    def points(
        self,
        previous: FloatArray,
        means: FloatArray,
        look_ahead: Callable[[], FloatArray],
        rng: np.random.Generator,
    ) -> FloatArray:
        """Controller points, shape (k, d)."""
        ...


@dataclass(frozen=True)
class PosteriorController:
    """Past knowledge: the far point Y of the convergent zone, turned about the mean by a random γ."""

    passes: ClassVar[int] = 1

    def points(
        self,
        previous: FloatArray,
        means: FloatArray,
        look_ahead: Callable[[], FloatArray],
        rng: np.random.Generator,
    ) -> FloatArray:
        """X on the border of the convergent zone, shape (k, d)."""
        k = len(means)
        return place(means, far_point(previous, means), np.ones(k), sample_turn(k, rng), rng)


@dataclass(frozen=True)
class PriorController:
    """Past and future knowledge: the mean of the cluster one Lloyd pass later.

    The paper's X (`clip=False`) may lie beyond the convergent zone; `clip=True` pulls it back to the border.
    """

    clip: bool = False
    passes: ClassVar[int] = 2

    def points(
        self,
        previous: FloatArray,
        means: FloatArray,
        look_ahead: Callable[[], FloatArray],
        rng: np.random.Generator,
    ) -> FloatArray:
        """S^(t+1), shape (k, d)."""
        ahead = look_ahead()
        if not self.clip:
            return ahead
        reach = np.linalg.norm(ahead - means, axis=1)
        border = convergent_radius(previous, means)
        share = np.minimum(1.0, np.divide(border, reach, out=np.ones_like(reach), where=reach > 0))
        pulled: FloatArray = means + share[:, None] * (ahead - means)
        return pulled
