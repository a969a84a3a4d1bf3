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
from dpkmeans.wide.settings import (
    BINS,
    DISTANCES_ALONE,
    FAR_COST,
    MIN_RADIUS,
    NEW_FORGET,
    QUANTILE,
    SURE_BINS,
    SURE_TAIL,
    Split,
)


@dataclass(frozen=True, eq=False)
class Seen:
    """Noisy values about K centres, in grid steps: `centres` (K, d) as they were asked, relative to the origin.

    `sums` (K, d) are of clipped residuals, with noise of `deviation`; `counts` (K,) have noise of `count_deviation`;
    `costs` (K,) are sums of squared distances; `bins` (BINS,) are of distances, with noise of `bin_deviation`.
    """

    centres: FloatArray
    counts: FloatArray
    costs: FloatArray
    sums: FloatArray
    bins: FloatArray
    deviation: float
    count_deviation: float
    bin_deviation: float
    radius: float

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
        return Seen(
            places.astype(np.float64),
            np.asarray(counts / max(query.count, 1), np.float64),
            np.asarray(costs * (query.cost_radius**2 / max(query.cost, 1)), np.float64),
            sums.reshape(-1, places.shape[1]).astype(np.float64),
            np.asarray(bins / max(query.bins, 1), np.float64),
            deviation,
            deviation / max(query.count, 1),
            deviation / max(query.bins, 1),
            float(query.radius),
        )

    def distances(
        self, sight: Sight, centres: FloatArray, rho: Rho, label: str, before: Distances | None = None
    ) -> Distances:
        """A noisy histogram of distances to the nearest centre; with one of `before`, it is taken into that."""
        seen = self.look(sight, centres, 0.0, DISTANCES_ALONE, rho, label)
        if before is None:
            return Distances.of(seen.bins, seen.bin_deviation)
        return before.taking_in(seen.bins, seen.bin_deviation, NEW_FORGET)


@dataclass(frozen=True, eq=False)
class Distances:
    """A running noisy histogram of distances (BINS,), noise of `variance` in each bin, and what is `clear` of it."""

    bins: FloatArray
    variance: float
    clear: FloatArray

    @classmethod
    def of(cls, bins: FloatArray, deviation: float) -> Distances:
        """The first look."""
        return cls(bins, deviation**2, standing_out(bins, deviation))

    def taking_in(self, bins: FloatArray, deviation: float, forget: float) -> Distances:
        """One more look, at distances that have changed since: what was known before counts `forget` times less.

        Where nothing stands out, what did before is kept.
        """
        gain = forget * self.variance / (forget * self.variance + deviation**2)
        found = self.bins + gain * (bins - self.bins)
        variance = gain * deviation**2
        clear = standing_out(found, math.sqrt(variance))
        return Distances(found, variance, clear if clear.any() else self.clear)


def standing_out(bins: FloatArray, deviation: float) -> FloatArray:
    """Noisy bins (BINS,) without what noise of `deviation` explains; all zeros where it explains everything.

    The run of bins whose sum stands out most is taken, and beyond it, to either side, whatever stands out when bins are
    added up from the end. Within that, single bins below the deviation are zero.
    """
    n, sums = len(bins), np.concatenate([np.zeros(1), np.cumsum(bins)])
    first, last = np.triu_indices(n)
    clear = (sums[last + 1] - sums[first]) / np.sqrt(last + 1 - first)
    best = int(np.argmax(clear))
    if clear[best] < SURE_BINS * deviation:
        return np.zeros(n)
    least = SURE_TAIL * deviation * np.sqrt(np.arange(1, n + 1))
    from_top, from_bottom = sums[1:] > least, np.cumsum(bins[::-1]) > least
    top = int(np.argmax(from_top)) if from_top.any() else n
    bottom = n - 1 - int(np.argmax(from_bottom)) if from_bottom.any() else -1
    place = np.arange(n)
    inside = (place >= min(first[best], top)) & (place <= max(last[best], bottom))
    return np.where(inside & (bins > deviation), bins, 0.0)


def deviation_of(l2_squared: int, rho: Rho) -> float:
    """The deviation of Gaussian noise for a squared L2 sensitivity."""
    return math.sqrt(l2_squared / (2 * float(rho)))


def quantile(distances: Distances, rings: Rings, part: float = QUANTILE) -> float:
    """The upper end of the bin that holds the quantile of distances; half the top where nothing stands out."""
    above = np.cumsum(distances.clear)
    if above[-1] <= 0:
        return rings.top / 2
    place = int(np.searchsorted(above, (1 - part) * above[-1]))
    return float(rings.upper[min(place, BINS - 1)])


def reach_of(distances: Distances, rings: Rings) -> float:
    """How far records lie: the quantile of distances, or farther where the records beyond it hold much of the cost.

    Small clusters far from a large one have few records and most of the squared distances. Beyond the reach lies less
    than FAR_COST of what stands out of the noise.
    """
    costs = np.cumsum(distances.clear * rings.middles**2)
    if costs[-1] <= 0:
        return quantile(distances, rings)
    place = int(np.searchsorted(costs, FAR_COST * costs[-1]))
    return max(quantile(distances, rings), float(rings.upper[min(place, BINS - 1)]))


def best_radius(distances: Distances, rings: Rings, noise: float, n_features: int) -> float:
    """The radius r that minimises what noise and clipping do to a mean: `noise` · r² + (E[(distance - r)₊])².

    `noise` is the squared length of the noise on a mean for a radius of 1, times a weight.
    """
    histogram, upper = distances.clear, rings.upper
    total = float(histogram.sum())
    least = MIN_RADIUS * math.sqrt(n_features)
    if total <= 0:
        return max(rings.top / 2, least)
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
