"""The (epsilon, delta) that the audit claims for Gaussian noise, and the bound with a delta."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpkmeans.audit.gaussian_targets import STEP, delta_of
from dpkmeans.audit.statistics import Event, choose_event, epsilon_lower_bound, measure


@pytest.mark.parametrize("rho", [0.005, 0.5, 4.5])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0])
def test_the_claimed_delta_is_that_of_gaussian_noise(rho, epsilon):
    """At deviations of 20 and more steps the discrete law is close to the normal one, whose curve is known."""
    move = math.sqrt(2 * rho)
    known = stats.norm.sf(epsilon / move - move / 2) - math.exp(epsilon) * stats.norm.sf(epsilon / move + move / 2)
    assert delta_of(rho, epsilon) == pytest.approx(known, rel=1e-3, abs=2e-12)
    assert STEP / move > 20


def test_a_delta_comes_off_the_likelier_frequency():
    plain, less = (epsilon_lower_bound(5000, 1000, 10_000, 10_000, 0.05, delta) for delta in (0.0, 0.2))
    assert less == pytest.approx(math.log(math.exp(plain) - 0.2 / 0.1083), abs=0.02)
    assert epsilon_lower_bound(5000, 1000, 10_000, 10_000, 0.05, 0.5) == 0.0


def test_an_event_that_delta_explains_shows_nothing():
    rng = np.random.default_rng(0)
    without, with_record = rng.normal(0, 1, 20_000), rng.normal(0.3, 1, 20_000)
    delta = delta_of(0.045, 0.045)  # of a move by 0.3 deviations
    event = choose_event(without[:10_000], with_record[:10_000], 0.01, delta)
    assert measure(event, without[10_000:], with_record[10_000:], 0.01, delta).epsilon <= 0.045
    assert measure(Event(0.0, "at least", True), without, with_record, 0.01).epsilon > 0.1
