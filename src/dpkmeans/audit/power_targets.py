"""Events with power for whole methods: pairs and starts that are public, chosen so that one record shows in a release.

In a cell that is empty without the record, what the method adds to a count and a sum is nearly all noise. A record in
the corner of the box pushes both as far as one record can, and the released centroid lies in that corner with a
probability that is up to exp(epsilon) times as large.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.audit.method_targets import MethodCase
from dpkmeans.audit.neighbours import Pair
from dpkmeans.audit.protocols import Target
from dpkmeans.audit.scores import FixedScore, Score, centroids_of, nearest_centroid
from dpkmeans.core.bounds import Bounds
from dpkmeans.methods.base import Method
from dpkmeans.methods.gupt import gupt
from dpkmeans.methods.noisy_lloyd import blum, dwork, su
from dpkmeans.methods.privgene import privgene

START = np.array([[0.125], [0.875]])


def empty_cell() -> Pair:
    """On a line: all records near one public start, the extra one at the end of the box, nearest to the other."""
    return _on_a_line("empty cell, its corner", [0.125] * 8, 1.0, k=2)


def two_in_a_block() -> Pair:
    """One record; with the other there are two, the least number for which a block of GUPT clusters its records."""
    return _on_a_line("two records in a block", [1.0], 1.0, k=2)


def second_record() -> Pair:
    """One record at an end of the box, the extra one at the other: a search for one centroid is drawn towards it."""
    return _on_a_line("a second record", [0.0], 1.0, k=1)


def with_power(target: Target, epsilon: float) -> Target:
    """The target with the cases that were made for it, if there are any."""
    made = _CASES.get(target.name, ())
    cases = tuple(MethodCase(method, pair, epsilon, corner_scores) for method, pair in made)
    return replace(target, cases=target.cases + cases)


def power_targets(epsilon: float) -> tuple[Target, ...]:
    """These cases alone, method by method."""
    return tuple(with_power(Target(name, "method", "proved", (), runs=_RUNS[name]), epsilon) for name in _CASES)


def corner_scores(pair: Pair) -> tuple[Score, ...]:
    """How many centroids lie at the extra record, how many at the second public start, and the nearest to the record.

    For one step of noisy means at an empty cell, the first is the event with all of the loss. The released centroid is
    the corner where the noisy count is at least 1 and the noisy sum, taken from the middle of the box, at least the
    count times half of its side. For every such pair of outputs the record in the corner moves count and sum towards
    them by all of their sensitivities: each is exactly exp(epsilon) times as likely with the record.
    """
    k, places = pair.n_clusters, (("centroids at the record", pair.extra), ("centroids at their start", START[1]))
    at_places = (FixedScore(name, _AtPlace(place, k)) for name, place in places)
    return *at_places, nearest_centroid(pair.extra, k)


class _AtPlace:
    """The number of released centroids that lie at a place, to the last bit."""

    def __init__(self, place: FloatArray, n_clusters: int) -> None:
        self.place, self.n_clusters = place, n_clusters

    def __call__(self, outputs: FloatArray) -> FloatArray:
        centroids = centroids_of(outputs, self.n_clusters, len(self.place))
        return np.asarray((centroids == self.place).all(axis=2).sum(axis=1, dtype=np.float64))


def _on_a_line(name: str, records: list[float], extra: float, k: int) -> Pair:
    return Pair(name, np.array(records)[:, None], np.array([extra]), k, Bounds.of((0, 1), 1))


_CASES: dict[str, tuple[tuple[Method, Pair], ...]] = {
    "blum": ((blum(steps=1, init=START), empty_cell()),),
    "dwork": ((dwork(steps=2, init=START), empty_cell()),),
    "su": ((su(n_records=8, init=START), empty_cell()),),
    "gupt": ((gupt(n_records=2), two_in_a_block()),),
    "privgene": ((privgene(n_records=2, n_candidates=2, n_selected=1), second_record()),),
}
"""Methods with public options under which a fit is fast and the noise of one step decides."""
_RUNS = {"blum": 100_000, "dwork": 40_000, "su": 40_000, "gupt": 20_000, "privgene": 10_000}
"""Runs per side when these cases are run alone: about two CPU minutes each, three for `privgene`."""
