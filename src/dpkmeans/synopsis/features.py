"""Which features clusters are looked for in, where a signal is too weak for all of them. Proof: proofs/features.md.

Noise on a mean grows with the number of features that are summed, in all of them, and features with short sides add
little to any cost. Which of them are worth their noise follows from an expected loss, computed from the public box, the
released number of records and ε. Those left out stay in the middle of their side: in a box that fits the records this
costs little, in one that is many times too wide it would cost more than it gains. So one number is asked for first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpkmeans._typing import Float32Array, FloatArray, IntArray
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.exact import Exact
from dpkmeans.core.query import Query
from dpkmeans.synopsis import settings
from dpkmeans.synopsis.box_fit import longest_sides
from dpkmeans.synopsis.hyperplanes import fewer
from dpkmeans.synopsis.moved_query import MovedQuery
from dpkmeans.synopsis.tree import cube_variance
from dpkmeans.synopsis.view import Asked
from dpkmeans.synopsis.weighted_points import Built, Near, WeightedPoints


def worth_their_noise(box: FloatArray, paid: float, k: int) -> IntArray:
    """The longest sides of a box (d,) that fits, with the least expected loss if N·ε is `paid`; all if none is clear.

    Losses are variances per record, in squared half sides: the noise of the means where clusters are looked for, and
    the variance of records in other features. With all features, it is the noise of as many means as can be told from
    it, and the variance of the clusters that cannot.
    """
    everything = np.arange(len(box))
    order = np.argsort(-box, kind="stable")[: np.count_nonzero(box)]
    d, signal, within = len(order), max(paid / k, 1e-9), settings.WITHIN_VARIANCE
    if d < settings.MIN_ALWAYS_HYPERPLANE_FEATURES:
        return everything
    told = fewer(k, paid / d) if signal < settings.MIN_MEANS_SIGNAL * d else k
    all_of_them = cube_variance(d) * (told / max(paid, 1e-9)) ** 2 + (1 - told / k) * settings.CLUSTER_VARIANCE
    kept = np.cumsum(box[order] ** 2) / np.sum(box**2)
    best, least = everything, settings.CLEARLY_FEWER * (all_of_them + within)
    for s in range(int(np.searchsorted(kept, settings.MIN_KEPT)) + 1, settings.MIN_ALWAYS_HYPERPLANE_FEATURES):
        if s >= settings.MIN_HYPERPLANE_FEATURES and signal >= settings.MIN_MEANS_SIGNAL * s:
            break  # no tree from here on
        noise = max(settings.TREE_NOISE, 1 / k**2) * cube_variance(s) / signal**2
        loss = float(kept[s - 1]) * noise + float(1 - kept[s - 1]) * settings.LEFT_OUT_VARIANCE + within
        if loss < least:
            best, least = longest_sides(box, s), loss
    return best


def columns(features: IntArray, tiles: Float32Array) -> Float32Array:
    """Tiles of records with some `features` (s,) alone."""
    return np.ascontiguousarray(tiles[:, features])


@dataclass(frozen=True)
class Narrowed:
    """An engine, asked about some `features` (s,) alone. Places are unit coordinates of the engine's box."""

    engine: Asked
    features: IntArray

    @classmethod
    def of(cls, engine: Asked, features: IntArray) -> Asked:
        """The engine itself where all features are asked about."""
        return engine if len(features) == engine.n_features else cls(engine, features)

    @property
    def bounds(self) -> Bounds:
        """The box of these features. If the longest side is one of them, its unit coordinates are the engine's own."""
        return Bounds((0.0,) * len(self.features), tuple(self.engine.bounds.unit_box[self.features].tolist()))

    @property
    def n_features(self) -> int:
        """Number of features that are asked about."""
        return len(self.features)

    def answer(self, query: Query) -> Exact[IntArray]:
        """The query's table over all records."""
        return self.engine.answer(MovedQuery(query, partial(columns, self.features)))


def lift(built: Built, features: IntArray, box: FloatArray) -> Built:
    """A synopsis of some `features` as one of all of the `box` (d,): the others lie in the middle of their sides."""
    if len(features) == len(box):
        return built
    cells, near = built.cells, built.near
    if cells is not None:
        cells = replace(cells, centers=_with(box / 2, features, cells.centers))
    if near is not None:
        deviation = _with(box / math.sqrt(12), features, near.deviation[None])[0]
        near = Near(deviation, _with(box / 2, features, near.half[None])[0])
    points = WeightedPoints(_with(box / 2, features, built.points.points), built.points.weights)
    return replace(built, points=points, cells=cells, near=near)


def _with(others: FloatArray, features: IntArray, points: FloatArray) -> FloatArray:
    """Points (m, s) of `features`, with the same value of `others` (d,) in all other features; (m, d)."""
    lifted = np.tile(others, (len(points), 1))
    lifted[:, features] = points
    return lifted
