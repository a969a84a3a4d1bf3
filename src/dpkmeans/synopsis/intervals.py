"""How far a released centroid may lie from the exact mean of its cell: the method again, on the released synopsis.

The synopsis stands for the records, and noise of the known laws is drawn anew: on the weights and places of its points,
or, where a step on the records corrected them, on what that step found in each cell; then, after Lloyd's algorithm, in
the re-centring step, if there is one. What that leaves between the centroids and the means of their cells, together
with what the release shows of the gap between synopsis and records, is a scale; how many scales hold 95 % was chosen on
random problems (docs/uncertainty.md). Post-processing: no record is looked at, and nothing is spent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpkmeans._typing import FloatArray, IntArray
from dpkmeans.core.certificate import Correction, RecentringStep
from dpkmeans.core.intervals import Intervals, around, by_deviations, quantile
from dpkmeans.core.release import Release
from dpkmeans.errors import MethodError
from dpkmeans.synopsis import settings
from dpkmeans.synopsis.box_fit import longest_sides
from dpkmeans.synopsis.kmeans import assign, means
from dpkmeans.synopsis.recentre import LABEL, extrapolate, shrunk_moves
from dpkmeans.synopsis.tree import cube_variance
from dpkmeans.synopsis.weighted_points import WeightedPoints


def intervals(release: Release, level: float = 0.95) -> Intervals:
    """Intervals for the exact mean and number of the records in each released cell; see `Release.intervals`."""
    quantile(level)
    found = by_deviations(release, level)
    if found is not None:
        return found
    measured = release.parameters.get("synopsis") in settings.INTERVAL_STEP_FACTORS
    if release.certificate is None or release.sizes is None or not measured:
        raise MethodError(
            f"a release of {release.method} does not say how far its noise reaches, so it has no intervals.",
            hint="Fit with {method='synopsis'}.",
        )
    model = _Model.of(release)
    scale, size_scale = model.scales()
    factor, size_factor = model.factors()
    wider = quantile(level) / quantile(0.95)  # the level that the factors are for
    margin, size_margin = wider * factor * scale * release.bounds.unit, wider * size_factor * size_scale
    return around(release, level, margin, size_margin, model.clipped() * release.bounds.unit)


@dataclass(frozen=True)
class _Model:
    """What a release says about its own noise, in unit coordinates."""

    points: WeightedPoints
    centroids: FloatArray
    box: FloatArray
    asked: IntArray  # features that clusters were looked for in; of the others nothing is known
    kind: str
    weight_deviation: float  # of the noise on the count of a cell
    parts: int  # points a cell
    side: FloatArray  # (m, 1): about the side of a cell at each point
    spacing: FloatArray  # (m, 1) or (m, d): how far apart places are in which a point may lie
    fixed: FloatArray  # (k, d): where the step on the records began
    step: RecentringStep | None
    correction: Correction | None
    step_epsilon: float
    released: FloatArray  # sizes (k,)

    @classmethod
    def of(cls, release: Release) -> _Model:
        certificate = release.certificate
        assert certificate is not None
        points = WeightedPoints(certificate.points, certificate.weights)
        d, kind = points.points.shape[1], str(release.parameters.get("synopsis", ""))
        per_record = {spend.label: float(spend.epsilon) / release.guarantee.unit.records for spend in release.spends}
        label = next((label for label in settings.INTERVAL_SPENDS if label in per_record), "")
        paid = per_record.get(label, 1.0)
        box = release.bounds.unit_box
        looked = int(release.parameters.get("features") or d)  # features that clusters were looked for in
        asked = np.arange(d) if looked == d else longest_sides(box, looked)
        variance = 2.0 if label.endswith("counts") else cube_variance(looked)
        parts = _parts(kind, len(points.points), looked)
        deviation = math.sqrt(variance) / paid
        side = _spacing(points, parts)
        spacing = side * settings.INTERVAL_PLACES
        if kind == "tree":  # on a grid the next point lies along one feature, in a tree along all of them
            spacing = spacing * settings.INTERVAL_TREE_PLACES / math.sqrt(looked)
        if kind == "hyperplanes":  # points are noisy means of residuals, clipped to a radius
            radius = box * settings.INTERVAL_RADIUS
            looked_again = certificate.correction or certificate.step
            radius = radius if looked_again is None else looked_again.bound[0]
            spacing = radius * deviation / np.maximum(points.weights, 1.0)[:, None]
        unit_centroids = release.bounds.clip_unit(release.bounds.unit_of(release.centroids))
        return cls(
            points,
            unit_centroids,
            box,
            asked,
            kind,
            deviation,
            parts**looked,
            side,
            spacing,
            certificate.fixed_point,
            certificate.step,
            certificate.correction,
            per_record.get(LABEL, 1.0),
            np.asarray(release.sizes, np.float64),
        )

    @property
    def _step_deviation(self) -> float:
        """Of the noise on each count and sum of the step on the records."""
        return math.sqrt(cube_variance(len(self.asked))) / self.step_epsilon

    def scales(self) -> tuple[FloatArray, FloatArray]:
        """Root mean squares over the repetitions: of centroid - mean (k, d), and of released - true size (k,)."""
        rng = np.random.default_rng(0)  # fixed: no secret is involved, and the same file gives the same intervals
        squares, size_squares = np.zeros(self.centroids.shape), np.zeros(len(self.centroids))
        for _ in range(settings.INTERVAL_REPETITIONS):
            centroids, sizes = self._repeat(rng)
            _, true_sizes = assign(self.points, centroids)
            squares += (centroids - means(self.points, centroids)) ** 2
            size_squares += (sizes - true_sizes) ** 2
        scale = np.sqrt(squares / settings.INTERVAL_REPETITIONS)
        size_scale = np.sqrt(size_squares / settings.INTERVAL_REPETITIONS)
        scale, size_scale = self._with_gap(*self._at_least(scale, size_scale))
        known = np.isin(np.arange(len(self.box)), self.asked)
        return np.where(known, scale, np.maximum(scale, self.box)), size_scale

    def _repeat(self, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Centroids (k, d) and sizes (k,) of one more run on the synopsis."""
        noisy = self._noisy(rng) if self.correction is None else self._found_again(self.correction, rng)
        fixed = self.centroids
        for _ in range(settings.INTERVAL_PASSES):
            before, fixed = fixed, means(noisy, fixed)
            if np.abs(fixed - before).max() <= settings.INTERVAL_REST:
                break
        if self.step is None:
            return fixed, assign(noisy, fixed)[1]
        radius, (k, d) = np.maximum(self.step.bound, settings.INTERVAL_REST), fixed.shape
        labels, sizes = assign(self.points, fixed)
        residuals = np.clip((self.points.points - fixed[labels]) / radius[labels], -1.0, 1.0)
        sums = self._sums(labels, residuals)
        gammas = rng.gamma(len(self.asked) + 2, size=(k, 1))
        noise = gammas * rng.uniform(-1, 1, (k, d + 1)) / self.step_epsilon  # the cube's law
        counts = sizes + noise[:, 0]
        moves = shrunk_moves(counts, sums + noise[:, 1:], radius, self._step_deviation)
        moved = np.clip(fixed + moves, 0.0, self.box)
        last = extrapolate(noisy, fixed, moved, self.step.extrapolation)
        return np.clip(last, 0.0, self.box), np.maximum(counts, 0.0)

    def _noisy(self, rng: np.random.Generator) -> WeightedPoints:
        """The synopsis with noise on weights and places, larger than its own: it is smoother than the records."""
        places, weights = self.points.points, self.points.weights
        deviation = np.minimum(self.weight_deviation / math.sqrt(self.parts), weights) * settings.INTERVAL_WEIGHTS
        noisy = np.maximum(weights + deviation * rng.standard_normal(len(weights)), 0.0) + 1e-12
        if self.kind == "hyperplanes":
            offsets = rng.standard_normal(places.shape) * self.spacing
        else:
            offsets = rng.uniform(-0.5, 0.5, places.shape) * self.spacing
        return WeightedPoints(np.clip(places + offsets, 0.0, self.box), noisy)

    def _found_again(self, correction: Correction, rng: np.random.Generator) -> WeightedPoints:
        """The synopsis with new noise on the mean and the count of every cell that the step asked about."""
        cells, held = assign(self.points, correction.means)
        gammas = rng.gamma(len(self.asked) + 2, size=(len(held), 1))
        noise = gammas * rng.uniform(-1, 1, (len(held), len(self.box) + 1)) / self.step_epsilon  # the cube's law
        moves = np.clip(noise[:, 1:] / np.maximum(held, 1.0)[:, None], -1.0, 1.0) * correction.bound
        times = np.maximum(held + noise[:, 0], 0.0) / np.maximum(held, 1e-12)
        places = np.clip(self.points.points + moves[cells], 0.0, self.box)
        return WeightedPoints(places, self.points.weights * times[cells] + 1e-12)

    def _bounds_and_moves(self) -> tuple[FloatArray, FloatArray]:
        """How far the step may have moved the mean of each cell, and how far it did, on average (k, d)."""
        if self.step is not None:
            return self.step.bound, self.step.moved_to - self.fixed
        assert self.correction is not None
        labels, sizes = assign(self.points, self.centroids)
        cells, _ = assign(self.points, self.correction.means)
        moves = np.abs(self.correction.means - self.correction.centroids)
        held = np.maximum(sizes, 1e-9)[:, None]
        return self._sums(labels, self.correction.bound[cells]) / held, self._sums(labels, moves[cells]) / held

    @property
    def _looked_twice(self) -> bool:
        """Whether a step on the records followed the first look at them."""
        return self.step is not None or self.correction is not None

    def _at_least(self, scale: FloatArray, size_scale: FloatArray) -> tuple[FloatArray, FloatArray]:
        """No less than the noise that is known to be there; a cell that does not stand out of it may be anywhere."""
        sizes = np.maximum(assign(self.points, self.centroids)[1], 1e-9)
        if self._looked_twice:
            deviation = self._step_deviation
            scale = np.maximum(scale, self._bounds_and_moves()[0] * deviation / np.maximum(sizes, 1.0)[:, None])
            lost = (self.released < settings.INTERVAL_STEP_CLEAR[self.kind] * deviation)[:, None]
            return np.where(lost, np.maximum(scale, self.box), scale), np.maximum(size_scale, deviation)
        if self.kind == "hyperplanes":  # a point is itself a noisy mean
            known = settings.INTERVAL_RADIUS * self.weight_deviation / np.maximum(sizes, 1.0)
            scale = np.maximum(scale, self.box * known[:, None])
        lost = (sizes < settings.INTERVAL_CLEAR * self.weight_deviation)[:, None]
        return np.where(lost, np.maximum(scale, self.box), scale), np.maximum(size_scale, self.weight_deviation)

    def _with_gap(self, scale: FloatArray, size_scale: FloatArray) -> tuple[FloatArray, FloatArray]:
        """With what the release shows of how far the synopsis is from the records.

        That is how far the step on the records moved the centroids, and the difference between what the synopsis and
        the step say of a size; beside them a part of the spread of a cell, less with more signal. Small cells have
        wider scales. Without a step it is a part of the side of a cell of the synopsis.
        """
        labels, sizes = assign(self.points, self.centroids)
        held = np.maximum(sizes, 1e-9)[:, None]
        if not self._looked_twice:
            sides = np.bincount(labels, self.points.weights * self.side[:, 0], minlength=len(sizes))[:, None] / held
            return np.hypot(scale, settings.INTERVAL_SIDE * np.where(self.box > 0, sides, 0.0)), size_scale
        moves = settings.INTERVAL_MOVE * self._bounds_and_moves()[1]
        spread = np.sqrt(self._sums(labels, (self.points.points - self.centroids[labels]) ** 2) / held)
        clear = float(self.points.weights.sum()) / (len(sizes) * self._step_deviation)
        share = settings.INTERVAL_SPREAD * min(math.sqrt(settings.INTERVAL_SIGNAL[self.kind] / max(clear, 1e-9)), 1.0)
        small = 1 + settings.INTERVAL_SMALL[self.kind] / np.maximum(self.released / self._step_deviation, 1.0)
        scale = np.hypot(np.hypot(scale, moves), share * spread) * small[:, None]
        if self.step is not None:
            return scale, np.hypot(size_scale, sizes - self.released)
        return scale, np.hypot(size_scale, settings.INTERVAL_BORDER * self._beyond_borders())

    def _beyond_borders(self) -> FloatArray:
        """About how many records lie on the other side of a border than the point of the synopsis that stands for them.

        Shape (k,), with those that come from other cells. Records are spread around a point like the points of its cell
        of the correction, and as widely as points are apart. Half of a normal law's bound on its tail.
        """
        assert self.correction is not None
        points, weights, k = self.points.points, self.points.weights, len(self.centroids)
        labels, _ = assign(self.points, self.centroids)
        cells, held = assign(self.points, self.correction.means)
        width = np.broadcast_to(self.spacing * settings.INTERVAL_POINT, points.shape)
        if self.kind == "hyperplanes":  # a point stands for all records of a cell
            width = settings.INTERVAL_CELL * self.correction.bound[cells]
        spread = width**2 + _variances(points, weights, cells, len(held))[cells]
        squares = np.zeros((len(points), k))
        for x, c in zip(points.T, self.centroids.T, strict=True):
            squares += (x[:, None] - c) ** 2
        rows = np.arange(len(points))
        apart = np.sqrt(((self.centroids[:, None] - self.centroids) ** 2).sum(axis=2))
        margins = (squares - squares[rows, labels][:, None]) / np.maximum(2 * apart[labels], 1e-12)
        margins[rows, labels] = np.inf
        other = margins.argmin(axis=1)
        along = (self.centroids[other] - self.centroids[labels]) / np.maximum(apart[labels, other], 1e-12)[:, None]
        deviations = margins[rows, other] ** 2 / np.maximum((along**2 * spread).sum(axis=1), 1e-24)
        beyond = weights * 0.5 * np.exp(-0.5 * np.minimum(deviations, settings.INTERVAL_FAR))
        both = np.bincount(labels, beyond, minlength=k) + np.bincount(other, beyond, minlength=k)
        return np.asarray(both, np.float64)

    def clipped(self) -> FloatArray:
        """What the step on the records cut off the means, as the synopsis shows it, (k, d): an interval reaches there.

        Clipping draws a mean towards the denser side of its cell.
        """
        if self.step is not None:
            where, bound = self.fixed, self.step.bound
        elif self.correction is not None:
            where, bound = self.correction.means, self.correction.bound
        else:
            return np.zeros_like(self.centroids)
        cells, _ = assign(self.points, where)
        labels, sizes = assign(self.points, self.fixed)
        away, radius = self.points.points - where[cells], bound[cells]
        return self._sums(labels, away - np.clip(away, -radius, radius)) / np.maximum(sizes, 1e-9)[:, None]

    def _sums(self, labels: IntArray, values: FloatArray) -> FloatArray:
        """Sums of `values` (m, d) by weight, over the points of each cell, (k, d)."""
        weighted, k = self.points.weights[:, None] * values, len(self.centroids)
        return np.stack([np.bincount(labels, column, minlength=k) for column in weighted.T], axis=1)

    def factors(self) -> tuple[float, float]:
        """Scales that hold 95 % of what was seen on random problems: for coordinates, and for sizes."""
        if self.step is not None:
            return settings.INTERVAL_STEP_FACTORS[self.kind]
        if self.correction is not None:
            return settings.INTERVAL_CORRECTED_FACTORS[self.kind]
        if self.kind != "grid":
            return settings.INTERVAL_FACTORS[self.kind]
        k, d = self.centroids.shape
        signal = math.sqrt(2) * float(self.points.weights.sum()) / (self.weight_deviation * k)  # records * epsilon / k
        (factor, slope, wide), (size_factor, size_slope, size_wide) = settings.INTERVAL_GRID_FACTORS
        return (
            max(factor * (signal / 100) ** slope * d**wide, 1.0),
            max(size_factor * (signal / 100) ** size_slope * d**size_wide, 1.0),
        )


def _variances(points: FloatArray, weights: FloatArray, cells: IntArray, m: int) -> FloatArray:
    """Of the points in each of m cells, (m, d)."""
    held = np.maximum(np.bincount(cells, weights, minlength=m), 1e-300)
    columns = []
    for x in points.T:
        mean = np.bincount(cells, weights * x, minlength=m) / held
        columns.append(np.bincount(cells, weights * (x - mean[cells]) ** 2, minlength=m) / held)
    return np.stack(columns, axis=1)


def _parts(kind: str, m: int, n_features: int) -> int:
    """Into how many parts the side of a cell was divided, for so many points; see `smoothing.smooth`."""
    if kind != "grid":
        return 1
    for parts in range(settings.MAX_PARTS, 1, -1):
        cells = m / parts**n_features
        if m <= min(max(settings.MIN_POINTS, settings.POINTS_PER_CELL * cells), settings.MAX_POINTS):
            return parts
    return 1


def _spacing(points: WeightedPoints, parts: int) -> FloatArray:
    """About the side of a cell at each point, shape (m, 1): how far it is to the next point, times parts a side."""
    m, d = points.points.shape
    if m < 2:
        return np.zeros((m, 1))
    if m > settings.FEW_POINTS or d > settings.FEW_FEATURES:
        from scipy.spatial import KDTree

        return np.asarray(parts * KDTree(points.points).query(points.points, k=2)[0][:, 1:])
    return parts * np.sqrt(_squares_to_next(points.points))[:, None]


def _squares_to_next(points: FloatArray) -> FloatArray:
    """The squared distance from each point to the nearest of the others, shape (m,), to the bit as SciPy's tree has it.

    For few points this is faster than to import SciPy. Above `FEW_FEATURES` the tree adds up in another order.
    """
    squares = np.zeros((len(points), len(points)))
    for x in points.T:
        apart = x[:, None] - x
        squares += apart * apart
    np.fill_diagonal(squares, np.inf)
    return np.asarray(squares.min(axis=1))
