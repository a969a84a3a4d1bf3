"""The cube sampler, step by step, in exact arithmetic. Its law is judged in statistical/test_samplers.py."""

from __future__ import annotations

import itertools
from decimal import Decimal, localcontext
from fractions import Fraction
from math import comb, factorial

import numpy as np
import pytest

from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import Exact
from dpkmeans.core.query import Sensitivity
from dpkmeans.privacy import linf_laplace
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import LInfLaplace
from dpkmeans.privacy.randomness import SATURATED, Randomness, SeededNoise


def shell(dims: int, norm: int) -> list[tuple[int, ...]]:
    return [z for z in itertools.product(range(-norm, norm + 1), repeat=dims) if max(map(abs, z)) == norm]


def eulerian(dims: int) -> tuple[int, ...]:
    """The Eulerian numbers of type B, B(dims, 0), ..., B(dims, dims), in full."""
    row = [1]
    for size in range(1, dims + 1):
        keep, move = [*row, 0], [0, *row]
        row = [(2 * j + 1) * keep[j] + (2 * (size - j) + 1) * move[j] for j in range(size + 1)]
    return tuple(row)


@pytest.mark.parametrize("dims", range(1, 12))
def test_offset_weights_and_geometric_sums_count_every_shell_exactly(dims):
    weights = eulerian(dims)
    assert sum(weights) == 2**dims * factorial(dims)
    for norm in range(40):
        points = (2 * norm + 1) ** dims - (max(2 * norm - 1, 0)) ** dims
        if norm == 0:
            points = 1
        ways = sum(w * comb(norm - j + dims - 1, dims - 1) for j, w in enumerate(weights[: norm + 1]))
        assert ways == points


@pytest.mark.parametrize(("dims", "norm"), [(1, 1), (1, 4), (2, 1), (2, 3), (3, 1), (3, 2), (4, 1)])
def test_every_point_of_a_shell_has_exactly_one_accepted_proposal(dims, norm):
    others = itertools.product(range(2 * norm + 1), repeat=dims)
    proposals = [(u, code) for u in others for code in range(2 * dims)]
    script = Scripted([u for u, _ in proposals], [code for _, code in proposals])
    accepted = script.one_round(norm)
    # Each proposal (face, side, other entries) is listed once per value of the entry that ±norm replaces.
    counts = {z: accepted.count(z) for z in shell(dims, norm)}
    assert set(counts.values()) == {2 * norm + 1}
    assert len(accepted) == sum(counts.values())
    rate = Fraction(len(accepted), len(proposals))
    assert rate == Fraction(len(counts), 2 * dims * (2 * norm + 1) ** (dims - 1))


class Scripted(SeededNoise):
    """Proposes a given list on the first round, then something that is accepted for certain."""

    def __init__(self, entries, codes):
        super().__init__(0)
        self.entries, self.codes = np.array(entries), np.array(codes)
        self.fresh = [True, True]

    def below_each(self, bounds):
        first = self.fresh[bounds.ndim - 1]
        self.fresh[bounds.ndim - 1] = False
        if bounds.ndim == 2:
            return self.entries.copy() if first else bounds // 2
        return self.codes if first else np.zeros_like(bounds)

    def one_round(self, norm):
        """What the first round accepts. Later rounds give (-norm, 0, ..., 0), told apart by their place."""
        rows, dims = self.entries.shape
        points = linf_laplace.on_shell(self, np.full(rows, norm), dims)
        face, side = np.divmod(self.codes, 2)
        proposed = self.entries - norm
        proposed[np.arange(rows), face] = np.where(side == 1, norm, -norm)
        same = (points == proposed).all(axis=1)
        filler = np.array([-norm] + [0] * (dims - 1))
        refused_but_equal = (proposed == filler).all(axis=1) & (face != 0)
        return [tuple(z) for z in points[same & ~refused_but_equal].tolist()]


def test_a_norm_of_zero_is_the_origin_and_costs_no_draw():
    class Silent(SeededNoise):
        def below_each(self, bounds):
            raise AssertionError("drew something")

    assert linf_laplace.on_shell(Silent(0), np.zeros(4, dtype=np.int64), 3).tolist() == [[0, 0, 0]] * 4


@pytest.mark.parametrize("dims", [1, 2, 3, 11, 101])
@pytest.mark.parametrize("scale", [Fraction(1, 16), Fraction(1, 2), Fraction(7), Fraction(2**30), Fraction(2**52)])
def test_the_cuts_of_the_offset_are_right_in_every_bit(dims, scale):
    with localcontext(prec=1000):
        q = (-Decimal(scale.denominator) / Decimal(scale.numerator)).exp()
        weights = [Decimal(w) * q**j for j, w in enumerate(eulerian(dims))]
        below = [sum(weights[: j + 1]) / sum(weights) for j in range(dims)]
        for bits in (3, 62, 124):
            assert linf_laplace._cuts(dims, scale, bits) == tuple(int(p * 2**bits) for p in below)


@pytest.mark.parametrize("dims", [0, 1, 2, 5, 30, 170])
@pytest.mark.parametrize("precision", [3, 70, 126, 800])
def test_shares_cut_off_at_any_precision_enclose_the_eulerian_numbers(dims, precision):
    total = 2**dims * factorial(dims)
    for weight, share in zip(eulerian(dims), linf_laplace.shares(dims, precision), strict=True):
        assert share * total <= weight << precision < (share + linf_laplace.off_by(dims)) * total


@pytest.mark.parametrize("scale", [Fraction(1, 16), Fraction(7), Fraction(2**30)])
def test_cuts_that_a_precision_leaves_open_are_enclosed_and_found_with_more_of_it(scale):
    dims, bits = 40, 62
    right = linf_laplace._cuts(dims, scale, bits)
    for precision in (8, 40, 64, 100, 700):
        below, above = linf_laplace._cuts_around(dims, scale, bits, precision)
        assert all(a <= cut <= b for a, cut, b in zip(below, right, above, strict=True))
    assert linf_laplace._cuts_around(dims, scale, bits, 8)[0] != right
    assert below == above


def test_a_thousand_entries_need_no_number_of_thousands_of_digits():
    assert max(share.bit_length() for share in linf_laplace.shares(1000, 126)) <= 126
    assert sum(share > 0 for share in linf_laplace.shares(1000, 126)) < 250
    cuts = linf_laplace._cuts(1000, Fraction(2**20), 62)
    middle = cuts[500] + cuts[499]  # of P(offset <= j), about symmetric: the tilt by q is tiny
    assert abs(middle - 2**62) < 2**62 / 1000
    assert list(cuts) == sorted(cuts)
    assert cuts[0] == 0
    assert cuts[-1] == 2**62 - 1


def test_fractions_enclose_the_exponential_at_any_number_of_digits():
    for scale in (Fraction(1, 1000), Fraction(1), Fraction(2**52)):
        low, high = linf_laplace._around(scale, 60)
        for digits in (80, 300):
            finer_low, finer_high = linf_laplace._around(scale, digits)
            assert low <= finer_low < finer_high <= high


class Saturating(SeededNoise):
    """Geometric draws that saturate a given number of times before they come to an end."""

    def __init__(self, saturated: int) -> None:
        super().__init__(0)
        self.left = saturated

    def geometric(self, size, scale):
        drawn = super().geometric(size, scale)
        if self.left:
            drawn[-1] = SATURATED
            self.left -= 1
        return drawn


@pytest.mark.parametrize("times", [1, 3])
def test_a_saturated_draw_goes_on_in_whole_integers_and_the_release_saturates(times):
    noise = linf_laplace.cube_noise(Saturating(times), 4, 3, Fraction(50))
    assert noise.dtype == object
    norms = [max(map(abs, row)) for row in noise.tolist()]
    assert times * SATURATED <= norms[-1] < times * SATURATED + 10**5
    assert max(norms[:-1]) < 10**5
    rng = Randomness(np.random.default_rng(0), Saturating(times))
    zeros = Exact(np.zeros((4, 3), dtype=np.int64), Sensitivity.of_row((1, 1, 1)))
    released = LInfLaplace(Epsilon.of(0.02)).release(zeros, ledger=Ledger(), rng=rng, label="x")
    assert released.dtype == np.int64
    assert np.abs(released[:-1]).max() < 10**5
