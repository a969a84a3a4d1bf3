"""The method `gaussian`: k-means in many features under (epsilon, delta) or rho. Proof: proofs/many_features.md."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dpkmeans._typing import FloatArray, IntArray
from dpkmeans.core.bounds import GRID
from dpkmeans.core.engine import Engine
from dpkmeans.core.guarantee import Claim
from dpkmeans.core.intervals import CENTROID_DEVIATION, SIZE_DEVIATION
from dpkmeans.core.release import Release
from dpkmeans.core.rho import Rho
from dpkmeans.engines.block_engine import MAX_RECORDS
from dpkmeans.errors import DataError, TooFewRecordsError, WeakSignalWarning, warn
from dpkmeans.methods.base import Outcome, make_release
from dpkmeans.methods.record_count import PublicCount
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Gaussian
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis.method import SynopsisMethod
from dpkmeans.wide.geometry import public_ball, whole
from dpkmeans.wide.points import Parts, at_rest
from dpkmeans.wide.queries import Covariance, Rings
from dpkmeans.wide.releases import Desk, Distances, Seen, Sight, deviation_of, quantile, reach_of, shrunk
from dpkmeans.wide.settings import (
    COVARIANCE_SHARE,
    DEVIATIONS,
    DISTANCE_SHARE,
    GROUP_QUANTILE,
    GROUPING,
    MAX_DIRECTIONS,
    MAX_FEATURES,
    MAX_WHOLE_FEATURES,
    MEAN_AGAIN_SPLIT,
    MEAN_GAIN,
    MEAN_NOISE,
    MEAN_RADIUS_NOISE,
    MEAN_ROUNDS,
    MEAN_SHARE,
    MEAN_SPLIT,
    MEAN_STEP_NOISE,
    MEAN_STEPS,
    MIN_CLEAR_SIZE,
    MIN_DIRECTIONS,
    MIN_SIGNAL,
    MIN_SIGNAL_OF_TWO,
    RANDOM_DIRECTIONS,
    RESIDUAL_DISTANCE_SHARE,
    ROOM,
    SIZE_DEVIATIONS,
    START_FORGET,
    START_SHARE,
    START_SHARE_ALONE,
    START_SHARE_WHOLE,
    STEP_FORGET,
    STEP_RADIUS_NOISE,
    STEPS,
    SUBSPACE_DISTANCE_SHARE,
    TYPICAL_CLUSTERS,
    WEAK_SIGNAL,
    WHOLE_RADIUS_NOISE,
)
from dpkmeans.wide.start import Seeds, find_seeds
from dpkmeans.wide.steps import Steps, refine
from dpkmeans.wide.subspace import HALF, Subspace, leading_subspace, projected, random_subspace
from dpkmeans.wide.ward import Merged

SURE = 1.7  # deviations by which k may pass the noisy number of records: by chance in one case of twenty


@dataclass(frozen=True)
class GaussianMethod:
    """A private subspace, a start in it by splits and swaps, then private steps in all features.

    Guarantee: the promise of the ledger, (epsilon, delta) or rho. Every spend is one call of the Gaussian mechanism;
    all else is post-processing.
    """

    name: str = "gaussian"
    n_records: PublicCount | None = None
    claim: ClassVar[Claim] = Claim.PROVED
    needs_epsilon: ClassVar[bool] = True
    spends_rho: ClassVar[bool] = True

    def run(self, engine: Engine, n_clusters: int, *, ledger: Ledger, rng: Randomness) -> Release:
        """Spend all that the promise leaves, and release centroids. On released values it is a fit of the synopsis."""
        if engine.released:
            count = self.n_records or PublicCount(MAX_RECORDS)
            return SynopsisMethod(self.name, count).run(engine, n_clusters, ledger=ledger, rng=rng)
        if engine.n_features > MAX_FEATURES:
            raise DataError(f"the method 'gaussian' takes up to {MAX_FEATURES} features; there are more.")
        spends_before = len(ledger.spends)
        fit = _Fit(engine, n_clusters, ledger.remaining_rho, ledger, rng, self.n_records, self.name)
        outcome = replace(fit.outcome(), n_passes=len(ledger.spends) - spends_before)  # one pass for every answer
        return make_release(self, outcome, engine, ledger=ledger, rng=rng)


@dataclass(frozen=True, eq=False)
class _Middle:
    """The noisy number of records, the noisy mean on the grid, shape (d,), and noisy distances from it."""

    n_records: float
    origin: IntArray
    rings: Rings
    distances: Distances

    @property
    def sight(self) -> Sight:
        """Records as they are seen from the mean."""
        return Sight(self.origin, self.rings)


@dataclass(frozen=True, eq=False)
class _Found:
    """Centres (K, d) relative to the origin, in grid steps, their parts, and how far noise moves centres and sizes."""

    centres: FloatArray
    parts: Parts
    deviations: FloatArray
    size_deviations: FloatArray
    moves: tuple[float, ...]
    n_directions: int
    n_groups: int


@dataclass(frozen=True, repr=False)
class _Fit:
    """One run: who is asked, for how many clusters, and the whole budget."""

    engine: Engine
    k: int
    total: Rho
    ledger: Ledger
    rng: Randomness
    known: PublicCount | None
    name: str

    def outcome(self) -> Outcome:
        """Everything in its order."""
        middle, d = self._middle(), self.engine.n_features
        signal = middle.n_records * math.sqrt(2 * float(self.total)) / math.sqrt(d)
        clusters = min(self.k, int(signal / MIN_SIGNAL)) if signal >= MIN_SIGNAL_OF_TWO else 1
        found = self._one(middle, signal) if clusters == 1 else self._several(middle, clusters)
        self._warn(signal / self.k, d)
        bounds, scale = self.engine.bounds, self.engine.bounds.longest_side / GRID
        parts = replace(found.parts, offsets=found.parts.offsets / GRID)
        end = at_rest((middle.origin + found.centres) / GRID, parts, self.k, bounds.unit_box, self.rng.generator)
        parameters = {
            "signal": signal / self.k,
            "subspace": found.n_directions,
            "clusters_with_signal": len(found.centres),
            "groups": found.n_groups,
            "steps": len(found.moves),
            "moves": [move * scale for move in found.moves],
            "synopsis": self.name,
            "points": len(parts.weights),
            **self._deviations(found, end.certificate.sizes),
        }
        return Outcome(
            end.centroids,
            n_passes=0,
            n_iter=len(end.certificate.costs),
            converged=True,
            parameters=parameters,
            sizes=end.certificate.sizes,
            certificate=end.certificate,
        )

    def _deviations(self, found: _Found, sizes: FloatArray) -> dict[str, object]:
        """How far noise moves centroids, (k, d) in units of the data, and sizes, (k,).

        Centroids beside the heaviest share its records with it in a way that nothing tells, and a cluster whose size
        does not stand out may be none: their means may be anywhere.
        """
        moved, counted = np.zeros(self.k), np.zeros(self.k)
        moved[: len(found.centres)], counted[: len(found.centres)] = found.deviations / GRID, found.size_deviations
        beside = np.arange(self.k) >= len(found.centres)
        beside[int(np.argmax(sizes))] |= beside.any()
        anywhere = beside | (sizes < MIN_CLEAR_SIZE * counted)
        box, unit = self.engine.bounds.unit_box, self.engine.bounds.unit
        places = np.where(anywhere[:, None], box, DEVIATIONS * moved[:, None]) * unit
        return {
            CENTROID_DEVIATION: places.tolist(),
            SIZE_DEVIATION: np.where(beside, sizes.max(), SIZE_DEVIATIONS * counted).tolist(),
        }

    @property
    def _desk(self) -> Desk:
        return Desk(self.engine, self.ledger, self.rng)

    def _one(self, middle: _Middle, signal: float) -> _Found:
        """One mean, where the signal is too weak for more. The noise of a step is its radius times √steps/signal."""
        d, (least, most) = self.engine.n_features, MEAN_STEPS
        number = min(max(int((MEAN_STEP_NOISE * signal) ** 2), least), most)
        steps = Steps(number, MEAN_RADIUS_NOISE, START_FORGET, middle.n_records, self.ledger.remaining_rho)
        end = refine(self._desk, middle.sight, np.zeros((1, d)), None, middle.distances, steps)
        parts = Parts(np.zeros((1, d)), end.sizes, np.zeros(1, np.int64))
        return _Found(end.centres, parts, end.deviations, np.array([end.size_deviation]), end.moves, 0, 1)

    def _several(self, middle: _Middle, clusters: int) -> _Found:
        """A subspace, a start in it, and steps in all features."""
        d, n = self.engine.n_features, middle.n_records
        subspace = self._subspace(middle, reach_of(middle.distances, middle.rings))
        seeds = self._seeds(middle, subspace, clusters)
        found = seeds.merged_to(clusters)

        def lifted(points: FloatArray) -> FloatArray:
            return points if subspace is None else subspace.lift(points)

        part = self.total.share(RESIDUAL_DISTANCE_SHARE)
        residuals = self._desk.distances(
            middle.sight, lifted(found.centres), part, "distances from the start", middle.distances
        )
        radius = quantile(residuals, middle.rings, GROUP_QUANTILE)
        step, p = (1.0, d) if subspace is None else (subspace.step, len(subspace.directions))
        groups = group(found, GROUPING * d * (radius / step) ** 2 / (2 * float(self.total)) / n)
        weight = WHOLE_RADIUS_NOISE if subspace is None else STEP_RADIUS_NOISE
        steps = Steps(STEPS, weight, STEP_FORGET, n, self.ledger.remaining_rho)
        end = refine(self._desk, middle.sight, lifted(groups.centres), subspace, residuals, steps)
        share = found.weights / groups.weights[groups.member]
        centres = end.centres[groups.member] + lifted(found.centres - groups.centres[groups.member])
        sizes = end.sizes[groups.member] * share
        inside = seeds.deviation / found.weights * step * math.sqrt(p / d)  # of what lies within a group
        within = np.where(share < 1, inside, 0.0)
        of_share = np.where(share < 1, seeds.count_deviation * sizes / found.weights, 0.0)
        weights = seeds.weights * (sizes / found.weights)[found.member]
        return _Found(
            centres,
            Parts(lifted(seeds.centres - found.centres[found.member]), weights, found.member),
            np.sqrt(end.deviations[groups.member] ** 2 + within**2),
            np.sqrt((end.size_deviation * share) ** 2 + of_share**2),
            end.moves,
            p,
            len(groups.centres),
        )

    def _middle(self) -> _Middle:
        """The noisy number of records, their noisy mean, shrunk towards the public centre, and distances from it.

        In bounds that are far too wide the mean is off by more than records are apart. Then it is asked for again, with
        records clipped to where they were seen.
        """
        ball, d, desk, one = public_ball(self.engine.bounds), self.engine.n_features, self._desk, self._origin
        part, rings = self.total.share(MEAN_SHARE), Rings(2.0 * ball.radius)
        seen = desk.look(Sight(ball.centre, rings), one, ball.radius, MEAN_SPLIT, part, "number of records and mean")
        n = self._number(seen, part)
        origin = self._moved(ball.centre, seen, n)
        for i in range(MEAN_ROUNDS + 1):
            sight = Sight(origin, rings)
            distances = desk.distances(sight, one, self.total.share(DISTANCE_SHARE), "distances")
            reach, noise = reach_of(distances, rings), math.sqrt(d) * seen.deviation / n
            if i == MEAN_ROUNDS or noise < MEAN_NOISE * reach or noise > MEAN_GAIN * seen.radius:
                break
            seen = desk.look(sight, one, reach, MEAN_AGAIN_SPLIT, part, "mean again")
            origin = self._moved(origin, seen, n)
        return _Middle(n, origin, rings, distances)

    @property
    def _origin(self) -> FloatArray:
        return np.zeros((1, self.engine.n_features))

    def _number(self, seen: Seen, part: Rho) -> float:
        if self.known is not None:
            return float(self.known.n_records)
        n = min(max(float(seen.counts[0]), 1.0), float(MAX_RECORDS))
        if self.k > n + SURE * seen.count_deviation:
            raise TooFewRecordsError(
                f"{self.k} clusters are more than the noisy number of records, {n:.0f}. The fit stopped after this "
                f"count, which cost rho={self.ledger.booked_rho(part)}.",
                hint="Ask for fewer clusters with {n_clusters}.",
            )
        return max(n, min(seen.count_deviation, float(MAX_RECORDS)))  # a mean is not divided by less than is known

    def _moved(self, origin: IntArray, seen: Seen, n: float) -> IntArray:
        """The origin moved by the noisy mean, as far as that stands out of its noise, in the box."""
        mean = shrunk(seen.sums / n, np.array([len(origin) * (seen.deviation / n) ** 2]))[0]
        return np.asarray(np.clip(whole(origin + mean), 0, self.engine.bounds.side), np.int64)

    def _subspace(self, middle: _Middle, reach: float) -> Subspace | None:
        """None where all features are few enough to be searched."""
        d, n = self.engine.n_features, middle.n_records
        if d <= MAX_WHOLE_FEATURES:
            return None
        p = min(max(MIN_DIRECTIONS, min(self.k - 1, MAX_DIRECTIONS)), d)
        part, generator = self.total.share(COVARIANCE_SHARE), self.rng.generator
        noise = math.sqrt(2 * d) * deviation_of(1, part)
        if noise * min(self.k, TYPICAL_CLUSTERS) / n >= RANDOM_DIRECTIONS:
            return random_subspace(middle.origin, ROOM * reach, p, generator)
        query = Covariance(middle.origin, max(round(reach), 1))
        noisy = Gaussian(part).release(self.engine.answer(query), ledger=self.ledger, rng=self.rng, label="covariance")
        return leading_subspace(query.matrix(noisy[0]), middle.origin, ROOM * reach, p, noise * reach**2, generator)

    def _seeds(self, middle: _Middle, subspace: Subspace | None, clusters: int) -> Seeds:
        """The start, in the subspace or in all features."""
        spent = any(spend.label == "covariance" for spend in self.ledger.spends)
        share = self.total.share(START_SHARE if spent else START_SHARE_ALONE)
        if subspace is None:
            share = self.total.share(START_SHARE_WHOLE)
            sight = replace(middle.sight, cost_radius=reach_of(middle.distances, middle.rings))
            scales = np.ones(self.engine.n_features)
            return find_seeds(self._desk, sight, scales, middle.distances, middle.n_records, clusters, share)
        desk = Desk(projected(self.engine, subspace), self.ledger, self.rng)
        p, inner = len(subspace.directions), Rings(float(HALF))
        origin: IntArray = np.full(p, HALF, np.int64)
        part = self.total.share(SUBSPACE_DISTANCE_SHARE)
        inside = desk.distances(Sight(origin, inner), np.zeros((1, p)), part, "distances in the subspace")
        sight = Sight(origin, inner, reach_of(inside, inner))
        return find_seeds(desk, sight, subspace.scales, inside, middle.n_records, clusters, share)

    def _warn(self, signal: float, d: int) -> None:
        if signal < WEAK_SIGNAL:
            warn(
                WeakSignalWarning(
                    f"records / (clusters * noise * sqrt(features)) is about {signal:.2g}; below {WEAK_SIGNAL:g} the "
                    f"{self.k} clusters cannot be told from noise in {d} features, and fewer are found.",
                    hint="Use more records, a larger epsilon, fewer clusters or fewer features.",
                )
            )


def group(found: Merged, penalty: float) -> Merged:
    """The groups, along Ward's tree of the clusters, that minimise merge costs + penalty · groups²."""
    k = len(found.centres)
    costs = Seeds(found.centres, found.weights).merged_to(1).costs
    merged = np.concatenate([np.zeros(1), np.cumsum(costs)])
    loss = merged + penalty * (k - np.arange(k)) ** 2
    return Seeds(found.centres, found.weights).merged_to(k - int(np.argmin(loss)))


def gaussian(*, n_records: int | None = None) -> GaussianMethod:
    """k-means in many features with Gaussian noise, under (epsilon, delta) or rho."""
    return GaussianMethod(n_records=None if n_records is None else PublicCount(n_records))
