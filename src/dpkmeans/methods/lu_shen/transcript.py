"""The interactive setting: a curator publishes zones, and each party draws its own centroids from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.release import PublishedZone, Release
from dpkmeans.errors import MethodError
from dpkmeans.kernels.zones import distances
from dpkmeans.methods.lu_shen.laws import PAPER_SCORE, Score
from dpkmeans.methods.lu_shen.zone_sampling import draw_in_zones


@dataclass(frozen=True)
class Transcript:
    """Published zones, step by step, as a party other than the curator sees them.

    Paper: "each party samples their own Ŝ from this sampling zone". The score q measures from the mean of the cell, so
    a party can draw only where the zones carry it. On a synopsis it is public. On records it is exact, and publishing
    it gives records away: the paper leaves open how a party could draw without it.

    Guarantee: that of the release; drawing from public zones is post-processing.

    >>> import numpy as np
    >>> from dpkmeans import DPKMeans
    >>> X = np.random.default_rng(0).random((2000, 2))
    >>> release = DPKMeans(3, method="synopsis-posterior", epsilon=1.0, bounds=(0, 1)).fit(X).release_
    >>> transcript = Transcript.of(release)
    >>> transcript.draw(np.random.default_rng(1)).shape == (transcript.n_steps, 3, 2)
    True
    """

    zones: tuple[PublishedZone, ...]
    bounds: Bounds
    score: Score = PAPER_SCORE

    @classmethod
    def of(cls, release: Release, score: Score = PAPER_SCORE) -> Transcript:
        """The transcript of a release; `score` where the run had one of its own."""
        return cls(release.transcript, release.bounds, score)

    def __post_init__(self) -> None:
        if not self.zones:
            raise MethodError("the release has no zones.", hint="Fit with a method that draws from zones.")
        if any(zone.score != self.score.name for zone in self.zones):
            raise MethodError(
                f"the zones were published with the score {self.zones[0].score!r}; got {self.score.name!r}.",
                hint="Give the score of the run.",
            )
        if any(zone.mean is None for zone in self.zones):
            raise MethodError(
                "a draw needs the mean that the score measures from, and these zones do not carry it.",
                hint="Publish a run on a synopsis, where means are public; publish_means=True gives records away.",
            )

    @property
    def n_steps(self) -> int:
        """Steps with zones."""
        return len({zone.iteration for zone in self.zones})

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """A party's own centroids of every step, shape (steps, k, d), in the units of the data.

        Guarantee: that of the release; drawing from public zones is post-processing.
        """
        steps: dict[int, list[PublishedZone]] = {}
        for zone in self.zones:
            steps.setdefault(zone.iteration, []).append(zone)
        return np.array([self._draw(steps[t], rng) for t in sorted(steps)])

    def _draw(self, zones: list[PublishedZone], rng: np.random.Generator) -> FloatArray:
        means = self.bounds.unit_of(np.array([zone.mean for zone in zones], np.float64))
        centers = self.bounds.unit_of(np.array([zone.center for zone in zones]))
        radii = np.array([zone.radius for zone in zones]) / self.bounds.longest_side
        apart = distances(centers, means)  # λ b, where b = |X - mean|
        reach = apart + radii
        real = (apart > 0) & (radii > 0)
        offset = np.where(real, apart / np.where(reach > 0, reach, 1.0), 0.75)  # of a point, any zone is that point
        offset = np.clip(offset, 0.5, np.nextafter(1.0, 0.0))
        scale = np.where(real, reach / np.where(real, apart, 1.0), 0.0)
        points = means + (centers - means) * scale[:, None]
        epsilons = [zone.step_epsilon for zone in zones]
        return self.bounds.from_unit(draw_in_zones(means, points, offset, epsilons, self.score, rng))
