"""What to expect before anything is spent: a public model of the loss, fitted to this package's benchmark.

It reads no record: the number of records must be public, or a guess. Docs: docs/plan.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpkmeans.core.checks import check_integer
from dpkmeans.core.epsilon import Epsilon, format_epsilon
from dpkmeans.core.privacy import Privacy
from dpkmeans.core.unit import MAX_ROWS
from dpkmeans.errors import MethodError
from dpkmeans.planning.loss_model import MIN_LOSS, loss_model
from dpkmeans.synopsis.plan import least_signal
from dpkmeans.wide.settings import MIN_SIGNAL, MIN_SIGNAL_OF_TWO

MAX_USEFUL_LOSS = 3.0  # above it a clustering is of little use
GOOD_LOSS = 0.1
SURE = (0.5, 0.8, 0.9)
MIN_RELIABLE_SIGNAL = 100.0  # N * epsilon / k; below it losses vary too much to promise useful clusters


@dataclass(frozen=True)
class Expectation:
    """Expected loss (cost over the best non-private cost, minus 1) of one fit of a method at one epsilon.

    In eight of ten cases it should lie between `low` and `high`. 0.005 stands for anything smaller.
    """

    method: str
    epsilon: float
    loss: float
    low: float
    high: float


@dataclass(frozen=True)
class Noise:
    """Standard deviation of the noise on the mean of one feature of an average cluster, in the units of the data."""

    feature: int
    epsilon: float
    deviation: float


@dataclass(frozen=True)
class PersonCost:
    """What a way to keep the rows of a person costs: records that a method sees, its epsilon, and the expected loss.

    The loss is that of the default method on the records that it sees, against the best for those: means of persons lie
    closer together than rows, and may have other clusters.
    """

    keep: str
    records: int
    epsilon: float
    epsilon_per_record: float
    loss: float


@dataclass(frozen=True)
class Signal:
    """Many features under (epsilon, delta): `signal` is records / (clusters · σ · √features), σ the noise of a count.

    From about 3.5 on, all clusters can be told from noise; `clusters` says how many can. `records` is how many records
    k clusters would take.
    """

    epsilon: float
    signal: float
    clusters: int
    records: int


@dataclass(frozen=True)
class Needed:
    """The smallest epsilon at which one fit of the default method stays within a loss with a probability of `sure`.

    `epsilon` is None where none from 0.05 to 5 does, which is what the model knows.
    """

    sure: float
    epsilon: float | None


@dataclass(frozen=True)
class Advice:
    """Expected losses, the noise if bounds were given, and a recommendation; with persons, what each way costs.

    `signals` are for Gaussian noise, where a delta was given; `needed` where a loss was.
    """

    expectations: tuple[Expectation, ...]
    noise: tuple[Noise, ...]
    recommendation: str
    persons: tuple[PersonCost, ...] = ()
    signals: tuple[Signal, ...] = ()
    needed: tuple[Needed, ...] = ()


def plan(
    n_records: int,
    n_features: int,
    n_clusters: int,
    epsilons: Sequence[float],
    bounds: Sequence[tuple[float, float]] | None = None,
    *,
    spread: float | None = None,
) -> Advice:
    """Expected loss per method and epsilon, from public numbers alone.

    `bounds` are pairs (low, high), one per feature, and show the noise in the units of the data. `spread` is a guess of
    the typical distance of a record from the centre of its cluster in one feature, as a share of the box's side; it
    must not come from the records either. Without it the range covers all spreads of the benchmark, so it is wide.

    Guarantee: nothing is read and nothing is spent. docs/plan.md says how well it predicts.

    >>> advice = plan(50_000, 4, 8, [0.1, 1.0], spread=0.05)
    >>> {e.method for e in advice.expectations} >= {"synopsis", "su"}
    True
    >>> all(e.low <= e.loss <= e.high for e in advice.expectations)
    True
    """
    for name, value in (("records", n_records), ("features", n_features), ("n_clusters", n_clusters)):
        check_integer(value, name)
    if spread is not None and not 0 < spread <= 1:
        raise MethodError(f"must be a share of the box's side, above 0 and up to 1; got {spread}.", parameter="spread")
    checked = sorted(float(Epsilon.of(epsilon)) for epsilon in epsilons)
    if not checked:
        raise MethodError("give at least one epsilon.")
    found = tuple(sorted(_expected(n_records, n_features, n_clusters, checked, spread), key=lambda e: e.epsilon))
    pairs = [] if bounds is None else list(bounds)
    noise = tuple(
        Noise(j, epsilon, _deviation(high - low, n_features, n_records / n_clusters, epsilon))
        for epsilon in checked
        for j, (low, high) in enumerate(pairs)
    )
    signal = n_records * checked[-1] / n_clusters
    return Advice(found, noise, _recommend(found, signal, least_signal(n_features), checked))


def epsilon_for(
    n_records: int, n_features: int, n_clusters: int, loss_at_most: float, *, spread: float | None = None
) -> tuple[Needed, ...]:
    """Which epsilon it takes for a loss of at most `loss_at_most`, from public numbers alone: with even odds, in eight
    and in nine of ten cases. To two digits, rounded up.

    Guarantee: nothing is read and nothing is spent. docs/plan.md says how well it predicts.

    >>> [needed.sure for needed in epsilon_for(50_000, 4, 8, 0.02)]
    [0.5, 0.8, 0.9]
    """
    for name, value in (("records", n_records), ("features", n_features), ("n_clusters", n_clusters)):
        check_integer(value, name)
    if not MIN_LOSS <= loss_at_most <= MAX_USEFUL_LOSS:
        raise MethodError(
            f"must lie between {MIN_LOSS:.1%} and {MAX_USEFUL_LOSS:.0%}; got {loss_at_most:.3g}.",
            parameter="loss_at_most",
            hint="Below half a percent all losses count the same.",
        )
    model, found, best = loss_model(), [], 0.0
    asked = list(SURE)
    for epsilon in _two_digits():
        best = max(best, model.chance("synopsis", n_records, n_features, n_clusters, epsilon, spread, loss_at_most))
        while asked and best >= asked[0]:
            found.append(Needed(asked.pop(0), epsilon))
    return (*found, *(Needed(sure, None) for sure in asked))


def _two_digits() -> Iterator[float]:
    """Numbers of two digits from 0.05 to 5."""
    yield from (n / 1000 for n in range(50, 100))
    yield from (n / 100 for n in range(10, 100))
    yield from (n / 10 for n in range(10, 51))


def person_costs(
    n_rows: int, n_features: int, n_clusters: int, epsilons: Sequence[float], rows_per_person: int
) -> tuple[PersonCost, ...]:
    """What each `keep` costs where every person has `rows_per_person` of the `n_rows` rows, from public numbers alone.

    >>> rows, mean, one = person_costs(50_000, 4, 8, [1.0], rows_per_person=5)
    >>> rows.records, rows.epsilon_per_record, mean.records, mean.epsilon_per_record
    (50000, 0.2, 10000, 1.0)
    """
    m = check_integer(rows_per_person, "rows_per_person", most=MAX_ROWS)
    n_persons = max(check_integer(n_rows, "records") // m, 1)
    model, costs = loss_model(), []
    for epsilon in sorted(float(Epsilon.of(epsilon)) for epsilon in epsilons):
        for keep, n, share in (("rows", m * n_persons, m), ("mean", n_persons, 1), ("one", n_persons, 1)):
            each = float(Epsilon.of(epsilon).per(share))
            loss = model.expected("synopsis", n, n_features, n_clusters, each, None).loss
            costs.append(PersonCost(keep, n, epsilon, each, loss))
    return tuple(costs)


def gaussian_signals(
    n_records: int, n_features: int, n_clusters: int, epsilons: Sequence[float], delta: float
) -> tuple[Signal, ...]:
    """What the method `gaussian` has to work with at each epsilon, from public numbers alone.

    >>> weak, strong = gaussian_signals(10_000, 384, 20, [0.25, 3.0], 1e-6)
    >>> weak.clusters, strong.clusters
    (12, 20)
    """
    found = []
    for epsilon in sorted(float(Epsilon.of(epsilon)) for epsilon in epsilons):
        promise = Privacy.of(epsilon, delta)
        assert promise is not None
        deviation = math.sqrt(n_features / (2 * float(promise.as_rho())))
        several = n_records / deviation >= MIN_SIGNAL_OF_TWO
        clusters = min(n_clusters, int(n_records / (deviation * MIN_SIGNAL))) if several else 1
        needed = math.ceil(MIN_SIGNAL * n_clusters * deviation)
        found.append(Signal(epsilon, n_records / (n_clusters * deviation), clusters, needed))
    return tuple(found)


def recommend_gaussian(signals: Sequence[Signal], n_clusters: int) -> str:
    """What to do with many features under (epsilon, delta), from what `gaussian_signals` says at each epsilon.

    >>> recommend_gaussian(gaussian_signals(20_000, 384, 20, [0.25, 1.0], 1e-6), 20)
    'Use epsilon 0.25 with this delta: the smallest of these at which all 20 clusters can be told from noise.'
    """
    enough = [s for s in signals if s.clusters == n_clusters]
    if enough:
        return (
            f"Use epsilon {format_epsilon(enough[0].epsilon)} with this delta: the smallest of these at which all "
            f"{n_clusters} clusters can be told from noise."
        )
    largest = signals[-1]
    return (
        f"With this delta, {largest.clusters} of {n_clusters} clusters can be told from noise at epsilon "
        f"{format_epsilon(largest.epsilon)}; for all of them it takes {largest.records} records. Use fewer clusters or "
        "features, more records or a larger epsilon."
    )


def _expected(n: int, d: int, k: int, epsilons: list[float], spread: float | None) -> Iterator[Expectation]:
    """Method by method. A larger epsilon never counts as worse: one may always spend less."""
    model = loss_model()
    for method in model.surfaces:
        best = (math.inf,) * 3
        for epsilon in epsilons:
            found = model.expected(method, n, d, k, epsilon, spread)
            best = min(best[0], found.loss), min(best[1], found.low), min(best[2], found.high)
            yield Expectation(method, epsilon, *best)


def _deviation(side: float, d: int, size: float, epsilon: float) -> float:
    """√((D+1)(D+2)/3)/ε · half a side, over the size of the cluster, D = d + 1: one LInfLaplace with all of ε."""
    entries = d + 1
    return math.sqrt((entries + 1) * (entries + 2) / 3) / epsilon * side / 2 / max(size, 1.0)


def _recommend(found: tuple[Expectation, ...], signal: float, least: float, epsilons: list[float]) -> str:
    """`signal` is records * epsilon / k at the largest epsilon; below `least` a fit warns."""
    best = {e: min((x for x in found if x.epsilon == e), key=lambda x: x.loss) for e in epsilons}
    good = [e for e in epsilons if best[e].loss <= GOOD_LOSS]
    largest = epsilons[-1]
    if signal < max(MIN_RELIABLE_SIGNAL, least) or best[largest].loss > MAX_USEFUL_LOSS:
        return (
            f"Do not expect useful clusters: records * epsilon / k is {signal:.3g} at the largest epsilon, and a fit "
            f"warns below {least:.3g} (10, or 4 for each feature). Use fewer clusters or features, more records or a "
            "larger epsilon."
        )
    if good:
        chosen = best[good[0]]
        return (
            f"Use {chosen.method} with epsilon {format_epsilon(chosen.epsilon)}: the smallest of these with an "
            f"expected loss of at most {GOOD_LOSS:.0%}. Keep the rest of the budget."
        )
    chosen = best[largest]
    return (
        f"Use {chosen.method} with epsilon {format_epsilon(chosen.epsilon)}; expect a cost about {chosen.loss:.0%} "
        "above the best. Fewer clusters would help more than another method."
    )
