"""Replay: exact losses agree with the laws of the mechanisms, every proved method holds, and every mutant is found."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, target
from hypothesis import strategies as st

from dpkmeans.audit import hard_pairs
from dpkmeans.audit.choice_law import chance_of_choice, loss_of_choice
from dpkmeans.audit.losses import DIGITS, chance_of_split, loss_of
from dpkmeans.audit.replay import Call, Outcome, Replayed, replay
from dpkmeans.audit.replay_mutants import is_found, mutants
from dpkmeans.audit.replay_summary import tightest
from dpkmeans.audit.replay_targets import BOUNDS, names, replays_of
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import Exact
from dpkmeans.core.query import Sensitivity
from dpkmeans.core.rho import Rho
from dpkmeans.errors import MethodError
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Gaussian, Laplace, LInfLaplace, PermuteAndFlip, PrivTreeSplits
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.session import FitRequest

SCALE = Fraction(3, 2)


def ints(*values: object) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize("name", names())
def test_a_proved_method_keeps_its_budget_on_hard_pairs_to_the_last_digit(name: str) -> None:
    replays = list(replays_of(name, 1 if name == BOUNDS else 2, 1.0, seed=1))
    assert [replayed.why_not for replayed in replays if not replayed.holds] == []
    assert any(call.occurred for replayed in replays for call in replayed.calls)


@pytest.mark.parametrize("name", ["lloyd", "posterior", "prior"])
def test_a_method_that_shows_exact_values_is_found_out(name: str) -> None:
    assert not all(replayed.holds for replayed in replays_of(name, 4, 1.0))


@pytest.mark.parametrize("name", mutants())
def test_a_mutant_is_found(name: str) -> None:
    assert is_found(mutants()[name]())


def test_what_is_not_known_cannot_be_replayed() -> None:
    with pytest.raises(MethodError, match=r"nothing called 'nothing' to replay.*synopsis.*persons"):
        replays_of("nothing", 1, 1.0)


@given(st.integers(-9, 9), st.integers(-9, 9), st.integers(-30, 30))
def test_the_loss_of_laplace_noise_is_the_ratio_of_its_chances(before: int, after: int, output: int) -> None:
    loss = loss_of(Laplace(Epsilon.of(1.0)), ints(before), ints(after), ints(output), SCALE)
    there, here = (math.exp(-abs(output - value) / SCALE) for value in (after, before))
    assert math.isclose(float(loss), math.log(here / there), abs_tol=1e-12)


@given(st.tuples(*[st.integers(-5, 5)] * 3))
def test_the_loss_of_cube_noise_is_that_of_the_row_which_changed(change: tuple[int, ...]) -> None:
    before, after = ints((0, 0, 0), (5, 6, 7)), ints(change, (5, 6, 7))
    loss = loss_of(LInfLaplace(Epsilon.of(1.0)), before, after, ints((4, -9, 2), (0, 0, 0)), SCALE)
    far = max(abs(o - c) for o, c in zip((4, -9, 2), change, strict=True))
    assert loss == (far - 9) / SCALE


def test_the_part_of_rho_that_gaussian_noise_uses_is_the_squared_change_over_twice_the_variance() -> None:
    loss = loss_of(Gaussian(Rho.of(0.02)), ints((0, 0)), ints((3, 4)), ints((1, 1)), Fraction(50))
    assert loss == Fraction(25, 100)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=5))
def test_the_chances_of_a_choice_are_those_of_all_ways_to_stay(scores: list[int]) -> None:
    stays = [math.exp(-(max(scores) - score) / SCALE) for score in scores]
    expected = np.zeros(len(scores))
    for kept in product([False, True], repeat=len(scores)):
        chance = math.prod(q if keep else 1 - q for q, keep in zip(stays, kept, strict=True))
        expected[np.flatnonzero(kept)] += chance / max(sum(kept), 1)
    with localcontext(prec=DIGITS):
        found = [chance_of_choice(ints(*scores), i, SCALE) for i in range(len(scores))]
        assert abs(sum(found) - 1) < Decimal(10) ** -50
    assert np.allclose(np.array(found, dtype=float), expected)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.integers(0, 30), st.integers(1, 60), st.integers(0, 2**20))
def test_the_loss_of_a_choice_is_enclosed_with_forty_digits(size: int, spread: int, scale: int, seed: int) -> None:
    """Against the law written down candidate by candidate, with 90 digits."""
    rng = np.random.default_rng(seed)
    before = rng.integers(0, spread + 1, size)
    after = before + rng.integers(0, 2, size)
    chosen = int(rng.integers(size))
    with localcontext(prec=90):
        there, here = (one_by_one(scores.tolist(), chosen, scale) for scores in (after, before))
        expected = Fraction((here / there).ln())
    low, high = loss_of_choice(before, after, chosen, Fraction(scale))
    assert low <= expected <= high
    assert high - low < Fraction(1, 10**45)


def one_by_one(scores: list[int], chosen: int, scale: int) -> Decimal:
    """P(chosen): the chances that 0, 1, ... others stay, one candidate after the other."""
    stays = [(Decimal(score - max(scores)) / scale).exp() for score in scores]
    others = [Decimal(1)]
    for stay in stays[:chosen] + stays[chosen + 1 :]:
        rest = [(1 - stay) * chance for chance in others]
        others = [a + b for a, b in zip([*rest, Decimal(0)], [Decimal(0), *(stay * c for c in others)], strict=True)]
    return stays[chosen] * sum((chance / (n + 1) for n, chance in enumerate(others)), Decimal(0))


def test_a_choice_among_thousands_is_enclosed_too_and_counts_equal_scores_together() -> None:
    scores = np.repeat(np.arange(600), 10)
    low, high = loss_of_choice(scores, scores + 1, 4, Fraction(50))
    assert low <= 0 <= high < Fraction(1, 10**45)
    low, high = loss_of_choice(np.full(5000, 7), np.full(5000, 9), 11, Fraction(1, 3))
    assert low <= 0 <= high < Fraction(1, 10**45)


@given(st.integers(-8, 8))
def test_the_chance_of_a_split_is_the_tail_of_the_noise(biased: int) -> None:
    weights = {z: math.exp(-abs(z) / SCALE) for z in range(-200, 201)}
    above = sum(weight for z, weight in weights.items() if biased + z > 0) / sum(weights.values())
    with localcontext(prec=DIGITS):
        assert math.isclose(float(chance_of_split(biased, True, SCALE)), above, rel_tol=1e-12)
        assert (
            abs(chance_of_split(biased, True, SCALE) + chance_of_split(biased, False, SCALE) - 1) < Decimal(10) ** -70
        )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=4, max_size=4), st.integers(0, 3), st.integers(1, 4), st.integers(0, 2**20))
def test_no_tree_loses_more_than_its_budget(counts: list[int], cell: int, leaves: int, seed: int) -> None:
    mechanism = PrivTreeSplits(Epsilon.of(1.0), leaves)
    before = ints(*((count,) for count in counts))
    after = before.copy()
    after[cell] += 1

    def run(values: np.ndarray) -> object:
        def release(rng: Randomness) -> Outcome:
            ledger, exact = Ledger(), Exact(values, Sensitivity.of_row((1,)))
            shown = mechanism.release(exact, ledger=ledger, rng=rng, label="tree")
            return Outcome(shown, ledger.loss.pure.fraction)

        return release

    replayed = replay(run(before), run(after), seed)
    assert replayed.holds
    target(float(abs(replayed.loss)))


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(-5, 5), min_size=2, max_size=6),
    st.lists(st.integers(-1, 1), min_size=6),
    st.integers(0, 2**20),
)
def test_no_choice_loses_more_than_its_budget(scores: list[int], moves: list[int], seed: int) -> None:
    before = ints(*scores)
    after = before + ints(*moves)[: len(scores)]

    def run(values: np.ndarray) -> object:
        def release(rng: Randomness) -> Outcome:
            ledger, exact = Ledger(), Exact(values, Sensitivity(gap=2))
            shown = PermuteAndFlip(Epsilon.of(1.0)).release(exact, ledger=ledger, rng=rng, label="choice")
            return Outcome(shown, ledger.loss.pure.fraction)

        return release

    replayed = replay(run(before), run(after), seed)
    assert replayed.holds
    target(float(abs(replayed.loss)))


def test_mechanisms_are_as_before_after_a_replay_even_if_it_fails() -> None:
    before = Laplace.release

    def fails(rng: Randomness) -> Outcome:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        replay(fails, fails, 0)
    assert Laplace.release is before


def a_call(loss: float, budget: float, *, gaussian: bool = False) -> Call:
    return Call("a mechanism", "a call", Fraction(budget), Fraction(loss), 1, 1, gaussian)


@pytest.mark.parametrize(
    ("calls", "spent", "spent_rho", "holds"),
    [
        ([a_call(-0.5, 0.5), a_call(0.25, 0.25, gaussian=True)], 0.0, 0.375, True),  # 0.5²/2 = 0.125 of rho
        ([a_call(-0.5, 0.5), a_call(0.25, 0.25, gaussian=True)], 0.0, 0.374, False),
        ([a_call(-0.5, 0.5), a_call(0.25, 0.25, gaussian=True)], 0.5, 0.25, True),
        ([a_call(-0.5, 0.5), a_call(0.25, 0.25, gaussian=True)], 0.4, 0.25, False),
        ([a_call(0.5, 0.5), a_call(0.5, 0.5)], 0.5, 0.125, True),  # the first before the first rho, the second after
        ([a_call(0.5, 0.5), a_call(0.5, 0.5)], 0.5, 0.124, False),
        ([a_call(0.5, 0.5), a_call(0.5, 0.5)], 0.9, 0.0, False),
        ([a_call(0.5, 0.5), a_call(-0.5, 0.5)], 0.1, 0.0, True),
    ],
)
def test_a_pure_call_that_was_booked_in_rho_uses_half_the_square_of_its_loss(
    calls: list[Call], spent: float, spent_rho: float, holds: bool
) -> None:
    replayed = Replayed(tuple(calls), Fraction(spent), Fraction(spent_rho))
    assert replayed.holds is holds
    assert holds or "the ledger says" in replayed.why_not


def test_the_summary_names_the_call_that_came_closest() -> None:
    found = tightest("su", list(replays_of("su", 6, 1.0)))
    assert (found.pairs, found.broken) == (6, ())
    assert found.call is not None
    assert found.call.tightness <= 1
    assert 0 < found.run <= found.promised == 1


def test_hard_pairs_are_streamed_without_pyarrow_too(monkeypatch):
    [pair] = hard_pairs.hard_pairs(1)
    assert pair.chunk_rows == len(pair.records) == pair.position, "the extra record has a chunk of its own"
    from_files = hard_pairs.replay_pair(pair, FitRequest(method="dwork", epsilon=1.0), 0)
    monkeypatch.setattr(hard_pairs, "find_spec", lambda name: None)
    monkeypatch.setattr(hard_pairs, "_from_file", None)
    assert hard_pairs.replay_pair(pair, FitRequest(method="dwork", epsilon=1.0), 0) == from_files
    assert from_files.holds
