"""Methods on a private synopsis: ε is spent once; what follows is post-processing. Proof: proofs/synopsis.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.bounds import GRID
from dpkmeans.core.certificate import Correction, RecentringStep
from dpkmeans.core.cost import promised_fields
from dpkmeans.core.engine import Engine
from dpkmeans.core.epsilon import Epsilon, Spend
from dpkmeans.core.exact import reveal
from dpkmeans.core.guarantee import Claim, claim_of, guarantee_of
from dpkmeans.core.release import Release
from dpkmeans.core.units import share_of
from dpkmeans.errors import WeakSignalWarning, warn
from dpkmeans.methods.base import Outcome, make_release
from dpkmeans.methods.loop.budgets import ScheduleInput, StepEpsilon, per_step
from dpkmeans.methods.loop.solver import Run, solve
from dpkmeans.methods.loop.stopping import Repeats
from dpkmeans.methods.lu_shen.laws import PAPER_LAWS, Laws
from dpkmeans.methods.lu_shen.zone_sampling import Controller, ZoneSampling
from dpkmeans.methods.lu_shen.zones import transcript_of
from dpkmeans.methods.record_count import NoisyCount, PublicCount, RecordCount
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.progress import expect, stage
from dpkmeans.synopsis.box_fit import BoxFit, ask_fit, fit_share
from dpkmeans.synopsis.correct import corrected
from dpkmeans.synopsis.features import Narrowed, lift, worth_their_noise
from dpkmeans.synopsis.grid import Grid
from dpkmeans.synopsis.histogram import Histogram
from dpkmeans.synopsis.hyperplanes import Hyperplanes
from dpkmeans.synopsis.kmeans import FixedPoint, best_start, cluster, distinct, pad, to_fixed_point
from dpkmeans.synopsis.plan import Builder, Plan, least_signal, make_plan
from dpkmeans.synopsis.recentre import (
    Recentred,
    deviation_of,
    extrapolate,
    learn_radius,
    noise_of_means,
    radius_of,
    recentre,
)
from dpkmeans.synopsis.recount import recount
from dpkmeans.synopsis.settings import (
    COUNT_SHARE,
    HYBRID_SHARE,
    MAX_UNIFORM_CELLS,
    MAX_ZONE_STEPS,
    MIN_RADIUS,
    UNIFORM_COUNT_SHARE,
    UNIFORM_UNIT,
    ZONE_EPSILON,
)
from dpkmeans.synopsis.synopsis import Synopsis
from dpkmeans.synopsis.tree import Tree
from dpkmeans.synopsis.verify import make_certificate
from dpkmeans.synopsis.view import View
from dpkmeans.synopsis.weighted_points import Built, NoisyTotal, WeightedPoints
from dpkmeans.synopsis.zoom import SIDE, Budget, asks_sides, usual_passes, zoom

Strategy = Literal["lloyd", "posterior", "prior"]


@dataclass(frozen=True)
class Zoned:
    """How a zone strategy draws on a synopsis: ε_i^(t), q and Pr[P] of the paper. Nothing here is a budget."""

    step_epsilon: StepEpsilon = ZONE_EPSILON
    laws: Laws = PAPER_LAWS


@dataclass(frozen=True)
class SynopsisMethod:
    """A synopsis, k-means on it to a fixed point by `strategy`, and at most one private step on the records.

    The step corrects the synopsis before k-means begins, or re-centres the fixed point, as the plan has it. `builder`
    and `recentre_share` fix what the plan would otherwise decide; the step then follows the fixed point.
    """

    name: str
    record_count: RecordCount
    strategy: Strategy = "lloyd"
    builder: Builder | None = None
    recentre_share: float | None = None
    recentre: bool = True
    zoom: bool = True
    zones: Zoned = Zoned()
    needs_epsilon: ClassVar[bool] = True

    @property
    def claim(self) -> Claim:
        """Proved with parts that are: the synopsis and re-centring are mechanisms, the rest is post-processing."""
        return claim_of(Claim.PROVED if self.builder is None else self.builder, self.record_count)

    def run(self, engine: Engine, n_clusters: int, *, ledger: Ledger, rng: Randomness) -> Release:
        """Spend on the synopsis, converge on it, one step. An engine that is a synopsis already is only clustered."""
        spends_before, plan, cells, near, signal = len(ledger.spends), None, None, None, n_clusters
        if isinstance(engine, Synopsis):
            points, kind, ledger, spends_before = engine.data, engine.kind, Ledger(), 0
        else:
            built, plan = build(engine, n_clusters, self, ledger=ledger, rng=rng)
            points, cells, near, signal = built.points, built.cells, built.near, built.signal
            kind = type(plan.builder).__name__.lower()
        signal = min(signal, distinct(points.points, n_clusters))
        stage("clustering the released points")
        box, correction, step = engine.bounds.unit_box, None, None
        points = pad(points, n_clusters, box, rng.generator, near)
        if plan is not None and plan.corrects:
            points, correction = self._corrected(engine, points, plan, ledger=ledger, rng=rng)
            points, cells = pad(points, n_clusters, box, rng.generator, near), None
        points, start = cluster(points, cells, n_clusters, rng.generator)
        end = converge(points, start, engine, self, rng)
        centroids, sizes = end.centroids, end.sizes
        if plan is not None and plan.recentre_epsilon is not None and not plan.corrects:
            moved = self._recentred(engine, points, end, plan, ledger=ledger, rng=rng)
            centroids, sizes = extrapolate(points, end.centroids, moved.centroids, plan.extrapolation), moved.sizes
            step = RecentringStep(moved.centroids, moved.radius, plan.extrapolation)
        narrow = {} if plan is None or plan.features is None else {"features": len(plan.features)}
        places, apart = separate_duplicates(centroids, box, rng.generator)
        outcome = Outcome(
            places,
            n_passes=passes_of(ledger.spends[spends_before:]),
            n_iter=len(end.costs),
            converged=True,
            transcript=end.transcript,
            parameters={"synopsis": kind, "points": len(points.points), "clusters_with_signal": signal, **narrow},
            sizes=sizes,
            certificate=make_certificate(points, end, apart, correction=correction, step=step),
        )
        return make_release(self, outcome, engine, ledger=ledger, rng=rng)

    def _corrected(
        self, engine: Engine, points: WeightedPoints, plan: Plan, *, ledger: Ledger, rng: Randomness
    ) -> tuple[WeightedPoints, Correction]:
        """The points after a private step on the records in cells of the synopsis, inside the box; and that step."""
        assert plan.recentre_epsilon is not None
        asked = distinct(points.points, plan.asked)
        cells = to_fixed_point(points, best_start(points, asked, rng.generator))
        found = self._recentred(engine, points, cells, plan, ledger=ledger, rng=rng)
        n_features = engine.n_features if plan.features is None else len(plan.features)
        scale = 1 / float(plan.recentre_epsilon)
        moved = corrected(points, cells, found, scale=scale, entries=1 + n_features, spread=plan.spread)
        inside = WeightedPoints(engine.bounds.clip_unit(moved.points), moved.weights)
        return inside, Correction(cells.centroids, found.centroids, found.radius)

    def _recentred(
        self, engine: Engine, points: WeightedPoints, end: FixedPoint, plan: Plan, *, ledger: Ledger, rng: Randomness
    ) -> Recentred:
        """The private step, in the features that clusters are looked for in; the others stay where they are."""
        assert plan.recentre_epsilon is not None
        assert plan.half is not None
        features = np.arange(engine.n_features) if plan.features is None else plan.features
        asked, fixed = Narrowed.of(engine, features), end.centroids[:, features]
        least = 2 * MIN_RADIUS * (float(plan.half.max()) or 0.5)
        if plan.radius_epsilon is None:
            radius = radius_of(points, end, plan.reach, plan.deviations, least)[:, features]
        else:
            tree = isinstance(plan.builder, Tree)  # hyperplanes say where clusters are, but not how wide
            scale = plan.deviations * deviation_of(points, end)[features] if tree else plan.half
            d, n = int(np.count_nonzero(asked.bounds.unit_box)), float(points.weights.sum())
            noise = noise_of_means(max(d, 1), len(fixed), n, plan.recentre_epsilon)
            scale = np.where(asked.bounds.unit_box > 0, np.maximum(scale, least), 0.0)
            radius = learn_radius(asked, fixed, scale, noise, plan.radius_epsilon, ledger=ledger, rng=rng)
            radius = np.maximum(radius, least)
        moved = recentre(asked, fixed, radius, plan.recentre_epsilon, ledger=ledger, rng=rng)
        centroids, reach = end.centroids.copy(), np.zeros(end.centroids.shape)
        centroids[:, features], reach[:, features] = moved.centroids, radius
        return Recentred(centroids, reach, moved.sizes)


def passes_of(spends: Sequence[Spend]) -> int:
    """Every answer is asked for in one pass and released once, but for the one that all sides are chosen from."""
    sides = sum(spend.label == SIDE for spend in spends)
    return len(spends) - max(sides - 1, 0)


def build(engine: Engine, k: int, method: SynopsisMethod, *, ledger: Ledger, rng: Randomness) -> tuple[Built, Plan]:
    """The number of records, the plan that follows from it, and the synopsis."""
    before = ledger.remaining
    n_records = method.record_count.get(engine, k, ledger=ledger, rng=rng)
    paid = before - ledger.remaining
    total = NoisyTotal(n_records, 0.0) if paid.nano == 0 else NoisyTotal.released(n_records, paid)
    d = int(np.count_nonzero(engine.bounds.unit_box))
    if method.zoom and total.variance > 0:
        now = Budget(before, n_records, math.sqrt(total.variance))
        total = recount(engine, total, now, d, ledger=ledger, rng=rng)
        n_records = total.value
    if n_records * float(before) / k < least_signal(d):
        warn(weak_signal(n_records * float(before) / k, d))
    fit, features = BoxFit.UNKNOWN, np.arange(engine.n_features)
    narrows = len(worth_their_noise(engine.bounds.unit_box, n_records * float(before), k)) < engine.n_features
    asks = method.zoom and method.builder is None
    share = fit_share(n_records * float(before), k, d, narrows=narrows) if asks else None
    if share is not None and share_of(before.nano, share) > 0:
        fit = ask_fit(engine, n_records, k, before.share(share), ledger=ledger, rng=rng)
    if fit is BoxFit.TIGHT:  # features are only left out in a box that fits
        features = worth_their_noise(engine.bounds.unit_box, n_records * float(ledger.remaining), k)
    fewer = len(features) < engine.n_features
    view, left = View.of(Narrowed.of(engine, features)), ledger.remaining
    d = int(np.count_nonzero(engine.bounds.unit_box[features]))
    first = make_plan(left, n_records, k, d, fit=fit, recentre=method.recentre)
    budget = Budget(before, n_records, math.sqrt(total.variance), isinstance(first.builder, Hyperplanes))
    if method.zoom and (fit is not BoxFit.TIGHT or asks_sides(budget, d)):  # some sides may fit and others not
        expect(usual_passes(budget, d) + first.passes)
        view = zoom(view, budget, ledger=ledger, rng=rng)
    spent = left - ledger.remaining
    plan = make_plan(ledger.remaining, n_records, k, d, fit=fit, zoom=spent, recentre=method.recentre)
    if method.builder is not None:
        last = None if not method.recentre_share else ledger.remaining.share(method.recentre_share)
        left = ledger.remaining if last is None else ledger.remaining - last
        plan = Plan(method.builder, left, last, reach=plan.reach, extrapolation=0.0)
    plan = replace(plan, half=view.half, features=features if fewer else None)
    expect(plan.passes)
    built = plan.builder.build(view, k, plan.synopsis_epsilon, total, ledger=ledger, rng=rng)
    return lift(built, features, engine.bounds.unit_box), plan


def weak_signal(signal: float, n_features: int) -> WeakSignalWarning:
    """The warning that so few records times ε per cluster do not tell clusters from noise in so many features."""
    return WeakSignalWarning(
        f"records * epsilon / clusters is about {signal:.2g}; below {least_signal(n_features):.0f} (10, or 4 for each "
        "feature) no private method tells the clusters from noise.",
        hint="Use more records, a larger epsilon, fewer clusters or fewer features.",
    )


def converge(
    points: WeightedPoints, start: FloatArray, engine: Engine, method: SynopsisMethod, rng: Randomness
) -> FixedPoint:
    """From a start (k, d) to a fixed point; the zone strategies first go their own way. Post-processing."""
    if method.strategy == "lloyd":
        return to_fixed_point(points, start)
    controller = Controller.POSTERIOR if method.strategy == "posterior" else Controller.CLIPPED_PRIOR
    update = ZoneSampling(controller, method.zones.laws)
    released = as_synopsis(points, engine, Ledger(), rng)
    given = ScheduleInput(Epsilon(0), len(start), engine.n_features, float(points.weights.sum()))
    plan = per_step(method.zones.step_epsilon, MAX_ZONE_STEPS).plan(given)
    end = solve(Run(released, start, plan, Repeats(), Ledger(), rng), update)
    why = "a synopsis is released"
    visited = [start, *(move.centroids for _, move in end.moves)]
    costs = tuple(reveal(released.cell_statistics(c), why=why).cost for c in visited)
    means = reveal(released.cell_statistics(end.centroids), why=why).means(empty=end.centroids)
    transcript = transcript_of(engine.bounds, end.moves, centroids=True, means=True)  # post-processing as well
    return replace(to_fixed_point(points, means), start=start, before=costs, transcript=transcript)


def as_synopsis(points: WeightedPoints, engine: Engine, ledger: Ledger, rng: Randomness, kind: str = "") -> Synopsis:
    """Released points as an engine, with what the ledger says they cost."""
    guarantee = guarantee_of(Claim.PROVED, engine.bounds, rng)
    promised = promised_fields(ledger.privacy)
    return Synopsis(points, engine.bounds, guarantee, ledger.spends, kind=kind, **promised)


def separate_duplicates(centroids: FloatArray, box: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, float]:
    """The same centroids (k, d) inside the box, equal ones moved apart, and how far at most: mostly not at all.

    Each attempt tries places around the original one, twice as far as the attempt before.
    """
    inside = np.clip(centroids, 0.0, box)
    out, reach = inside.copy(), 0
    while True:
        _, first = np.unique(out, axis=0, return_index=True)
        again = np.setdiff1d(np.arange(len(out)), first)
        if len(again) == 0 or reach >= GRID or not box.any():
            return np.asarray(out), reach / GRID
        reach = max(2 * reach, 2)
        moves = rng.integers(-reach, reach + 1, size=(len(again), len(box))) / GRID
        moved = np.abs(inside[again] + moves)  # what leaves the box is reflected, or corners would fill up again
        out[again] = np.clip(np.where(moved > box, 2 * box - moved, moved), 0.0, box)


def synopsis(*, n_records: int | None = None) -> SynopsisMethod:
    """The default: a private synopsis, Lloyd on it to a fixed point, one private step on the records where it helps."""
    return SynopsisMethod("synopsis", counted(n_records))


def synopsis_posterior(
    *, n_records: int | None = None, step_epsilon: StepEpsilon = ZONE_EPSILON, laws: Laws = PAPER_LAWS
) -> SynopsisMethod:
    """The posterior strategy of Lu and Shen on a private synopsis, where it is post-processing.

    `step_epsilon` and `laws` shape the draws as they do for `posterior`; here they are no budget.
    """
    zones = Zoned(step_epsilon, laws)
    return SynopsisMethod("synopsis-posterior", counted(n_records), "posterior", zones=zones)


def synopsis_prior(
    *, n_records: int | None = None, step_epsilon: StepEpsilon = ZONE_EPSILON, laws: Laws = PAPER_LAWS
) -> SynopsisMethod:
    """The prior strategy of Lu and Shen on a private synopsis, where it is post-processing.

    `step_epsilon` and `laws` shape the draws as they do for `prior`; here they are no budget.
    """
    zones = Zoned(step_epsilon, laws)
    return SynopsisMethod("synopsis-prior", counted(n_records), "prior", zones=zones)


UNIFORM = Grid(
    two_looks=False,
    unit=UNIFORM_UNIT,
    unit_exponent=0.0,
    cells_per_cluster=0.0,
    max_cells=MAX_UNIFORM_CELLS,
    max_points=0,
)


def eugkm(*, n_records: int | None = None) -> SynopsisMethod:
    """The uniform grid alone. Source: Su, Cao, Li, Bertino and Jin (2016)."""
    return SynopsisMethod("eugkm", counted(n_records, UNIFORM_COUNT_SHARE), builder=UNIFORM, zoom=False)


def su_hybrid(*, n_records: int | None = None) -> SynopsisMethod:
    """The uniform grid with half of ε, then one noisy Lloyd step. Source: Su, Cao, Li, Bertino, Lyu and Jin (2017)."""
    return SynopsisMethod(
        "su-hybrid", counted(n_records, UNIFORM_COUNT_SHARE), builder=UNIFORM, zoom=False, recentre_share=HYBRID_SHARE
    )


def lei(*, n_records: int | None = None) -> SynopsisMethod:
    """The k-means cost minimised on a perturbed histogram. Source: Lei (2011). Proof: proofs/lei.md."""
    return SynopsisMethod("lei", counted(n_records, UNIFORM_COUNT_SHARE), builder=Histogram(), zoom=False)


def counted(n_records: int | None, share: float = COUNT_SHARE) -> RecordCount:
    """A public number of records, or a noisy one for a small share."""
    return NoisyCount(share) if n_records is None else PublicCount(n_records)
