"""Costs of several methods at several budgets, on the same records, over the best cost that was found without privacy.

The comparison is itself a method, labelled `none`: the session opens the records and hands it an engine, and it runs
the others on that. Every budget it gives them is for the comparison alone; what they release is thrown away.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.engine import Engine
from dpkmeans.core.epsilon import Epsilon, format_epsilon
from dpkmeans.core.exact import reveal
from dpkmeans.core.guarantee import Claim
from dpkmeans.core.release import Release
from dpkmeans.errors import DPKMeansError, DPKMeansWarning, MethodError
from dpkmeans.interrupts import stoppable
from dpkmeans.methods.base import Method, Outcome, make_release
from dpkmeans.methods.registry import MethodSpec, registry
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.session import FitRequest, run

WHY = "a comparison is for the data holder only"
STARTS = 10  # k-means++ starts of the non-private reference
SAMPLE = 20_000  # records from which each start is chosen
REFERENCE_ITERATIONS = 300
DEFAULT_METHODS = ("synopsis", "su", "dwork", "eugkm", "su-hybrid")
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Compared:
    """A method at one budget: quantiles over runs of its cost divided by the best non-private cost.

    `spent` is the median of what the ledger booked; a method with a budget for each step may book more than `epsilon`.
    Where no run succeeded, the quantiles are None and `failure` says why.
    """

    method: str
    guarantee: str
    package: str
    epsilon: float
    runs: int
    median: float | None
    low: float | None
    high: float | None
    spent: float | None
    seconds: float | None
    failure: str | None = None


def compare(
    request: FitRequest,
    X: Any,
    methods: Sequence[str] = DEFAULT_METHODS,
    epsilons: Sequence[float] = (0.1, 1.0),
    *,
    runs: int = 10,
    progress: Progress | None = None,
) -> list[Compared]:
    """Run every method at every epsilon so many times on `X`, shape (n, d); `request` says k, bounds and the like.

    Not private: the costs are those of the records. Do not publish them, nor a choice that was made by them.

    >>> X = np.random.default_rng(0).random((2000, 2))
    >>> rows = compare(FitRequest(n_clusters=3, bounds=(0, 1)), X, ["synopsis"], [1.0], runs=2)
    >>> rows[0].method, rows[0].guarantee, rows[0].package
    ('synopsis', 'proved', 'dpkmeans')
    """
    known = registry()
    for name in methods:
        if name not in known:
            raise MethodError(f"unknown method {name!r}. Known: {', '.join(sorted(known))}.", parameter="methods")
    if runs < 1:
        raise MethodError(f"must be at least 1; got {runs}.", parameter="runs")
    budgets = tuple(float(Epsilon.of(epsilon)) for epsilon in epsilons)
    if not methods or not budgets:
        raise MethodError("there must be a method and an epsilon to compare.", parameter="methods")
    entries = tuple(known[name] for name in dict.fromkeys(methods))
    work = _Comparison(entries, budgets, runs, 1e-6 if request.delta is None else request.delta, progress)
    asked = replace(request, method=work, guarantee="none", epsilon=None, delta=None, rho=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPKMeansWarning)
        release = run(asked, X).release
    return [Compared(**row) for row in release.parameters["compared"]]


@dataclass(frozen=True)
class _Comparison:
    entries: tuple[MethodSpec, ...]
    epsilons: tuple[float, ...]
    runs: int
    delta: float
    progress: Progress | None
    name: str = "comparison"
    claim: ClassVar[Claim] = Claim("none", ("It shows the exact costs of records.",), arithmetic="floating point")

    def run(self, engine: Engine, n_clusters: int, *, ledger: Ledger, rng: Randomness) -> Release:
        cells = [(entry, epsilon) for entry in self.entries for epsilon in self.epsilons]
        self._tell(0, len(cells), "the best non-private cost")
        best, start = _reference(engine, n_clusters, rng.generator)
        rows = []
        for done, (entry, epsilon) in enumerate(cells):
            self._tell(done, len(cells), f"{entry.name} at epsilon {format_epsilon(epsilon)}")
            row, centroids = self._cell(entry, epsilon, engine, n_clusters)
            if centroids is not None:  # a private start may lead Lloyd's algorithm to a better end
                end = reveal(engine.lloyd(centroids, REFERENCE_ITERATIONS), why=WHY).centroids
                best = min(best, _cost(engine, end))
            rows.append(row)
        self._tell(len(cells), len(cells), "done")
        parameters = {"compared": [asdict(_over(row, best)) for row in rows]}
        return make_release(self, Outcome(start, 0, 0, parameters=parameters), engine, ledger=ledger, rng=rng)

    def _cell(
        self, entry: MethodSpec, epsilon: float, engine: Engine, k: int
    ) -> tuple[tuple[Compared, list[float]], FloatArray | None]:
        costs: list[float] = []
        spent: list[float] = []
        best: FloatArray | None = None
        seconds: list[float] = []
        failure = None
        for _ in stoppable(range(self.runs)):
            began = time.perf_counter()
            try:
                method, ledger = self._made(entry, epsilon)
                release = method.run(engine, k, ledger=ledger, rng=Randomness.secure())
            except DPKMeansError as error:
                failure = str(error)
                break
            seconds.append(time.perf_counter() - began)
            centroids = engine.bounds.unit_of(release.centroids)
            costs.append(_cost(engine, centroids))
            spent.append(release.epsilon_spent or 0.0)
            best = centroids if costs[-1] == min(costs) else best
        row = Compared(
            entry.name,
            entry.guarantee,
            entry.package,
            epsilon,
            len(costs),
            None,
            None,
            None,
            float(np.median(spent)) if spent else None,
            float(np.median(seconds)) if seconds else None,
            failure,
        )
        return (row, costs), best

    def _made(self, entry: MethodSpec, epsilon: float) -> tuple[Method, Ledger]:
        """The method, and a ledger that covers it: the paper's have a budget for each step and no total."""
        if {"step_epsilon", "release_epsilon"} <= set(entry.options):
            return entry.factory(step_epsilon=epsilon, release_epsilon=epsilon), Ledger()
        if entry.guarantee == "none":
            return entry.factory(), Ledger()
        return entry.factory(), Ledger(epsilon, delta=self.delta) if entry.spends_rho else Ledger(epsilon)

    def _tell(self, done: int, total: int, what: str) -> None:
        if self.progress is not None:
            self.progress(done, total, what)


def _over(measured: tuple[Compared, list[float]], best: float) -> Compared:
    """The quantiles of its costs over the best. Records that all lie on their centroids cost nothing: no ratio then."""
    row, costs = measured
    if not costs:
        return row
    if best <= 0:
        return replace(row, failure="the best cost is 0, so there is no ratio")
    low, median, high = (float(q) for q in np.quantile(np.array(costs) / best, [0.1, 0.5, 0.9]))
    return replace(row, low=low, median=median, high=high)


def _reference(engine: Engine, k: int, rng: np.random.Generator) -> tuple[float, FloatArray]:
    """The lowest cost of Lloyd's algorithm over k-means++ starts, and the centroids that have it."""
    from sklearn.cluster import kmeans_plusplus

    n = int(reveal(engine.count(), why=WHY))
    if n < k:
        raise MethodError("is larger than the number of records.", parameter="n_clusters", value=k)
    ends = []
    for _ in stoppable(range(STARTS)):
        rows = reveal(engine.sample_rows(min(n, SAMPLE), rng), why=WHY)
        start, _ = kmeans_plusplus(rows, k, random_state=int(rng.integers(2**31)))
        end = reveal(engine.lloyd(start, REFERENCE_ITERATIONS), why=WHY).centroids
        ends.append((_cost(engine, end), end))
    return min(ends, key=lambda pair: pair[0])


def _cost(engine: Engine, centroids: FloatArray) -> float:
    return float(reveal(engine.cell_statistics(centroids), why=WHY).cost)
