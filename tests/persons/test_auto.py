"""A private choice of how many rows of a person count."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.persons.test_doors import visits

from dpkmeans import DPKMeans, Person
from dpkmeans.core.exact import reveal
from dpkmeans.engines.persons import CANDIDATES, empty_histogram, quantile_scores

SIZES = st.lists(st.integers(1, 150), max_size=30)


def scores_of(sizes):
    histogram = empty_histogram()
    for size in sizes:
        histogram[min(size, len(histogram) - 1)] += 1
    return quantile_scores(histogram)


@given(sizes=SIZES, more=st.integers(1, 150))
def test_a_person_moves_no_score_and_no_two_scores_apart_by_more_than_declared(sizes, more):
    before, after = scores_of(sizes), scores_of([*sizes, more])
    moved = reveal(after, why="a test looks") - reveal(before, why="a test looks")
    assert np.abs(moved).max() <= before.sensitivity.linf
    assert moved.max() - moved.min() <= before.sensitivity.gap


def test_the_gap_is_reached_so_a_smaller_one_would_be_wrong():
    """One person with one row, twenty with 1000 rows are within no candidate: going from few to many flips the sign."""
    sizes = [1] * 20 + [2] * 1000
    moved = reveal(scores_of([*sizes, 100]), why="a test looks") - reveal(scores_of(sizes), why="a test looks")
    assert moved.max() - moved.min() == 38


def test_with_a_large_epsilon_the_quantile_itself_is_chosen():
    sizes = np.r_[np.ones(90, int), np.full(5, 5), np.full(5, 60)]
    assert CANDIDATES[int(np.argmax(reveal(scores_of(sizes), why="a test looks")))] == 5
    frame = visits()
    model = DPKMeans(3, epsilon=900.0, bounds=(0, 1), unit=Person("who", at_most="auto")).fit(frame)
    found, counts = model.release_.guarantee.unit.at_most, frame.who.value_counts()
    below = max(c for c in CANDIDATES if c < found)
    assert (counts <= below).mean() < 0.95 <= (counts <= found).mean() or (counts <= found).mean() > 0.93
