from __future__ import annotations

import copy
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpkmeans import DPKMeans, make_synopsis
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.errors import BudgetError
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import SecureNoise

RECORDS = np.random.default_rng(0).random((10_000, 2))


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
    with pytest.raises(BudgetError, match="epsilon is missing"):
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


# --- reservations -----------------------------------------------------------------------------------


def model(ledger: Ledger, **options) -> DPKMeans:
    return DPKMeans(2, **({"bounds": (0, 1), "epsilon": 1.0, "method": "su", "ledger": ledger} | options))


@pytest.mark.parametrize(
    "act",
    [
        lambda ledger: model(ledger).fit(RECORDS),
        lambda ledger: model(ledger, bounds=None, bounds_epsilon=0.1, scale=None).fit(RECORDS),
        lambda ledger: make_synopsis(RECORDS, 1.0, (0, 1), ledger=ledger),
    ],
    ids=["fit", "fit with estimated bounds", "make_synopsis"],
)
def test_a_fit_that_the_ledger_cannot_pay_in_full_is_refused_before_anything_is_spent(act, monkeypatch):
    ledger = Ledger(5.0)
    ledger.spend(Epsilon.of(4.5), "earlier")
    monkeypatch.setattr(SecureNoise, "laplace", None)
    with pytest.raises(BudgetError, match=r"'the whole fit' asks for epsilon=1, but only 0.5 of the promised 5"):
        act(ledger)
    assert ledger.spent == Epsilon.of(4.5)
    assert ledger.remaining == Epsilon.of(0.5)


@pytest.mark.filterwarnings("ignore::dpkmeans.errors.NotConvergedWarning")
def test_what_a_finished_fit_did_not_draw_is_free_again():
    ledger = Ledger(2.0)
    release = model(ledger, method="posterior", guarantee="paper", epsilon=1.4, max_iter=3).fit(RECORDS).release_
    assert 0 < release.epsilon_spent < 1.4
    assert float(ledger.spent) == release.epsilon_spent
    assert ledger.remaining == Epsilon.of(2.0) - ledger.spent
    assert ledger.spends == release.spends


def test_of_a_fit_that_fails_only_what_was_drawn_is_spent(monkeypatch):
    ledger, draws = Ledger(1.0), []
    laplace = SecureNoise.laplace

    def interrupt(self, values, scale):
        draws.append((ledger.spent, ledger.remaining))
        if len(draws) == 2:
            raise KeyboardInterrupt
        return laplace(self, values, scale)

    monkeypatch.setattr(SecureNoise, "laplace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model(ledger).fit(RECORDS)
    assert [left for _, left in draws] == [Epsilon(0)] * 2  # all is reserved while the fit lasts
    assert ledger.spent == draws[-1][0] == sum((spend.epsilon for spend in ledger.spends), Epsilon(0))
    assert Epsilon(0) < ledger.spent < Epsilon.of(1.0)
    assert ledger.remaining == Epsilon.of(1.0) - ledger.spent


def test_a_refused_guarantee_or_bad_data_leaves_nothing_reserved():
    ledger = Ledger(1.0)
    for options, records in (({"random_state": 1}, RECORDS), ({}, np.full((3, 2), np.nan))):
        with pytest.raises(ValueError, match=r"labelled|NaN"):
            model(ledger, **options).fit(records)
    assert ledger.remaining == Epsilon.of(1.0)


def test_of_two_fits_at_once_the_ledger_pays_for_no_more_than_it_has():
    ledger, together = Ledger(1.5), threading.Barrier(2)

    def fit(_: int) -> bool:
        together.wait()
        try:
            model(ledger).fit(RECORDS)
        except BudgetError:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        granted = list(pool.map(fit, range(2)))
    assert sorted(granted) == [False, True]
    assert ledger.spent == Epsilon.of(1.0)


def test_a_reservation_is_held_in_every_ledger_above_and_freed_in_all():
    top = Ledger(1.0)
    middle = Ledger(2.0, parent=top)
    with pytest.raises(BudgetError), middle.account(1.5):
        raise AssertionError("the ledger above cannot pay")
    with middle.account(0.75) as account:
        with pytest.raises(BudgetError), top.account(0.5):
            raise AssertionError("three quarters are reserved")
        own = Ledger(parent=account)
        own.spend(Epsilon.of(0.25), "counts")
        with pytest.raises(BudgetError, match=r"only epsilon=0.5 left of what it reserved"):
            own.spend(Epsilon.of(0.6), "sums")
    assert top.spent == middle.spent == Epsilon.of(0.25)
    assert (top.remaining, middle.remaining) == (Epsilon.of(0.75), Epsilon.of(1.75))
    with pytest.raises(BudgetError):
        own.spend(Epsilon(1), "after the end")


def test_a_copy_of_a_ledger_is_the_ledger_and_no_second_budget():
    ledger = Ledger(1.0)
    assert copy.copy(ledger) is ledger
    assert copy.deepcopy(ledger) is ledger
