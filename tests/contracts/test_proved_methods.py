"""What every method that is registered as proved has to pass, whatever it is and whoever added it."""

from __future__ import annotations

import inspect
import math
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon, Spend
from dpkmeans.engines.block_engine import MAX_RECORDS
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.errors import BoundsError, BudgetError, DataError, DPKMeansError, MethodError, TooFewRecordsError
from dpkmeans.estimator import DPKMeans
from dpkmeans.methods.base import Method
from dpkmeans.methods.dp_em import MAX_FEATURES
from dpkmeans.methods.lloyd import lloyd
from dpkmeans.methods.registry import MethodSpec, make_method, registry
from dpkmeans.privacy import mechanisms
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness, SeededNoise

ROOT = Path(__file__).resolve().parents[2]
DELTA = 1e-6  # beside epsilon, for methods with Gaussian noise
WITH_GAUSSIAN = {f"{name} with Gaussian noise": name for name in ("blum", "gupt", "su")}
PROVED = sorted(name for name, e in registry().items() if e.guarantee == "proved") + sorted(WITH_GAUSSIAN)
OURS = sorted(name for name, e in registry().items() if (e.proof or "").startswith("proofs/"))
MECHANISMS = [
    kind
    for _, kind in inspect.getmembers(mechanisms, inspect.isclass)
    if kind.__module__ == mechanisms.__name__ and hasattr(kind, "release")
]

# Runs here are small on purpose, and some methods say rightly that such a run finds little.
pytestmark = pytest.mark.filterwarnings("ignore::dpkmeans.errors.WeakSignalWarning")

every_proved_method = pytest.mark.parametrize("name", PROVED)


def an_engine(n: int, d: int, *, seed: int = 0, box: Bounds | None = None) -> MemoryEngine:
    box = box or Bounds.of((0, 1), d)
    return MemoryEngine.of_records(np.random.default_rng(seed).random((n, d)), box, n_threads=1)


def made(name: str, **options: Any) -> Method:
    return (
        make_method(WITH_GAUSSIAN[name], noise="gaussian", **options)
        if name in WITH_GAUSSIAN
        else make_method(name, **options)
    )


def takes_a_number_of_records(name: str) -> bool:
    return "n_records" in registry()[WITH_GAUSSIAN.get(name, name)].options


def a_method(name: str, n: int) -> Method:
    """With a public number of records where it takes one: a noisy count may rightly stop a fit of so few."""
    return made(name, n_records=n) if takes_a_number_of_records(name) else made(name)


def delta_of(name: str) -> float | None:
    return DELTA if getattr(made(name), "spends_rho", False) else None


def a_ledger(name: str, epsilon: float = 1.0) -> Ledger:
    """A promise that the method can keep: with a delta where its noise is Gaussian."""
    return Ledger(epsilon, delta=delta_of(name))


def an_estimator(name: str, epsilon: Any, bounds: Any, method: Method | None = None) -> DPKMeans:
    return DPKMeans(2, epsilon=epsilon, delta=delta_of(name), bounds=bounds, method=method or made(name))


# --- the page ---------------------------------------------------------------------------------------


def test_a_method_cannot_be_registered_as_proved_without_a_page():
    with pytest.raises(MethodError, match="without a proof page"):
        MethodSpec("mine", lloyd, "proved", "a summary", "a source")


@pytest.mark.parametrize("name", OURS)
def test_the_page_of_every_proved_method_exists_names_it_and_stands_in_the_index(name):
    page = ROOT / registry()[name].proof
    assert page.is_file(), f"{name} is registered as proved, but {page.name} does not exist"
    assert f"`{name}`" in page.read_text("utf-8")
    index = (ROOT / "proofs" / "README.md").read_text("utf-8")
    assert any(f"`{name}`" in line and f"({page.name})" in line for line in index.splitlines() if line[:1] == "|")


def test_every_test_that_a_proof_page_names_exists():
    written = {
        line.split("(")[0].removeprefix("def ")
        for path in (ROOT / "tests").rglob("test_*.py")
        for line in path.read_text("utf-8").splitlines()
        if line.startswith("def test_")
    }
    for page in sorted((ROOT / "proofs").glob("*.md")):
        named = {word for word in page.read_text("utf-8").split("`") if word.startswith("test_") and " " not in word}
        missing = {name for name in named if not name.endswith(".py")} - written
        assert not missing, f"{page.name} rests on tests that do not exist: {sorted(missing)}"


@every_proved_method
def test_a_proved_method_offers_what_the_registry_says_and_a_seed_takes_it_away(name):
    engine = an_engine(50, 2)
    method = a_method(name, 50)
    assert method.claim.label == "proved"
    assert method.run(engine, 2, ledger=a_ledger(name), rng=Randomness.secure()).guarantee.label == "proved"
    assert method.run(engine, 2, ledger=a_ledger(name), rng=Randomness.with_seed(1)).guarantee.label == "none"


# --- the budget, observed where noise is drawn ------------------------------------------------------


@dataclass
class Watch:
    """What the mechanisms were asked for, and with which scales noise was drawn while they ran."""

    spent: list[Spend] = field(default_factory=list)
    scales: list[Fraction] | None = None


class WatchedNoise(SeededNoise):
    """A seeded double that draws for mechanisms only, and notes every scale."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(5)
        self.watch = watch

    def laplace(self, values, scale):
        self._note(scale)
        return super().laplace(values, scale)

    def geometric(self, size, scale):
        self._note(scale)
        return super().geometric(size, scale)

    def gaussian(self, values, variance):
        self._note(variance)
        return super().gaussian(values, variance)

    def below(self, n):
        assert self.watch.scales is not None, "noise was drawn outside a mechanism"
        return super().below(n)

    def below_each(self, bounds):
        assert self.watch.scales is not None, "noise was drawn outside a mechanism"
        return super().below_each(bounds)

    def _note(self, scale):
        assert self.watch.scales is not None, "noise was drawn outside a mechanism"
        self.watch.scales.append(scale)


def enough_noise(mechanism, scale, sensitivity) -> bool:
    if isinstance(mechanism, mechanisms.Gaussian):  # the scale is a variance, and rho = change²/2σ²
        return 2 * scale * mechanism.rho.fraction >= sensitivity.l2_squared
    return scale * mechanism.epsilon.fraction >= change_of(mechanism, sensitivity)


def change_of(mechanism, sensitivity) -> int:
    """By how much the noise has to hide a change, in the units of its scale; see the mechanism's own proof page."""
    match mechanism:
        case mechanisms.PermuteAndFlip():
            return sensitivity.gap
        case mechanisms.PrivTreeSplits():
            return mechanism.LOSSES
        case mechanisms.LInfLaplace():
            assert sensitivity.one_row
            return sensitivity.linf
    return sensitivity.l1


@contextmanager
def watched(monkeypatch):
    watch = Watch()
    for kind in MECHANISMS:

        def release(self, exact, *, ledger, rng, label, _release=kind.release):
            watch.scales = []
            released = _release(self, exact, ledger=ledger, rng=rng, label=label)
            assert watch.scales, f"{label} recorded a spend and drew nothing"
            assert enough_noise(self, min(watch.scales), exact.sensitivity), f"{label} drew too little noise"
            rho = getattr(self, "rho", None)
            watch.spent.append(Spend(label, (self.epsilon,)) if rho is None else Spend(label, rho=rho))
            watch.scales = None
            return released

        monkeypatch.setattr(kind, "release", release)
    yield watch, Randomness(np.random.default_rng(4), WatchedNoise(watch))


@every_proved_method
@pytest.mark.parametrize("d", [1, 2, 5, 10, 50, 100])
def test_spends_observed_at_the_mechanisms_never_pass_the_promise_and_use_it(name, d, monkeypatch):
    engine = an_engine(300, d)
    if name == "dp-em" and d > MAX_FEATURES:
        ledger = a_ledger(name)
        with pytest.raises(DataError, match="takes up to"):
            made(name).run(engine, 4, ledger=ledger, rng=Randomness.secure())
        assert ledger.spends == ()
        return
    for k, epsilon in ((1, 1.0), (4, 0.3), (8, 7.0)):
        with monkeypatch.context() as patch, watched(patch) as (watch, rng):
            ledger = a_ledger(name, epsilon)
            release = made(name).run(engine, k, ledger=ledger, rng=rng)
        assert ledger.privacy.held_after(watch.spent) == ledger.loss
        assert 0.99 * epsilon <= float(ledger.spent)
        assert ledger.spent <= Epsilon.of(epsilon)
        assert ledger.privacy.covers(ledger.loss)
        assert release.epsilon_spent == float(ledger.spent)
        assert release.centroids.shape == (k, d)


@pytest.mark.parametrize("epsilon", [1.0, 5.83e-7, 5.82e-7])
def test_spends_on_every_side_never_pass_the_promise(epsilon, monkeypatch):
    """With the most records that there may be, 583 nano-epsilons are the fewest with which five sides are asked."""
    engine = an_engine(300, 5)
    with monkeypatch.context() as patch, watched(patch) as (watch, rng):
        ledger = Ledger(epsilon)
        release = make_method("synopsis", n_records=MAX_RECORDS).run(engine, 2, ledger=ledger, rng=rng)
    labels = [spend.label for spend in watch.spent]
    assert labels.count("zoom: side") == (0 if epsilon == 5.82e-7 else 5)
    assert ledger.privacy.held_after(watch.spent) == ledger.loss
    assert 0.9 * epsilon <= float(ledger.spent)
    assert ledger.spent <= Epsilon.of(epsilon)
    assert release.epsilon_spent == float(ledger.spent)


@every_proved_method
def test_a_promise_that_is_partly_spent_is_not_passed(name):
    ledger = a_ledger(name)
    ledger.spend(Epsilon.of(0.6), "something before")
    made(name).run(an_engine(200, 3), 3, ledger=ledger, rng=Randomness.with_seed(0))
    assert 0.99 <= float(ledger.spent) <= 1.0


# --- nothing of the exact data decides --------------------------------------------------------------


@every_proved_method
@pytest.mark.parametrize("n", [1, 2, 7])
def test_more_clusters_than_records_stop_a_fit_after_a_released_count_at_most(name, n):
    """Whether a fit stops depends on the noisy count alone, so it need not stop."""
    ledger = a_ledger(name)
    try:
        release = made(name).run(an_engine(n, 2), 9, ledger=ledger, rng=Randomness.secure())
    except TooFewRecordsError:
        assert [spend.label for spend in ledger.spends] == ["number of records"]
    else:
        assert release.centroids.shape == (9, 2)
        assert np.isfinite(release.centroids).all()


@pytest.mark.parametrize("name", ["blum", "dwork", "su", "gupt", "privgene"])
def test_the_plan_of_a_run_is_the_same_with_and_without_a_record(name):
    """For a fixed seed and a public number of records, labels and budgets do not depend on the records at all.

    Other methods may plan from what they released before.
    """
    options = {"n_records": 400} if "n_records" in registry()[name].options else {}
    records = np.random.default_rng(3).random((400, 2))
    plans = []
    for X in (records, records[:-1], records[:1], np.zeros((1000, 2))):
        engine = MemoryEngine.of_records(X, Bounds.of((0, 1), 2), n_threads=1)
        release = make_method(name, **options).run(engine, 3, ledger=Ledger(1.0), rng=Randomness.with_seed(8))
        plans.append((release.spends, release.parameters, release.n_iter, release.n_passes))
    assert all(plan == plans[0] for plan in plans)


@every_proved_method
def test_records_beyond_the_bounds_count_as_records_at_the_bounds(name):
    box = Bounds.of(([0, -5], [1, 5]), 2)
    inside = np.random.default_rng(0).choice([[0.0, -5.0], [1.0, 5.0], [0.5, 5.0]], 60)
    beyond = np.where(inside == 1.0, 1e308, np.where(inside == 5.0, 1e300, np.where(inside < 0.1, -1e9, inside)))
    results = [
        made(name).run(
            MemoryEngine.of_records(X, box, n_threads=1), 3, ledger=a_ledger(name), rng=Randomness.with_seed(2)
        )
        for X in (inside, beyond)
    ]
    assert np.array_equal(results[0].centroids, results[1].centroids)


@every_proved_method
def test_released_centroids_lie_in_the_box_and_a_feature_without_width_stays_put(name):
    box = Bounds.of(([0, 3, -1], [10, 3, 1]), 3)
    records = np.random.default_rng(0).uniform([0, 3, -1], [10, 3, 1], (200, 3))
    engine = MemoryEngine.of_records(records, box, n_threads=1)
    for epsilon in (0.01, 1.0):
        centroids = (
            a_method(name, 200).run(engine, 4, ledger=a_ledger(name, epsilon), rng=Randomness.secure()).centroids
        )
        assert (centroids >= np.array(box.lower) - 1e-5).all()
        assert (centroids <= np.array(box.upper) + 1e-5).all()
        assert (centroids[:, 1] == 3).all()


# --- seeds ------------------------------------------------------------------------------------------


@every_proved_method
def test_the_same_seed_gives_the_same_result_and_another_seed_another(name):
    engine = an_engine(200, 2)
    first, again, other = (
        made(name).run(engine, 3, ledger=a_ledger(name), rng=Randomness.with_seed(seed)).centroids for seed in (7, 7, 8)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@every_proved_method
def test_without_a_seed_results_differ_whatever_numpys_global_seed_is(name):
    """False alarm: below 1e-10. Of all methods, `eugkm` draws least: twenty integers, each the same again in 1 of 4."""
    engine = an_engine(200, 2)
    results = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        results.append(a_method(name, 200).run(engine, 3, ledger=a_ledger(name), rng=Randomness.secure()).centroids)
    assert not np.array_equal(*results)


# --- bad and extreme arguments ----------------------------------------------------------------------

X = np.random.default_rng(1).random((60, 2))


@every_proved_method
@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, 1e-12, None, "much"])
def test_an_epsilon_that_makes_no_sense_is_a_clear_error(name, epsilon):
    with pytest.raises(BudgetError, match=r"epsilon|total"):
        an_estimator(name, epsilon, (0, 1)).fit(X)


@every_proved_method
@pytest.mark.parametrize("epsilon", [1e-9, 1e-7, 1e-5, 1e-3, 999.0])
def test_an_extreme_epsilon_gives_finite_centroids_or_a_clear_error(name, epsilon):
    refused: str | None = None
    try:
        method = a_method(name, len(X))
        centroids = an_estimator(name, epsilon, (0, 1), method).fit(X).cluster_centers_
    except BudgetError as error:
        refused = str(error)
    else:
        assert np.isfinite(centroids).all()
        assert (centroids >= 0).all()
        assert (centroids <= 1).all()
    assert refused is None or (epsilon < 1e-4 and "larger epsilon" in refused)


@every_proved_method
def test_bounds_beyond_two_to_the_500_are_refused_and_wide_ones_give_finite_centroids(name):
    with pytest.raises(BoundsError, match="2\\^500"):
        an_estimator(name, 1.0, (-(2.0**501), 1)).fit(X)
    wide = an_estimator(name, 1.0, (-(2.0**499), 2.0**499), a_method(name, len(X))).fit(X)
    assert np.isfinite(wide.cluster_centers_).all()


@pytest.mark.parametrize("name", [name for name in PROVED if takes_a_number_of_records(name)])
@pytest.mark.parametrize("factor", [0.1, 10])
def test_a_wrong_public_number_of_records_costs_accuracy_at_most(name, factor):
    engine = an_engine(500, 2)
    ledger = a_ledger(name)
    method = made(name, n_records=int(500 * factor))
    release = method.run(engine, 3, ledger=ledger, rng=Randomness.secure())
    assert np.isfinite(release.centroids).all()
    assert 0.99 <= float(ledger.spent) <= 1.0


@pytest.mark.parametrize("name", [name for name in PROVED if takes_a_number_of_records(name)])
@pytest.mark.parametrize("n_records", [0, -5, 2.5, math.nan, math.inf, "many", True, 2**34])
def test_a_number_of_records_that_makes_no_sense_is_a_clear_error(name, n_records):
    with pytest.raises(DPKMeansError, match="n_records must be"):
        made(name, n_records=n_records)
