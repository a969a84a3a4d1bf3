"""The sampler of integer Laplace noise, step by step, in exact arithmetic. Its law is judged in statistical/."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from dpkmeans.privacy import laplace
from dpkmeans.privacy.exponential import floor_of_exp
from dpkmeans.privacy.laplace import add_laplace, laplace_noise
from dpkmeans.privacy.proposals import FAR, MAX_STEP, SLACK, cuts_of_v

SCALES = [Fraction(1, 1024), Fraction(3, 4), Fraction(1), Fraction(5), Fraction(2001, 2), Fraction(2**52 - 1, 4)]
SCALES += [Fraction(2**52 - 1, 2**60), Fraction(2**55)]
by_scale = pytest.mark.parametrize("scale", SCALES, ids=lambda scale: f"scale {float(scale):.3g}")
V = 46  # e^-46 is below 2^-66


def words_of(seed: int):
    generator = np.random.default_rng(seed)
    return lambda size: generator.integers(0, 2**64, size, dtype=np.uint64)


def never() -> int:
    raise AssertionError("64 bits decide")


def law_by_all_proposals(scale: Fraction) -> dict[int, Fraction]:
    """P(z) from what the exact path makes of all proposals: words that decide alike are taken together.

    The borders are asked of the code: a word just below or above one must decide as its group does. The words on the
    borders, a share of 2^-64 each, are left out.
    """
    draw = laplace.proposals_of(scale)
    edges = [2**64, *(int(cut) for cut in cuts_of_v()[::-1]), 0]
    law: dict[int, Fraction] = {}
    for v in range(V - 1):
        words_of_v = (edges[v] - 1, edges[v + 1] + 1)
        if words_of_v[0] < words_of_v[1]:
            continue
        for u in range(draw.step):
            cut = floor_of_exp(Fraction(u, draw.step), 64)
            share = Fraction(words_of_v[0] - words_of_v[1] + 1, 2**64) * Fraction(cut, 2**64) / (2 * draw.step)
            for sign in (0, 1):
                seen = {draw.settle((word, u << 1 | sign, w), never) for word in words_of_v for w in (0, cut - 1)}
                (z,) = seen
                if cut < 2**64 - 1:
                    assert draw.settle((words_of_v[0], u << 1 | sign, cut + 1), never) is None
                if z is not None:
                    law[z] = law.get(z, Fraction(0)) + share
    total = sum(law.values())
    return {z: share / total for z, share in law.items()}


SMALL_SCALES = [
    *(Fraction(1, 4), Fraction(3, 4), Fraction(1)),
    *(pytest.param(scale, marks=pytest.mark.slow) for scale in (Fraction(5, 2), Fraction(6))),
]


@pytest.mark.parametrize("scale", SMALL_SCALES, ids=str)
def test_the_law_of_all_proposals_is_laplaces_and_loses_one_over_the_scale(scale):
    found = law_by_all_proposals(scale)
    with localcontext(prec=50):
        q = (-Decimal(scale.denominator) / Decimal(scale.numerator)).exp()
        for z in range(-8, 9):
            right = Fraction((1 - q) / (1 + q) * q ** abs(z))
            assert abs(found.get(z, Fraction(0)) - right) < Fraction(1, 2**55)
        wrong = (-Decimal(scale.denominator) / (Decimal("0.9") * Decimal(scale.numerator))).exp()
        assert abs(found[0] - Fraction((1 - wrong) / (1 + wrong))) > Fraction(1, 100_000)


@by_scale
def test_the_exact_path_alone_makes_the_same_draws(scale):
    """With an enclosure so wide that no word is ever clear of it, everything is decided by exact fractions."""
    fast, exact = (laplace_noise(words_of(5), 300, scale, slack=slack) for slack in (SLACK, math.inf))
    np.testing.assert_array_equal(fast, exact)


def test_the_draws_depend_on_the_words_alone():
    scale, n = Fraction(2001, 2), 116
    words = words_of(3)(3 * n).reshape(3, n)
    one_by_one = (laplace.proposals_of(scale).settle(tuple(map(int, proposal)), never) for proposal in words.T)
    kept = [z for z in one_by_one if z is not None]
    assert len(kept) >= 50
    assert laplace_noise(words_of(3), 50, scale).tolist() == kept[:50]


@by_scale
def test_floats_of_the_chances_are_within_the_stated_error(scale):
    draw, rng = laplace.proposals_of(scale), np.random.default_rng(0)
    v = rng.integers(0, 45, 300)
    whole = rng.integers(0, draw.step, 300) + draw.step * v
    with localcontext(prec=60):
        for w, at, found in zip(whole.tolist(), v.tolist(), draw.chances(whole, v).tolist(), strict=True):
            x = draw.exponent(w, at)
            assert 0 <= x < 1
            exact = Fraction((-Decimal(x.numerator) / Decimal(x.denominator)).exp())
            assert abs(Fraction(found) - exact) <= exact / 2**42


def test_words_on_a_border_are_settled_by_more_bits():
    scale, u = Fraction(50), 3
    x, draw = Fraction(u, 50), laplace.proposals_of(scale)
    cut, rest = floor_of_exp(x, 64), floor_of_exp(x, 128) % 2**64
    assert draw.settle((2**64 - 1, u << 1 | 1, cut), lambda: rest - 1) == -u
    assert draw.settle((2**64 - 1, u << 1 | 1, cut), lambda: rest + 1) is None
    cut, rest = floor_of_exp(Fraction(2), 64), floor_of_exp(Fraction(2), 128) % 2**64
    assert draw.settle((cut, 0, 0), lambda: rest - 1) == 100
    assert draw.settle((cut, 0, 0), lambda: rest + 1) == 50


def test_minus_zero_and_the_incomplete_last_run_are_dropped():
    draw = laplace.proposals_of(Fraction(50))
    last = 2**63 // 50 * 50
    assert draw.settle((2**64 - 1, 1, 0), never) is None
    assert draw.settle((2**64 - 1, 0, 0), never) == 0
    assert draw.settle((2**64 - 1, last << 1, 0), never) is None
    assert draw.settle((2**64 - 1, (last - 1) << 1, 0), never) == 49
    halves = laplace.proposals_of(Fraction(5, 2))  # what is divided by 2 comes to 0
    assert [halves.settle((2**64 - 1, u << 1 | 1, 0), never) for u in range(5)] == [None, None, -1, -1, -2]


def test_the_largest_proposals_that_words_decide_fit_and_sums_saturate():
    assert FAR + (45 + 1) * MAX_STEP < 2**63

    def far(size: int) -> np.ndarray:
        """v = 43, the largest u, and a word for x that accepts."""
        each = size // 3
        return np.repeat(np.array([2, (MAX_STEP - 1) << 1, 0], dtype=np.uint64), each)

    (noise,) = laplace_noise(far, 1, Fraction(MAX_STEP)).tolist()
    assert noise == 44 * MAX_STEP - 1
    assert add_laplace(np.array([FAR]), Fraction(MAX_STEP), far).tolist() == [FAR + noise]
    assert add_laplace(np.array([2**63 - 5]), Fraction(MAX_STEP), far).tolist() == [2**63 - 1]
