from __future__ import annotations

from decimal import ROUND_UP, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpkmeans.core.epsilon import NANO, Epsilon, format_epsilon
from dpkmeans.errors import BudgetError

budgets = st.integers(1, 1000 * NANO).map(Epsilon)


@given(budgets, st.integers(1, 500))
def test_equal_shares_add_up_to_the_whole_and_differ_by_one_nano_at_most(total, n):
    if total.nano < n:
        with pytest.raises(BudgetError, match="cannot be split"):
            total.over(n)
        return
    shares = total.over(n)
    assert len(shares) == n
    assert sum(shares, Epsilon(0)) == total
    assert max(shares).nano - min(shares).nano <= 1


@given(budgets, st.floats(0, 1, exclude_min=True))
def test_a_share_and_the_rest_are_the_whole_and_a_share_is_never_rounded_up(total, part):
    exact = Fraction(part) * total.nano
    if exact < 1:
        with pytest.raises(BudgetError, match="larger epsilon"):
            total.share(part)
        return
    share = total.share(part)
    assert exact - 1 < share.nano <= exact
    assert share + (total - share) == total


@given(st.floats(1e-9, 1000))
def test_what_is_written_is_never_rounded_up(value):
    assert Epsilon.of(value).fraction <= Fraction(repr(value))
    assert Fraction(repr(value)) - Epsilon.of(value).fraction < Fraction(1, NANO)


def test_a_decimal_number_is_taken_as_written():
    assert Epsilon.of(0.1) == Epsilon(100_000_000)
    assert Epsilon.of(0.1) + Epsilon.of(0.2) == Epsilon.of(0.3)
    assert Epsilon.of(np.float64(0.7)).fraction == Fraction(7, 10)
    assert float(Epsilon.of(0.3)) == 0.3
    assert str(Epsilon.of(0.25)) == "0.25"


def test_the_callers_decimal_context_changes_nothing():
    with localcontext() as context:
        context.prec, context.rounding = 2, ROUND_UP
        assert Epsilon.of(0.135) == Epsilon(135_000_000)
        assert Epsilon.of(1e-9) == Epsilon(1)
        assert format_epsilon(0.135) == "0.135"


@given(st.integers(-(10**13), 10**13).map(Epsilon))
def test_a_budget_is_printed_to_the_last_nano(budget):
    assert Fraction(str(budget)) == budget.fraction
    assert format_epsilon(float(budget)) == str(budget)


@given(st.floats(0, 1e6))
def test_what_is_printed_of_an_epsilon_is_never_below_it(value):
    printed = Fraction(format_epsilon(value))
    assert Fraction(repr(value)) <= printed < Fraction(repr(value)) + Fraction(1, NANO)


@pytest.mark.parametrize(("value", "text"), [(1.0000049, "1.0000049"), (123.456789123, "123.456789123"), (1.0, "1")])
def test_a_budget_that_rounding_would_make_smaller_is_printed_in_full(value, text):
    assert str(Epsilon.of(value)) == format_epsilon(value) == text


def test_an_epsilon_is_its_own_epsilon():
    assert Epsilon.of(Epsilon(5)) == Epsilon(5)


@pytest.mark.parametrize(
    "value", [0, -1, float("nan"), float("inf"), -float("inf"), 1e-12, 1001, 10**400, "much", None, Epsilon(0)], ids=str
)
def test_an_unusable_epsilon_is_refused_by_name(value):
    with pytest.raises(BudgetError, match="step_epsilon"):
        Epsilon.of(value, name="step_epsilon")


@pytest.mark.parametrize("part", [0.0, -0.5, 1.5, float("nan")])
def test_a_share_outside_of_zero_to_one_is_refused(part):
    with pytest.raises(BudgetError, match="above 0 and at most 1"):
        Epsilon.of(1.0).share(part)


def test_a_split_into_no_shares_is_refused():
    with pytest.raises(BudgetError, match="1 or more"):
        Epsilon.of(1.0).over(0)


@pytest.mark.parametrize("nano", [float("nan"), 1.5, True, "1", np.int64(3)])
def test_a_budget_is_a_whole_number_of_nanos(nano):
    with pytest.raises(BudgetError, match="whole number of nanos"):
        Epsilon(nano)
