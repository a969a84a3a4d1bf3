from __future__ import annotations

import math

import numpy as np
import pytest

from dpkmeans.reproduction.estimators import (
    FAILS,
    HOLDS,
    OPEN,
    at_least,
    at_most,
    chao,
    mean_and_error,
    optima_needed,
    prior_bound,
    prior_factor,
    ratio_and_error,
)


def test_a_verdict_needs_three_standard_errors_to_say_that_a_claim_fails():
    assert at_most(0.9, 0.1, 1.0) == HOLDS
    assert at_most(1.2, 0.1, 1.0) == OPEN
    assert at_most(1.4, 0.1, 1.0) == FAILS
    assert at_least(0.6, 0.1, 1.0) == FAILS
    assert at_most(1.1, math.nan, 1.0) == OPEN


def test_the_factor_of_theorem_4_is_one_at_the_controller_and_two_at_the_mean():
    assert prior_factor(1.0, 0.0) == pytest.approx(1.0)
    assert prior_factor(0.0, 0.3) == pytest.approx(2.0)


def test_the_optima_that_theorem_3_needs_are_those_that_make_its_bound_equal_to_the_degree():
    for degree, n, d in ((0.78, 5000, 2), (0.97, 26733, 10)):
        assert prior_bound(optima_needed(degree, n, d), n, d) == pytest.approx(degree)
    assert optima_needed(0.9, 100, 1) == math.inf


def test_chaos_estimate_adds_to_what_was_seen_only_where_something_was_seen_once():
    assert chao(["a", "a", "b", "b"]) == (2, 2)
    assert chao(["a", "b", "b", "c"]) == (3, 3 + 4 / 2)
    assert chao(["a", "b", "c"]) == (3, 3 + 3)


def test_errors_count_runs_and_not_the_epsilons_within_a_run():
    values = np.array([[1.0, 1.0, 1.0], [3.0, 3.0, 3.0]])
    assert mean_and_error(values) == (2.0, pytest.approx(1.0))
    ratio, error = ratio_and_error(2 * values, values)
    assert (ratio, error) == (2.0, pytest.approx(0.0, abs=1e-12))
