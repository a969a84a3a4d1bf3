"""The mean of all records with all of ε: one step, or two where the box is too wide."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.synopsis.test_method import CountingEngine, blind, content
from tests.synopsis.watching import Watching

from dpkmeans.audit.hard_pairs import run_of
from dpkmeans.audit.replay import replay
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.privacy import mechanisms
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness, SeededNoise
from dpkmeans.session import FitRequest
from dpkmeans.synopsis import settings as constants
from dpkmeans.synopsis.hyperplanes import Hyperplanes, fewer
from dpkmeans.synopsis.one_mean import is_near, noisy_mean, second_mean
from dpkmeans.synopsis.view import NoisyMean, View
from dpkmeans.synopsis.weighted_points import NoisyTotal

D = 20
MEANS = ["spread", "sides", "radius", "means"]
SEQUENCES = [
    ["middle"],
    ["middle", "near", "mean"],
    ["middle", "near", "middle"],
    ["middle", *MEANS],
    ["middle", "near", *MEANS],
]
TWO_STEPS = (constants.TWO_STEPS_SIGNAL + constants.MIN_MEANS_ZOOM) / 2  # N·ε per feature, where there are two steps


def engine_of(X, box=None) -> MemoryEngine:
    return MemoryEngine.of_records(X, box or Bounds.of((0, 1), X.shape[1]), n_threads=1)


def wide_box(times: float, place: float = 0.3, d: int = D) -> Bounds:
    """A box so many times as wide as the unit cube, which lies somewhere in it."""
    return Bounds.of((-(times - 1) * place, 1 + (times - 1) * (1 - place)), d)


def built(engine, k, epsilon, seed=0, n=None, **options):
    """Points in unit coordinates, and the steps that were paid for."""
    ledger = Ledger(float(epsilon))
    total = NoisyTotal(float(n), 0.0)
    made = Hyperplanes(**options).build(
        View.of(engine), k, epsilon, total, ledger=ledger, rng=Randomness.with_seed(seed)
    )
    assert ledger.remaining.nano == 0
    return made, [spend.label.removeprefix("signs: ") for spend in ledger.spends]


# --- what is spent and released -------------------------------------------------------------------


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(
    st.sampled_from([0, 1, 40, 400]),
    st.integers(1, 40),
    st.floats(-1, 3),
    st.sampled_from([1, 2, 9]),
    st.booleans(),
    st.integers(0, 1),
    st.sampled_from([1.0, 3.0, 50.0]),
)
def test_all_of_epsilon_is_spent_in_one_of_five_orders_and_points_lie_in_the_box(n, d, paid, k, tight, spare, times):
    upper = np.ones(d)
    upper[1::3] = 0.0  # some features have no width
    box = Bounds.of((np.zeros(d), times * upper), d)
    X = np.random.default_rng(d).random((n, d)) * upper
    told = max(n, 1)
    epsilon = Epsilon.of(max(min(10**paid * d / told, 900.0), 1e-4))
    made, steps = built(engine_of(X, box), k, epsilon, n=told, tight=tight, spare=spare)  # which asserts the spend
    assert steps in SEQUENCES
    assert len(steps) <= Hyperplanes.passes
    assert ((made.points.points >= 0) & (made.points.points <= box.unit_box)).all()
    signal, wide = told * float(epsilon), np.count_nonzero(upper)
    two_steps = constants.TWO_STEPS_SIGNAL * wide <= signal < constants.MIN_MEANS_ZOOM * wide
    one = (fewer(k - spare, signal / wide) if spare else k) == 1
    assert ("near" in steps) == (two_steps and not tight)
    assert len(steps) <= 3 or not one


def test_the_question_between_the_steps_gets_its_share_and_the_second_mean_what_is_left():
    n, paid = 1000, TWO_STEPS * D
    epsilon = Epsilon.of(paid / n)
    ledger = Ledger(float(epsilon))
    engine = engine_of(np.random.default_rng(0).random((n, D)), wide_box(16))
    total, rng = NoisyTotal(float(n), 0.0), Randomness.with_seed(0)
    Hyperplanes().build(View.of(engine), 1, epsilon, total, ledger=ledger, rng=rng)
    first, near, second = (spend.epsilon for spend in ledger.spends)
    assert near == epsilon.share(min(constants.NEAR_SIGNAL / (n * float(epsilon)), constants.MAX_NEAR_SHARE))
    assert epsilon.share(constants.MIDDLE_SHARE) <= first <= epsilon.share(constants.MAX_MIDDLE_SHARE)
    assert second == epsilon - first - near


class Blind(SeededNoise):
    """Adds noise to one number instead of the values."""

    def __init__(self, seed, number):
        super().__init__(seed)
        self.number = number

    def laplace(self, values, scale):
        return super().laplace(np.zeros_like(values) + self.number, scale)


def questions(X, number, view_of, k, epsilon, monkeypatch):
    """What hyperplanes ask where every released answer is the same `number`: names of queries, and what they hold."""
    seen = []

    class Watching(CountingEngine):
        def answer(self, query):
            seen.append((type(query).__name__, content(query)))
            return self._engine.answer(query)

    rng = Randomness(np.random.default_rng(0), Blind(0, number))
    total, budget = NoisyTotal(500.0, 0.0), Epsilon.of(epsilon)
    with monkeypatch.context() as patch:
        patch.setattr(mechanisms.LInfLaplace, "release", blind(mechanisms.LInfLaplace.release))
        view = view_of(Watching(engine_of(X)))
        Hyperplanes().build(view, k, budget, total, ledger=Ledger(float(budget)), rng=rng)
    return seen


DIFFERENT = (np.random.default_rng(1).random((500, D)), np.full((3, D), 0.9))


@pytest.mark.parametrize(("number", "k", "steps"), [(10**7, 1, 3), (10**7, 4, 3), (0, 1, 3), (0, 4, 6)])
def test_what_is_asked_later_is_made_of_released_values_alone(number, k, steps, monkeypatch):
    """With the same released answers the questions are the same, whatever the records are: near, or not near."""
    asked = [questions(X, number, View.of, k, TWO_STEPS * D / 500, monkeypatch) for X in DIFFERENT]
    assert len(asked[0]) == steps
    assert [name for name, _ in asked[0][:2]] == ["Residuals", "ResidualSizes"]
    assert asked[0] == asked[1]


@pytest.mark.parametrize("extra", [0.0, 1e300, 0.3, -1e300])
@pytest.mark.parametrize(("d", "k"), [(30, 1), (30, 4), (12, 9)])
def test_one_record_steers_nothing_but_through_the_noise_of_two_steps(extra, d, k):
    """Exact losses of whole fits on neighbours, in a box sixteen times too wide."""
    n = 400
    X = np.random.default_rng(2).random((n, d))
    asked = {"method": "synopsis", "n_clusters": k, "bounds": (-5, 11), "scale": None, "nulls": "midpoint"}
    request = FitRequest(epsilon=round(TWO_STEPS * d / n, 6), n_records=n, **asked)
    sides = (run_of(request, X), run_of(request, np.vstack([X, np.full(d, extra)])))
    labels = set()
    for seed in range(2):
        replayed = replay(*sides, seed)
        assert replayed.holds, replayed.why_not
        labels |= {call.label for call in replayed.calls}
    assert {"signs: middle", "signs: near", "signs: mean"} <= labels


# --- the first mean -------------------------------------------------------------------------------


def test_the_deviation_of_a_mean_is_that_of_its_noise():
    """Seeded: 400 means in 20 features. The mean square over them has a deviation of 2.5 %; six of them are allowed.

    Draws without a seed would fail in fewer than 1e-8 of all cases.
    """
    X = 0.8 + 0.1 * np.random.default_rng(0).random((300, D))
    engine, total = engine_of(X), NoisyTotal(300.0, 0.0)
    squares = []
    for seed in range(400):
        rng = Randomness.with_seed(seed)
        found = noisy_mean(engine, Epsilon.of(1.0), total, ledger=Ledger(1.0), rng=rng)
        squares.append(np.mean(((found.place - X.mean(axis=0)) / found.deviation) ** 2))
    assert 0.85 < np.mean(squares) < 1.15
    for wrong in (2 / 3, 3 / 2):  # times the noise that is stated
        assert not 0.85 < np.mean(squares) / wrong**2 < 1.15
    assert found.epsilon == Epsilon.of(1.0)


def test_a_mean_without_a_signal_stays_in_the_middle_of_the_box():
    X = np.full((10, D), 0.5)
    rng = Randomness.with_seed(0)
    found = noisy_mean(engine_of(X), Epsilon.of(1e-3), NoisyTotal(10.0, 0.0), ledger=Ledger(1.0), rng=rng)
    assert np.abs(found.place - 0.5).max() < 0.5
    assert (found.deviation > 0.5).all()  # more than half a side: it says nothing


def test_a_feature_without_a_width_has_neither_a_move_nor_noise():
    upper = np.array([1.0, 0.0, 2.0, 0.0])
    box = Bounds.of((np.zeros(4), upper), 4)
    X = np.random.default_rng(0).random((500, 4)) * upper
    total, epsilon = NoisyTotal(500.0, 0.0), Epsilon.of(1.0)
    first = noisy_mean(engine_of(X, box), epsilon, total, ledger=Ledger(1.0), rng=Randomness.with_seed(0))
    for near in (True, False):
        rng = Randomness.with_seed(1)
        second = second_mean(engine_of(X, box), first, near, epsilon, total, ledger=Ledger(1.0), rng=rng)
        for found in (first.place, first.deviation, second):
            assert not found[[1, 3]].any()
        assert np.abs(second - X.mean(axis=0) / 2)[[0, 2]].max() < 0.2


# --- whether records are near it ------------------------------------------------------------------


def asked_whether_near(X, box, deviation, epsilon=5.0, seed=0) -> bool:
    """With a first mean that is off by one deviation, in half sides, in every feature."""
    half = box.unit_box / 2
    place = box.unit_of(X.mean(axis=0)) + deviation * half
    first = NoisyMean(place, deviation * half, Epsilon.of(1.0))
    rng = Randomness.with_seed(seed)
    return is_near(engine_of(X, box), first, float(len(X)), Epsilon.of(epsilon), ledger=Ledger(epsilon), rng=rng)


@pytest.mark.parametrize("place", [0.0, 0.3, 1.0])
def test_records_are_near_a_mean_in_a_box_that_is_far_too_wide_and_not_in_one_that_fits(place):
    """2000 records at ε = 5: the noise is off by a hundredth of all values with a chance of e^-100."""
    X = np.random.default_rng(0).random((2000, D))
    for deviation in (0.05, 0.1):
        assert asked_whether_near(X, wide_box(40, place), deviation)
        assert not asked_whether_near(X, wide_box(1, place), deviation)


def test_most_values_must_be_near_and_not_only_some():
    """A part of the records lies in the middle, the others at the ends of every side."""
    n, box = 2000, Bounds.of((0, 1), D)
    for part in (constants.MIN_NEAR - 0.05, constants.MIN_NEAR + 0.05):
        X = np.where(np.arange(n) % 2 == 0, 0.0, 1.0)[:, None] * np.ones(D)
        X[: int(part * n)] = 0.5
        half = box.unit_box / 2
        first = NoisyMean(half, 0.1 * half, Epsilon.of(1.0))
        rng = Randomness.with_seed(0)
        found = is_near(engine_of(X, box), first, float(n), Epsilon.of(5.0), ledger=Ledger(5.0), rng=rng)
        assert found == (part > constants.MIN_NEAR)


def test_the_noise_of_the_question_is_for_one_value_in_every_feature():
    noise, ledger = Watching(0), Ledger(1.0)
    X = np.random.default_rng(0).random((50, D))
    first = NoisyMean(np.full(D, 0.5), np.full(D, 0.1), Epsilon.of(1.0))
    rng = Randomness(np.random.default_rng(0), noise)
    is_near(engine_of(X), first, 50.0, Epsilon.of(0.1), ledger=ledger, rng=rng)
    ((shape, scale),) = noise.asked
    assert shape == (1, 2)
    assert D / 0.1 <= scale < D / 0.1 * (1 + 1e-9)
    assert [(spend.label, spend.epsilon) for spend in ledger.spends] == [("signs: near", Epsilon.of(0.1))]


def test_features_without_a_width_do_not_make_records_near():
    upper = np.where(np.arange(3 * D) < D, 1.0, 0.0)
    box = Bounds.of((np.zeros(3 * D), upper), 3 * D)
    X = np.random.default_rng(0).random((2000, 3 * D)) * upper
    half = box.unit_box / 2
    first = NoisyMean(half, 0.1 * half, Epsilon.of(1.0))
    rng = Randomness.with_seed(0)
    assert not is_near(engine_of(X, box), first, 2000.0, Epsilon.of(5.0), ledger=Ledger(5.0), rng=rng)


# --- the second mean ------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_a_second_mean_lies_in_the_box_and_close_to_the_first_where_records_are_near(seed, near):
    """However much noise there is, and wherever the records are."""
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(1, 30)), int(rng.integers(0, 50))
    engine = engine_of(np.where(rng.random((n, d)) < 0.5, -1e300, 1e300))
    deviation = 10 ** rng.uniform(-4, 0.5) * np.ones(d)
    first = NoisyMean(rng.random(d), deviation, Epsilon.of(0.1))
    total, noise = NoisyTotal(float(max(n, 1)), 0.0), Randomness.with_seed(seed % 1000)
    ledger = Ledger(0.1)
    found = second_mean(engine, first, near, Epsilon.of(0.1), total, ledger=ledger, rng=noise)
    assert [spend.label for spend in ledger.spends] == ["signs: mean" if near else "signs: middle"]
    assert ((found >= 0) & (found <= 1)).all()
    if near:
        assert (np.abs(found - first.place) <= constants.NEAR_DEVIATIONS * deviation + 1e-12).all()


def errors_of(box, paid, seeds=30) -> tuple[np.ndarray, np.ndarray, list[list[str]]]:
    """Of the mean in one step and as it is built, with all of ε both, in half sides: (seeds, d) each; and the steps."""
    n, d = 1000, box.n_features
    X = np.random.default_rng(1).random((n, d))
    engine, epsilon, total = engine_of(X, box), Epsilon.of(paid / n), NoisyTotal(float(n), 0.0)
    exact, half = box.unit_of(X.mean(axis=0)), box.unit_box / 2
    one, two, steps = [], [], []
    for seed in range(seeds):
        rng = Randomness.with_seed(seed)
        one.append((noisy_mean(engine, epsilon, total, ledger=Ledger(10.0), rng=rng).place - exact) / half)
        made, labels = built(engine, 1, epsilon, seed=1000 + seed, n=n)
        two.append((made.points.points[0] - exact) / half)
        steps.append(labels)
    return np.array(one), np.array(two), steps


def root_mean_square(errors) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


@pytest.mark.parametrize("place", [0.0, 0.4, 1.0])
def test_in_a_box_sixteen_times_too_wide_two_steps_have_a_fraction_of_the_error_of_one(place):
    """30 seeded runs with N·ε of 25 a feature: about a third, so a half fails where the second step gains little."""
    one, two, steps = errors_of(wide_box(16, place), 25.0 * D)
    assert steps.count(["middle", "near", "mean"]) >= 28
    assert root_mean_square(two) < 0.5 * root_mean_square(one)


def test_in_a_box_that_fits_two_steps_cost_little():
    """30 seeded runs with N·ε of 25 a feature: the error grows by a fifth, and records are spread far wider."""
    one, two, steps = errors_of(wide_box(1), 25.0 * D)
    assert steps.count(["middle", "near", "middle"]) >= 28
    assert root_mean_square(two) < 1.6 * root_mean_square(one)  # what 0.5 and 0.4 of ε leave if nothing is shrunk
    spread = np.sqrt(1 / 3)  # of records, in half sides
    assert spread**2 + root_mean_square(two) ** 2 < 1.01 * (spread**2 + root_mean_square(one) ** 2)


def test_more_than_one_mean_is_looked_for_where_records_are_not_near_and_only_there():
    """Four clusters that fill a box, N·ε of 25 a feature, in ten seeded runs; then in a box sixteen times as wide."""
    rng = np.random.default_rng(5)
    X = np.clip(rng.random((4, D))[rng.integers(4, size=1000)] + 0.02 * rng.standard_normal((1000, D)), 0, 1)
    epsilon = Epsilon.of(25.0 * D / 1000)
    for times, wanted in ((1, ["middle", "near", *MEANS]), (40, ["middle", "near", "mean"])):
        engine = engine_of(X, wide_box(times))
        found = [built(engine, 4, epsilon, seed=seed, n=1000) for seed in range(10)]
        assert sum(steps == wanted for _, steps in found) >= 9
        assert all(made.signal == 1 for made, steps in found if steps[-1] == "mean")
    _, steps = built(engine_of(X), 4, epsilon, n=1000, tight=True)
    assert "near" not in steps  # nothing is asked that is known
