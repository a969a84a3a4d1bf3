"""A synopsis for many features: sides of random hyperplanes, then means in full dimension. Proof: proofs/signs.md.

A box with many features cannot even be halved once along each of them. But m public random directions, and on which
side of m hyperplanes through the middle of the records each one lies, tell well-separated clusters apart at any
dimension, and a record is in one of the 2^m cells. Five passes: middle, spread, sides, radius, means; one fewer where a
zoom has released the middle. Where the box may be too wide, one more asks whether the records lie close to the middle;
if so, it is asked for once more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpkmeans._typing import FloatArray, IntArray
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.guarantee import Claim
from dpkmeans.core.units import share_of
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Laplace
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis import settings
from dpkmeans.synopsis.hyperplane_cells import Sides, Spread
from dpkmeans.synopsis.kmeans import best_start, to_fixed_point, with_mean
from dpkmeans.synopsis.one_mean import is_near, noisy_mean, second_mean
from dpkmeans.synopsis.recentre import learn_radius, noise_of_means, recentre
from dpkmeans.synopsis.residual_queries import UNIT
from dpkmeans.synopsis.tree import cube_variance, mean_deviation
from dpkmeans.synopsis.view import Asked, NoisyMean, SqueezedView, View
from dpkmeans.synopsis.weighted_points import Built, Near, NoisyTotal, WeightedPoints


@dataclass(frozen=True)
class Hyperplanes:
    """Settings, as shares of what the synopsis may spend."""

    claim: ClassVar[Claim] = Claim.PROVED

    middle_share: float = settings.MIDDLE_SHARE
    spread_share: float = settings.SPREAD_SHARE
    radius_share: float = settings.RADIUS_SHARE
    sides_share: float = settings.SIDES_SHARE
    threshold_offset: float = settings.THRESHOLD_OFFSET
    max_directions: int = settings.MAX_DIRECTIONS
    overclustering: float = settings.OVERCLUSTERING
    tight: bool = False  # whether the box is known to fit
    spare: int = 0  # places among the k that are left for the mean of all, where fewer than k clusters may be told

    passes = 6  # at most

    def build(
        self, view: View, k: int, epsilon: Epsilon, total: NoisyTotal, *, ledger: Ledger, rng: Randomness
    ) -> Built:
        """Means of somewhat more than k clusters in the engine's unit coordinates, weighted by their noisy counts."""
        n = total.value
        d = max(int(np.count_nonzero(view.half)), 1)
        seen = view.squeezed()
        known, left = self._known_middle(view, seen), epsilon
        paid = epsilon if known is None else epsilon + known.epsilon
        wanted_k, k = k, fewer(k - self.spare, n * float(paid) / d) if self.spare else k
        if known is not None and k > 1:
            middle, left = self._nearer(seen, known, epsilon, total, ledger=ledger, rng=rng)
        else:
            first = self._first_mean(seen, k, epsilon, total, ledger=ledger, rng=rng)
            if first.all_there_is is not None:
                mean = WeightedPoints(seen.place(first.all_there_is[None, :]), np.array([n]))
                return Built(mean, signal=1, near=_near(view, d, n * float(epsilon)))
            middle, left = first.mean.place, first.left
        radius_share = max(self.radius_share, settings.RADIUS_SIGNAL / max(n * float(left), 1e-9))
        spread_epsilon = left.share(self.spread_share)
        radius_epsilon = left.share(min(radius_share, settings.MAX_RADIUS_SHARE))
        sides_epsilon = left.share(self.sides_share)
        means_epsilon = left - spread_epsilon - radius_epsilon - sides_epsilon
        box = seen.bounds.unit_box

        m = round(math.log2(max(2 * n * float(sides_epsilon), 2.0)))
        m = min(max(m, settings.MIN_DIRECTIONS), self.max_directions, d)
        directions = _random_directions(box, m, rng.generator)
        deviation = self._deviation(seen, middle, directions, n, spread_epsilon, ledger=ledger, rng=rng)
        thresholds = self.threshold_offset * deviation * np.array([(0.0, 1.0, 0.0, -1.0)[i % 4] for i in range(m)])
        noisy = Laplace(sides_epsilon).release(
            seen.answer(Sides(directions, middle, thresholds)), ledger=ledger, rng=rng, label="signs: sides"
        )[:, 0]
        affordable = int(n * float(epsilon) / (settings.RECORDS_PER_MEAN * d))
        more = max(k, min(int(self.overclustering * k), affordable)) if k == wanted_k else k
        cells = _occupied(noisy, float(sides_epsilon), at_least=2 * more)
        bits = (cells[:, None] >> np.arange(m - 1, -1, -1)) & 1
        offsets = deviation * np.where(bits == 1, *_means_of_sides(thresholds / deviation))
        points = seen.bounds.clip_unit(middle + sum(offsets[:, i, None] * directions[:, i] for i in range(m)))
        guess = WeightedPoints(points, np.maximum(noisy[cells], 1).astype(np.float64))
        more = min(more, len(np.unique(points, axis=0)))
        end = to_fixed_point(guess, best_start(guess, more, rng.generator, settings.HYPERPLANE_RESTARTS))

        noise = noise_of_means(d, len(end.centroids), n, means_epsilon)
        radius = learn_radius(
            seen, end.centroids, box / 2, noise, radius_epsilon, ledger=ledger, rng=rng, label="signs: radius"
        )
        radius = np.maximum(radius, settings.MIN_RADIUS)
        moved = recentre(seen, end.centroids, radius, means_epsilon, ledger=ledger, rng=rng, label="signs: means")
        weights = _stand_out(moved.sizes, k, means_epsilon, seen.n_features)
        found = WeightedPoints.of(seen.place(moved.centroids), weights)
        near = _near(view, d, n * float(means_epsilon) / k)
        return Built(with_mean(found) if len(found.points) < wanted_k else found, signal=k, near=near)

    def _known_middle(self, view: View, seen: SqueezedView) -> NoisyMean | None:
        """The mean that a zoom has released already, in coordinates of the squeezed view, if it is good enough."""
        mean, wide = view.mean, view.half > 0
        if mean is None or np.mean(mean.deviation[wide] / view.half[wide]) > settings.MAX_MIDDLE_DEVIATION:
            return None
        return NoisyMean(seen.into(mean.place), mean.deviation / seen.unit, mean.epsilon)

    def _nearer(
        self,
        seen: SqueezedView,
        mean: NoisyMean,
        epsilon: Epsilon,
        total: NoisyTotal,
        *,
        ledger: Ledger,
        rng: Randomness,
    ) -> tuple[FloatArray, Epsilon]:
        """The mean of a zoom, (d,), and what is left of ε; once more with a small radius if records lie close to it.

        Where sides are loose by different factors, no box that shrinks them alike comes close to the records.
        """
        part = min(settings.NEAR_SIGNAL / max(total.value * float(epsilon), 1e-9), settings.MAX_NEAR_SHARE)
        if self.tight or share_of(epsilon.nano, part) == 0:
            return mean.place, epsilon
        ask, again = epsilon.share(part), epsilon.share(self.middle_share)
        if not is_near(seen, mean, total.value, ask, ledger=ledger, rng=rng):
            return mean.place, epsilon - ask
        return second_mean(seen, mean, True, again, total, ledger=ledger, rng=rng), epsilon - ask - again

    def _first_mean(
        self, seen: Asked, k: int, epsilon: Epsilon, total: NoisyTotal, *, ledger: Ledger, rng: Randomness
    ) -> FirstMean:
        """The middle of the records; with all of ε where no more than one mean can be told from noise.

        Where records lie close to it, in a box that is far too wide, all of ε is needed to tell where they are.
        """
        d = max(int(np.count_nonzero(seen.bounds.unit_box)), 1)
        paid = total.value * float(epsilon)
        part = min(settings.NEAR_SIGNAL / max(paid, 1e-9), settings.MAX_NEAR_SHARE)
        two_steps = settings.TWO_STEPS_SIGNAL * d <= paid < settings.MIN_MEANS_ZOOM * d and not self.tight
        two_steps = two_steps and bool(seen.bounds.unit_box.any()) and share_of(epsilon.nano, part) > 0
        if k == 1 and not two_steps:
            mean = noisy_mean(seen, epsilon, total, ledger=ledger, rng=rng)
            return FirstMean(mean, mean.place, Epsilon(0))
        aim = settings.TIGHT_MIDDLE_DEVIATION if self.tight else settings.MIDDLE_DEVIATION
        share = max(self.middle_share, mean_deviation(paid, d) / aim)
        mean_epsilon = epsilon.share(min(share, settings.MAX_MIDDLE_SHARE))
        mean, left = noisy_mean(seen, mean_epsilon, total, ledger=ledger, rng=rng), epsilon - mean_epsilon
        if not two_steps:
            return FirstMean(mean, None, left)
        ask = epsilon.share(part)
        near, left = is_near(seen, mean, total.value, ask, ledger=ledger, rng=rng), left - ask
        if not near and k > 1:
            return FirstMean(mean, None, left)
        return FirstMean(mean, second_mean(seen, mean, near, left, total, ledger=ledger, rng=rng), Epsilon(0))

    def _deviation(
        self,
        view: Asked,
        middle: FloatArray,
        directions: FloatArray,
        n: float,
        epsilon: Epsilon,
        *,
        ledger: Ledger,
        rng: Randomness,
    ) -> float:
        """The standard deviation along a direction, from the noisy mean distance: its √(π/2)-fold for a normal law."""
        half = view.bounds.unit_box / 2
        most = float(np.sqrt(np.mean(half[half > 0] ** 2)))
        noisy = Laplace(epsilon).release(
            view.answer(Spread(directions, middle, most)), ledger=ledger, rng=rng, label="signs: spread"
        )
        distance = (float(noisy[0, 0]) / UNIT - 1 / float(epsilon)) / n
        return min(max(distance, settings.MIN_SPREAD), settings.MAX_SPREAD) * most * math.sqrt(math.pi / 2)


@dataclass(frozen=True)
class FirstMean:
    """The noisy mean of all records, a place (d,) if that is all there is to say, and what is left of ε otherwise."""

    mean: NoisyMean
    all_there_is: FloatArray | None
    left: Epsilon


def _near(view: View, d: int, records: float) -> Near:
    """Around a mean with so many records times ε behind it."""
    return Near(min(math.sqrt(cube_variance(d)) / records, 1.0) * view.half, view.half)


def fewer(k: int, paid: float) -> int:
    """How many of k means can be told from noise, if N·ε is `paid` per feature for all of them."""
    if paid < settings.RECORDS_PER_TWO:
        return 1
    return max(min(k, int(paid / settings.RECORDS_PER_CLUSTER)), 1)


def _random_directions(box: FloatArray, m: int, rng: np.random.Generator) -> FloatArray:
    """m random orthonormal directions, shape (d, m), that use only features with a width."""
    used = np.flatnonzero(box > 0)
    directions = np.zeros((len(box), m))
    directions[used] = orthonormal(rng.standard_normal((len(used), m)))
    return directions


def orthonormal(columns: FloatArray) -> FloatArray:
    """An orthonormal basis of what m columns span, shape (d, m), by reflections: the Q of Householder's QR.

    In operations whose order does not depend on the processor, as LAPACK's does.
    """
    d, m = columns.shape
    left, basis, mirrors = columns.copy(), np.eye(d, m), []
    for i in range(min(m, d - 1)):
        mirror = left[i:, i].copy()
        mirror[0] += math.copysign(math.sqrt((mirror * mirror).sum()), mirror[0])
        mirror *= math.sqrt(2 / (mirror * mirror).sum())
        mirrors.append(mirror[:, None])
        left[i:] -= mirrors[i] * (mirrors[i] * left[i:]).sum(axis=0)
    for i, mirror in reversed(list(enumerate(mirrors))):
        basis[i:] -= mirror * (mirror * basis[i:]).sum(axis=0)
    return basis


def _occupied(noisy: IntArray, epsilon: float, at_least: int) -> IntArray:
    """Cells whose noisy count stands out of the noise of all of them; the largest ones where these are too few."""
    cells = np.flatnonzero(noisy > settings.OCCUPIED_THRESHOLD * math.log(len(noisy)) / epsilon)
    if len(cells) < at_least:
        cells = np.argsort(-noisy, kind="stable")[:at_least]
    return cells.astype(np.int64)


def _stand_out(sizes: FloatArray, k: int, epsilon: Epsilon, n_features: int) -> FloatArray:
    """The sizes without those below one deviation of their noise, as long as k of them are left."""
    kept = sizes > math.sqrt(cube_variance(n_features)) / float(epsilon)
    return np.where(kept, sizes, 0.0) if np.count_nonzero(kept) >= k else sizes


def _means_of_sides(thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means of a standard normal above and below each of `thresholds` (m,): φ(t)/P(Z > t) and -φ(t)/P(Z < t)."""
    density = [math.exp(-t * t / 2) / math.sqrt(2 * math.pi) for t in thresholds.tolist()]
    above, below = ([math.erfc(sign * t / math.sqrt(2)) / 2 for t in thresholds.tolist()] for sign in (1, -1))
    return np.divide(density, above), -np.divide(density, below)
