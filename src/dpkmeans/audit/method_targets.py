"""Methods under audit: whole fits on both sides of a pair, with all that the release shows."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.audit.neighbours import Pair, worst_pairs
from dpkmeans.audit.noise_sources import InBlocks
from dpkmeans.audit.protocols import Sample, Target
from dpkmeans.audit.scores import Score, classifier, column, nearest_centroid, seen_before
from dpkmeans.core.certificate import Certificate
from dpkmeans.core.engine import Engine
from dpkmeans.core.epsilon import format_epsilon
from dpkmeans.core.release import Release
from dpkmeans.errors import NotConvergedWarning, TooFewRecordsError, WeakSignalWarning
from dpkmeans.methods.base import Method
from dpkmeans.methods.registry import MethodSpec, registry
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.storage.codec import encode_certificate
from dpkmeans.synopsis.method import SynopsisMethod

FIXED = 4
MAX_COLUMNS = 24
"""Numbers of a release besides its centroids that are scored: passes, spends, sizes, parameters, certificate."""

SMALLER: dict[str, dict[str, Any]] = {
    "privgene": {"n_candidates": 20, "n_selected": 2},
    "lei": {"n_records": 200},  # a histogram of thousands of cells; from a noisy number it may have 2^18
}
"""Public parameters under which a fit is fast; the guarantee is the same for all of them."""

PILOT = 40
DELTA = 1e-9  # beside epsilon, for methods with Gaussian noise: below what the runs of an audit can tell
RELEASE_SHARE = 0.75


def numbers_of(release: Release, pair: Pair) -> FloatArray:
    """Centroids and other numbers of a release, shape (k d + MAX_COLUMNS,); what is missing counts as -1.

    Behind the centroids: passes, iterations, total and number of spends; three numbers about the released synopsis;
    sizes, parameters, and as much of the certificate as fits.
    """
    certificate = release.certificate
    plain = None if certificate is None else encode_certificate(certificate)
    first = [release.n_passes, release.n_iter, release.epsilon_spent, len(release.spends)]
    rest = chain(_leaves(release.sizes), _leaves(release.parameters), _leaves(plain))
    shown = list(islice(chain(first, _synopsis(certificate, pair), rest), MAX_COLUMNS))
    row = np.full(release.centroids.size + MAX_COLUMNS, -1.0)
    row[: release.centroids.size] = release.centroids.ravel()
    row[release.centroids.size : release.centroids.size + len(shown)] = shown
    return np.asarray(np.nan_to_num(row, posinf=1e300, neginf=-1e300))


def _synopsis(certificate: Certificate | None, pair: Pair) -> tuple[float, float, float]:
    """Total weight of the released synopsis, its weight within a tenth of the extra record, and its largest weight."""
    if certificate is None:
        return -1.0, -1.0, -1.0
    points, weights = certificate.points, certificate.weights
    near = np.abs(points - pair.bounds.unit_of(pair.extra)).max(axis=1) <= 0.1
    return float(weights.sum()), float(weights[near].sum()), float(weights.max())


def _leaves(content: Any) -> Iterator[float]:
    """The numbers in nested dictionaries and lists, in order."""
    if isinstance(content, dict):
        for key in sorted(content):
            yield from _leaves(content[key])
    elif isinstance(content, (list, tuple, np.ndarray)):
        for value in content:
            yield from _leaves(value)
    elif isinstance(content, numbers.Real):
        yield float(content)


@dataclass(frozen=True)
class MethodCase:
    """Fits of one method on one pair. `promised` is the cap of the ledger; None for methods without a total.

    `scored` makes the scores for a pair; `shown` says which numbers of a release they look at, shape (columns,).
    """

    method: Method
    data: Pair
    promised: float | None
    scored: Callable[[Pair], tuple[Score, ...]]
    shown: Callable[[Release, Pair], FloatArray] = numbers_of

    @property
    def pair(self) -> str:
        return self.data.name

    def draw(self, with_record: bool, runs: int, rng: Randomness) -> Sample:
        engine = self.data.engine(with_record)
        rng = Randomness(rng.generator, InBlocks(rng.noise))
        outputs, spent = [], np.empty(runs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConvergedWarning)
            warnings.simplefilter("ignore", WeakSignalWarning)
            for run in range(runs):
                ledger = Ledger(self.promised, delta=DELTA if getattr(self.method, "spends_rho", False) else None)
                outputs.append(self._output(engine, ledger, rng))
                spent[run] = float(ledger.spent)
        return Sample(np.array(outputs), spent)

    def _output(self, engine: Engine, ledger: Ledger, rng: Randomness) -> FloatArray:
        """What a fit shows. Where it stops after a noisy count below k, this is an output too, unlike any release."""
        try:
            return self.shown(self.method.run(engine, self.data.n_clusters, ledger=ledger, rng=rng), self.data)
        except TooFewRecordsError:
            return np.full(self.data.n_clusters * len(self.data.extra) + MAX_COLUMNS, -1.0)

    def scores(self) -> tuple[Score, ...]:
        return self.scored(self.data)


def centroid_scores(pair: Pair) -> tuple[Score, ...]:
    """What looks at the final centroids alone: the nearest one, values and rays that recur, and a classifier."""
    k, d, lower = pair.n_clusters, len(pair.extra), pair.bounds.lower
    return (
        nearest_centroid(pair.extra, k),
        seen_before(lower, k, rays=False),
        seen_before(lower, k, rays=True),
        classifier(k, d, centroids_only=True),
    )


def release_scores(pair: Pair) -> tuple[Score, ...]:
    """The scores of the centroids, the passes, and a classifier on all numbers."""
    k, d = pair.n_clusters, len(pair.extra)
    return *centroid_scores(pair), column(k * d, "number of passes"), classifier(k, d, centroids_only=False)


def synopsis_scores(pair: Pair) -> tuple[Score, ...]:
    """The scores of a release, and two weights of the released synopsis."""
    first = pair.n_clusters * len(pair.extra) + FIXED
    return *release_scores(pair), column(first, "weight of the synopsis"), column(first + 1, "weight at the record")


def method_target(
    method: Method, epsilon: float | None, *, name: str | None = None, pairs: Sequence[Pair] | None = None
) -> Target:
    """A target for any method value, built in or your own, that claims the ε that its ledger records.

    `epsilon` is the promised total, None for methods that take none.
    """
    scored = synopsis_scores if isinstance(method, SynopsisMethod) else release_scores
    cases = tuple(MethodCase(method, pair, epsilon, scored) for pair in (worst_pairs() if pairs is None else pairs))
    return Target(name or method.name, "method", method.claim.label, cases)


def registered_target(entry: MethodSpec, epsilon: float, pairs: Sequence[Pair] | None = None) -> Target:
    """A method of the registry at a claimed total of about `epsilon`, over all worst-case pairs.

    Methods with a budget per step get such a step that their realised total comes out about there, pair by pair. For
    methods labelled `paper` only the final centroids are looked at, as that is the most that they could hide.
    """
    chosen = worst_pairs() if pairs is None else pairs
    if {"step_epsilon", "release_epsilon"} <= set(entry.options):
        cases = tuple(MethodCase(_calibrated(entry, epsilon, p), p, None, centroid_scores) for p in chosen)
        return Target(f"{entry.name} ({format_epsilon(epsilon)})", "method", entry.guarantee, cases)
    method = entry.factory(**SMALLER.get(entry.name, {}))
    if entry.guarantee != "none":
        return method_target(method, epsilon, name=entry.name, pairs=chosen)
    cases = tuple(MethodCase(method, p, None, centroid_scores) for p in chosen)
    return Target(entry.name, "method", "none", cases, claims=False)


def method_targets(epsilon: float, entries: Iterable[MethodSpec] | None = None) -> tuple[Target, ...]:
    """Every registered method at `epsilon`; those whose total is a mere claim also at a tenth of it."""
    targets = []
    for entry in registry().values() if entries is None else entries:
        if entry.guarantee == "paper":
            targets.append(registered_target(entry, epsilon / 10))
        targets.append(registered_target(entry, epsilon))
    return tuple(targets)


def _calibrated(entry: MethodSpec, epsilon: float, pair: Pair) -> Method:
    """Most of `epsilon` for the release, the rest over as many steps as a pilot takes on average."""
    pilot = MethodCase(entry.factory(), pair, None, centroid_scores)
    column = pair.n_clusters * len(pair.extra) + 1  # the number of iterations
    steps = max(pilot.draw(side, PILOT, Randomness.with_seed(1)).outputs[:, column].mean() for side in (False, True))
    step = (1 - RELEASE_SHARE) * epsilon / max(steps, 1.0)
    return entry.factory(step_epsilon=step, release_epsilon=RELEASE_SHARE * epsilon)
