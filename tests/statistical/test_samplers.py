"""The samplers' laws, by χ² on bins of nearly equal probability.

The secure source has no seed, so each of its tests fails by chance with probability FALSE_ALARM = 1e-9, and there are
about fifty. The seeded double is fixed: it passes always or never. Samples are so large that a scale that is wrong by
a tenth is missed with a probability below 1e-12. False alarm: 5e-8 for all of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import Exact
from dpkmeans.core.query import Sensitivity
from dpkmeans.core.rho import Rho
from dpkmeans.privacy import linf_laplace
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Gaussian, Laplace, LInfLaplace, PermuteAndFlip
from dpkmeans.privacy.randomness import NoiseSource, Randomness, SecureNoise, SeededNoise

FALSE_ALARM = 1e-9
DRAWS = 60_000
SCALES = [Fraction(3, 4), Fraction(6), Fraction(2001, 2), Fraction(2**20), Fraction(2**30)]
SOURCES: dict[str, Callable[[], NoiseSource]] = {"secure": SecureNoise, "seeded": lambda: SeededNoise(2024)}
RUNS = {"secure": Randomness.secure, "seeded": lambda: Randomness.with_seed(2024)}

by_source = pytest.mark.parametrize("name", ["secure", "seeded"])
by_scale = pytest.mark.parametrize("scale", SCALES, ids=lambda scale: f"scale {float(scale):.6g}")

Law = Callable[[np.ndarray, float], np.ndarray]
"""(k, scale) -> P(draw <= k)."""


def accepts(draws: np.ndarray, law: Law, scale: float, bins: int = 24) -> bool:
    """Whether the draws agree with the law, by χ² at level FALSE_ALARM.

    The edges come from the law that is tested, never from the draws, so that the level holds.
    """
    edges = quantiles(law, scale, np.arange(1, bins) / bins)
    chances = np.diff(law(edges, scale), prepend=0.0, append=1.0)
    observed = np.bincount(np.searchsorted(edges, draws), minlength=edges.size + 1)
    keep = chances * draws.size >= 10
    rest = 1 - chances[keep].sum()
    expected = np.append(chances[keep], rest) * draws.size
    seen = np.append(observed[keep], observed[~keep].sum())
    if rest < 1e-12:
        expected, seen = expected[:-1], seen[:-1]
    elif expected[-1] < 5:  # too thin for χ²: judge it alone, by its exact tail
        if stats.binom.sf(seen[-1] - 1, draws.size, rest) < FALSE_ALARM / 10:
            return False
        expected, seen = expected[:-1], seen[:-1]
    statistic = ((seen - expected) ** 2 / expected).sum()
    return bool(stats.chi2.sf(statistic, expected.size - 1) > FALSE_ALARM)


def quantiles(law: Law, scale: float, levels: np.ndarray) -> np.ndarray:
    """The distinct integers at which the law first reaches the levels, by bisection."""
    low, high = np.full(levels.size, -1 - 200 * scale), np.full(levels.size, 1 + 200 * scale)
    low, high = np.floor(low), np.ceil(high)
    while (high - low > 1).any():
        middle = np.floor((low + high) / 2)
        reached = law(middle, scale) >= levels
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    return np.unique(high)


def laplace_law(k: np.ndarray, scale: float) -> np.ndarray:
    inside = np.exp(-(np.abs(k + 0.5) + 0.5) / scale) / (1 + np.exp(-1 / scale))
    return np.where(k >= 0, 1 - inside, inside)


def geometric_law(k: np.ndarray, scale: float) -> np.ndarray:
    return np.where(k >= 0, -np.expm1(-(k + 1) / scale), 0.0)


def ball_weights(dims: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """n, and (2n+1)^dims exp(-n/scale) over its sum: the noise is uniform on [-n, n]^dims with this weight."""
    n = np.arange(int(60 * scale * (dims + 1)) + 200)
    logs = dims * np.log(2 * n + 1.0) - n / scale
    weights = np.exp(logs - logs.max())
    return n, weights / weights.sum()


def norm_law(dims: int) -> Law:
    """P(‖z‖∞ <= m): summed for small scales; Gamma(dims), which it approaches, from 2^20 on."""

    def law(k: np.ndarray, scale: float) -> np.ndarray:
        if scale > 2**15:
            return stats.gamma.cdf(np.maximum(k + 0.5, 0) / scale, dims)
        n, weights = ball_weights(dims, scale)  # the points of norm n are those of cube n and not of cube n-1
        shells = weights * -np.expm1(dims * np.log(np.maximum(2 * n - 1.0, 1e-300) / (2 * n + 1)))
        below = np.cumsum(shells) / shells.sum()
        return np.where(k >= 0, below[np.clip(k, 0, n[-1]).astype(int)], 0.0)

    return law


def size_law(dims: int) -> Law:
    """P(|z_1| <= k) of one entry: by cubes for small scales; its density's integral from 2^20 on."""

    def law(k: np.ndarray, scale: float) -> np.ndarray:
        if scale > 2**15:
            x = np.maximum(k + 0.5, 0) / scale
            beyond = stats.gamma.sf(x, dims)
            return 1 - (beyond - x / dims * stats.gamma.sf(x, dims - 1)) if dims > 1 else 1 - beyond
        n, weights = ball_weights(dims, scale)
        inside = [(weights * np.minimum(1, (2 * one + 1) / (2 * n + 1))).sum() for one in np.maximum(k, 0)]
        return np.where(k >= 0, inside, 0.0)

    return law


def gaussian_law(k: np.ndarray, scale: float) -> np.ndarray:
    """P(z <= k) of the discrete Gaussian: summed for small scales; the normal law, which it approaches, beyond."""
    if scale > 2**15:
        return stats.norm.cdf((k + 0.5) / scale)
    z = np.arange(-int(40 * scale) - 20, int(40 * scale) + 21)
    weights = np.exp(-(z**2) / (2 * scale**2))
    below = np.cumsum(weights) / weights.sum()
    return np.where(k < z[0], 0.0, below[np.clip(k - z[0], 0, z.size - 1).astype(int)])


def judge(draws: np.ndarray, law: Law, scale: Fraction) -> None:
    assert accepts(draws, law, float(scale))
    assert not accepts(draws, law, 0.9 * float(scale))
    assert not accepts(draws, law, 1.1 * float(scale))


@by_source
@by_scale
def test_laplace_draws_have_their_law_and_no_other_scale(name, scale):
    judge(SOURCES[name]().laplace(np.zeros(DRAWS, dtype=np.int64), scale), laplace_law, scale)


@by_source
@by_scale
def test_gaussian_draws_have_their_law_and_no_other_scale(name, scale):
    judge(SOURCES[name]().gaussian(np.zeros(DRAWS, dtype=np.int64), scale**2), gaussian_law, scale)


@by_source
@pytest.mark.parametrize("variance", [Fraction(1, 6), Fraction(1, 2), Fraction(7, 3)], ids=str)
def test_small_gaussian_noise_has_its_law_point_by_point(name, variance):
    """So many bins that every integer is one; a scale that is off by a twentieth is rejected."""
    draws, scale = SOURCES[name]().gaussian(np.zeros(4 * DRAWS, dtype=np.int64), variance), float(variance) ** 0.5
    assert accepts(draws, gaussian_law, scale, bins=5000)
    assert not accepts(draws, gaussian_law, 0.95 * scale, bins=5000)
    assert not accepts(draws, gaussian_law, 1.05 * scale, bins=5000)


@by_source
@by_scale
def test_geometric_draws_have_their_law_and_no_other_scale(name, scale):
    judge(SOURCES[name]().geometric(DRAWS, scale), geometric_law, scale)


@by_source
@by_scale
def test_cube_noise_has_the_law_of_its_norm_and_of_one_entry_and_no_other_scale(name, scale):
    dims = 3
    noise = linf_laplace.cube_noise(SOURCES[name](), DRAWS // 3, dims, scale)
    judge(np.abs(noise).max(axis=1), norm_law(dims), scale)
    judge(np.abs(noise[:, 0]), size_law(dims), scale)


@pytest.mark.parametrize("dims", [1, 2, 11, 101])
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(5), Fraction(2**20)], ids=str)
def test_cube_noise_has_its_law_in_any_number_of_dimensions(dims, scale):
    noise = linf_laplace.cube_noise(SeededNoise(dims), 20_000, dims, scale)
    assert accepts(np.abs(noise).max(axis=1), norm_law(dims), float(scale))
    assert accepts(np.abs(noise[:, dims // 2]), size_law(dims), float(scale))
    # Hyperplanes are fair: a sum of ±1 over all entries.
    signs = np.sign(noise)
    assert abs(signs.sum()) < 5 * np.sqrt((np.abs(signs.sum(axis=1)) ** 2).sum())


def test_cube_noise_of_one_entry_is_laplace_noise():
    noise = linf_laplace.cube_noise(SecureNoise(), DRAWS, 1, Fraction(40))
    judge(noise[:, 0], laplace_law, Fraction(40))


def test_small_cube_noise_has_its_joint_law_point_by_point():
    scale = Fraction(3, 4)
    noise = linf_laplace.cube_noise(SecureNoise(), DRAWS, 2, scale)
    points = list(itertools.product(range(-3, 4), repeat=2))
    total = sum(((2 * m + 1) ** 2 - max(2 * m - 1, 0) ** 2 + 0.0) * np.exp(-m / 0.75) for m in range(1, 200)) + 1
    chances = np.array([np.exp(-max(map(abs, z)) / 0.75) / total for z in points])
    seen = np.array([(noise == z).all(axis=1).sum() for z in points])
    chances, seen = np.append(chances, 1 - chances.sum()), np.append(seen, DRAWS - seen.sum())
    assert stats.chisquare(seen, chances * DRAWS).pvalue > FALSE_ALARM


@by_source
@pytest.mark.parametrize(("dims", "norm"), [(1, 3), (2, 1), (2, 4), (3, 1), (3, 2), (4, 1)])
def test_points_are_uniform_on_a_small_shell(name, dims, norm):
    rows = 60_000
    points = linf_laplace.on_shell(SOURCES[name](), np.full(rows, norm), dims)
    assert (np.abs(points).max(axis=1) == norm).all()
    codes = (points + norm) @ (2 * norm + 1) ** np.arange(dims)
    seen = np.unique(codes, return_counts=True)[1]
    assert seen.size == (2 * norm + 1) ** dims - (2 * norm - 1) ** dims
    assert stats.chisquare(seen).pvalue > FALSE_ALARM


def test_points_are_uniform_on_a_small_shell_in_whole_integers_too():
    points = linf_laplace.on_shell(SeededNoise(9), np.full(20_000, 2, dtype=object), 2).astype(np.int64)
    seen = np.unique(points @ [1, 5], return_counts=True)[1]
    assert seen.size == 16
    assert stats.chisquare(seen).pvalue > FALSE_ALARM


@by_source
@pytest.mark.parametrize("bits", [1, 2, linf_laplace.WORD])
def test_offsets_have_their_law_also_when_words_are_too_short_and_must_go_on(name, bits):
    dims, scale = 4, Fraction(5)
    drawn = linf_laplace.offsets(SOURCES[name](), 30_000, dims, scale, bits)
    weights = np.array([1, 76, 230, 76, 1]) * np.exp(-np.arange(dims + 1) / float(scale))
    seen = np.bincount(drawn, minlength=dims + 1)
    assert stats.chisquare(seen, weights / weights.sum() * drawn.size).pvalue > FALSE_ALARM


@by_source
@pytest.mark.parametrize("n", [2, 3, 7, 48])
def test_below_is_uniform(name, n):
    source = SOURCES[name]()
    each = np.bincount(source.below_each(np.full(50_000, n)), minlength=n)
    one = np.bincount([source.below(n) for _ in range(20_000)], minlength=n)
    assert stats.chisquare(each).pvalue > FALSE_ALARM
    assert stats.chisquare(one).pvalue > FALSE_ALARM


@by_source
def test_below_is_uniform_in_its_leading_digits_for_a_large_bound(name):
    source = SOURCES[name]()
    n = 3 * 2**61  # a quarter of all 64-bit words lies in the incomplete last run
    drawn = source.below_each(np.full(50_000, n)) // (2**61 // 8)
    assert stats.chisquare(np.bincount(drawn, minlength=24)).pvalue > FALSE_ALARM
    digits = [source.below(3**80) * 27 // 3**80 for _ in range(20_000)]
    assert stats.chisquare(np.bincount(digits, minlength=27)).pvalue > FALSE_ALARM


@by_source
def test_releases_of_laplace_and_cube_have_the_scale_of_sensitivity_over_epsilon(name):
    rng, epsilon, sensitivity = RUNS[name](), Epsilon.of(0.3), 2**20
    scale = Fraction(sensitivity) / epsilon.fraction
    zeros = Exact(np.zeros((15_000, 2), dtype=np.int64), Sensitivity(l1=sensitivity, linf=sensitivity, one_row=True))
    laplace = Laplace(epsilon).release(zeros, ledger=Ledger(), rng=rng, label="x")
    judge(laplace.ravel(), laplace_law, scale)
    noise = LInfLaplace(epsilon).release(zeros, ledger=Ledger(), rng=rng, label="x")
    judge(np.abs(noise).max(axis=1), norm_law(2), scale)


@by_source
def test_releases_of_gaussian_noise_have_the_scale_of_the_l2_sensitivity_over_rho(name):
    rho, square = Rho.of(0.02), 2**41 + 1
    zeros = Exact(np.zeros((15_000, 2), dtype=np.int64), Sensitivity(l2_squared=square))
    noise = Gaussian(rho).release(zeros, ledger=Ledger(), rng=RUNS[name](), label="x")
    judge(noise.ravel(), gaussian_law, Fraction(math.sqrt(square / 0.04)))


@by_source
def test_choice_has_the_law_of_permute_and_flip(name):
    rng, scores, epsilon = RUNS[name](), [0, 3, 5, 5, 2], Epsilon.of(0.8)
    runs = 3_000
    stay = np.exp(-(5 - np.array(scores)) * 0.8 / 4)
    law = np.zeros(5)
    for kept in itertools.product([0, 1], repeat=5):
        if any(kept):
            law += np.array(kept) / sum(kept) * np.prod(np.where(kept, stay, 1 - stay))
    choice, exact = PermuteAndFlip(epsilon), Exact(np.array(scores), Sensitivity(gap=4))
    drawn = [choice.release(exact, ledger=Ledger(), rng=rng, label="x") for _ in range(runs)]
    assert law.sum() == pytest.approx(1)
    assert stats.chisquare(np.bincount(drawn, minlength=5), law * runs).pvalue > FALSE_ALARM
