"""Which synopsis, and how much of ε for what: decided from public and released quantities alone.

Every rule below is a function of `signal` = N·ε/k, the number of records per cluster times ε, of k, of the number of
features, and of what was released about the box. `settings` has the numbers, and docs/decisions/0001-synopsis.md the
trials behind them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dpkmeans._typing import FloatArray, IntArray
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.synopsis import settings
from dpkmeans.synopsis.box_fit import BoxFit, has_few_clusters, is_for_a_grid, is_for_one_mean
from dpkmeans.synopsis.grid import Grid
from dpkmeans.synopsis.histogram import Histogram
from dpkmeans.synopsis.hyperplanes import Hyperplanes
from dpkmeans.synopsis.tree import Tree, mean_deviation

Builder = Grid | Tree | Hyperplanes | Histogram


@dataclass(frozen=True)
class Plan:
    """A synopsis with its budget, and the budget and reach of the private step on the records, if there is one."""

    builder: Builder
    synopsis_epsilon: Epsilon
    recentre_epsilon: Epsilon | None
    radius_epsilon: Epsilon | None = None  # if the radius is learned from the records
    reach: float = settings.NARROW_REACH  # if it follows from the synopsis
    deviations: float = settings.CLIP_DEVIATIONS  # of the synopsis, which limit it as well, or in which it is learned
    half: FloatArray | None = None  # sides, halved, of the part of the box that is looked at, in unit coordinates
    extrapolation: float = settings.EXTRAPOLATION  # share of the next Lloyd step, where the step follows a fixed point
    asked: int = 0  # centroids that a step asks about that corrects the synopsis; with none it follows the fixed point
    spread: float = 1.0  # of points around the means that the step found
    features: IntArray | None = None  # in which clusters are looked for; None for all

    @property
    def corrects(self) -> bool:
        """Whether a step on the records corrects the synopsis before k-means begins."""
        return self.recentre_epsilon is not None and self.asked > 0

    @property
    def passes(self) -> int:
        """Over the records, at most."""
        return self.builder.passes + (self.recentre_epsilon is not None) + (self.radius_epsilon is not None)


def least_signal(n_features: int) -> float:
    """Records times ε per cluster, below which clusters in so many features cannot be told from noise."""
    return max(settings.MIN_SIGNAL, settings.WARN_SIGNAL * n_features)


def is_for_hyperplanes(paid: float, k: int, n_features: int, fit: BoxFit) -> bool:
    """Whether N·ε of `paid` is better spent on hyperplanes, or on one mean, than on a tree.

    In a box that fits, halving its sides tells a few clusters apart whatever the number of features.
    """
    if fit is BoxFit.LOOSE and is_for_one_mean(paid, k, n_features):
        return True
    many = settings.MIN_ALWAYS_HYPERPLANE_FEATURES
    if fit is BoxFit.TIGHT:
        return n_features >= many and not has_few_clusters(paid, k, n_features)
    weak = paid / k < settings.MIN_MEANS_SIGNAL * n_features
    return n_features >= (many if weak else settings.MIN_HYPERPLANE_FEATURES)


def make_plan(
    epsilon: Epsilon,
    n_records: float,
    k: int,
    n_features: int,
    *,
    fit: BoxFit = BoxFit.UNKNOWN,
    zoom: Epsilon | None = None,
    recentre: bool = True,
) -> Plan:
    """The plan for `epsilon`, which is what is left after the number of records, and a zoom, were paid for.

    What is planned is the same whatever the zoom has cost.
    """
    paid = n_records * float(epsilon if zoom is None else epsilon + zoom)
    signal, more = paid / k, int(settings.STEP_OVERCLUSTERING * k)
    counted = Tree(shape_share=settings.COUNTED_SHAPE_SHARE, offsets=False, spare=1)
    noisy = mean_deviation(paid, n_features) > settings.MAX_OFFSET_DEVIATION
    if fit is BoxFit.TIGHT and is_for_a_grid(paid, k, n_features):
        return Plan(Grid(), epsilon, None)
    if is_for_hyperplanes(paid, k, n_features, fit):
        if noisy:
            return Plan(counted, epsilon, None)
        tight, weak = fit is BoxFit.TIGHT, signal < settings.MIN_MEANS_SIGNAL * n_features
        builder = Hyperplanes(tight=tight)
        if weak:
            builder = Hyperplanes(sides_share=settings.WEAK_SIDES_SHARE, tight=tight, spare=1)
        if not recentre or weak:
            return Plan(builder, epsilon, None)
        last = epsilon.share(settings.HYPERPLANE_RECENTRE_SHARE)
        radius = epsilon.share(settings.HYPERPLANE_RADIUS_SHARE)
        return Plan(builder, epsilon - last - radius, last, radius, asked=more)
    as_grid = n_features <= settings.MAX_GRID_FEATURES or (
        n_features < settings.MIN_TREE_FEATURES and signal < settings.MIN_TREE_SIGNAL
    )
    wider = 1 + max(math.log10(signal / settings.WIDE_SIGNAL), 0.0)  # with less noise, clipping costs more
    reach = wider * settings.WIDE_REACH if signal >= settings.WIDE_SIGNAL else settings.NARROW_REACH
    corrects = is_corrected(signal, k, n_features)
    if not recentre or signal < least_step_signal(n_features, as_grid=as_grid, corrects=corrects):
        spare = 1 if signal < settings.MIN_SPARE_SIGNAL * n_features else 0
        tree = counted if noisy else Tree(spare=spare)
        return Plan(Grid() if as_grid else tree, epsilon, None, reach=reach)
    if as_grid:
        last = epsilon.share(settings.GRID_CORRECT_SHARE if corrects else settings.GRID_RECENTRE_SHARE)
        strong = signal >= settings.WIDE_SIGNAL
        deviations = wider * settings.CLIP_DEVIATIONS if strong else settings.GRID_CLIP_DEVIATIONS
        grid, asked = (Grid(), more) if corrects else (Grid(unit=settings.GRID_COARSE_UNIT), 0)
        return Plan(grid, epsilon - last, last, reach=reach, deviations=deviations, asked=asked)
    last = epsilon.share(settings.TREE_RECENTRE_SHARE)
    plan = Plan(Tree(), epsilon - last, last, reach=reach, deviations=wider * settings.CLIP_DEVIATIONS)
    if corrects:
        plan = replace(plan, asked=more, spread=settings.TREE_SPREAD)
    if signal >= settings.TREE_RADIUS_SIGNAL * n_features:
        return plan
    radius = last.share(settings.TREE_RADIUS_SHARE)
    return replace(plan, recentre_epsilon=last - radius, radius_epsilon=radius, deviations=settings.RADIUS_DEVIATIONS)


def is_corrected(signal: float, k: int, n_features: int) -> bool:
    """Whether a grid or a tree is corrected before k-means begins, in more cells than clusters.

    That finds clusters which the synopsis has missed. A few clusters, or clusters with a strong signal, are not missed;
    then the step follows the fixed point, where what the synopsis says about the shape of clusters matters less.
    """
    if k < settings.CORRECT_CLUSTERS:
        return False
    most = settings.CORRECT_FEW_SIGNAL if n_features <= 2 else settings.CORRECT_SIGNAL * k
    return signal < most * n_features


def least_step_signal(n_features: int, *, as_grid: bool, corrects: bool) -> float:
    """Records times ε per cluster from which on a step on the records follows a grid or a tree."""
    d = max(n_features, 1)
    if not as_grid:
        return max(settings.TREE_RECENTRE_SIGNAL, settings.TREE_FEATURE_SIGNAL * d)
    if corrects:
        return max(settings.GRID_CORRECT_SIGNAL / d**2, settings.MIN_CORRECT_SIGNAL)
    return max(settings.GRID_RECENTRE_SIGNAL / d, settings.MIN_RECENTRE_SIGNAL)
