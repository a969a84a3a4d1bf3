"""Bounds for epsilon. All draws are seeded: a test here passes always or never."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpkmeans.audit.auditor import lower_bound
from dpkmeans.audit.scores import column
from dpkmeans.audit.statistics import Event, choose_event, epsilon_lower_bound, lower_limit, measure, upper_limit


@pytest.mark.parametrize(("hits", "runs"), [(0, 10), (3, 10), (10, 10), (700, 1000)])
def test_the_ends_are_those_of_clopper_and_pearson(hits, runs):
    exact = stats.binomtest(hits, runs).proportion_ci(confidence_level=0.9, method="exact")
    assert lower_limit(hits, runs, 0.05) == pytest.approx(exact.low)
    assert upper_limit(hits, runs, 0.05) == pytest.approx(exact.high)


def test_an_end_is_wrong_no_more_often_than_it_says():
    chance, runs, alpha = 0.13, 60, 0.05
    hits = np.arange(runs + 1)
    weight = stats.binom.pmf(hits, runs, chance)
    assert sum(w for h, w in zip(hits, weight, strict=True) if lower_limit(h, runs, alpha) > chance) <= alpha
    assert sum(w for h, w in zip(hits, weight, strict=True) if upper_limit(h, runs, alpha) < chance) <= alpha


def test_the_bound_is_wrong_no_more_often_than_it_says():
    p, other, runs, alpha = 0.3, 0.1, 80, 0.05
    hits = np.arange(runs + 1)
    wrong = 0.0
    for h, w in zip(hits, stats.binom.pmf(hits, runs, p), strict=True):
        for g, v in zip(hits, stats.binom.pmf(hits, runs, other), strict=True):
            wrong += w * v * (epsilon_lower_bound(int(h), int(g), runs, runs, alpha) > math.log(p / other))
    assert wrong <= alpha


def test_no_hits_and_all_hits_show_what_they_can_and_no_more():
    assert epsilon_lower_bound(0, 0, 100, 100, 0.05) == 0.0
    assert epsilon_lower_bound(100, 100, 100, 100, 0.05) == 0.0
    apart = epsilon_lower_bound(5000, 0, 5000, 5000, 0.05)
    assert 7 < apart < math.log(5000)


@pytest.mark.parametrize("likelier_with", [False, True])
@pytest.mark.parametrize("tail", ["at least", "at most"])
def test_the_event_is_found_in_both_directions_and_both_tails(likelier_with, tail):
    rng = np.random.default_rng(3)
    often, never = rng.normal(4 if tail == "at least" else -4, 1, 500), rng.normal(0, 1, 500)
    sides = (never, often) if likelier_with else (often, never)
    event = choose_event(*sides, 0.05)
    bound = measure(event, *sides, 0.05)
    assert bound.epsilon > 2
    assert (bound.frequency_with > bound.frequency) == event.likelier_with


def test_a_gap_is_found_among_more_scores_than_thresholds_are_tried():
    rng = np.random.default_rng(4)
    without, with_record = rng.random(20_000), rng.random(20_000)
    with_record[:10_000] += 5
    assert measure(choose_event(without, with_record, 0.05), without, with_record, 0.05).epsilon > 7


def test_equal_data_sets_show_nothing_although_the_event_was_chosen_to_look_bad():
    rng = np.random.default_rng(5)
    bounds = [lower_bound(column(0, "x"), rng.random((200, 1)), rng.random((200, 1)), 0.05).epsilon for _ in range(400)]
    assert np.mean(np.array(bounds) > 0) <= 0.05


def test_the_half_that_chooses_the_event_has_no_say_in_the_bound():
    """The first half of the runs separates perfectly, the second not at all."""
    without, with_record = np.zeros((400, 1)), np.zeros((400, 1))
    with_record[:200] = 1.0
    bound = lower_bound(column(0, "x"), without, with_record, 0.05)
    assert bound.epsilon == 0.0
    assert bound.frequency_with == 0.0


def test_a_randomised_response_shows_its_epsilon_and_never_more():
    """With 20 000 runs a side; true epsilon 1."""
    rng = np.random.default_rng(6)
    truth = math.e / (1 + math.e)
    bounds = []
    for _ in range(20):
        without, with_record = rng.random((20_000, 1)) < 1 - truth, rng.random((20_000, 1)) < truth
        bounds.append(lower_bound(column(0, "answer"), without.astype(float), with_record.astype(float), 0.01).epsilon)
    assert min(bounds) > 0.85
    assert max(bounds) <= 1.0


def test_an_event_says_in_words_what_it_is():
    assert str(Event(0.5, "at most", True)) == "at most 0.5"
