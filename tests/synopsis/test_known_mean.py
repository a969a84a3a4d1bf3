"""Hyperplanes through a mean that a zoom has released: it is asked for once more where the records lie close to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.synopsis.test_one_mean import DIFFERENT, questions

from dpkmeans.audit.hard_pairs import run_of
from dpkmeans.audit.replay import replay
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.methods.registry import make_method
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.session import FitRequest
from dpkmeans.synopsis.hyperplanes import Hyperplanes
from dpkmeans.synopsis.view import NoisyMean, View
from dpkmeans.synopsis.weighted_points import NoisyTotal

MEANS = ["spread", "sides", "radius", "means"]
SEQUENCES = [MEANS, ["near", *MEANS], ["near", "mean", *MEANS]]
D = 20


def seen_by_a_zoom(engine, half: float, place: float, deviation: float) -> View:
    """A part of the box with so long half sides, and a mean in its middle with a deviation in half sides."""
    box = engine.bounds.unit_box
    center = box * place
    lower, upper = np.clip(center - half * box, 0.0, box), np.clip(center + half * box, 0.0, box)
    view = View.of(engine).part(lower, upper)
    return replace(view, mean=NoisyMean(center, deviation * view.half, Epsilon.of(0.01)))


def built(n, view, k, epsilon, seed=0, **options):
    """Points in unit coordinates, and the steps that were paid for."""
    ledger = Ledger(float(epsilon))
    total = NoisyTotal(float(max(n, 1)), 0.0)
    made = Hyperplanes(**options).build(view, k, epsilon, total, ledger=ledger, rng=Randomness.with_seed(seed))
    assert ledger.remaining.nano == 0
    return made, [spend.label.removeprefix("signs: ") for spend in ledger.spends]


def engine_of(X, box=None) -> MemoryEngine:
    return MemoryEngine.of_records(X, box or Bounds.of((0, 1), X.shape[1]), n_threads=1)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    st.sampled_from([0, 1, 500]),
    st.sampled_from([0.1, 10.0, 300.0]),
    st.sampled_from([2, 9]),
    st.booleans(),
    st.sampled_from([0.02, 0.4, 1.0]),
    st.sampled_from([0.0, 0.3, 0.5]),
    st.sampled_from([1e-4, 0.05, 0.14]),
)
def test_all_of_epsilon_is_spent_in_one_of_three_orders_and_points_lie_in_the_box(
    n, epsilon, k, tight, half, place, deviation
):
    upper = np.ones(D)
    upper[1::3] = 0.0  # some features have no width
    engine = engine_of(np.random.default_rng(0).random((n, D)) * upper, Bounds.of((np.zeros(D), upper), D))
    view = seen_by_a_zoom(engine, half, place, deviation)
    made, steps = built(n, view, k, Epsilon.of(epsilon), tight=tight)
    assert steps in SEQUENCES
    assert "near" not in steps or not tight
    assert len(steps) <= Hyperplanes.passes
    assert ((made.points.points >= 0) & (made.points.points <= engine.bounds.unit_box)).all()


@pytest.mark.parametrize("half", [0.5, 0.25])
def test_the_mean_is_asked_for_again_where_records_lie_close_to_it_and_only_there(half):
    """Ten seeded runs, with N·ε of 1000 a feature; the question is wrong in hardly any."""
    rng = np.random.default_rng(1)
    for spread, wanted in ((0.001, SEQUENCES[2]), (0.2 * half, SEQUENCES[1])):
        X = 0.5 + spread * rng.standard_normal((2000, D))
        engine = engine_of(np.clip(X, 0, 1))
        view = seen_by_a_zoom(engine, half, 0.5, 0.05)
        assert [built(2000, view, 3, Epsilon.of(10.0), seed=s)[1] for s in range(10)].count(wanted) >= 9


@pytest.mark.parametrize(("number", "steps"), [(10**7, 6), (0, 5)])
def test_what_is_asked_after_a_zoom_is_made_of_released_values_alone(number, steps, monkeypatch):
    """With the same released answers the questions are the same, whatever the records are."""

    def zoomed(engine):
        return seen_by_a_zoom(engine, 0.3, 0.5, 0.05)

    asked = [questions(X, number, zoomed, 4, 2.0, monkeypatch) for X in DIFFERENT]
    assert len(asked[0]) == steps
    assert asked[0] == asked[1]


def uneven(n: int, d: int) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Two clusters that are told apart easily, in a box whose sides are 100 to 2000 times as long as their distance."""
    rng = np.random.default_rng(3)
    X = 0.5 + 0.01 * rng.standard_normal((2, d))[np.arange(n) % 2] + 0.004 * rng.standard_normal((n, d))
    times = np.exp(rng.uniform(np.log(2), np.log(32), d))
    low = -rng.random(d) * (times - 1)
    return X, (low, low + times)


@pytest.mark.parametrize("extra", [0.0, 1e300, 0.3])
def test_one_record_steers_nothing_but_through_the_noise(extra):
    """Exact losses of whole fits on neighbours, in a box whose sides are loose by different factors."""
    X, bounds = uneven(600, 30)
    asked = {"method": "synopsis", "n_clusters": 2, "bounds": bounds, "scale": None, "nulls": "midpoint"}
    request = FitRequest(epsilon=20.0, n_records=600, **asked)
    sides = (run_of(request, X), run_of(request, np.vstack([X, np.full(30, extra)])))
    labels = set()
    for seed in range(2):
        replayed = replay(*sides, seed)
        assert replayed.holds, replayed.why_not
        labels |= {call.label for call in replayed.calls}
    assert {"zoom: mean", "signs: near", "signs: mean", "signs: means"} <= labels


def test_clusters_in_a_box_whose_sides_are_loose_by_different_factors_are_told_apart():
    """20 seeded runs: without the second mean, hyperplanes pass the records by, and a third of the runs miss a cluster.

    So 20 of 20 would be chance in one case of 3000.
    """
    X, bounds = uneven(20_000, 40)
    engine = engine_of(X, Bounds.of(bounds, 40))
    centers = np.array([X[c::2].mean(axis=0) for c in range(2)])
    apart, asked = np.linalg.norm(centers[0] - centers[1]), 0
    for seed in range(20):
        release = make_method("synopsis").run(engine, 2, ledger=Ledger(1.0), rng=Randomness.with_seed(seed))
        asked += "signs: mean" in [spend.label for spend in release.spends]
        away = np.linalg.norm(release.centroids[:, None] - centers, axis=2).min(axis=0)
        assert (away < 0.25 * apart).all()
    assert asked >= 18
