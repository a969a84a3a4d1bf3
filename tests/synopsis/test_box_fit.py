"""Whether the public box fits the records: what is counted, what one record changes, when it is asked, what it says."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.synopsis.watching import Watching

from dpkmeans.audit.hard_pairs import run_of
from dpkmeans.audit.replay import replay
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import reveal
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.engines.packing import grid_points
from dpkmeans.methods.registry import make_method
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.session import FitRequest
from dpkmeans.synopsis import settings as constants
from dpkmeans.synopsis.box_fit import (
    BoxFit,
    ask_fit,
    fit_share,
    has_few_clusters,
    is_for_a_grid,
    is_for_one_mean,
    least_outside,
    longest_sides,
    outside_half_box,
    quarters_of,
    whole_sides,
)
from dpkmeans.synopsis.zoom import SIDE

MANY = constants.FEW_CLUSTERS + 1  # clusters
SEEDED = settings(max_examples=100, deadline=None, derandomize=True, database=None)
STEP = 2.0**-20
LABEL = "box: outside half"

pytestmark = pytest.mark.filterwarnings("ignore::dpkmeans.errors.WeakSignalWarning")


def engine_of(X, box) -> MemoryEngine:
    return MemoryEngine.of_records(X, box, n_threads=1)


def outside(X, box) -> int:
    cells = quarters_of(box.unit_box)
    return int(reveal(outside_half_box(engine_of(X, box).answer(cells), cells), why="a test").item())


def by_brute_force(X, box, sides) -> int:
    """Records outside the fullest of all boxes that take halves of these sides, or all of a few of them, one by one."""
    quarter = np.minimum(np.floor(grid_points(X, box)[:, sides] / box.unit_box[sides] * 4), 3)
    n_halved, held = len(sides) - whole_sides(len(sides)), []
    halves = np.array(list(itertools.product((0, 1, 2), repeat=n_halved))).reshape(-1, n_halved)
    for halved in itertools.combinations(range(len(sides)), n_halved):
        lower = quarter[None][:, :, halved] - halves[:, None]  # 0 or 1 in a half
        held.append(((lower == 0) | (lower == 1)).all(axis=2).sum(axis=1).max(initial=0))
    return len(X) - int(max(held))


def hard_records(rng, n: int, upper) -> np.ndarray:
    """Records anywhere, in corners, on borders of quarters and a little to either side of them."""
    anywhere = rng.random((n, len(upper)))
    borders = rng.integers(0, 5, (n, len(upper))) / 4 + rng.integers(-1, 2, (n, len(upper))) * STEP
    corners = rng.integers(0, 2, (n, len(upper))).astype(float)
    return np.clip(np.choose(rng.integers(3, size=(n, len(upper))), [anywhere, borders, corners]), 0, 1) * upper


def random_sides(rng, d: int) -> np.ndarray:
    """Powers of two, some without a width; the first is the longest."""
    upper = np.where(rng.random(d) < 0.2, 0.0, np.ldexp(1.0, -rng.integers(0, 4, d)))
    upper[0] = 1.0
    return upper


# --- what is counted ------------------------------------------------------------------------------


@SEEDED
@given(st.integers(0, 2**32 - 1))
def test_the_records_outside_the_fullest_half_box_are_those_of_all_boxes_tried_one_by_one(seed):
    rng = np.random.default_rng(seed)
    upper = random_sides(rng, int(rng.integers(1, 7)))
    X = hard_records(rng, int(rng.integers(0, 30)), upper)
    box = Bounds.of((np.zeros(len(upper)), upper), len(upper))
    assert outside(X, box) == by_brute_force(X, box, np.flatnonzero(upper))


@pytest.mark.parametrize("d", [9, 64, 65, 100])
def test_halves_of_the_longest_sides_are_taken_where_there_are_more_than_a_table_may_have(d):
    rng = np.random.default_rng(d)
    upper = np.ldexp(1.0, -rng.integers(0, 3, d))
    upper[d // 2] = 1.0
    X, box = hard_records(rng, 40, upper), Bounds.of((np.zeros(d), upper), d)
    sides = longest_sides(upper, constants.MAX_FIT_SIDES)
    assert quarters_of(upper).shape == (4**constants.MAX_FIT_SIDES, 1)
    assert upper[sides].min() >= np.delete(upper, sides).max(initial=0.0)
    assert outside(X, box) == by_brute_force(X, box, sides)


def test_no_record_is_outside_where_there_is_none_and_where_all_lie_in_one_place():
    box = Bounds.of((0, 1), 6)
    assert outside(np.empty((0, 6)), box) == 0
    for place in (0.0, 0.25, 0.5, 1.0):
        assert outside(np.full((9, 6), place), box) == 0


@pytest.mark.parametrize("s", range(1, 9))
def test_a_few_sides_may_stay_whole_and_at_least_one_is_halved(s):
    assert 0 <= whole_sides(s) < s
    assert whole_sides(s) <= whole_sides(s + 1)
    assert (whole_sides(s) >= 1) == (s > 1)


# --- one record -----------------------------------------------------------------------------------


def test_a_record_more_adds_0_or_1_to_the_answer_wherever_it_lies():
    """Some 2000 neighbours, exactly. The record lies beyond a corner, in one, on a border, or where others are."""
    seen = set()

    @settings(max_examples=200, deadline=None, derandomize=True, database=None)
    @given(st.integers(0, 2**32 - 1))
    def one_record_more(seed):
        rng = np.random.default_rng(seed)
        upper = random_sides(rng, int(rng.integers(1, 12)))
        box = Bounds.of((np.zeros(len(upper)), upper), len(upper))
        X = hard_records(rng, int(rng.integers(1, 12)), upper)
        if rng.random() < 0.3:  # two fullest boxes that hold as many
            X = np.repeat(np.stack([np.zeros(len(upper)), upper]), int(rng.integers(1, 6)), axis=0)
        before = outside(X, box)
        corners = np.where(rng.random((3, len(upper))) < 0.5, -1e300, 1e300)
        for record in (*hard_records(rng, 4, upper), *corners, *X[:2], X.mean(axis=0)):
            change = outside(np.insert(X, int(rng.integers(len(X) + 1)), record, axis=0), box) - before
            assert change in (0, 1)
            seen.add(change)

    one_record_more()
    assert seen == {0, 1}


@pytest.mark.parametrize("d", [5, 8, 40])
def test_one_number_is_released_with_the_noise_of_one_record_and_what_it_cost_is_booked(d):
    noise, ledger = Watching(0), Ledger(1.0)
    rng = Randomness(np.random.default_rng(0), noise)
    engine = engine_of(np.random.default_rng(0).random((50, d)), Bounds.of((0, 1), d))
    ask_fit(engine, 50.0, 3, Epsilon.of(0.1), ledger=ledger, rng=rng)
    ((shape, scale),) = noise.asked
    assert shape == (1, 1)
    assert 10.0 <= scale < 10.0 * (1 + 1e-9)  # 1/ε, whatever the number of features
    assert [(spend.label, spend.epsilon) for spend in ledger.spends] == [(LABEL, Epsilon.of(0.1))]


def test_the_box_is_called_tight_as_often_as_noise_of_one_record_says():
    """A hundred records, of which ten too few lie outside: noise alone makes the box seem tight.

    Seeded: 6000 draws within six deviations of a binomial, where draws without a seed would fail in 2e-9 of all cases.
    """
    d, n, draws = 5, 100, 6000
    out = int(n * constants.MIN_TIGHT_OUTSIDE) - 10
    X = np.zeros((n, d))
    X[:out] = 1.0
    engine, rng = engine_of(X, Bounds.of((0, 1), d)), Randomness.with_seed(1)
    asked = [ask_fit(engine, float(n), MANY, Epsilon.of(0.1), ledger=Ledger(1.0), rng=rng) for _ in range(draws)]
    tight = asked.count(BoxFit.TIGHT)
    least = next(z for z in range(n) if (out + z) / n > constants.MIN_TIGHT_OUTSIDE)

    def deviations(scale):
        """How far this is from integer noise of a scale; it is z or more with e^(-z/scale) / (1 + e^(-1/scale))."""
        chance = math.exp(-least / scale) / (1 + math.exp(-1 / scale))
        return abs(tight - draws * chance) / math.sqrt(draws * chance * (1 - chance))

    assert deviations(10.0) < 6
    assert deviations(10.0 * 2 / 3) > 6
    assert deviations(10.0 * 3 / 2) > 6


@pytest.mark.parametrize("times", [1.0, 8.0], ids=["a box that fits", "a loose box"])
@pytest.mark.parametrize("extra", [0.0, 0.25, 1e300])
@pytest.mark.parametrize("d", [5, 6, 9])
def test_one_record_steers_nothing_but_through_the_noise_of_the_question(d, extra, times):
    """Exact losses of whole fits on neighbours."""
    X = np.random.default_rng(d).random((400, d))
    asked = {"method": "synopsis", "n_clusters": 3, "epsilon": 1.0, "scale": None, "nulls": "midpoint"}
    request = FitRequest(bounds=(0, times), **asked)
    sides = (run_of(request, X), run_of(request, np.vstack([X, np.full(d, extra)])))
    for seed in range(2):
        replayed = replay(*sides, seed)
        assert replayed.holds, replayed.why_not
        assert LABEL in {call.label for call in replayed.calls}


# --- what it says ---------------------------------------------------------------------------------


def verdict(X, box, epsilon=30.0, k=MANY) -> BoxFit:
    """At ε = 30, one record in fifty is noise with a chance below e^-60 of 100 records, and less of more."""
    rng = Randomness.with_seed(0)
    return ask_fit(engine_of(X, box), float(len(X)), k, Epsilon.of(epsilon), ledger=Ledger(epsilon), rng=rng)


def clusters(n: int, d: int, k: int = 8, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.clip(rng.random((k, d))[rng.integers(k, size=n)] + 0.03 * rng.standard_normal((n, d)), 0, 1)


@pytest.mark.parametrize("d", [5, 6, 8, 30, 100])
@pytest.mark.parametrize(("times", "fit"), [(1.0, BoxFit.TIGHT), (8.0, BoxFit.LOOSE), (1000.0, BoxFit.LOOSE)])
def test_clusters_fill_a_box_that_fits_and_lie_in_half_of_the_sides_of_one_that_is_too_wide(d, times, fit):
    assert verdict(clusters(1000, d), Bounds.of((0, times), d)) is fit


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_records_that_are_spread_over_few_features_fill_their_box_too(d):
    X = np.random.default_rng(d).random((2000, d))
    assert verdict(X, Bounds.of((0, 1), d)) is BoxFit.TIGHT
    assert verdict(X, Bounds.of((0, 8), d)) is BoxFit.LOOSE


@SEEDED
@given(st.integers(0, 2**32 - 1))
def test_a_box_four_times_as_wide_as_the_records_is_loose_wherever_they_lie_in_it(seed):
    """An interval of a quarter of a side lies in its lower, middle or upper half."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 20))
    lower = -rng.random(d) * 3
    X = hard_records(rng, 100, np.ones(d))
    assert verdict(X, Bounds.of((lower, lower + 4.0), d)) is BoxFit.LOOSE


def test_two_equal_clusters_in_opposite_corners_fill_the_box_and_one_with_few_outliers_does_not():
    d, n = 6, 1000
    box = Bounds.of((0, 1), d)
    between = (constants.MAX_LOOSE_OUTSIDE + constants.MIN_TIGHT_OUTSIDE) / 2
    for part, fit in ((0.5, BoxFit.TIGHT), (between, BoxFit.UNKNOWN), (0.02, BoxFit.LOOSE)):
        X = np.zeros((n, d))
        X[: int(part * n)] = 1.0
        assert verdict(X, box) is fit


def test_a_column_of_0_and_1_says_nothing_of_the_other_sides():
    X = clusters(1000, 6)
    X[:, 2] = np.random.default_rng(0).integers(0, 2, 1000)
    assert verdict(X, Bounds.of((0, 1), 6)) is BoxFit.TIGHT
    wide = np.where(np.arange(6) == 2, 1.0, 8.0)
    assert verdict(X, Bounds.of((np.zeros(6), wide), 6)) is BoxFit.LOOSE


def test_sides_without_a_width_say_nothing():
    upper = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0])
    X = clusters(1000, 8) * upper
    assert verdict(X, Bounds.of((np.zeros(8), upper), 8)) is BoxFit.TIGHT
    assert verdict(X, Bounds.of((np.zeros(8), 8 * upper), 8)) is BoxFit.LOOSE


def test_a_few_clusters_fill_their_box_though_one_of_them_holds_most_records():
    rng = np.random.default_rng(5)
    X = np.where(rng.random((1000, 1)) < 0.2, 0.9, 0.1) + 0.02 * rng.standard_normal((1000, 6))
    box = Bounds.of((0, 1), 6)
    assert verdict(X, box, k=constants.FEW_CLUSTERS) is BoxFit.TIGHT
    assert verdict(X, box) is BoxFit.UNKNOWN


@SEEDED
@given(st.integers(1, 100), st.floats(0, 1e6))
def test_less_is_asked_of_a_few_clusters_only_where_noise_does_not_reach_there(k, paid):
    least = least_outside(k, paid)
    assert constants.FEW_TIGHT_OUTSIDE <= least <= constants.MIN_TIGHT_OUTSIDE
    if k > constants.FEW_CLUSTERS:
        assert least == constants.MIN_TIGHT_OUTSIDE
    if least < constants.MIN_TIGHT_OUTSIDE:  # in a box that is too wide, Laplace noise reaches there in one fit of 290
        assert math.exp(-least * paid) / 2 <= math.exp(-constants.TIGHT_DOUBT) / 2 * (1 + 1e-9) < 1 / 290


# --- when it is asked -----------------------------------------------------------------------------


@SEEDED
@given(st.floats(-3, 10), st.integers(1, 1000), st.integers(0, 200))
def test_the_share_for_the_question_lies_within_its_limits_and_is_not_spent_on_noise(log_paid, k, d):
    """Up to four features nothing is asked: a zoom among rectangles finds out by itself."""
    paid = 10.0**log_paid
    share = fit_share(paid, k, d)
    narrow = fit_share(paid, k, d, narrows=True)
    if share is None:
        assert narrow is None or narrow > constants.USUAL_FIT_SHARE
        return
    assert narrow == share
    assert d >= 5
    assert constants.MIN_FIT_SHARE <= share <= constants.MAX_FIT_SHARE
    assert share * paid >= constants.LEAST_FIT_SIGNAL
    decides = is_for_a_grid(paid, k, d) or is_for_one_mean(paid, k, d) or (d >= 27 and has_few_clusters(paid, k, d))
    assert share <= constants.USUAL_FIT_SHARE or decides


@pytest.mark.parametrize("d", [5, 12, 26, 60])
def test_with_many_records_the_question_is_asked_for_its_least_share_and_with_few_it_is_not(d):
    assert fit_share(1e9, 3, d) == constants.MIN_FIT_SHARE
    noise = 0.99 * constants.LEAST_FIT_SIGNAL / constants.MAX_FIT_SHARE
    assert fit_share(noise, 3, d) is None
    assert fit_share(0.0, 3, d) is None


def labels_of(X, box, k=3, epsilon=1.0, name="synopsis", n_records=None) -> list[str]:
    ledger = Ledger(epsilon)
    method = make_method(name, n_records=n_records)
    method.run(engine_of(X, box), k, ledger=ledger, rng=Randomness.with_seed(0))
    assert float(ledger.spent) == epsilon
    return [spend.label for spend in ledger.spends]


@pytest.mark.parametrize(
    ("d", "n", "asks"),
    [(1, 3000, False), (4, 3000, False), (1, 500, False), (4, 500, False), (5, 3000, True), (20, 3000, True)],
)
def test_it_is_asked_after_the_number_of_records_and_before_all_else_from_five_features_on(d, n, asks):
    labels = labels_of(clusters(n, d), Bounds.of((0, 1), d))
    assert labels.count(LABEL) == asks
    assert labels[:2] == ["number of records", LABEL] or not asks


@pytest.mark.parametrize("name", ["eugkm", "su-hybrid"])
def test_methods_of_others_do_not_ask_it(name):
    assert LABEL not in labels_of(clusters(3000, 6), Bounds.of((0, 1), 6), name=name)


@pytest.mark.parametrize("d", [6, 20])
def test_in_a_box_that_fits_nothing_is_spent_on_a_zoom_unless_every_side_can_be_looked_at(d):
    """With N·ε of 500 a feature, and of 2000, where some sides may be too wide though most fit."""
    for n, looks in ((500 * d, False), (2000 * d, True)):
        X = clusters(n, d)
        tight, loose = (labels_of(X, Bounds.of((0, times), d)) for times in (1, 8))
        assert any(label == SIDE for label in tight) == looks
        assert any(label.startswith("zoom") for label in tight) == looks
        assert any(label.startswith("zoom") for label in loose)


@pytest.mark.parametrize("wide", [5, 100])
@pytest.mark.parametrize("times", [1, 8])
def test_a_fit_may_have_more_features_than_an_array_has_axes(wide, times):
    upper = np.where(np.arange(100) % (100 // wide) == 0, 1.0, 0.0)
    X = clusters(2000, 100) * upper
    assert LABEL in labels_of(X, Bounds.of((np.zeros(100), times * upper), 100))
