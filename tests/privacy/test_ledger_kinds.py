"""Ledgers in memory whose promise is in (epsilon, delta) or in rho."""

from __future__ import annotations

import pytest

from dpkmeans.core.conversion import capacity, epsilon_of
from dpkmeans.core.epsilon import Epsilon, Spend
from dpkmeans.core.privacy import Loss, Privacy
from dpkmeans.core.rho import Rho
from dpkmeans.errors import BudgetError, MethodError
from dpkmeans.privacy.ledger import Ledger, PerUnit, ledger_of_records

HALF, TENTH = Epsilon.of(0.5), Epsilon.of(0.1)


def test_a_ledger_in_rho_adds_up_rhos_and_half_the_squares_of_pure_spends():
    ledger = Ledger(rho=0.02)
    ledger.spend_rho(Rho.of(0.01), "sums")
    ledger.spend(TENTH, "counts")
    assert ledger.loss == Loss(rho=Rho.of(0.015))
    assert ledger.remaining_rho == Rho.of(0.005)
    assert ledger.remaining == TENTH
    with pytest.raises(BudgetError, match=r"only rho=0\.005 of the promised rho=0\.02"):
        ledger.spend_rho(Rho.of(0.005) + Rho(1), "sums")
    with pytest.raises(BudgetError, match="only rho"):
        ledger.spend(TENTH + Epsilon(1), "counts")
    ledger.spend_rho(Rho.of(0.005), "the rest")
    assert ledger.remaining == Epsilon(0)
    with pytest.raises(BudgetError, match="at some delta only"):
        _ = ledger.spent


def test_a_ledger_in_epsilon_and_delta_gives_all_to_pure_spends_or_what_is_left_to_rho():
    pure = Ledger(1.0, delta=1e-6)
    pure.spend(Epsilon.of(1.0), "all")
    assert (pure.spent, pure.remaining) == (Epsilon.of(1.0), Epsilon(0))
    with pytest.raises(BudgetError, match="promised epsilon=1 at delta=1e-06"):
        pure.spend_rho(Rho(1), "one femto")
    mixed = Ledger(1.0, delta=1e-6)
    mixed.spend(HALF, "counts")
    rho = mixed.remaining_rho
    assert rho == capacity(HALF, 1e-6)
    mixed.spend_rho(rho, "sums")
    assert mixed.spent == HALF + epsilon_of(rho, 1e-6) == Epsilon.of(1.0)
    assert mixed.remaining_rho == Rho(0)
    with pytest.raises(BudgetError, match="only 0 of"):
        mixed.spend(Epsilon(1), "one nano")
    assert len(mixed.spends) == 2


def test_a_ledger_without_a_promise_takes_both_kinds_and_has_nothing_to_remain():
    ledger = Ledger()
    ledger.spend_rho(Rho(5), "x")
    ledger.spend(HALF, "y")
    assert ledger.loss == Loss(HALF, Rho(5))
    with pytest.raises(BudgetError, match="epsilon"):
        _ = ledger.remaining_rho
    with pytest.raises(BudgetError, match="delta"):
        _ = Ledger(1.0).remaining_rho


@pytest.mark.parametrize(
    ("cap", "promised"),
    [
        (Privacy(rho=Rho.of(0.02)), Privacy(rho=Rho.of(0.015))),
        (Privacy(rho=Rho.of(0.02)), Privacy(Epsilon.of(0.5), 1e-6)),
        (Privacy(Epsilon.of(1.0), 1e-6), Privacy(Epsilon.of(0.8), 1e-6)),
        (Privacy(Epsilon.of(1.0), 1e-6), Privacy(rho=Rho.of(0.015))),
    ],
    ids=str,
)
def test_a_fit_reserves_its_rho_and_frees_what_it_did_not_draw(cap, promised):
    ledger = Ledger(cap)
    before = ledger.remaining_rho
    with ledger.account(promised) as account:
        own = Ledger(promised.in_rho(), parent=account)
        assert ledger.remaining_rho == before - promised.as_rho()
        own.spend_rho(Rho.of(0.001), "sums")
        own.spend(Epsilon.of(0.02), "counts")
        with pytest.raises(BudgetError):
            own.spend_rho(promised.as_rho(), "too much")
    assert ledger.loss == Loss(rho=Rho.of(0.0012))
    assert ledger.remaining_rho == before - Rho.of(0.0012)


def test_a_pure_fit_under_epsilon_and_delta_reserves_its_epsilon_and_gives_it_back_only_before_the_first_rho():
    ledger = Ledger(1.0, delta=1e-6)
    with ledger.account(0.5) as account:
        Ledger(0.5, parent=account).spend(TENTH, "counts")
    assert (ledger.loss, ledger.remaining) == (Loss(TENTH), Epsilon.of(0.9))
    with ledger.account(0.5) as account:
        own = Ledger(0.5, parent=account)
        ledger.spend_rho(Rho.of(0.001), "another fit")  # its cap was found with 0.6 held in pure epsilon
        own.spend(TENTH, "counts")
        cap = ledger.remaining_rho
    assert ledger.remaining_rho == cap == capacity(Epsilon.of(0.4), 1e-6) - Rho.of(0.001)
    assert ledger.loss.pure == Epsilon.of(0.6)


def test_a_fit_of_another_kind_is_refused_where_it_cannot_be_accounted_for():
    for promised in (Privacy.of(0.5, 1e-6), Privacy.of(rho=0.01)):
        with pytest.raises(MethodError, match="knows no delta"), Ledger(1.0).account(promised):
            raise AssertionError("refused before the fit")
    with pytest.raises(BudgetError, match="only rho"), Ledger(rho=0.01).account(0.2):
        raise AssertionError("0.2 squared over two is 0.02")
    with Ledger(rho=0.02).account(0.2) as account:
        account.record(Spend("x", (Epsilon.of(0.2),)))


def test_an_uncapped_ledger_takes_a_fit_of_any_kind():
    for promised in (Privacy.of(0.5), Privacy.of(0.5, 1e-6), Privacy.of(rho=0.01)):
        assert promised is not None
        ledger = Ledger()
        with ledger.account(promised) as account:
            if promised.kind != "epsilon":
                account.record(Spend("sums", rho=Rho.of(0.001)))
            account.record(Spend("counts", (Epsilon.of(0.05),)))
        assert len(ledger.spends) == 1 + (promised.kind != "epsilon")


@pytest.mark.parametrize("promise", [Privacy.of(1.0, 1e-6), Privacy.of(rho=0.02), Privacy.of(1.0)], ids=str)
def test_the_records_of_a_person_get_a_share_that_never_passes_what_the_person_was_promised(promise):
    units = Ledger(promise)
    records = ledger_of_records(units, 3)
    assert isinstance(records._parent, PerUnit)
    if promise.kind == "epsilon":
        records.spend(records.remaining, "all")
        assert units.loss.pure == Epsilon(3 * (10**9 // 3))
    else:
        records.spend_rho(Rho.of(0.0001), "some")
        assert units.loss.rho == Rho.of(0.0009)
        records.spend_rho(records.remaining_rho, "all")
        assert 0 <= units.remaining_rho.femto < 9
