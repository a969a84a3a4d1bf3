"""Promises in pure epsilon, (epsilon, delta) and rho: what spends cost, what is left, and the conversion."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpkmeans.core.conversion import capacity, epsilon_of, pure_as_rho, rho_as_pure
from dpkmeans.core.epsilon import NANO, Epsilon, Spend
from dpkmeans.core.privacy import Loss, Privacy, checked_delta
from dpkmeans.core.rho import FEMTO, Rho
from dpkmeans.errors import BudgetError

DELTAS = [1e-12, 1e-9, 1e-6, 1e-4, 1e-2]
RHOS = [1e-9, 1e-6, 1e-4, 0.001, 0.02, 0.3, 2.0, 50.0]
epsilons = st.integers(10**4, 20 * NANO).map(Epsilon)
rhos = st.integers(1, FEMTO).map(Rho)
deltas = st.sampled_from(DELTAS)


def at_order(rho: Rho, delta: float, alpha: Fraction) -> Fraction:
    """αρ + c(α, δ) to 80 digits, as the paper writes it (proposition 12)."""
    with localcontext() as context:
        context.prec = 80
        a, d = Decimal(alpha.numerator) / Decimal(alpha.denominator), Decimal(repr(delta))
        c = ((1 / d).ln() + (a - 1) * (1 - 1 / a).ln() - a.ln()) / (a - 1)
        return Fraction(a) * rho.fraction + Fraction(c)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("rho", RHOS)
def test_the_conversion_is_never_below_the_formula_and_within_two_nanos_of_its_best_order(rho, delta):
    found, budget = epsilon_of(Rho.of(rho), delta), Rho.of(rho)
    orders = [1 + Fraction(k) * Fraction(10) ** i for i in range(-4, 9) for k in range(1, 10)]
    assert all(found.fraction <= max(at_order(budget, delta, a), 0) + Fraction(2, NANO) for a in orders)
    spread = math.sqrt(math.log(1 / delta) / rho)  # close to the best order
    near = [1 + Fraction(spread * (1 + i / 500)) for i in range(-400, 400)]
    best = max(min(at_order(budget, delta, a) for a in near), Fraction(0))
    assert best * (1 - Fraction(1, 10**5)) <= found.fraction
    assert found.fraction <= best + Fraction(2, NANO)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("rho", RHOS)
def test_the_conversion_agrees_with_opendps_to_a_few_nanos(rho, delta):
    """OpenDP minimises the same formula in floats that it rounds up."""
    import opendp.combinators as combinators
    import opendp.domains as domains
    import opendp.measurements as measurements
    import opendp.metrics as metrics

    from dpkmeans.privacy.randomness import _contrib

    with _contrib():
        space = domains.atom_domain(T="i64"), metrics.absolute_distance(T="f64")
        noise = measurements.make_gaussian(*space, scale=math.sqrt(1 / (2 * rho)))
        theirs = combinators.make_zCDP_to_approxDP(noise).map(1.0).epsilon(delta)
    ours = float(epsilon_of(Rho.of(rho), delta))
    assert ours == pytest.approx(theirs, rel=1e-6, abs=3e-9)


@given(epsilons, deltas)
@settings(deadline=None)
def test_the_capacity_is_the_largest_rho_within_epsilon(epsilon, delta):
    rho = capacity(epsilon, delta)
    assert epsilon_of(rho, delta) <= epsilon
    assert Rho.of(float(rho)) == rho if rho.femto else True
    more = Rho(rho.femto + 2 * FEMTO // NANO)  # two nanos of epsilon more, as orders are above 1
    assert epsilon_of(more, delta) > epsilon


@given(st.integers(1, 1000 * NANO).map(Epsilon))
def test_a_pure_epsilon_is_half_its_square_in_rho_rounded_up_and_back_rounded_down(epsilon):
    rho = pure_as_rho(epsilon)
    assert 0 <= rho.fraction - epsilon.fraction**2 / 2 < Fraction(1, FEMTO)
    assert pure_as_rho(rho_as_pure(rho)) <= rho
    assert rho_as_pure(rho) >= epsilon


def test_no_rho_costs_nothing_and_one_femto_something():
    assert epsilon_of(Rho(0), 1e-6) == Epsilon(0)
    assert epsilon_of(Rho(1), 1e-6) >= Epsilon(0)
    assert capacity(Epsilon(1), 1e-12) == Rho(0)


# What is written.


def test_a_promise_is_of_one_of_three_kinds():
    assert Privacy.of() is None
    assert Privacy.of(1.0) == Privacy(Epsilon.of(1.0))
    assert [p.kind for p in map(Privacy.of, (1.0, 1.0, None), (None, 1e-6, None), (None, None, 0.02)) if p] == [
        "epsilon",
        "epsilon-delta",
        "rho",
    ]
    assert [str(Privacy.of(1.0)), str(Privacy.of(1.0, 1e-6)), str(Privacy.of(rho=0.02))] == [
        "epsilon=1",
        "epsilon=1 at delta=1e-06",
        "rho=0.02",
    ]


@pytest.mark.parametrize(
    ("written", "word"),
    [
        ({"delta": 1e-6}, "epsilon"),
        ({"epsilon": 1.0, "rho": 0.1}, "rho"),
        ({"rho": 0.1, "delta": 1e-6}, "rho"),
        ({"epsilon": 1.0, "delta": 0}, "delta"),
        ({"epsilon": 1.0, "delta": 1}, "delta"),
        ({"epsilon": 1.0, "delta": 1.5}, "delta"),
        ({"epsilon": 1.0, "delta": -1e-6}, "delta"),
        ({"epsilon": 1.0, "delta": float("nan")}, "delta"),
        ({"epsilon": 1.0, "delta": 1e-310}, "delta"),
        ({"epsilon": 1.0, "delta": "little"}, "delta"),
        ({"epsilon": 1e-9, "delta": 1e-12}, "too small"),
        ({"rho": 0}, "rho"),
    ],
    ids=str,
)
def test_what_is_no_promise_is_refused_in_words(written, word):
    with pytest.raises(BudgetError, match=word):
        Privacy.of(**written)


def test_a_delta_is_kept_as_written():
    assert checked_delta("1e-6") == 1e-6


# What spends cost.

APPROXIMATE = Privacy(Epsilon.of(1.0), 1e-6)
amounts = st.one_of(epsilons.map(lambda e: Spend("x", (e,))), rhos.map(lambda r: Spend("x", rho=r)))
promises = st.one_of(
    epsilons.map(Privacy), st.builds(Privacy, epsilons, deltas), rhos.map(lambda rho: Privacy(rho=rho))
)


@given(promises, st.lists(amounts, max_size=12))
@settings(deadline=None, max_examples=200)
def test_whatever_is_admitted_never_comes_to_more_than_was_promised(promise, spends):
    held, taken = Loss(), []
    for spend in spends:
        if promise.kind == "epsilon" and spend.rho is not None:
            with pytest.raises(BudgetError, match="pure epsilon was promised"):
                promise.charged(held, Loss.of(spend))
            continue
        after = held + promise.charged(held, Loss.of(spend))
        if promise.covers(after):
            held = after
            taken.append(spend)
    assert promise.held_after(taken) == held
    if promise.kind == "rho":
        assert held.pure == Epsilon(0)
        assert held.rho <= promise.as_rho()
        as_zcdp = sum(((s.rho or pure_as_rho(s.epsilon)).fraction for s in taken), Fraction(0))
        assert held.rho.fraction >= as_zcdp
    else:
        total = promise.total(held)
        assert total is not None
        assert total <= promise.pure
    assert promise.left(held) >= Epsilon(0)


@given(st.builds(Privacy, epsilons, deltas), st.lists(amounts, max_size=12))
@settings(deadline=None, max_examples=200)
def test_the_account_of_epsilon_and_delta_fixes_its_pure_part_before_the_first_rho(promise, spends):
    """What the proof rests on: pure spends as they are up to the first rho, then zCDP for everything."""
    held, before, concentrated = Loss(), Epsilon(0), []
    for spend in spends:
        after = held + promise.charged(held, Loss.of(spend))
        if not promise.covers(after):
            continue
        if spend.rho is None and not concentrated:
            before += spend.epsilon
        else:
            concentrated.append(spend.rho or pure_as_rho(spend.epsilon))
        held = after
    assert held == Loss(before, sum(concentrated, Rho(0)))
    assert before + epsilon_of(held.rho, promise.delta) <= promise.pure


def test_pure_spends_before_the_first_rho_count_as_themselves_and_later_ones_as_half_their_square():
    assert APPROXIMATE.charged(Loss(), Loss(Epsilon.of(0.5))) == Loss(Epsilon.of(0.5))
    assert APPROXIMATE.charged(Loss(rho=Rho(1)), Loss(Epsilon.of(0.1))) == Loss(rho=Rho.of(0.005))
    assert Privacy(rho=Rho.of(0.1)).charged(Loss(), Loss(Epsilon.of(0.1))) == Loss(rho=Rho.of(0.005))


def test_all_of_a_promise_can_be_spent_pure_or_in_rho_or_in_both_and_nothing_after():
    assert APPROXIMATE.covers(Loss(Epsilon.of(1.0)))
    assert not APPROXIMATE.covers(Loss(Epsilon.of(1.0), Rho(1)))
    rho = APPROXIMATE.left_rho(Loss())
    assert APPROXIMATE.covers(Loss(rho=rho))
    assert not APPROXIMATE.covers(Loss(rho=Rho(rho.femto + 1)))
    half = Loss(Epsilon.of(0.5))
    rest = APPROXIMATE.left_rho(half)
    assert rest == capacity(Epsilon.of(0.5), 1e-6)
    assert APPROXIMATE.total(half + Loss(rho=rest)) == Epsilon.of(1.0)


@given(promises, st.lists(amounts, max_size=6))
@settings(deadline=None, max_examples=100)
def test_what_is_left_can_be_spent_to_the_last_unit(promise, spends):
    held = Loss()
    for spend in spends:
        if promise.kind == "epsilon" and spend.rho is not None:
            continue
        after = held + promise.charged(held, Loss.of(spend))
        held = after if promise.covers(after) else held
    left = promise.left(held)
    if left.nano:
        assert promise.covers(held + promise.charged(held, Loss(left)))
    more = Epsilon(left.nano + 2)
    assert not promise.covers(held + promise.charged(held, Loss(more)))
    if promise.kind != "epsilon":
        rho = promise.left_rho(held)
        assert promise.covers(held + Loss(rho=rho)) or not rho.femto
        assert not promise.covers(held + Loss(rho=Rho(rho.femto + 1)))


def test_a_promise_in_rho_that_means_epsilon_and_delta_is_accounted_for_in_rho():
    promise = APPROXIMATE.in_rho()
    assert promise.kind == "rho"
    assert promise.as_rho() == APPROXIMATE.left_rho(Loss())
    held = promise.held_after([Spend("x", (Epsilon.of(0.1),))])
    assert held == Loss(rho=Rho.of(0.005))
    total = promise.total(held)
    assert total is not None
    assert total == epsilon_of(Rho.of(0.005), 1e-6)
    assert str(promise) == "epsilon=1 at delta=1e-06"


def test_a_method_without_gaussian_noise_gets_a_pure_promise_that_is_no_weaker():
    assert APPROXIMATE.as_pure() == Privacy(Epsilon.of(1.0))
    assert Privacy(rho=Rho.of(0.02)).as_pure() == Privacy(Epsilon.of(0.2))
    with pytest.raises(BudgetError, match="no pure epsilon"):
        Privacy(Epsilon.of(1.0)).as_rho()
