"""The method `gaussian`: k-means in many features under (epsilon, delta) or rho. Proof: proofs/many_features.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpkmeans._typing import FloatArray, IntArray
from dpkmeans.core.bounds import GRID
from dpkmeans.core.engine import Engine
from dpkmeans.core.guarantee import Claim
from dpkmeans.core.release import Release
from dpkmeans.core.rho import Rho
from dpkmeans.engines.block_engine import MAX_RECORDS
from dpkmeans.errors import DataError, TooFewRecordsError, WeakSignalWarning, warn
from dpkmeans.methods.base import Outcome, make_release
from dpkmeans.methods.record_count import PublicCount
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Gaussian
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis.method import SynopsisMethod, separate_duplicates
from dpkmeans.wide.geometry import public_ball, whole
from dpkmeans.wide.queries import Covariance, Rings
from dpkmeans.wide.releases import Desk, Sight, deviation_of, quantile, shrunk
from dpkmeans.wide.settings import (
    COVARIANCE_SHARE,
    DISTANCE_SHARE,
    GROUP_QUANTILE,
    GROUPING,
    MAX_DIRECTIONS,
    MAX_FEATURES,
    MAX_WHOLE_FEATURES,
    MEAN_SHARE,
    MEAN_SPLIT,
    MIN_DIRECTIONS,
    MIN_SIGNAL,
    RANDOM_DIRECTIONS,
    RESIDUAL_DISTANCE_SHARE,
    ROOM,
    START_SHARE,
    START_SHARE_ALONE,
    START_SHARE_WHOLE,
    STEPS,
    SUBSPACE_DISTANCE_SHARE,
    TYPICAL_CLUSTERS,
    WEAK_SIGNAL,
)
from dpkmeans.wide.start import Seeds, find_seeds
from dpkmeans.wide.steps import refine
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
        fit = _Fit(engine, n_clusters, ledger.remaining_rho, ledger, rng, self.n_records)
        outcome = fit.outcome()
        outcome = Outcome(
            outcome.centroids,
            n_passes=len(ledger.spends) - spends_before,  # every answer is asked for in one pass and released once
            n_iter=STEPS,
            parameters=outcome.parameters,
            sizes=outcome.sizes,
        )
        return make_release(self, outcome, engine, ledger=ledger, rng=rng)


@dataclass(frozen=True, eq=False)
class _Middle:
    """The noisy number of records, and the noisy mean on the grid, shape (d,)."""

    n_records: float
    origin: IntArray


@dataclass(frozen=True, repr=False)
class _Fit:
    """One run: who is asked, for how many clusters, and the whole budget."""

    engine: Engine
    k: int
    total: Rho
    ledger: Ledger
    rng: Randomness
    known: PublicCount | None

    def outcome(self) -> Outcome:
        """Everything in its order."""
        middle, desk = self._middle(), Desk(self.engine, self.ledger, self.rng)
        n, d = middle.n_records, self.engine.n_features
        rings = Rings(2.0 * public_ball(self.engine.bounds).radius)
        sight = Sight(middle.origin, rings)
        distances = desk.distances(sight, np.zeros((1, d)), self.total.share(DISTANCE_SHARE), "distances")
        reach = quantile(distances, rings)
        sigma = 1 / math.sqrt(2 * float(self.total))
        signal = n / (sigma * math.sqrt(d))
        clusters = max(min(self.k, int(signal / MIN_SIGNAL)), 1)
        subspace = self._subspace(middle, reach)
        seeds = self._seeds(middle, subspace, distances, rings, clusters)
        found = seeds.merged_to(clusters)
        places = found.centres if subspace is None else subspace.lift(found.centres)
        part = self.total.share(RESIDUAL_DISTANCE_SHARE)
        residuals = desk.distances(sight, places, part, "distances from the start")
        rest = self.ledger.remaining_rho
        radius = quantile(residuals, rings, GROUP_QUANTILE)
        step = 1.0 if subspace is None else subspace.step
        penalty = GROUPING * d * (radius * sigma / step) ** 2 / n
        groups = group(found, penalty)
        starts = groups.centres if subspace is None else subspace.lift(groups.centres)
        offsets = found.centres - groups.centres[groups.member]
        end = refine(desk, sight, starts, subspace, residuals, n, rest)
        centres = end.centres[groups.member] + (offsets if subspace is None else subspace.lift(offsets))
        sizes = end.sizes[groups.member] * found.weights / groups.weights[groups.member]
        self._warn(signal / self.k, d)
        parameters = {
            "signal": signal / self.k,
            "subspace": d if subspace is None else len(subspace.directions),
            "clusters_with_signal": len(found.centres),
            "groups": len(groups.centres),
            "moves": [m / GRID * self.engine.bounds.longest_side for m in end.moves],
        }
        return self._filled(middle, centres, sizes, parameters)

    def _middle(self) -> _Middle:
        """The noisy number of records and their noisy mean, shrunk towards the public centre."""
        ball, d = public_ball(self.engine.bounds), self.engine.n_features
        desk, sight = Desk(self.engine, self.ledger, self.rng), Sight(ball.centre, Rings(float(ball.radius)))
        part = self.total.share(MEAN_SHARE)
        seen = desk.look(sight, np.zeros((1, d)), ball.radius, MEAN_SPLIT, part, "number of records and mean")
        n = min(max(float(seen.counts[0]), 1.0), float(MAX_RECORDS))
        if self.known is not None:
            n = float(self.known.n_records)
        elif self.k > n + SURE * seen.count_deviation:
            raise TooFewRecordsError(
                f"{self.k} clusters are more than the noisy number of records, {n:.0f}. The fit stopped after this "
                f"count, which cost rho={self.ledger.booked_rho(part)}.",
                hint="Ask for fewer clusters with {n_clusters}.",
            )
        mean = shrunk(seen.sums / n, np.array([d * (seen.deviation / n) ** 2]))[0]
        inside = np.clip(whole(ball.centre + mean), 0, self.engine.bounds.side)
        return _Middle(n, inside)

    def _subspace(self, middle: _Middle, reach: float) -> Subspace | None:
        """None where all features are few enough to be searched."""
        d, n = self.engine.n_features, middle.n_records
        if d <= MAX_WHOLE_FEATURES:
            return None
        p = max(MIN_DIRECTIONS, min(self.k - 1, MAX_DIRECTIONS))
        part, generator = self.total.share(COVARIANCE_SHARE), self.rng.generator
        noise = math.sqrt(2 * d) * deviation_of(1, part)
        if noise * min(self.k, TYPICAL_CLUSTERS) / n >= RANDOM_DIRECTIONS:
            return random_subspace(middle.origin, ROOM * reach, p, generator)
        query = Covariance(middle.origin, max(round(reach), 1))
        noisy = Gaussian(part).release(self.engine.answer(query), ledger=self.ledger, rng=self.rng, label="covariance")
        return leading_subspace(query.matrix(noisy[0]), middle.origin, ROOM * reach, p, noise * reach**2, generator)

    def _seeds(
        self, middle: _Middle, subspace: Subspace | None, distances: FloatArray, rings: Rings, clusters: int
    ) -> Seeds:
        """The start, in the subspace or in all features."""
        spent = any(spend.label == "covariance" for spend in self.ledger.spends)
        share = self.total.share(START_SHARE if spent else START_SHARE_ALONE)
        if subspace is None:
            share = self.total.share(START_SHARE_WHOLE)
            sight = Sight(middle.origin, rings, quantile(distances, rings))
            desk, scales = Desk(self.engine, self.ledger, self.rng), np.ones(self.engine.n_features)
            return find_seeds(desk, sight, scales, distances, middle.n_records, clusters, share)
        desk = Desk(projected(self.engine, subspace), self.ledger, self.rng)
        p, inner = len(subspace.directions), Rings(float(HALF))
        origin: IntArray = np.full(p, HALF, np.int64)
        part = self.total.share(SUBSPACE_DISTANCE_SHARE)
        inside = desk.distances(Sight(origin, inner), np.zeros((1, p)), part, "distances in the subspace")
        sight = Sight(origin, inner, quantile(inside, inner))
        return find_seeds(desk, sight, subspace.scales, inside, middle.n_records, clusters, share)

    def _filled(
        self, middle: _Middle, centres: FloatArray, sizes: FloatArray, parameters: dict[str, object]
    ) -> Outcome:
        """k centroids in unit coordinates: where the signal tells fewer clusters, the others lie beside the largest."""
        box = self.engine.bounds.unit_box
        places = np.clip((middle.origin + centres) / GRID, 0.0, box)
        missing = self.k - len(places)
        if missing > 0:
            largest = int(np.argmax(sizes))
            places = np.concatenate([places, np.repeat(places[largest : largest + 1], missing, axis=0)])
            sizes = np.concatenate([sizes, np.zeros(missing)])
        places, _ = separate_duplicates(places, box, self.rng.generator)
        return Outcome(places, 0, STEPS, parameters=parameters, sizes=sizes)

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
