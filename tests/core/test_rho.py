from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpkmeans.core.epsilon import Epsilon, Spend
from dpkmeans.core.rho import FEMTO, Rho
from dpkmeans.errors import BudgetError

budgets = st.integers(1, 1000 * FEMTO).map(Rho)


@given(budgets, st.integers(1, 500))
def test_equal_shares_of_rho_add_up_to_the_whole_and_differ_by_one_femto_at_most(total, n):
    if total.femto < n:
        with pytest.raises(BudgetError, match="cannot be split"):
            total.over(n)
        return
    shares = total.over(n)
    assert len(shares) == n
    assert sum(shares, Rho(0)) == total
    assert max(shares).femto - min(shares).femto <= 1


@given(budgets, st.floats(0, 1, exclude_min=True))
def test_a_share_of_rho_is_never_rounded_up(total, part):
    exact = Fraction(part) * total.femto
    if exact < 1:
        with pytest.raises(BudgetError, match="larger rho"):
            total.share(part)
        return
    assert exact - 1 < total.share(part).femto <= exact


@given(st.floats(1e-15, 1000))
def test_what_is_written_as_rho_is_never_rounded_up(value):
    """And is off by less than a femto, or than its fifteenth digit: so it goes into a float and out of it unchanged."""
    budget, written = Rho.of(value), Fraction(repr(value))
    assert budget.fraction <= written < budget.fraction + max(Fraction(1, FEMTO), written / 10**14)
    assert Rho.of(float(budget)) == budget


@given(budgets)
def test_a_rho_is_printed_in_full(budget):
    assert Fraction(str(budget)) == budget.fraction


def test_a_rho_is_taken_as_written_and_is_its_own_rho():
    assert Rho.of(0.02) == Rho(20 * 10**12) == Rho.of(Rho.of(0.02))
    assert str(Rho.of(0.02)) == "0.02"
    assert float(Rho.of(0.3)) == 0.3
    assert Rho.of(0.1) + Rho.of(0.2) == Rho.of(0.3)
    assert Rho.of(0.3) - Rho.of(0.1) == Rho.of(0.2)
    assert Rho(1) < Rho(2)


@pytest.mark.parametrize(
    "value", [0, -1, float("nan"), float("inf"), 1e-16, 1001, 10**400, "much", None, Rho(0)], ids=str
)
def test_an_unusable_rho_is_refused_by_name(value):
    with pytest.raises(BudgetError, match="cap"):
        Rho.of(value, name="cap")


@pytest.mark.parametrize("femto", [float("nan"), 1.5, True, "1", np.int64(3)])
def test_a_rho_is_a_whole_number_of_femtos(femto):
    with pytest.raises(BudgetError, match="whole number of femtos"):
        Rho(femto)


def test_a_spend_is_in_epsilon_or_in_rho():
    assert Spend("x", rho=Rho(1)).composition == "sequential"
    with pytest.raises(BudgetError, match="in both"):
        Spend("x", (Epsilon(1),), Rho(1))
    for nothing in (Spend, lambda label: Spend(label, rho=Rho(0))):
        with pytest.raises(BudgetError, match="positive"):
            nothing("x")
