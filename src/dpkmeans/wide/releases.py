"""Releases at centres: one pass, one row of whole numbers, one call of the Gaussian mechanism; and radii from them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpkmeans._typing import FloatArray, IntArray
from dpkmeans.core.rho import Rho
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Gaussian
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis.view import Asked
from dpkmeans.wide.geometry import whole
from dpkmeans.wide.queries import AtCentres, Rings
from dpkmeans.wide.settings import BINS, DISTANCES_ALONE, MIN_RADIUS, QUANTILE, Split


@dataclass(frozen=True, eq=False)
class Seen:
    """Noisy values about K centres, in grid steps: `centres` (K, d) as they were asked, relative to the origin.

    `sums` (K, d) are of clipped residuals, with noise of `deviation`; `counts` (K,) have noise of `count_deviation`;
    `costs` (K,) are sums of squared distances. Bins of `histogram` that do not stand out of their noise are 0.
    """

    centres: FloatArray
    counts: FloatArray
    costs: FloatArray
    sums: FloatArray
    histogram: FloatArray
    deviation: float
    count_deviation: float

    @property
    def sizes(self) -> FloatArray:
        """Counts that can be divided by: at least their deviation, and 1; shape (K,)."""
        return np.maximum(self.counts, max(self.count_deviation, 1.0))


@dataclass(frozen=True)
class Sight:
    """From where records are seen, shape (d,), how distances are binned, and where costs are cut off, in grid steps."""

    origin: IntArray
    rings: Rings
    cost_radius: float = 0.0


@dataclass(frozen=True, repr=False)
class Desk:
    """Where a step asks and releases."""

    asked: Asked
    ledger: Ledger
    rng: Randomness

    def look(self, sight: Sight, centres: FloatArray, radius: float, split: Split, rho: Rho, label: str) -> Seen:
        """Release about `centres` (K, d), relative to the origin, with residuals clipped to `radius`.

        The weights of the parts are such that `split` is their share of rho.
        """
        places = whole(np.clip(centres, -sight.origin, self.asked.bounds.side - sight.origin))
        unit = float(round(radius)) / math.sqrt(split.residuals) if split.residuals else 1.0
        query = AtCentres(
            sight.origin,
            places,
            radius=round(radius) if split.residuals else 0,
            count=round(unit * math.sqrt(split.counts)),
            cost=round(unit * math.sqrt(split.costs)),
            cost_radius=max(round(sight.cost_radius), 1),
            bins=round(unit * math.sqrt(split.bins)),
            rings=sight.rings,
        )
        noisy = Gaussian(rho).release(self.asked.answer(query), ledger=self.ledger, rng=self.rng, label=label)[0]
        counts, costs, sums, bins = query.parts(noisy)
        deviation = deviation_of(query.sensitivity.l2_squared or 0, rho)
        histogram = bins / max(query.bins, 1)
        return Seen(
            places.astype(np.float64),
            np.asarray(counts / max(query.count, 1), np.float64),
            np.asarray(costs * (query.cost_radius**2 / max(query.cost, 1)), np.float64),
            sums.reshape(-1, places.shape[1]).astype(np.float64),
            np.where(histogram > deviation / max(query.bins, 1), histogram, 0.0),
            deviation,
            deviation / max(query.count, 1),
        )

    def distances(self, sight: Sight, centres: FloatArray, rho: Rho, label: str) -> FloatArray:
        """A noisy histogram of distances to the nearest centre, shape (BINS,)."""
        return self.look(sight, centres, 0.0, DISTANCES_ALONE, rho, label).histogram


def deviation_of(l2_squared: int, rho: Rho) -> float:
    """The deviation of Gaussian noise for a squared L2 sensitivity."""
    return math.sqrt(l2_squared / (2 * float(rho)))


def quantile(histogram: FloatArray, rings: Rings, part: float = QUANTILE) -> float:
    """The upper end of the bin that holds the quantile of distances; the top where nothing stands out of the noise."""
    above = np.cumsum(histogram)
    if above[-1] <= 0:
        return rings.top
    place = int(np.searchsorted(above, (1 - part) * above[-1]))
    return float(rings.upper[min(place, BINS - 1)])


def best_radius(histogram: FloatArray, rings: Rings, noise: float, n_features: int) -> float:
    """The radius r that minimises what noise and clipping do to a mean: `noise` · r² + (E[(distance - r)₊])².

    `noise` is the squared length of the noise on a mean for a radius of 1, times a weight.
    """
    upper, total = rings.upper, float(histogram.sum())
    least = MIN_RADIUS * math.sqrt(n_features)
    if total <= 0:
        return max(rings.top, least)
    excess = np.maximum(rings.middles[None, :] - upper[:, None], 0.0)
    clipped = (excess * histogram).sum(axis=1) / total
    loss = noise * upper**2 + clipped**2
    return max(float(upper[int(np.argmin(loss))]), least)


def noise_of_means(split: Split, rho: Rho, k: int, n_features: int, n_records: float) -> float:
    """The squared length of the noise on the mean of one of k equal clusters, for residuals clipped to 1."""
    return n_features * (k / n_records) ** 2 / (2 * split.residuals * float(rho))


def shrunk(vectors: FloatArray, noise: FloatArray) -> FloatArray:
    """Vectors (m, d) drawn towards 0 by their noise, of squared length `noise` (m,). Source: James and Stein."""
    squares = np.maximum((vectors * vectors).sum(axis=1), 1e-300)
    return np.asarray(vectors * np.maximum(1.0 - noise / squares, 0.0)[:, None])
