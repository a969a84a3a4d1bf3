"""The second count of the records: when it is asked, what one record changes, and how both counts are put together."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.synopsis.watching import Watching

from dpkmeans.audit.hard_pairs import run_of
from dpkmeans.audit.replay import replay
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.session import FitRequest
from dpkmeans.synopsis import settings as constants
from dpkmeans.synopsis.recount import recount
from dpkmeans.synopsis.weighted_points import NoisyTotal
from dpkmeans.synopsis.zoom import Budget, price_of_halving

EPSILON = Epsilon.of(0.1)
FIRST = EPSILON.share(constants.COUNT_SHARE)
LABEL = "number of records, again"

pytestmark = pytest.mark.filterwarnings("ignore::dpkmeans.errors.WeakSignalWarning")


def asked_again(first: float, n: int = 1500, d: int = 3, *, public=False, ledger=None, rng=None) -> NoisyTotal:
    """What comes of a first count of so many records."""
    engine = MemoryEngine.of_records(np.full((n, d), 0.5), Bounds.of((0, 1), d), n_threads=1)
    total = NoisyTotal(first, 0.0) if public else NoisyTotal.released(first, FIRST)
    budget = Budget(EPSILON, first, math.sqrt(total.variance))
    rng = Randomness.with_seed(0) if rng is None else rng
    return recount(engine, total, budget, d, ledger=Ledger(0.1) if ledger is None else ledger, rng=rng)


def spends(first: float, **options) -> list[tuple[str, Epsilon]]:
    ledger = Ledger(0.1)
    asked_again(first, ledger=ledger, **options)
    return [(spend.label, spend.epsilon) for spend in ledger.spends]


def price(n: float) -> float:
    return price_of_halving(Budget(EPSILON, n, math.sqrt(2) / float(FIRST)), constants.RECOUNT_FEATURES)


def test_records_are_counted_again_where_noise_may_be_why_there_is_no_zoom():
    enough = next(n for n in range(1, 10_000) if price(n) > 0)
    for first in (0.7 * enough, enough - 1.0):
        assert spends(first) == [(LABEL, EPSILON.share(constants.RECOUNT_SHARE))]
    assert spends(float(enough)) == []
    assert spends(1.0) == []  # nor where there are too few in any case


@pytest.mark.parametrize(
    ("first", "options"),
    [(800.0, {"public": True}), (800.0, {"d": 2}), (800.0, {"d": 4}), (1e5, {})],
    ids=["a public number", "two features", "four features", "many records"],
)
def test_records_are_not_counted_again_where_nothing_hangs_on_it(first, options):
    assert spends(first, **options) == []
    assert asked_again(first, **options).value == first


def test_a_share_of_less_than_a_nano_epsilon_is_not_spent():
    ledger, epsilon = Ledger(1.0), Epsilon(10)
    total = NoisyTotal(3e9, 2 * (1e10) ** 2)
    budget = Budget(epsilon, total.value, 1e10)
    engine = MemoryEngine.of_records(np.full((9, 3), 0.5), Bounds.of((0, 1), 3), n_threads=1)
    assert recount(engine, total, budget, 3, ledger=ledger, rng=Randomness.with_seed(0)) is total
    assert ledger.spends == ()


def test_the_second_count_has_the_noise_of_one_record_and_both_are_weighted_by_their_precision():
    """Exactly, for a seeded draw; and 2000 seeded draws have the variance that is stated, within six deviations.

    The square of Laplace noise has a variance of five times its mean squared; draws without a seed would fail in about
    one case of 10^8, as the tails of that square are heavier than a normal law's.
    """
    noise, first, n = Watching(0), 700.0, 1500
    asked_again(first, n, rng=Randomness(np.random.default_rng(0), noise))
    ((shape, scale),) = noise.asked
    assert shape == ()
    assert 1.0 <= scale * float(EPSILON.share(constants.RECOUNT_SHARE)) < 1 + 1e-6
    one, two = (float(share) ** 2 / 2 for share in (FIRST, EPSILON.share(constants.RECOUNT_SHARE)))
    rng, draws = Randomness.with_seed(3), 2000
    totals = [asked_again(first, n, rng=rng) for _ in range(draws)]
    assert all(total.variance == pytest.approx(1 / (one + two)) for total in totals)
    seconds = np.array([(total.value * (one + two) - first * one) / two for total in totals])
    squares = float(((seconds - n) ** 2).mean())

    def deviations(times: float) -> float:
        """How far this is from noise of so many times the scale."""
        return abs(squares - times**2 / two) / (times**2 / two * math.sqrt(5 / draws))

    assert deviations(1.0) < 6
    assert deviations(2 / 3) > 6
    assert deviations(3 / 2) > 6


@pytest.mark.parametrize("extra", [0.0, 0.3, 1e300])
def test_one_record_steers_nothing_but_through_the_noise_of_both_counts(extra):
    """Exact losses of whole fits on neighbours, in a box four times as wide as the records."""
    X = np.random.default_rng(3).random((1000, constants.RECOUNT_FEATURES))
    asked = {"method": "synopsis", "n_clusters": 3, "epsilon": 0.1, "scale": None, "nulls": "midpoint"}
    request = FitRequest(bounds=(0, 4), **asked)
    sides = (run_of(request, X), run_of(request, np.vstack([X, np.full(constants.RECOUNT_FEATURES, extra)])))
    labels = set()
    for seed in range(6):
        replayed = replay(*sides, seed)
        assert replayed.holds, replayed.why_not
        labels |= {call.label for call in replayed.calls}
    assert LABEL in labels
