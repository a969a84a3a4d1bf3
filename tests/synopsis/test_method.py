"""The synopsis methods: passes, budget, convergence, centroids, and what may be in a release."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpkmeans.core.bounds import Bounds
from dpkmeans.core.exact import Exact, reveal
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.estimator import DPKMeans
from dpkmeans.methods.registry import make_method
from dpkmeans.privacy import mechanisms
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness, SeededNoise
from dpkmeans.session import DEFAULT_METHOD
from dpkmeans.synopsis.method import separate_duplicates
from dpkmeans.synopsis.verify import verify
from dpkmeans.synopsis.zoom import SIDE

SLOW = pytest.mark.slow
FAMILY = ["synopsis", "synopsis-posterior", "synopsis-prior", "eugkm", "su-hybrid", "lei"]

# Runs here are small on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::dpkmeans.errors.WeakSignalWarning")


def groups(n: int, d: int, k: int = 3, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centers = rng.random((k, d))
    return centers[rng.integers(k, size=n)] + 0.03 * rng.standard_normal((n, d))


def engine_of(X, box=None) -> MemoryEngine:
    return MemoryEngine.of_records(X, box or Bounds.of((0, 1), X.shape[1]), n_threads=1)


class CountingEngine:
    """Hands every question on and counts how often the records are looked at."""

    released = False

    def __init__(self, engine: MemoryEngine) -> None:
        self._engine = engine
        self.asked: list[str] = []

    def __getattr__(self, name):
        value = getattr(self._engine, name)
        if not callable(value) or name.startswith("_"):
            return value

        def call(*args, **kwargs):
            self.asked.append(name)
            return value(*args, **kwargs)

        return call

    @property
    def bounds(self):
        return self._engine.bounds

    @property
    def n_features(self):
        return self._engine.n_features


def test_the_default_is_the_synopsis():
    assert DEFAULT_METHOD == "synopsis"
    model = DPKMeans(3, epsilon=1.0, bounds=(0, 1)).fit(groups(3000, 2))
    assert model.release_.method == "synopsis"
    assert model.release_.guarantee.label == "proved"


@pytest.mark.parametrize(
    ("name", "n_records"),
    [
        *(pytest.param(name, None, marks=SLOW if name == "lei" else ()) for name in FAMILY),
        ("synopsis", 1_000_000),
        ("eugkm", 10_000),
    ],
)
@pytest.mark.parametrize("d", [2, 10, 12, 60])
def test_a_fit_makes_a_few_passes_and_says_how_many(name, n_records, d):
    """What is asked does not grow with the records: a public million here plans what a million records would."""
    counting = CountingEngine(engine_of(groups(2000, d, 10)))
    method = make_method(name, n_records=n_records)
    release = method.run(counting, 10, ledger=Ledger(1.0), rng=Randomness.with_seed(0))
    assert set(counting.asked) <= {"answer", "count"}
    labels = [spend.label for spend in release.spends]
    once = [label for i, label in enumerate(labels) if label != SIDE or i == labels.index(SIDE)]
    assert release.n_passes == len(counting.asked) == len(once)
    zooms = sum(label.startswith("zoom") for label in once)
    assert zooms <= (0 if name in ("eugkm", "su-hybrid", "lei") else 7 if d <= 2 else 15)
    assert release.n_passes - zooms <= (5 if d < 16 else 10)


def test_records_are_looked_at_through_ask_and_count_alone():
    counting = CountingEngine(engine_of(groups(2000, 3)))
    make_method("synopsis").run(counting, 3, ledger=Ledger(1.0), rng=Randomness.secure())
    assert counting.asked[0] == "count"
    assert set(counting.asked[1:]) == {"answer"}


SHAPES = [
    (n, d, k)
    for n, d, k in itertools.product((0, 1, 50, 4000), (1, 2, 3, 4, 7, 12, 40), (1, 2, 9, 40))
    if (n, d, k) != (4000, 40, 40)
]


@pytest.mark.slow
def test_all_fits_end_at_a_fixed_point_of_their_own_synopsis_with_k_distinct_centroids_in_the_box():
    """222 fits: few and many records, features and clusters, unequal sides, features without width, tiny budgets."""
    for number, (n, d, k) in enumerate(SHAPES + SHAPES):
        epsilon = (1e-6, 0.1, 1.0, 30.0, 0.01)[number % 5]
        upper = np.ones(d) if number % 3 else np.geomspace(1, 1e-4, d)
        if number % 4 == 1 and d > 2:
            upper[1] = 0.0
        box = Bounds.of((np.zeros(d), upper), d)
        X = groups(n, d, 3, seed=number) * upper if number % 5 else np.full((n, d), 0.3) * upper
        release = make_method("synopsis", n_records=max(n, k)).run(  # a noisy count could stop the fit
            engine_of(X, box), k, ledger=Ledger(epsilon), rng=Randomness.with_seed(number)
        )
        assert all(verdict.holds for verdict in verify(release)), (n, d, k)
        assert release.converged is True
        assert len(np.unique(release.centroids, axis=0)) == k
        assert np.isfinite(release.centroids).all()
        assert ((release.centroids >= 0) & (release.centroids <= upper)).all()
        assert release.epsilon_spent == epsilon


@pytest.mark.parametrize("name", [pytest.param(n, marks=SLOW if n == "lei" else ()) for n in FAMILY[1:]])
def test_the_others_of_the_family_converge_as_well(name):
    for number, (n, d, k) in enumerate(itertools.product((1, 2000), (1, 3, 12), (1, 5, 30))):
        release = make_method(name, n_records=max(n, k)).run(
            engine_of(groups(n, d, 3, seed=number)), k, ledger=Ledger(0.5), rng=Randomness.with_seed(number)
        )
        assert [v.statement for v in verify(release) if not v.holds] == []
        assert len(np.unique(release.centroids, axis=0)) == k


@pytest.mark.parametrize("name", FAMILY)
def test_clear_clusters_are_found(name):
    X = groups(20_000, 2, 4, seed=5)
    best = make_method("lloyd", init=X[[0, 1, 2, 3]]).run(engine_of(X), 4, ledger=Ledger(), rng=Randomness.with_seed(0))
    release = make_method(name).run(engine_of(X), 4, ledger=Ledger(1.0), rng=Randomness.with_seed(0))
    mine, theirs = (
        np.min(np.linalg.norm(X[:, None] - c, axis=2) ** 2, axis=1).sum() for c in (release.centroids, best.centroids)
    )
    assert mine < 1.2 * theirs


class Blind(SeededNoise):
    """Adds noise to 40 instead of the values."""

    def laplace(self, values, scale):
        return super().laplace(np.zeros_like(values) + 40, scale)


def blind(release):
    """`release` of zeros instead of the values."""

    def of_zeros(self, exact, *, ledger, rng, label):
        zeros = Exact(np.zeros_like(reveal(exact, why="a test")), exact.sensitivity)
        return release(self, zeros, ledger=ledger, rng=rng, label=label)

    return of_zeros


def content(value):
    """What a question is made of, as numbers, also inside of the questions that it is made of."""
    if hasattr(value, "__dict__"):
        return {key: content(inner) for key, inner in vars(value).items()}
    return np.asarray(value).tolist()


@pytest.mark.parametrize(
    ("d", "n_records"), [(2, 5000), (6, 5000), (12, 5000), (6, 20_000), (2, 300), (6, 60), (30, 600), (30, 5000)]
)
def test_what_is_asked_second_is_made_of_released_values_alone(d, n_records, monkeypatch):
    """With the same released answers the questions are the same, whatever the records are."""

    asked = []
    for X in (groups(500, d, seed=1), np.full((3, d), 0.9)):
        seen = []

        class Watching(CountingEngine):
            def answer(self, query, seen=seen):
                seen.append((type(query).__name__, content(query)))
                return self._engine.answer(query)

        rng = Randomness(np.random.default_rng(0), Blind(0))
        with monkeypatch.context() as patch:
            for mechanism in (mechanisms.LInfLaplace, mechanisms.PermuteAndFlip):
                patch.setattr(mechanism, "release", blind(mechanism.release))
            make_method("synopsis", n_records=n_records).run(Watching(engine_of(X)), 3, ledger=Ledger(1.0), rng=rng)
        asked.append(seen)
    assert len(asked[0]) >= 2
    assert asked[0] == asked[1]


def test_a_release_holds_no_array_as_long_as_the_data():
    release = make_method("synopsis").run(
        engine_of(groups(9973, 2)), 3, ledger=Ledger(1.0), rng=Randomness.with_seed(0)
    )

    def lengths(value):
        if isinstance(value, list | tuple | np.ndarray):
            yield len(value)
            for inner in value:
                yield from lengths(inner)
        elif isinstance(value, dict):
            for inner in value.values():
                yield from lengths(inner)

    assert 9973 not in lengths(release.to_dict())


def test_equal_centroids_are_moved_apart_inside_the_box_and_others_stay():
    rng = np.random.default_rng(0)
    box = np.array([1.0, 0.0])
    centroids = np.array([[0.0, 0.0]] * 50 + [[1.0, 0.0]] * 3 + [[0.5, 0.0]])
    apart, reach = separate_duplicates(centroids, box, rng)
    assert len(np.unique(apart, axis=0)) == 54
    assert ((apart >= 0) & (apart <= box)).all()
    assert np.abs(apart - centroids).max() <= reach < 2**-10
    same, none = separate_duplicates(np.array([[0.1, 0.0], [0.2, 0.0]]), box, rng)
    assert none == 0.0
    assert same.tolist() == [[0.1, 0.0], [0.2, 0.0]]


def test_su_hybrid_spends_half_on_its_last_step_and_eugkm_all_on_its_grid():
    for name, labels in (
        ("eugkm", ["number of records", "grid: counts"]),
        ("su-hybrid", ["number of records", "grid: counts", "re-centring"]),
    ):
        release = make_method(name).run(engine_of(groups(500, 2)), 3, ledger=Ledger(1.0), rng=Randomness.with_seed(0))
        assert [spend.label for spend in release.spends] == labels
    assert float(release.spends[-1].epsilon) == pytest.approx(0.95 / 2)
