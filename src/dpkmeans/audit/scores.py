"""Scores: one number per run that tends to be larger, or smaller, if the extra record was there.

A score may be fixed in advance, follow from the density of the noise, or be learned from runs that are used for nothing
else. Any score is valid: a bad one misses a loss, but never reports a false one. Outputs have shape (runs, columns).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpkmeans._typing import FloatArray, IntArray

Scorer = Callable[[FloatArray], FloatArray]

FLOAT64_SPACING = 2.0**-53
"""The spacing of float64 just below 1."""


class Score(Protocol):
    """How runs are scored."""

    @property
    def name(self) -> str:
        """Its name in the report."""
        ...

    @property
    def learns(self) -> bool:
        """Whether it is trained on runs, which are then not used to choose the event."""
        ...

    def fit(self, without: FloatArray, with_record: FloatArray) -> Scorer:
        """The scoring function, (runs, columns) -> (runs,). Uses the given runs only if it learns."""
        ...


@dataclass(frozen=True)
class LaplaceRatio:
    """log P(y | D') - log P(y | D) of independent Laplace noise with one scale per column."""

    answer: tuple[float, ...]
    answer_with: tuple[float, ...]
    scales: tuple[float, ...]
    name: str = "likelihood ratio"
    learns: bool = False

    def fit(self, without: FloatArray, with_record: FloatArray) -> Scorer:
        """Σ (|y - x| - |y - x'|) / scale."""
        x, x_with, scales = np.array(self.answer), np.array(self.answer_with), np.array(self.scales)
        return lambda y: np.asarray(((np.abs(y - x) - np.abs(y - x_with)) / scales).sum(axis=1))


@dataclass(frozen=True)
class CubeRatio:
    """log P(y | D') - log P(y | D) of cube noise, up to the factor 1/scale."""

    answer: tuple[int, ...]
    answer_with: tuple[int, ...]
    name: str = "likelihood ratio"
    learns: bool = False

    def fit(self, without: FloatArray, with_record: FloatArray) -> Scorer:
        """‖y - x‖∞ - ‖y - x'‖∞."""
        x, x_with = np.array(self.answer), np.array(self.answer_with)
        return lambda y: np.asarray(np.abs(y - x).max(axis=1) - np.abs(y - x_with).max(axis=1))


@dataclass(frozen=True)
class ChoiceRatio:
    """log P(index | D') - log P(index | D) of permute and flip."""

    scores: tuple[int, ...]
    scores_with: tuple[int, ...]
    scale: float
    name: str = "likelihood ratio"
    learns: bool = False

    def fit(self, without: FloatArray, with_record: FloatArray) -> Scorer:
        """The exact law of both data sets, candidate by candidate."""
        ratio = np.log(choice_law(self.scores_with, self.scale)) - np.log(choice_law(self.scores, self.scale))
        return lambda y: np.asarray(ratio[y[:, 0].astype(np.int64)])


def choice_law(scores: tuple[int, ...], scale: float) -> FloatArray:
    """P(index) of permute and flip, shape (candidates,): p_i E[1 / (1 + others that stay)]. See proofs/choice.md."""
    stays = np.exp(-(max(scores) - np.array(scores, dtype=np.float64)) / scale)
    law = np.empty(len(stays))
    for i, chance in enumerate(stays):
        others = np.array([1.0])  # P(j others stay), one candidate after the other
        for p in np.delete(stays, i):
            others = np.append(others * (1 - p), 0.0) + np.append(0.0, others * p)
        law[i] = chance * (others / (1 + np.arange(len(others)))).sum()
    return law


@dataclass(frozen=True)
class Column:
    """One column, unchanged."""

    index: int
    name: str
    learns: bool = False

    def fit(self, without: FloatArray, with_record: FloatArray) -> Scorer:
        """The column."""
        return lambda y: y[:, self.index]


@dataclass(frozen=True)
class Reaches:
    """How many columns equal the exact answer of D, as if no noise had been added."""

    answer: tuple[float, ...]
    name: str = "the exact answer"
    learns: bool = False

    def fit(self, without: FloatArray, with_record: FloatArray) -> Scorer:
        """The number of columns that equal the answer."""
        exact = np.array(self.answer)
        return lambda y: np.asarray((y == exact).sum(axis=1).astype(np.float64))


@dataclass(frozen=True)
class LowBits:
    """How many columns are no multiple of 2^-53. Source: Mironov (2012).

    A float64 sum of 1 and noise is always such a multiple; noise around 0 has finer bits. Integers never show any.
    """

    name: str = "low bits"
    learns: bool = False

    def fit(self, without: FloatArray, with_record: FloatArray) -> Scorer:
        """The number of columns with finer bits."""
        return lambda y: np.asarray((np.remainder(y, FLOAT64_SPACING) != 0).sum(axis=1).astype(np.float64))


@dataclass(frozen=True)
class NearestCentroid:
    """The distance from the extra record to the nearest released centroid."""

    record: tuple[float, ...]
    n_clusters: int
    name: str = "nearest centroid"
    learns: bool = False

    def fit(self, without: FloatArray, with_record: FloatArray) -> Scorer:
        """The smallest distance."""
        place = np.array(self.record)
        return lambda y: np.asarray(np.linalg.norm(centroids_of(y, self.n_clusters, len(place)) - place, axis=2).min(1))


@dataclass(frozen=True)
class SeenBefore:
    """Exact centroids, or rays to them from the box's lower corner, that occurred in runs of only one of the data sets.

    With enough noise no centroid occurs twice. The paper's final centroids lie on the rays of a few exact sums, however
    large the noise, so that the ray alone identifies the data set.
    """

    lower: tuple[float, ...]
    n_clusters: int
    rays: bool
    learns: bool = True

    @property
    def name(self) -> str:
        """Its name in the report."""
        return "ray of a centroid" if self.rays else "value of a centroid"

    def fit(self, without: FloatArray, with_record: FloatArray) -> Scorer:
        """Centroids seen only with the record, less those seen only without it."""
        seen, seen_with = np.unique(self._marks(without)), np.unique(self._marks(with_record))
        only, only_with = np.setdiff1d(seen, seen_with), np.setdiff1d(seen_with, seen)

        def score(outputs: FloatArray) -> FloatArray:
            marks = self._marks(outputs)
            counts = np.isin(marks, only_with).sum(axis=1) - np.isin(marks, only).sum(axis=1)
            return np.asarray(counts.astype(np.float64))

        return score

    def _marks(self, outputs: FloatArray) -> IntArray:
        """One number per run and centroid, shape (runs, k): the same for the same place or ray, up to rounding."""
        lower = np.array(self.lower)
        points = centroids_of(outputs, self.n_clusters, len(lower)) - lower
        if self.rays:
            length = np.linalg.norm(points, axis=2, keepdims=True)
            points = np.divide(points, length, out=np.zeros_like(points), where=length > 0)
        steps = np.rint(points * 2.0**30).astype(np.int64)
        odd = np.array([0x9E3779B97F4A7C15 + 2 * j * 0x632BE59BD9B4E019 & (2**63 - 1) | 1 for j in range(len(lower))])
        marks: IntArray = (steps * odd).sum(axis=2)  # a hash; overflow is harmless
        return marks


@dataclass(frozen=True)
class Learned:
    """A small classifier's log-odds for "with the record": gradient boosting on the released numbers.

    Centroids come in the release's order and, as a set, sorted by their first feature.
    """

    n_clusters: int
    n_features: int
    centroids_only: bool
    learns: bool = True

    @property
    def name(self) -> str:
        """Its name in the report."""
        return "learned, centroids" if self.centroids_only else "learned, whole release"

    def fit(self, without: FloatArray, with_record: FloatArray) -> Scorer:
        """The classifier's decision function."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        features = np.concatenate([self._features(without), self._features(with_record)])
        labels = np.repeat([0, 1], [len(without), len(with_record)])
        model = HistGradientBoostingClassifier(
            max_iter=40, max_leaf_nodes=8, learning_rate=0.15, early_stopping=False, random_state=0
        )
        model.fit(features, labels)
        return lambda y: np.asarray(model.decision_function(self._features(y)), dtype=np.float64)

    def _features(self, outputs: FloatArray) -> FloatArray:
        centroids = centroids_of(outputs, self.n_clusters, self.n_features)
        order = np.argsort(centroids[:, :, 0], axis=1, kind="stable")
        ordered = np.take_along_axis(centroids, order[:, :, None], axis=1).reshape(len(outputs), -1)
        used = outputs[:, : self.n_clusters * self.n_features] if self.centroids_only else outputs
        return np.hstack([used, ordered])


def centroids_of(outputs: FloatArray, n_clusters: int, n_features: int) -> FloatArray:
    """The first columns as centroids, shape (runs, k, d)."""
    return outputs[:, : n_clusters * n_features].reshape(len(outputs), n_clusters, n_features)
