"""The method `gaussian` as a whole: its budget, its engines, its seeds, and that it finds clusters."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from dpkmeans.core.ball import Ball
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.privacy import Privacy
from dpkmeans.core.release import Release
from dpkmeans.core.rho import Rho
from dpkmeans.core.unit import Person
from dpkmeans.data.source import open_array
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.engines.stream import StreamEngine
from dpkmeans.errors import BudgetError, TooFewRecordsError, WeakSignalWarning
from dpkmeans.estimator import DPKMeans
from dpkmeans.privacy.durable.ledger import DurableLedger
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.spend_once import make_synopsis
from dpkmeans.synopsis.synopsis import Synopsis
from dpkmeans.synopsis.verify import verify
from dpkmeans.wide.geometry import public_ball
from dpkmeans.wide.method import gaussian
from dpkmeans.wide.queries import Rings
from dpkmeans.wide.releases import Distances, quantile, reach_of, standing_out
from dpkmeans.wide.settings import BINS, STEPS

weak = pytest.mark.filterwarnings("ignore::dpkmeans.errors.WeakSignalWarning")


def blobs(n: int, d: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Records around k far places in the unit box, and the places."""
    rng = np.random.default_rng(seed)
    places = 0.2 + 0.6 * rng.random((k, d))
    return places[rng.integers(k, size=n)] + 0.02 * rng.standard_normal((n, d)), places


def run(X: np.ndarray, k: int, ledger: Ledger, rng: Randomness, **options):
    engine = MemoryEngine.of_records(X, Bounds.of((0, 1), X.shape[1]), n_threads=1)
    return gaussian(**options).run(engine, k, ledger=ledger, rng=rng)


@weak
@pytest.mark.parametrize("d", [1, 2, 20, 21, 50])
@pytest.mark.parametrize("k", [1, 4, 30])
@pytest.mark.parametrize("promise", [{"promised": 0.3, "delta": 1e-9}, {"promised": 5.0, "delta": 1e-5}, {"rho": 1e-4}])
def test_the_spends_are_all_of_the_promise_and_never_more(d, k, promise):
    ledger = Ledger(**promise)
    total = ledger.remaining_rho
    release = run(blobs(1000, d, 3)[0], k, ledger, Randomness.with_seed(1))
    assert ledger.remaining_rho == Rho(0)
    assert sum((spend.rho or Rho(0) for spend in ledger.spends), Rho(0)) == total
    assert release.centroids.shape == (k, d)
    assert len(np.unique(release.centroids, axis=0)) == k
    assert release.n_passes == len(release.spends)
    assert sum(spend.label.startswith("step") for spend in release.spends) == release.parameters["steps"] <= STEPS


def test_clusters_in_many_features_are_found():
    """Each place is a hundred deviations of a released mean from the next: a miss by chance is below 1e-10."""
    X, places = blobs(20_000, 60, 5)
    release = run(X, 5, Ledger(4.0, delta=1e-6), Randomness.secure())
    apart = np.sqrt(((release.centroids[:, None] - places) ** 2).sum(axis=2))
    assert sorted(apart.argmin(axis=1).tolist()) == [0, 1, 2, 3, 4]
    assert apart.min(axis=1).max() < 0.05
    assert np.abs(np.array(release.sizes) - 4000).max() < 400
    assert release.guarantee.label == "proved"


@weak
@pytest.mark.parametrize(("n", "d", "k", "epsilon"), [(6000, 30, 6, 4.0), (6000, 12, 9, 1.0), (200, 40, 5, 0.1)])
def test_a_fit_carries_a_certificate_that_its_file_alone_proves(n, d, k, epsilon):
    """Several clusters in a subspace and without, and one mean with the other centroids beside it."""
    release = run(blobs(n, d, 4)[0], k, Ledger(epsilon, delta=1e-6), Randomness.with_seed(2))
    again = Release.from_dict(release.to_dict())
    assert [verdict.statement for verdict in verify(again) if not verdict.holds] == []
    assert release.converged
    assert (
        len(release.certificate.weights) == release.parameters["points"] >= release.parameters["clusters_with_signal"]
    )
    assert release.sizes == tuple(release.certificate.sizes)
    moved = replace(again, centroids=again.centroids + 0.01)
    assert not all(verdict.holds for verdict in verify(moved))


def test_records_in_one_corner_of_far_too_wide_bounds_are_found():
    """A box thirty times as wide as the records: the first mean is off by more than they are apart."""
    X, places = blobs(4000, 40, 3)
    engine = MemoryEngine.of_records(X, Bounds.of((-10, 20), 40), n_threads=1)
    release = gaussian().run(engine, 3, ledger=Ledger(4.0, delta=1e-6), rng=Randomness.with_seed(0))
    assert any(spend.label == "mean again" for spend in release.spends)
    apart = np.sqrt(((release.centroids[:, None] - places) ** 2).sum(axis=2))
    assert sorted(apart.argmin(axis=1).tolist()) == [0, 1, 2]
    assert apart.min(axis=1).max() < 0.1


def test_distances_that_noise_explains_do_not_stand_out_and_those_beyond_it_do():
    """Noise alone gives a run of bins in 4 % of looks: of 200, more than 30 in fewer than one of 1e9 tests."""
    rng = np.random.default_rng(0)
    assert sum(standing_out(rng.normal(0, 10, BINS), 10.0).any() for _ in range(200)) <= 30
    bins = rng.normal(0, 10, BINS)
    bins[20:24] += 200
    clear = standing_out(bins, 10.0)
    assert (clear[20:24] > 0).all()
    assert clear[:16].max() == 0
    before = Distances.of(bins, 10.0)
    after = before.taking_in(rng.normal(0, 1000, BINS), 1000.0, 4.0)
    assert np.allclose(after.clear, before.clear, rtol=0.2, atol=30)  # a look that says nothing changes little


def test_the_reach_takes_in_few_records_that_are_far_and_leaves_out_a_few_that_are_not():
    rings = Rings(1000.0)
    for far, reach in ((0, 0), (18, 24)):  # bins: the largest distances first, six to an octave
        bins = np.zeros(BINS)
        bins[24], bins[far] = 10_000.0, 100.0  # 1 %, at 16 times the distance with 72 % of the cost, at twice with 4 %
        assert reach_of(Distances.of(bins, 1.0), rings) == rings.upper[reach]
        assert quantile(Distances.of(bins, 1.0), rings) == rings.upper[24]


def test_small_clusters_far_from_a_large_one_are_found():
    """Before the reach followed the cost, three of five such fits missed one of them."""
    rng = np.random.default_rng(1)
    places = 0.1 + 0.8 * rng.random((5, 60))
    places[0] = 0.5
    sizes = (30_000, 150, 150, 150, 150)
    X = np.concatenate([p + 0.02 * rng.standard_normal((m, 60)) for p, m in zip(places, sizes, strict=True)])
    for seed in (1, 2):
        release = run(X, 5, Ledger(4.0, delta=1e-6), Randomness.with_seed(seed))
        apart = np.sqrt(((release.centroids[:, None] - places) ** 2).sum(axis=2))
        assert sorted(apart.argmin(axis=0).tolist()) == [0, 1, 2, 3, 4]
        assert apart.min(axis=0).max() < 1.0


def test_centroids_of_noise_alone_are_worse():
    """What the test above asserts fails for another data set's places."""
    _, places = blobs(20_000, 60, 5)
    other = run(blobs(20_000, 60, 5, seed=9)[0], 5, Ledger(4.0, delta=1e-6), Randomness.secure())
    apart = np.sqrt(((other.centroids[:, None] - places) ** 2).sum(axis=2))
    assert apart.min(axis=1).max() > 0.5


@weak
@pytest.mark.parametrize("d", [12, 40])
def test_seeded_bits_are_the_same_in_memory_and_streamed_and_for_any_number_of_threads(d):
    X, _ = blobs(3000, d, 4)
    box = Bounds.of((0, 1), d)
    engines = [
        MemoryEngine.of_records(X, box, n_threads=1),
        MemoryEngine.of_records(X[::-1], box, n_threads=3),
        StreamEngine(open_array(X), box, batch_rows=700, n_threads=2),
    ]
    found = [
        gaussian().run(engine, 6, ledger=Ledger(2.0, delta=1e-6), rng=Randomness.with_seed(3)) for engine in engines
    ]
    assert all(np.array_equal(release.centroids, found[0].centroids) for release in found)
    assert all(release.sizes == found[0].sizes for release in found)
    other = gaussian().run(engines[0], 6, ledger=Ledger(2.0, delta=1e-6), rng=Randomness.with_seed(4))
    assert not np.array_equal(other.centroids, found[0].centroids)


def test_too_little_signal_is_said_and_the_answer_is_about_one_private_mean():
    """The mean of 2000 records in 60 features, with noise that cannot be told from it: never far beyond the box."""
    X, _ = blobs(2000, 60, 3)
    with pytest.warns(WeakSignalWarning, match="told from noise"):
        release = run(X, 40, Ledger(0.2, delta=1e-6), Randomness.with_seed(0))
    assert release.parameters["clusters_with_signal"] < 40
    one = ((X - X.mean(axis=0)) ** 2).sum()
    cost = ((X[:, None] - release.centroids[:3]) ** 2).sum(axis=2).min(axis=1).sum()
    assert cost < 3 * one


@weak
def test_beside_a_single_mean_the_other_centroids_lie_on_the_line_through_the_middle_of_the_box():
    X = blobs(300, 30, 2)[0]
    release = run(X, 5, Ledger(0.2, delta=1e-6), Randomness.with_seed(2))
    assert release.parameters["clusters_with_signal"] == 1
    mean, middle, *others = release.centroids - 0.5
    assert np.abs(middle).max() < 1e-5
    assert np.abs(mean).max() > 1e-3
    for factor, other in zip((2.0, 0.5, 1.5), others, strict=True):
        assert np.abs(other - np.clip(factor * mean, -0.5, 0.5)).max() < 1e-5
    assert np.count_nonzero(release.sizes) == 1
    assert all(verdict.holds for verdict in verify(release))


def test_pure_epsilon_is_refused_before_anything_is_spent():
    ledger = Ledger(1.0)
    with pytest.raises(BudgetError, match="delta"):
        run(blobs(100, 12, 2)[0], 2, ledger, Randomness.secure())
    assert ledger.spends == ()


def test_more_clusters_than_records_stop_after_the_count():
    """By chance it does not: the noisy count would have to be 9000 deviations off."""
    ledger = Ledger(rho=100.0)
    with pytest.raises(TooFewRecordsError, match="noisy number of records"):
        run(blobs(10, 12, 2)[0], 1000, ledger, Randomness.secure())
    assert [spend.label for spend in ledger.spends] == ["number of records and mean"]


@weak
def test_a_public_number_of_records_is_taken():
    release = run(blobs(900, 12, 2)[0], 2, Ledger(1.0, delta=1e-6), Randomness.with_seed(0), n_records=900)
    assert release.centroids.shape == (2, 12)


@pytest.mark.parametrize("bounds", [(0, 1), ([0, -3], [10, 3]), Ball(center=2, radius=3)])
def test_the_public_ball_holds_every_record_of_the_bounds(bounds):
    box = Bounds.of(bounds, 2)
    ball = public_ball(box)
    rng = np.random.default_rng(0)
    X = rng.uniform(-20, 20, (4000, 2))
    points = reveal_points(MemoryEngine.of_records(X, box, n_threads=1))
    away = np.sqrt(((points - ball.centre) ** 2).sum(axis=1))
    assert away.max() <= ball.radius
    assert away.max() > 0.99 * ball.radius - 2


def reveal_points(engine: MemoryEngine) -> np.ndarray:
    """The grid points of an engine in whole steps, for a test."""
    return engine._rows(np.arange(engine._n)) * 2**20


def test_noise_falls_and_steps_come_to_rest_with_the_budget():
    X, _ = blobs(5000, 40, 3)
    much, little = (
        run(X, 3, Ledger(epsilon, delta=1e-6), Randomness.with_seed(1)).parameters["moves"] for epsilon in (8.0, 1.0)
    )
    assert much[-1] < little[-1]
    assert math.isfinite(little[0])


@weak
@pytest.mark.parametrize(("d", "name"), [(3, "synopsis"), (10, "synopsis"), (11, "gaussian"), (40, "gaussian")])
def test_the_default_under_epsilon_and_delta_is_chosen_by_the_number_of_features(d, name):
    model = DPKMeans(3, epsilon=2.0, delta=1e-6, bounds=(0, 1)).fit(blobs(3000, d, 3)[0])
    assert model.release_.method == name
    assert model.release_.guarantee.label == "proved"
    assert model.release_.epsilon_spent <= 2.0
    again = Release.from_dict(model.release_.to_dict())
    assert np.array_equal(again.centroids, model.release_.centroids)
    assert again.summary() == model.release_.summary()


@weak
def test_the_default_in_pure_epsilon_stays_the_synopsis_whatever_the_number_of_features():
    assert DPKMeans(3, epsilon=2.0, bounds=(0, 1)).fit(blobs(500, 12, 3)[0]).release_.method == "synopsis"


@weak
def test_a_feature_without_width_stays_put_and_records_beyond_the_bounds_count_as_at_the_bounds():
    box = Bounds.of(([0.0] * 20 + [7.0] * 5, [1.0] * 20 + [7.0] * 5), 25)
    X, _ = blobs(2000, 25, 3)
    X[:, 20:] = 7.0
    beyond = np.where(X[:, :20] > 0.7, 1e300, X[:, :20])
    at = np.where(X[:, :20] > 0.7, 1.0, X[:, :20])
    found = []
    for part in (beyond, at):
        engine = MemoryEngine.of_records(np.column_stack([part, X[:, 20:]]), box, n_threads=1)
        found.append(gaussian().run(engine, 4, ledger=Ledger(1.0, delta=1e-6), rng=Randomness.with_seed(5)).centroids)
    assert np.array_equal(*found)
    assert (found[0][:, 20:] == 7.0).all()
    assert (found[0] >= box.lower).all()
    assert (found[0] <= box.upper).all()


EXTREMES = [{"promised": 1e-3, "delta": 1e-12}, {"promised": 500.0, "delta": 0.5}, {"rho": 1e-13}]


@weak
@pytest.mark.parametrize("promise", EXTREMES)
def test_an_extreme_promise_gives_finite_centroids_or_a_clear_error(promise):
    refused: str | None = None
    try:
        release = run(blobs(60, 30, 2)[0], 2, Ledger(**promise), Randomness.secure())
    except BudgetError as error:
        refused = str(error)
    else:
        assert np.isfinite(release.centroids).all()
        assert ((release.centroids >= 0) & (release.centroids <= 1)).all()
    assert refused is None or "larger" in refused


def frame_of(X: np.ndarray, **columns: object) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).assign(**columns)


@weak
@pytest.mark.parametrize(("d", "cap", "name"), [(12, 1e-6, "gaussian"), (5, 1e-6, "synopsis"), (12, None, "synopsis")])
def test_the_default_under_a_ledger_is_the_one_without_it_where_its_cap_has_a_delta(tmp_path, d, cap, name):
    X = blobs(800, d, 2)[0]
    asked = {"epsilon": 1.0, "delta": 1e-6, "bounds": (0, 1)}
    kept = DurableLedger.create(tmp_path / "ledger.db")
    kept.add("visits", Privacy.of(3.0, cap))
    for ledger in ({"ledger": Ledger(3.0, delta=cap)}, {"ledger": kept, "dataset": "visits"}):
        release = DPKMeans(2, **asked, **ledger).fit(X).release_
        assert release.method == name
        assert release.epsilon_spent <= 1.0
    assert kept.dataset("visits").remaining.nano >= 0 if cap is None else kept.dataset("visits").remaining_rho.femto > 0


@weak
@pytest.mark.parametrize(("d", "name"), [(12, "gaussian"), (5, "synopsis")])
def test_the_default_for_persons_is_that_for_rows(d, name):
    people = frame_of(blobs(900, d, 2)[0], person=np.arange(900) // 3)
    model = DPKMeans(2, epsilon=2.0, delta=1e-6, bounds=(0, 1), unit=Person("person", at_most=3)).fit(people)
    assert model.release_.method == name
    assert model.release_.guarantee.label == "proved"
    assert model.release_.epsilon_spent <= 2.0
    assert model.release_.n_clusters == 2


@weak
def test_a_synopsis_of_many_features_gives_any_k_and_its_costs_at_no_further_cost(tmp_path):
    """Six places, far apart: k-means on the released points finds them, and more clusters gain little."""
    X, places = blobs(20_000, 30, 6)
    made = make_synopsis(X, 4.0, (0, 1), delta=1e-6, n_clusters=6, random_state=1, guarantee="none")
    made.save(tmp_path / "synopsis.json")
    again = Synopsis.load(tmp_path / "synopsis.json")
    assert again.kind == "gaussian"
    assert again.rho_spent == made.rho_spent > 0
    assert again.epsilon_spent <= 4.0
    costs = {row.k: row.cost for row in again.explore([2, 4, 6, 8], random_state=0)}
    assert costs[2] > costs[4] > 5 * costs[6]
    release = again.fit(6, random_state=0)
    assert [verdict.statement for verdict in verify(release) if not verdict.holds] == []
    apart = np.sqrt(((release.centroids[:, None] - places) ** 2).sum(axis=2))
    assert sorted(apart.argmin(axis=1).tolist()) == [0, 1, 2, 3, 4, 5]
    assert make_synopsis(X[:500, :5], 1.0, (0, 1), delta=1e-6).kind != "gaussian"


@weak
def test_intervals_hold_the_exact_means_of_clusters_that_stand_out():
    """Of 180 coordinates about 1 % lie outside 95 % intervals that are a quarter wider than the noise; seeded."""
    X, _ = blobs(20_000, 30, 6)
    release = run(X, 6, Ledger(2.0, delta=1e-6), Randomness.with_seed(3))
    found, labels = release.intervals(0.95), release.predict(X)
    means = np.stack([X[labels == c].mean(axis=0) for c in range(6)])
    inside = (found.lower <= means) & (means <= found.upper)
    assert inside.mean() > 0.9
    sizes = np.bincount(labels, minlength=6)
    assert ((found.size_lower <= sizes) & (sizes <= found.size_upper)).all()
    width = found.upper - found.lower
    assert width.max() < 0.2  # and they say something
