"""Searches that climb towards the largest loss: none goes above its budget, and a fault is climbed to."""

from __future__ import annotations

import pytest
from tools.climb import ONE, SEEDS, STEP, climb, noise, searches

from dpkmeans.audit.mutants import Thin
from dpkmeans.core.query import Sensitivity
from dpkmeans.privacy.mechanisms import Laplace


@pytest.mark.parametrize("name", searches())
def test_a_search_for_the_largest_loss_stays_within_the_budget(name: str) -> None:
    found = climb(name, searches()[name], examples=8)
    assert found.cases >= 8
    assert 0 < found.share <= 1


def test_a_search_findsnoise_that_is_too_small() -> None:
    thin = Thin(Laplace, ONE, 1.2)
    with pytest.raises(AssertionError, match="thin"):
        climb("thin", (SEEDS, lambda seed: noise(thin, [STEP], Sensitivity(l1=STEP), seed)), examples=40)
