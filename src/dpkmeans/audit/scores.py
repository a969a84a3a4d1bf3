"""Scores: one number per run that tends to be larger, or smaller, if the extra record was there.

A score may be fixed in advance, follow from the density of the noise, or be fitted on a separate set of runs. Any score
is valid: a bad one misses a loss, but never reports a false one. Outputs have shape (runs, columns).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from dpkmeans._typing import FloatArray, IntArray

Scorer = Callable[[FloatArray], FloatArray]
"""(runs, columns) -> (runs,)."""

FLOAT64_SPACING = 2.0**-53
"""The spacing of float64 just below 1."""


@dataclass(frozen=True)
class FixedScore:
    """A score that needs no runs: its name in the report, and its function."""

    name: str
    scorer: Scorer


@dataclass(frozen=True)
class LearnedScore:
    """A score that is trained on runs without and with the record, which are then not used to choose the event."""

    name: str
    train: Callable[[FloatArray, FloatArray], Scorer]


Score: TypeAlias = FixedScore | LearnedScore


def laplace_ratio(answer: Sequence[float], answer_with: Sequence[float], scales: Sequence[float]) -> Score:
    """log P(y | D') - log P(y | D) of independent Laplace noise: Σ (|y - x| - |y - x'|) / scale over the columns."""
    x, x_with = np.array(answer), np.array(answer_with)
    return FixedScore(
        "likelihood ratio", lambda y: np.asarray(((np.abs(y - x) - np.abs(y - x_with)) / np.array(scales)).sum(axis=1))
    )


def cube_ratio(answer: Sequence[int], answer_with: Sequence[int]) -> Score:
    """log P(y | D') - log P(y | D) of cube noise, up to the factor 1/scale: ‖y - x‖∞ - ‖y - x'‖∞."""
    x, x_with = np.array(answer), np.array(answer_with)
    return FixedScore(
        "likelihood ratio", lambda y: np.asarray(np.abs(y - x).max(axis=1) - np.abs(y - x_with).max(axis=1))
    )


def choice_ratio(scores: Sequence[int], scores_with: Sequence[int], scale: float) -> Score:
    """log P(index | D') - log P(index | D) of permute and flip."""
    ratio = np.log(choice_law(scores_with, scale)) - np.log(choice_law(scores, scale))
    return FixedScore("likelihood ratio", lambda y: np.asarray(ratio[y[:, 0].astype(np.int64)]))


def choice_law(scores: Sequence[int], scale: float) -> FloatArray:
    """P(index) of permute and flip, shape (candidates,): p_i E[1 / (1 + others that stay)]. See proofs/choice.md."""
    stays = np.exp(-(max(scores) - np.array(scores, dtype=np.float64)) / scale)
    law = np.empty(len(stays))
    for i, chance in enumerate(stays):
        others = np.array([1.0])  # P(j others stay), one candidate after the other
        for p in np.delete(stays, i):
            others = np.append(others * (1 - p), 0.0) + np.append(0.0, others * p)
        law[i] = chance * (others / (1 + np.arange(len(others)))).sum()
    return law


def column(index: int, name: str) -> Score:
    """One column, unchanged."""
    return FixedScore(name, lambda y: y[:, index])


def exact_answer(answer: Sequence[float]) -> Score:
    """How many columns equal the exact answer of D, as if no noise had been added."""
    return FixedScore("the exact answer", lambda y: np.asarray((y == np.array(answer)).sum(axis=1, dtype=np.float64)))


def low_bits() -> Score:
    """How many columns are no multiple of 2^-53. Source: Mironov (2012).

    A float64 sum of 1 and noise is always such a multiple; noise around 0 has finer bits. Integers never show any.
    """
    return FixedScore(
        "low bits", lambda y: np.asarray((np.remainder(y, FLOAT64_SPACING) != 0).sum(axis=1, dtype=np.float64))
    )


def nearest_centroid(record: FloatArray, n_clusters: int) -> Score:
    """The distance from the extra record, shape (d,), to the nearest released centroid."""
    return FixedScore(
        "nearest centroid",
        lambda y: np.asarray(np.linalg.norm(centroids_of(y, n_clusters, len(record)) - record, axis=2).min(axis=1)),
    )


def seen_before(lower: Sequence[float], n_clusters: int, *, rays: bool) -> Score:
    """Centroids seen only with the record, less those seen only without it; or rays to them from the lower corner.

    With enough noise no centroid occurs twice. The paper's final centroids lie on the rays of a few exact sums, however
    large the noise, so that the ray alone identifies the data set.
    """

    def marks(outputs: FloatArray) -> IntArray:
        """One number per run and centroid, shape (runs, k): the same for the same place or ray, up to rounding."""
        points = centroids_of(outputs, n_clusters, len(lower)) - np.array(lower)
        if rays:
            length = np.linalg.norm(points, axis=2, keepdims=True)
            points = np.divide(points, length, out=np.zeros_like(points), where=length > 0)
        steps = np.rint(points * 2.0**30).astype(np.int64)
        odd = np.array([0x9E3779B97F4A7C15 + 2 * j * 0x632BE59BD9B4E019 & (2**63 - 1) | 1 for j in range(len(lower))])
        hashed: IntArray = (steps * odd).sum(axis=2)  # overflow is harmless
        return hashed

    def train(without: FloatArray, with_record: FloatArray) -> Scorer:
        seen, seen_with = np.unique(marks(without)), np.unique(marks(with_record))
        only, only_with = np.setdiff1d(seen, seen_with), np.setdiff1d(seen_with, seen)

        def score(outputs: FloatArray) -> FloatArray:
            found = marks(outputs)
            counts = np.isin(found, only_with).sum(axis=1) - np.isin(found, only).sum(axis=1)
            return np.asarray(counts.astype(np.float64))

        return score

    return LearnedScore("ray of a centroid" if rays else "value of a centroid", train)


def classifier(n_clusters: int, n_features: int, *, centroids_only: bool) -> Score:
    """A small classifier's log-odds for "with the record": gradient boosting on the released numbers.

    Centroids come in the release's order and, as a set, sorted by their first feature.
    """

    def features(outputs: FloatArray) -> FloatArray:
        centroids = centroids_of(outputs, n_clusters, n_features)
        order = np.argsort(centroids[:, :, 0], axis=1, kind="stable")
        ordered = np.take_along_axis(centroids, order[:, :, None], axis=1).reshape(len(outputs), -1)
        used = outputs[:, : n_clusters * n_features] if centroids_only else outputs
        return np.hstack([used, ordered])

    def train(without: FloatArray, with_record: FloatArray) -> Scorer:
        from sklearn.ensemble import HistGradientBoostingClassifier

        model = HistGradientBoostingClassifier(
            max_iter=40, max_leaf_nodes=8, learning_rate=0.15, early_stopping=False, random_state=0
        )
        labels = np.repeat([0, 1], [len(without), len(with_record)])
        model.fit(np.concatenate([features(without), features(with_record)]), labels)
        return lambda y: np.asarray(model.decision_function(features(y)), dtype=np.float64)

    return LearnedScore("learned, centroids" if centroids_only else "learned, whole release", train)


def centroids_of(outputs: FloatArray, n_clusters: int, n_features: int) -> FloatArray:
    """The first columns as centroids, shape (runs, k, d)."""
    return outputs[:, : n_clusters * n_features].reshape(len(outputs), n_clusters, n_features)
