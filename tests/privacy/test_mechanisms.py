from __future__ import annotations

import itertools
from dataclasses import FrozenInstanceError
from fractions import Fraction

import numpy as np
import pytest

from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import Exact
from dpkmeans.core.query import Sensitivity
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.errors import BudgetError, DataError, DataTypeError
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import MAX_VALUE, Laplace, LInfLaplace, PermuteAndFlip, _scale
from dpkmeans.privacy.randomness import Randomness, SecureNoise, SeededNoise
from dpkmeans.synopsis.residual_queries import UNIT, Residuals

MECHANISMS = [Laplace, LInfLaplace, PermuteAndFlip]
HALF = Epsilon.of(0.5)


class Spy(SeededNoise):
    """A source that keeps a diary of its draws, together with what the ledger held at that moment."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(0)
        self.ledger = ledger
        self.diary: list[Epsilon] = []

    def geometric(self, size, scale):
        self.diary.append(self.ledger.spent)
        return super().geometric(size, scale)

    def below(self, n):
        self.diary.append(self.ledger.spent)
        return super().below(n)

    def below_each(self, bounds):
        self.diary.append(self.ledger.spent)
        return super().below_each(bounds)


def watched(ledger: Ledger) -> tuple[Randomness, Spy]:
    spy = Spy(ledger)
    return Randomness(np.random.default_rng(0), spy), spy


def fitting(mechanism, values) -> Exact:
    """The numbers in a shape that the mechanism takes."""
    array = np.array(values, dtype=np.int64)
    return Exact(array.reshape(1, -1) if mechanism is LInfLaplace else array, moved_by(3))


def moved_by(change) -> Sensitivity:
    """One record moves one entry of one row by so much: the same in all norms."""
    return Sensitivity(l1=change, linf=change, gap=None if change is None else 2 * change, one_row=True)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("rng", [Randomness.secure(), Randomness.with_seed(1)], ids=["secure", "seeded"])
def test_one_call_draws_and_records_its_whole_budget_once(mechanism, rng):
    ledger = Ledger(1.0)
    mechanism(HALF).release(fitting(mechanism, [4, 8, 15]), ledger=ledger, rng=rng, label="answer")
    assert [(spend.label, spend.epsilon) for spend in ledger.spends] == [("answer", HALF)]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_spend_is_recorded_before_the_first_draw(mechanism):
    ledger = Ledger(1.0)
    rng, spy = watched(ledger)
    mechanism(HALF).release(fitting(mechanism, [4, 8, 15]), ledger=ledger, rng=rng, label="answer")
    assert spy.diary
    assert set(spy.diary) == {HALF}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_call_past_the_cap_is_refused_before_anything_is_drawn(mechanism):
    ledger = Ledger(0.4)
    rng, spy = watched(ledger)
    with pytest.raises(BudgetError, match=r"only 0\.4"):
        mechanism(HALF).release(fitting(mechanism, [4, 8, 15]), ledger=ledger, rng=rng, label="answer")
    assert spy.diary == []
    assert ledger.spends == ()


WRONG = {
    "too large": np.array([[2**62]]),
    "too small": np.array([[-(2**63)]]),
    "floats": np.array([[31415926.0]]),
    "int32": np.array([[31415926]], dtype=np.int32),
    "unsigned": np.array([[31415926]], dtype=np.uint64),
    "empty": np.zeros((0, 3), dtype=np.int64),
    "list": [[31415926]],
}


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_unfit_values_are_refused_before_the_spend_and_the_message_does_not_tell_them(mechanism, wrong):
    if mechanism is PermuteAndFlip and isinstance(wrong, np.ndarray):
        wrong = wrong.ravel()
    ledger = Ledger(1.0)
    rng, spy = watched(ledger)
    with pytest.raises(DataError) as caught:
        mechanism(HALF).release(Exact(wrong, moved_by(3)), ledger=ledger, rng=rng, label="answer")
    assert "'answer'" in str(caught.value)
    for secret in ("31415926", str(2**62), str(2**63)):
        assert secret not in str(caught.value)
    assert spy.diary == []
    assert ledger.spends == ()


def test_a_wrong_number_of_dimensions_is_refused():
    rng = Randomness.with_seed(0)
    with pytest.raises(DataError, match="2 dimensions"):
        LInfLaplace(HALF).release(Exact(np.zeros(3, dtype=np.int64), moved_by(1)), ledger=Ledger(), rng=rng, label="x")
    column = Exact(np.zeros((3, 1), dtype=np.int64), moved_by(1))
    with pytest.raises(DataError, match="1 dimensions"):
        PermuteAndFlip(HALF).release(column, ledger=Ledger(), rng=rng, label="x")


def test_a_plain_array_is_refused():
    with pytest.raises(DataTypeError, match="Exact"):
        Laplace(HALF).release(np.zeros(3, np.int64), ledger=Ledger(), rng=Randomness.with_seed(0), label="x")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("sensitivity", [0, -1, 1.0, True, None, np.int64(1)], ids=repr)
def test_a_sensitivity_that_is_no_positive_integer_is_refused(mechanism, sensitivity):
    shape = (1, 3) if mechanism is LInfLaplace else 3
    ledger = Ledger(1.0)
    rng, spy = watched(ledger)
    with pytest.raises(BudgetError, match="sensitivity"):
        mechanism(HALF).release(
            Exact(np.zeros(shape, np.int64), moved_by(sensitivity)), ledger=ledger, rng=rng, label="answer"
        )
    assert spy.diary == []
    assert ledger.spends == ()


SILENT_ABOUT = {
    Laplace: [Sensitivity(), Sensitivity(linf=1, gap=2, one_row=True)],
    LInfLaplace: [Sensitivity(), Sensitivity(l1=1, linf=1, gap=2), Sensitivity(l1=1, gap=2, one_row=True)],
    PermuteAndFlip: [Sensitivity(), Sensitivity(l1=1, linf=1, one_row=True)],
}


@pytest.mark.parametrize(("mechanism", "silent"), [(m, s) for m, many in SILENT_ABOUT.items() for s in many])
def test_an_answer_that_does_not_declare_the_norm_a_mechanism_needs_is_refused_before_the_spend(mechanism, silent):
    ledger = Ledger(1.0)
    rng, spy = watched(ledger)
    zeros = np.zeros((1, 3) if mechanism is LInfLaplace else 3, np.int64)
    with pytest.raises(BudgetError, match="'answer' must declare a sensitivity"):
        mechanism(HALF).release(Exact(zeros, silent), ledger=ledger, rng=rng, label="answer")
    assert spy.diary == []
    assert ledger.spends == ()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_no_caller_can_pass_a_sensitivity_by_hand(mechanism):
    with pytest.raises(TypeError):
        mechanism(HALF, 1)
    with pytest.raises(TypeError):
        mechanism(HALF, sensitivity=1)


def test_residuals_are_released_with_the_noise_for_what_they_declare():
    """Called with sensitivity=1 by mistake, a count of 100 came out as 99.9999933. Here its noise has the scale of 1/ε.

    The deviation of an entry is √(D+1)(D+2)/3 = 2.6 records; within 1e-3 of 100 with odds below 1e-3 · 3 a draw, so all
    five of them below 1e-12.
    """
    engine = MemoryEngine.of_records(np.full((100, 2), 0.5), Bounds.of((0, 1), 2), n_threads=1)
    exact = engine.answer(Residuals(np.array([[0.5, 0.5]]), np.array([[0.25, 0.25]])))
    assert exact.sensitivity.linf == UNIT
    rng = Randomness.secure()
    released = [LInfLaplace(HALF).release(exact, ledger=Ledger(), rng=rng, label="x")[0, 0] / UNIT for _ in range(5)]
    assert max(abs(count - 100) for count in released) > 1e-3


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("epsilon", [0.5, Epsilon(0), Epsilon(-1), None], ids=repr)
def test_a_budget_that_is_no_positive_epsilon_is_refused(mechanism, epsilon):
    with pytest.raises(BudgetError, match="Epsilon"):
        mechanism(epsilon)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_noise_that_could_not_fit_is_refused_and_mechanisms_are_frozen(mechanism):
    zeros = Exact(np.zeros((1, 3) if mechanism is LInfLaplace else 3, np.int64), moved_by(2**23))
    with pytest.raises(BudgetError, match="larger epsilon"):
        mechanism(Epsilon(1)).release(zeros, ledger=Ledger(), rng=Randomness.with_seed(0), label="x")
    with pytest.raises(FrozenInstanceError):
        mechanism(Epsilon(1)).epsilon = Epsilon(2)
    with pytest.raises(FrozenInstanceError):
        zeros.sensitivity.l1 = 1  # type: ignore[misc]


@pytest.mark.parametrize("nano", [1, 3, 10**8, 3 * 10**8, 333_333_333, 10**9, 7 * 10**9, 10**12])
@pytest.mark.parametrize("change", [1, 2, 3, 2**20, 2**20 + 1, 101 * 2**20])
def test_the_scale_loses_at_most_epsilon_by_opendps_map_and_wastes_almost_nothing(nano, change):
    epsilon = Epsilon(nano)
    scale = _scale(epsilon, change, SecureNoise())
    assert Fraction(float(scale)) == scale
    assert change / scale <= SecureNoise().loss(change, scale) <= epsilon.fraction
    assert change / scale >= epsilon.fraction * (1 - Fraction(1, 2**50))


@pytest.mark.parametrize("mechanism", [Laplace, LInfLaplace])
def test_released_values_are_the_exact_ones_plus_noise_around_zero(mechanism):
    values = np.array([[10**9, -(10**9)], [MAX_VALUE, -MAX_VALUE]])
    exact = Exact(values, moved_by(1))
    noisy = mechanism(Epsilon.of(1.0)).release(exact, ledger=Ledger(), rng=Randomness.secure(), label="x")
    assert noisy.dtype == np.int64
    assert np.abs(noisy - values).max() < 200  # passed with odds below 1e-80


def test_the_same_seed_releases_the_same_and_secure_releases_differ():
    values = Exact(np.zeros((5, 3), dtype=np.int64), moved_by(2**20))
    for mechanism in (Laplace(HALF), LInfLaplace(HALF)):

        def run(rng, mechanism=mechanism):
            return mechanism.release(values, ledger=Ledger(), rng=rng, label="x").tolist()

        assert run(Randomness.with_seed(3)) == run(Randomness.with_seed(3))
        assert run(Randomness.secure()) != run(Randomness.secure())


# Privacy by enumeration.


def test_cube_noise_never_loses_more_than_epsilon_on_any_small_answer():
    sensitivity = 2
    scale = _scale(HALF, sensitivity, SecureNoise())
    moves = list(itertools.product(range(-sensitivity, sensitivity + 1), repeat=2))
    for z in itertools.product(range(-5, 6), repeat=2):
        for move in moves:
            moved = tuple(a + b for a, b in zip(z, move, strict=True))
            loss = (max(map(abs, moved)) - max(map(abs, z))) / scale  # log of P(z) / P(moved)
            assert loss <= HALF.fraction


def choice_law(scores: tuple[int, ...], theta: Fraction) -> list[Fraction]:
    """Probabilities of `PermuteAndFlip`, with theta = exp(-1/scale), by listing who stays."""
    stay = [theta ** (max(scores) - score) for score in scores]
    law = [Fraction(0)] * len(scores)
    for kept in itertools.product([0, 1], repeat=len(scores)):
        weight = Fraction(1)
        for here, chance in zip(kept, stay, strict=True):
            weight *= chance if here else 1 - chance
        for index in range(len(scores)):
            if kept[index]:
                law[index] += weight / sum(kept)
    return law


@pytest.mark.parametrize("theta", [Fraction(1, 9), Fraction(1, 2), Fraction(97, 100)])
def test_the_law_of_choice_never_loses_more_than_twice_the_sensitivity_over_the_scale(theta):
    laws = {scores: choice_law(scores, theta) for scores in itertools.product(range(4), repeat=3)}
    for scores, law in laws.items():
        assert sum(law) == 1
        for move in itertools.product([-1, 0, 1], repeat=3):
            other = laws.get(tuple(s + m for s, m in zip(scores, move, strict=True)))
            if other is not None:
                assert all(p * theta**2 <= p_other for p, p_other in zip(law, other, strict=True))


def test_the_constant_of_choice_cannot_be_smaller():
    theta = Fraction(1, 2)
    before, after = choice_law((0, 9), theta), choice_law((1, 8), theta)
    assert after[0] == before[0] / theta**2


def test_choice_asks_opendp_for_no_more_than_its_own_noisy_max_would_cost():
    import opendp.domains as domains
    import opendp.measurements as measurements
    import opendp.measures as measures
    import opendp.metrics as metrics

    from dpkmeans.privacy.randomness import _contrib

    if not hasattr(measurements, "make_noisy_max"):
        pytest.skip("this OpenDP has no make_noisy_max")
    scale = _scale(HALF, 2 * 5, SecureNoise())
    with _contrib():
        space = domains.vector_domain(domains.atom_domain(T="i64")), metrics.linf_distance(T="i64")
        noisy_max = measurements.make_noisy_max(*space, measures.max_divergence(), scale=float(scale))
    assert Fraction(noisy_max.map(5)) <= HALF.fraction


def test_choice_handles_scores_at_both_ends_and_a_single_candidate():
    for rng in (Randomness.secure(), Randomness.with_seed(0)):
        ends = Exact(np.array([-MAX_VALUE, MAX_VALUE, -MAX_VALUE]), moved_by(1))
        assert PermuteAndFlip(HALF).release(ends, ledger=Ledger(), rng=rng, label="x") == 1
        one = Exact(np.array([-5]), moved_by(1))
        assert PermuteAndFlip(HALF).release(one, ledger=Ledger(), rng=rng, label="x") == 0
