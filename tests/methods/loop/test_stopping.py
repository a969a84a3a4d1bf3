from __future__ import annotations

import numpy as np
import pytest

from dpkmeans.core.engine import CellStatistics
from dpkmeans.core.exact import Exact
from dpkmeans.errors import MethodError
from dpkmeans.methods.loop.stopping import AfterPlan, Repeats, check_max_iter


def changed(n):
    return Exact(CellStatistics(np.ones(1), np.ones((1, 1)), 0.0, float(n)))


def test_a_repeated_assignment_ends_the_papers_iteration():
    assert Repeats().ends(changed(0))
    assert not Repeats().ends(changed(1))


def test_a_plan_is_not_ended_by_the_records():
    assert not AfterPlan().ends(changed(0))
    assert not AfterPlan().ends(changed(5))


@pytest.mark.parametrize("max_iter", [1, 300, np.int64(5)])
def test_a_whole_number_of_steps_is_taken(max_iter):
    assert check_max_iter(max_iter) == max_iter
    assert type(check_max_iter(max_iter)) is int


@pytest.mark.parametrize("max_iter", [0, -1, True, 2.5, "10", None, float("nan"), float("inf"), [3]])
def test_any_other_max_iter_is_refused(max_iter):
    with pytest.raises(MethodError, match="max_iter must be a whole number of at least 1"):
        check_max_iter(max_iter)
