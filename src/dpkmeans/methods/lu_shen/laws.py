"""The two laws that Algorithm 1 takes as input: the score q of a draw, and Pr[P], where a zone lies."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.errors import MethodError
from dpkmeans.kernels.zones import SCORE_SENSITIVITY, largest_angle

MAX_TRIALS = 100_000  # of one draw; a score this far below its `highest` almost everywhere is a mistake


def paper_score(ratio: float, angle: float) -> float:
    """q(δ, α) = (1 - δ) + (1 - 2|α|/π). Paper: section "The Clustering Algorithm"."""
    return (1 - ratio) + (1 - 2 * abs(angle) / math.pi)


@dataclass(frozen=True)
class Score:
    """A score q(δ, α) of a draw at δ times the distance to X and α off the line to it, with Δq and its largest value.

    The exponential mechanism draws in proportion to exp(ε q / (2 Δq)). `name` is what a transcript publishes as q.
    """

    q: Callable[[float, float], float] = paper_score
    sensitivity: float = SCORE_SENSITIVITY
    highest: float = 2.0
    name: str = "(1 - delta) + (1 - 2|alpha|/pi)"

    def __post_init__(self) -> None:
        if not (0 < self.sensitivity < math.inf and math.isfinite(self.highest)):
            raise MethodError(
                f"a score needs a positive sensitivity and a finite highest value; got {self.sensitivity} and "
                f"{self.highest}."
            )

    def draw(self, offset: float, epsilon: float, rng: np.random.Generator, *, flat: bool) -> tuple[float, float]:
        """One (δ, α) in the zone with this λ: uniform pairs, each kept with probability exp(ε (q - highest) / (2 Δq)).

        With one feature (`flat`), α = 0.
        """
        widest = math.asin(min((1 - offset) / offset, 1.0))
        for _ in range(MAX_TRIALS):
            ratio = rng.uniform(2 * offset - 1, 1.0)
            angle = 0.0 if flat else rng.uniform(0.0, widest)
            if angle > largest_angle(ratio, offset):
                continue
            value = self.q(ratio, angle)
            if not value <= self.highest:
                raise MethodError(f"the score {self.name!r} exceeds its highest value {self.highest}; got {value}.")
            if rng.random() < math.exp(epsilon * (value - self.highest) / (2 * self.sensitivity)):
                return ratio, angle
        raise MethodError(f"the score {self.name!r} is far below its highest value {self.highest} nearly everywhere.")


PAPER_SCORE = Score()


@dataclass(frozen=True)
class Offset:
    """Pr[P] as the inverse of λ's distribution function: from u in [0, 1) to λ in (1/2, 1)."""

    inverse: Callable[[float], float]

    def sample(self, k: int, rng: np.random.Generator) -> FloatArray:
        """λ of each cluster, shape (k,)."""
        offset = np.array([self.inverse(rng.random()) for _ in range(k)], np.float64)
        if not ((offset > 0.5) & (offset < 1)).all():
            raise MethodError("an offset must lie between 1/2 and 1, or the mean would lie in the sampling zone.")
        return offset


@dataclass(frozen=True)
class Laws:
    """q and Pr[P]; by default those of the paper's experiments."""

    score: Score = PAPER_SCORE
    offset: Offset | None = None


PAPER_LAWS = Laws()
