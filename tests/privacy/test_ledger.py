from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpkmeans.core.epsilon import Epsilon
from dpkmeans.errors import BudgetError
from dpkmeans.privacy.ledger import Ledger


def test_entries_add_up_and_keep_their_order():
    ledger = Ledger(1.0)
    ledger.spend(Epsilon.of(0.25), "counts")
    ledger.spend(Epsilon.of(0.5), "sums")
    assert [spend.label for spend in ledger.spends] == ["counts", "sums"]
    assert ledger.spent == Epsilon.of(0.75)
    assert ledger.remaining == Epsilon.of(0.25)


def test_disjoint_cells_cost_their_largest_part():
    ledger = Ledger()
    ledger.spend_parallel([Epsilon.of(0.1), Epsilon.of(0.3), Epsilon.of(0.2)], "zones")
    ledger.spend_parallel([Epsilon.of(0.2)] * 3, "zones")
    assert ledger.spent == Epsilon.of(0.5)
    assert [spend.composition for spend in ledger.spends] == ["parallel", "parallel"]


def test_a_spend_on_all_records_is_sequential():
    ledger = Ledger()
    ledger.spend(Epsilon.of(0.1), "counts")
    assert ledger.spends[0].composition == "sequential"


def test_a_spend_past_the_promise_is_refused_and_leaves_no_entry():
    ledger = Ledger(1.0)
    ledger.spend(Epsilon.of(0.9), "first")
    with pytest.raises(BudgetError, match=r"'second' asks for epsilon=0.2, but only 0.1"):
        ledger.spend(Epsilon.of(0.2), "second")
    assert ledger.spent == Epsilon.of(0.9)
    ledger.spend(Epsilon.of(0.1), "third")
    assert ledger.remaining == Epsilon(0)


def test_one_nano_past_the_promise_is_too_much():
    ledger = Ledger(Epsilon(10))
    with pytest.raises(BudgetError):
        ledger.spend(Epsilon(11), "all")
    ledger.spend(Epsilon(10), "all")
    with pytest.raises(BudgetError):
        ledger.spend(Epsilon(1), "more")


@given(st.integers(1, 10**9).map(Epsilon), st.integers(1, 60))
def test_the_shares_of_a_promise_can_all_be_spent_and_nothing_after_them(total, n):
    n = min(n, total.nano)
    ledger = Ledger(total)
    for share in total.over(n):
        ledger.spend(share, "step")
    assert ledger.spent == total
    with pytest.raises(BudgetError):
        ledger.spend(Epsilon(1), "more")


@pytest.mark.parametrize("parts", [(), (Epsilon(0),), (Epsilon(5), Epsilon(0)), (Epsilon(-1),)], ids=str)
def test_a_spend_that_is_not_positive_in_every_part_is_refused(parts):
    ledger = Ledger(1.0)
    with pytest.raises(BudgetError, match="positive"):
        ledger.spend_parallel(parts, "odd")
    assert ledger.spends == ()


def test_without_a_promise_everything_is_recorded_and_nothing_remains_to_be_asked_for():
    ledger = Ledger()
    ledger.spend(Epsilon.of(900.0), "much")
    ledger.spend(Epsilon.of(900.0), "much")
    assert ledger.spent == Epsilon.of(900.0) + Epsilon.of(900.0)
    with pytest.raises(BudgetError, match="none was given"):
        _ = ledger.remaining


def test_a_parent_sees_every_spend():
    parent = Ledger(1.0)
    for _ in range(2):
        Ledger(0.5, parent=parent).spend(Epsilon.of(0.5), "run")
    assert parent.spent == Epsilon.of(1.0)


def test_a_refusal_by_the_parent_leaves_no_entry_in_either():
    parent = Ledger(0.3)
    child = Ledger(1.0, parent=parent)
    with pytest.raises(BudgetError):
        child.spend(Epsilon.of(0.5), "run")
    assert parent.spends == child.spends == ()


def test_threads_together_never_pass_the_promise():
    parent = Ledger(Epsilon(100))

    def run(_: int) -> bool:
        try:
            Ledger(parent=parent).spend(Epsilon(1), "run")
        except BudgetError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        granted = sum(pool.map(run, range(400)))
    assert granted == 100
    assert parent.spent == Epsilon(100)
