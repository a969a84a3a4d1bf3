"""The sampler of the discrete Gaussian, step by step, in exact arithmetic. Its law is judged in statistical/."""

from __future__ import annotations

import itertools
import math
from dataclasses import FrozenInstanceError
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from dpkmeans.core.epsilon import Epsilon, Spend
from dpkmeans.core.exact import Exact
from dpkmeans.core.query import Sensitivity
from dpkmeans.core.rho import Rho
from dpkmeans.errors import BudgetError, DataError
from dpkmeans.privacy import proposals
from dpkmeans.privacy.exponential import Uniform, exp_of, floor_of_exp
from dpkmeans.privacy.gaussian import add_gaussian, chances, gaussian_noise, settle, step_of
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import MAX_VALUE, Gaussian, Laplace
from dpkmeans.privacy.randomness import Randomness, SecureNoise, SeededNoise

VARIANCES = [Fraction(1, 100), Fraction(1, 2), Fraction(1, 3), Fraction(4), Fraction(10**15 + 1, 7), Fraction(2**104)]
by_variance = pytest.mark.parametrize("variance", VARIANCES, ids=lambda v: f"variance {float(v):.3g}")


def words_of(seed: int):
    generator = np.random.default_rng(seed)
    return lambda size: generator.integers(0, 2**64, size, dtype=np.uint64)


def exact_exp(x: Fraction) -> Fraction:
    """exp(-x) to 60 digits."""
    with localcontext() as context:
        context.prec = 60
        return Fraction((-Decimal(x.numerator) / Decimal(x.denominator)).exp())


# The law, by enumeration.


@by_variance
def test_every_integer_comes_from_one_proposal_whose_weight_is_the_gaussians(variance):
    step = step_of(variance)
    assert step**2 >= 2 * variance > (step - 1) ** 2
    near = sorted({*range(min(step, 7)), *range(max(step - 7, 0), step)})
    seen: dict[int, int] = {}
    for sign, u, v in itertools.product((1, -1), near, range(5)):
        size = u + step * v
        if sign == 1 or size:
            seen[sign * size] = seen.get(sign * size, 0) + 1
        x = size**2 / (2 * variance) - v
        assert x >= v**2 - v >= 0
        assert v + x == Fraction(size**2) / (2 * variance)  # e^-v exp(-x) is the weight of the integer
    assert set(seen.values()) == {1}
    if len(near) == step:
        assert set(seen) == set(range(-5 * step + 1, 5 * step))


@by_variance
def test_the_exact_path_alone_makes_the_same_draws(variance):
    """With an enclosure so wide that no word is ever clear of it, everything is decided by exact fractions."""
    size = 400
    fast = gaussian_noise(words_of(5), size, variance)
    exact = gaussian_noise(words_of(5), size, variance, slack=math.inf)
    np.testing.assert_array_equal(fast, exact)


@pytest.mark.parametrize("slack", [2.0**-6, 0.5])
def test_a_coarse_enclosure_makes_the_same_draws(slack):
    for variance in (Fraction(2), Fraction(2**40, 3)):
        fast, coarse = (gaussian_noise(words_of(8), 2000, variance, slack=s) for s in (proposals.SLACK, slack))
        np.testing.assert_array_equal(fast, coarse)


def test_the_draws_depend_on_the_words_alone():
    """In the order of proposals, whatever the batches are: first the v, then the u, then the x of each batch."""
    variance, n = Fraction(50), 116
    words = words_of(3)(3 * n).reshape(3, n)
    one_by_one = (settle(tuple(map(int, proposal)), variance, never) for proposal in words.T)
    kept = [z for z in one_by_one if z is not None]
    assert len(kept) >= 50
    assert gaussian_noise(words_of(3), 50, variance).tolist() == kept[:50]


def never() -> int:
    raise AssertionError("64 bits decide")


# The comparison with exp(-x).


@pytest.mark.parametrize(
    "x", [Fraction(0), Fraction(1, 10**9), Fraction(1, 3), Fraction(1), Fraction(17, 5), Fraction(9)]
)
@pytest.mark.parametrize("bits", range(1, 9))
def test_of_all_short_words_those_below_the_floor_are_below_and_one_is_open(x, bits):
    decided, still_open = 0, []
    for word in range(2**bits):
        try:
            decided += Uniform(word, never, bits).below_exp(x)
        except AssertionError:
            still_open.append(word)
    assert decided == floor_of_exp(x, bits) == math.floor(exact_exp(x) * 2**bits)
    assert still_open == [word for word in [decided] if word < 2**bits]  # at x = 0 every word is below


@pytest.mark.parametrize("x", [Fraction(1, 3), Fraction(2)])
def test_an_open_word_goes_on_with_exactly_the_chance_that_is_left(x):
    bits = 3
    word, inner = floor_of_exp(x, bits), floor_of_exp(x, bits + 64)
    for more in (0, 2**64 - 1, inner % 2**64 - 1, inner % 2**64 + 1):
        assert Uniform(word, words_then(more), bits).below_exp(x) == ((word << 64 | more) < inner)
    draws = iter([inner % 2**64, 0])
    assert Uniform(word, lambda: next(draws), bits).below_exp(x)
    assert list(draws) == []


def test_one_number_answers_several_comparisons_without_contradiction():
    uniform = Uniform(floor_of_exp(Fraction(2), 4), words_then(2**63), 4)
    answers = [uniform.below_exp(Fraction(x)) for x in (2, 1, 3, 2, Fraction(19, 10), Fraction(21, 10), 2)]
    assert answers[0] == answers[3] == answers[6]
    assert answers[1]
    assert not answers[2]
    known = Fraction(uniform.word, 2**uniform.bits)
    assert answers == [known < exact_exp(Fraction(x)) for x in (2, 1, 3, 2, Fraction(19, 10), Fraction(21, 10), 2)]


def words_then(word: int):
    return lambda: word


@pytest.mark.parametrize("x", [Fraction(10**12), Fraction(64), Fraction(65, 2)], ids=str)
@pytest.mark.parametrize("bits", [64, 128])
def test_floors_of_small_exponentials_are_found_at_once(x, bits):
    expected = 0 if x > 1000 else math.floor(exact_exp(x) * 2**bits)
    assert floor_of_exp(x, bits) == expected


def test_floats_of_the_exponential_are_within_the_stated_error():
    x = np.concatenate([np.linspace(0, 62.99, 500), np.arange(63.0), np.arange(500) / 256, [np.nextafter(3, 0)]])
    for one, found in zip(x.tolist(), exp_of(x).tolist(), strict=True):
        exact = exact_exp(Fraction(one))
        assert abs(Fraction(found) - exact) <= exact / 2**45
    assert exp_of(np.array([-1e-9, 0.0, 64.0, 1e300, np.inf])).tolist()[:2] == [1, 1]
    assert exp_of(np.array([64.0, 1e300, np.inf])).max() < 2.0**-70


@by_variance
def test_floats_of_the_chances_are_within_the_stated_error(variance):
    step, rng = step_of(variance), np.random.default_rng(0)
    v = rng.integers(0, 9, 300)
    size = rng.integers(0, step, 300) + step * v
    for s, w, found in zip(size.tolist(), v.tolist(), chances(size, v, variance).tolist(), strict=True):
        x = s**2 / (2 * variance) - w
        if x < 50:
            exact = exact_exp(x)
            assert abs(Fraction(found) - exact) <= exact / 2**42
        else:
            assert found < 2.0**-70


# Words on the edge.


class Script:
    """Words in a given order; all of a batch are the same proposal."""

    def __init__(self, for_v: int, for_u: int, for_x: int, *more: int) -> None:
        self.proposal, self.more = (for_v, for_u, for_x), list(more)

    def __call__(self, size: int) -> np.ndarray:
        if size == 1:
            return np.array([self.more.pop(0) if self.more else 2**63], dtype=np.uint64)
        return np.repeat(np.array(self.proposal, dtype=np.uint64), size // 3)


def test_a_word_that_meets_a_cut_of_v_is_settled_by_more_bits():
    variance, cut = Fraction(2), floor_of_exp(Fraction(2), 64)
    rest = floor_of_exp(Fraction(2), 128) % 2**64
    below = gaussian_noise(Script(cut, 0, 0, *[rest - 1] * 100), 1, variance)
    above = gaussian_noise(Script(cut, 0, 0, *[rest + 1] * 100), 1, variance)
    assert below.tolist() == [2 * step_of(variance)]  # v = 2
    assert above.tolist() == [step_of(variance)]  # v = 1


def test_a_word_that_meets_the_cut_of_x_is_settled_by_more_bits():
    variance, u = Fraction(50), 3
    x = u**2 / (2 * variance)
    cut, rest = floor_of_exp(x, 64), floor_of_exp(x, 128) % 2**64
    proposal = (2**64 - 1, u << 1 | 1, cut)
    assert settle(proposal, variance, words_then(rest - 1)) == -u
    assert settle(proposal, variance, words_then(rest + 1)) is None
    assert gaussian_noise(Script(*proposal, *[rest - 1] * 100), 1, variance).tolist() == [-u]


def test_minus_zero_and_the_incomplete_last_run_are_dropped():
    variance = Fraction(50)
    last = 2**63 // step_of(variance) * step_of(variance)
    assert settle((2**64 - 1, 1, 0), variance, never) is None
    assert settle((2**64 - 1, 0, 0), variance, never) == 0
    assert settle((2**64 - 1, last << 1, 0), variance, never) is None
    assert settle((2**64 - 1, (last - 1) << 1, 0), variance, never) == step_of(variance) - 1


def test_noise_beyond_62_bits_is_added_in_whole_integers_and_the_sum_saturates(monkeypatch):
    monkeypatch.setattr(proposals, "FAR", 4)
    values = np.array([2**63 - 3, -(2**63) + 2, 0])
    wide = Script(floor_of_exp(Fraction(2), 64) - 1, 0, 0, *[0] * 100)
    assert gaussian_noise(wide, 3, Fraction(8), slack=math.inf).dtype == object
    noisy = add_gaussian(values, Fraction(8), Script(floor_of_exp(Fraction(2), 64) - 1, 0, 2))
    assert noisy.tolist() == [2**63 - 1, -(2**63) + 2 + 8, 8]


@pytest.mark.parametrize("source", [SecureNoise(), SeededNoise(4)], ids=["secure", "seeded"])
def test_gaussian_noise_saturates_and_never_wraps_round(source):
    top = np.full(200, 2**63 - 1)
    assert source.gaussian(top, Fraction(4)).min() > 2**62
    assert source.gaussian(-top, Fraction(4)).max() < -(2**62)
    assert source.gaussian(np.zeros((0, 3), dtype=np.int64), Fraction(4)).shape == (0, 3)


@pytest.mark.parametrize("variance", [Fraction(0), Fraction(-1), Fraction(2**104 + 1)], ids=str)
def test_a_variance_out_of_range_is_refused(variance):
    with pytest.raises(ValueError, match="at most 2\\^104"):
        SecureNoise().gaussian(np.zeros(3, dtype=np.int64), variance)


# The mechanism.

RHO = Rho.of(0.02)


def moved(square: int | None) -> Exact:
    return Exact(np.array([[4, 8], [15, 16]]), Sensitivity(l2_squared=square))


class Spy(SeededNoise):
    def __init__(self, ledger: Ledger) -> None:
        super().__init__(0)
        self.ledger, self.variances, self.entries = ledger, [], []

    def gaussian(self, values, variance):
        self.variances.append(variance)
        self.entries.append(self.ledger.spends)
        return super().gaussian(values, variance)


def watched(ledger: Ledger) -> tuple[Randomness, Spy]:
    spy = Spy(ledger)
    return Randomness(np.random.default_rng(0), spy), spy


@pytest.mark.parametrize("femto", [1, 7, 10**12, 20 * 10**12, 10**18])
@pytest.mark.parametrize("square", [1, 3, 2**40, 384 * 2**40 + 1])
def test_the_variance_is_the_squared_sensitivity_over_twice_rho_and_is_not_rounded(femto, square):
    ledger = Ledger()
    rng, spy = watched(ledger)
    Gaussian(Rho(femto)).release(moved(square), ledger=ledger, rng=rng, label="x")
    assert spy.variances == [Fraction(square * 10**15, 2 * femto)]
    assert Fraction(square) / (2 * spy.variances[0]) == Rho(femto).fraction


def test_the_spend_in_rho_is_recorded_before_the_draw():
    ledger = Ledger()
    rng, spy = watched(ledger)
    Gaussian(RHO).release(moved(1), ledger=ledger, rng=rng, label="x")
    assert spy.entries == [(Spend("x", rho=RHO),)]
    assert ledger.spends == (Spend("x", rho=RHO),)
    assert ledger.spends[0].epsilon == Epsilon(0)


def test_a_promise_in_pure_epsilon_refuses_gaussian_noise_before_anything_is_drawn():
    for ledger in (Ledger(1.0), Ledger(parent=Ledger(1.0))):
        rng, spy = watched(ledger)
        with pytest.raises(BudgetError, match="pure epsilon was promised"):
            Gaussian(RHO).release(moved(1), ledger=ledger, rng=rng, label="x")
        assert spy.variances == []
        assert ledger.spends == ()


@pytest.mark.parametrize("square", [None, 0])
def test_a_square_that_is_not_declared_is_refused_before_the_spend(square):
    ledger = Ledger()
    rng, spy = watched(ledger)
    with pytest.raises(BudgetError, match="'x' must declare a sensitivity"):
        Gaussian(RHO).release(moved(square), ledger=ledger, rng=rng, label="x")
    assert (spy.variances, ledger.spends) == ([], ())


def test_noise_that_could_not_fit_and_values_that_do_not_are_refused_before_the_spend():
    ledger, rng = Ledger(), Randomness.with_seed(0)
    with pytest.raises(BudgetError, match="larger rho"):
        Gaussian(Rho(1)).release(moved(2**60), ledger=ledger, rng=rng, label="x")
    for wrong in (np.array([2**62]), np.array([0.5]), np.zeros((0, 2), np.int64), [1]):
        with pytest.raises(DataError, match="'x'"):
            Gaussian(RHO).release(Exact(wrong, Sensitivity(l2_squared=1)), ledger=ledger, rng=rng, label="x")
    assert ledger.spends == ()


@pytest.mark.parametrize("rho", [0.02, Rho(0), Rho(-1), None, Epsilon(5)], ids=repr)
def test_a_budget_that_is_no_positive_rho_is_refused(rho):
    with pytest.raises(BudgetError, match="Rho"):
        Gaussian(rho)
    with pytest.raises(FrozenInstanceError):
        Gaussian(RHO).rho = RHO  # type: ignore[misc]
    with pytest.raises(BudgetError, match="Epsilon"):
        Laplace(RHO)


def test_the_same_seed_releases_the_same_and_secure_releases_differ():
    values = Exact(np.array([[MAX_VALUE, -MAX_VALUE], [10**9, 0]]), Sensitivity(l2_squared=2**40))

    def run(rng):
        return Gaussian(RHO).release(values, ledger=Ledger(), rng=rng, label="x").tolist()

    assert run(Randomness.with_seed(3)) == run(Randomness.with_seed(3))
    assert run(Randomness.secure()) != run(Randomness.secure())  # but for odds below 2^-80


@pytest.mark.parametrize("variance", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("change", [1, 2, 3])
def test_no_renyi_divergence_of_small_noise_is_above_order_times_rho(variance, change):
    """D_α(Z, Z + Δ) <= αΔ²/2σ² for the discrete law, with equality where αΔ is an integer; 0.8 of σ² breaks it."""
    z = np.arange(-2000, 2001)

    def divergence(alpha, variance):
        log_p, log_q = -(z**2) / (2 * variance), -((z - change) ** 2) / (2 * variance)
        total = np.log(np.exp(log_p - log_p.max()).sum())
        each = alpha * log_p + (1 - alpha) * log_q
        return (each.max() + np.log(np.exp(each - each.max()).sum()) - total) / (alpha - 1)

    for alpha in (1.1, 1.5, 2, 5.5, 20):
        bound = alpha * change**2 / (2 * variance)
        assert divergence(alpha, variance) <= bound * (1 + 1e-9)
    assert divergence(2, variance) == pytest.approx(2 * change**2 / (2 * variance))
    assert divergence(2, 0.8 * variance) > 2 * change**2 / (2 * variance) * 1.2
