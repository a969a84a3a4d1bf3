"""Zones and their draws.

Statistical tests: the seed is fixed; over all seeds each would fail on correct code with probability FALSE_ALARM. Each
also shows that it rejects a wrong rate.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from dpkmeans.kernels.zones import (
    distances,
    far_point,
    largest_angle,
    orthogonal_directions,
    place,
    sample_offset,
    sample_pair,
    sample_turn,
    sampling_zones,
    truncated_exponential,
)

FALSE_ALARM = 1e-6
N = 40_000


def generator(seed=0):
    return np.random.default_rng(seed)


def truncated_cdf(rate, low, high):
    """Distribution of the density ∝ exp(-rate x) on [low, high], written down apart from the code under test."""
    return lambda x: (
        (np.exp(-rate * low) - np.exp(-rate * np.asarray(x))) / (np.exp(-rate * low) - np.exp(-rate * high))
    )


def fits(draws, cdf):
    return bool(stats.kstest(draws, cdf).pvalue > FALSE_ALARM)


@pytest.mark.parametrize(("wrong", "accepted"), [(1, True), (1.5, False), (2 / 3, False)])
def test_the_turn_has_its_density_and_no_other_rate(wrong, accepted):
    draws = sample_turn(N, generator(1))
    assert fits(draws, truncated_cdf(wrong * 2 / np.pi, 0, np.pi / 2)) is accepted
    assert 0 <= draws.min() <= draws.max() <= np.pi / 2


@pytest.mark.parametrize(("wrong", "accepted"), [(1, True), (1.5, False), (2 / 3, False)])
def test_the_offset_has_its_density_and_no_other_rate(wrong, accepted):
    draws = sample_offset(N, generator(2))
    assert fits(draws, truncated_cdf(wrong * 2, 0.5, 1)) is accepted
    assert 0.5 <= draws.min() <= draws.max() < 1


@given(st.floats(1e-9, 1e3), st.floats(-2, 2), st.floats(0, 3), st.floats(0, 1, exclude_max=True))
def test_the_inverse_undoes_the_distribution(rate, low, width, share):
    x = truncated_exponential(rate, low, low + width, share)
    assert low - 1e-9 <= x <= low + width + 1e-9
    below = -np.expm1(-rate * (x - low))
    whole = -np.expm1(-rate * width)
    assert below == pytest.approx(share * whole, rel=1e-6, abs=1e-9 * rate + 1e-15)


def weight_of_angles(angle_rate, low, high):
    """∫ exp(-angle_rate α) dα from low to high; nothing where high is below low."""
    high = np.maximum(high, low)
    return (np.exp(-angle_rate * low) - np.exp(-angle_rate * high)) / angle_rate


def cell_probabilities(offset, epsilon, ratios, angles):
    """Exact probabilities of (δ, |α|) over the cells of a grid: closed in α, by quadrature in δ."""
    rate = epsilon / 4
    angle_rate = rate * 2 / np.pi

    def border(ratio):
        cosine = (ratio**2 - (1 - offset) ** 2 + offset**2) / (2 * ratio * offset)
        return np.arccos(np.clip(cosine, -1, 1))

    table = np.empty((len(ratios) - 1, len(angles) - 1))
    for i, (r0, r1) in enumerate(pairwise(ratios)):
        ratio = np.linspace(r0, r1, 4001)
        for j, (a0, a1) in enumerate(pairwise(angles)):
            inner = weight_of_angles(angle_rate, a0, np.minimum(border(ratio), a1))
            table[i, j] = integrate.simpson(np.exp(-rate * ratio) * inner, x=ratio)
    return table / table.sum()


@pytest.mark.parametrize("offset", [0.5 + 1e-9, 0.6, 0.9, 0.999])
@pytest.mark.parametrize("epsilon", [0.1, 4.0, 40.0])
def test_distance_ratio_and_angle_have_their_joint_density(offset, epsilon):
    ratio, angle = sample_pair(np.full(N, offset), epsilon, generator(3), False)
    ratios = np.linspace(2 * offset - 1, 1, 13)
    ratios[0] = max(ratios[0], 1e-12)
    angles = np.linspace(0, np.arcsin(min((1 - offset) / offset, 1)), 13)

    def p_value(assumed_epsilon):
        observed = np.histogram2d(ratio, angle, [ratios, angles])[0]
        assert observed.sum() == pytest.approx(N, abs=2)  # rounding at the outer border
        expected = cell_probabilities(offset, assumed_epsilon, ratios, angles) * observed.sum()
        common = expected >= 10
        f_obs = [*observed[common], observed[~common].sum()]
        f_exp = [*expected[common], expected[~common].sum()]
        if f_exp[-1] < 10:
            f_obs[-2:], f_exp[-2:] = [sum(f_obs[-2:])], [sum(f_exp[-2:])]
        return stats.chisquare(f_obs, np.array(f_exp) * (sum(f_obs) / sum(f_exp))).pvalue

    assert p_value(epsilon) > FALSE_ALARM
    if epsilon == 40.0 and offset < 0.99:  # near 1 the zone is too small for a rate to show
        assert p_value(1.5 * epsilon) < FALSE_ALARM
        assert p_value(epsilon / 3) < FALSE_ALARM


@pytest.mark.parametrize("offset", [0.55, 0.8])
def test_the_distance_ratio_alone_has_its_marginal_density(offset):
    epsilon = 20.0
    ratio, _ = sample_pair(np.full(N, offset), epsilon, generator(4), False)

    def cdf(assumed):
        edges = np.linspace(2 * offset - 1, 1, 400)
        shares = cell_probabilities(offset, assumed, edges, np.array([0, np.pi / 2]))[:, 0]
        return lambda x: np.interp(x, edges, np.concatenate([[0], np.cumsum(shares)]))

    assert fits(ratio, cdf(epsilon))
    assert not fits(ratio, cdf(1.5 * epsilon))


@pytest.mark.parametrize("offset", [0.55, 0.8])
def test_the_angle_given_the_distance_ratio_is_a_truncated_exponential(offset):
    epsilon = 20.0
    ratio, angle = sample_pair(np.full(N, offset), epsilon, generator(5), False)
    rate = epsilon / 4 * 2 / np.pi

    def shares(assumed):
        return np.expm1(-assumed * angle) / np.expm1(-assumed * np.array([largest_angle(r, offset) for r in ratio]))

    assert fits(shares(rate), stats.uniform.cdf)
    assert not fits(shares(1.5 * rate), stats.uniform.cdf)


@pytest.mark.parametrize("offset", [0.5, 0.7, 0.95])
def test_with_one_feature_only_the_distance_ratio_is_drawn(offset):
    epsilon = 40.0
    ratio, angle = sample_pair(np.full(N, offset), epsilon, generator(6), True)
    assert not angle.any()
    assert fits(ratio, truncated_cdf(epsilon / 4, 2 * offset - 1, 1))
    if offset < 0.9:
        assert not fits(ratio, truncated_cdf(1.5 * epsilon / 4, 2 * offset - 1, 1))


def test_clusters_have_their_own_offset():
    offset = np.tile([0.55, 0.9], N // 2)
    for epsilon in (40.0, 1.0):
        ratio, _ = sample_pair(offset, epsilon, generator(7), True)
        assert fits(ratio[0::2], truncated_cdf(epsilon / 4, 0.1, 1))
        assert fits(ratio[1::2], truncated_cdf(epsilon / 4, 0.8, 1))


@given(st.floats(0.5, 1, exclude_min=True, exclude_max=True), st.floats(1e-9, 1000), st.integers(0, 2**32))
def test_every_pair_lies_in_its_zone_for_any_offset_and_epsilon(offset, epsilon, seed):
    ratio, angle = sample_pair(np.full(20, offset), epsilon, generator(seed), False)
    assert (ratio >= 2 * offset - 1 - 1e-12).all()
    assert (ratio <= 1 + 1e-12).all()
    reach = ratio**2 - 2 * ratio * offset * np.cos(angle) + offset**2
    assert (reach <= (1 - offset) ** 2 + 1e-12).all()


@pytest.mark.parametrize("d", [2, 3, 7])
def test_the_random_plane_is_uniform(d):
    """The first coordinate, within the orthogonal space, of a uniform direction: squared, it is Beta(1/2, (d-2)/2)."""
    axis = generator(8).standard_normal(d)
    axis /= np.linalg.norm(axis)
    directions = orthogonal_directions(np.tile(axis, (N, 1)), generator(9))
    assert np.abs(directions @ axis).max() < 1e-12
    assert np.linalg.norm(directions, axis=1) == pytest.approx(np.ones(N))
    basis = np.linalg.svd(axis[None, :])[2][1:]
    for b in basis:
        along = directions @ b
        if d == 2:
            assert stats.binomtest(int((along > 0).sum()), N).pvalue > FALSE_ALARM
        else:
            assert fits(along**2, stats.beta(0.5, (d - 2) / 2).cdf)
            assert not fits(along**2, stats.beta(0.5, (d - 1) / 2).cdf)
            assert stats.binomtest(int((along > 0).sum()), N).pvalue > FALSE_ALARM


@given(st.integers(2, 8), st.integers(0, 2**32), st.integers(-200, 200))
def test_a_random_direction_is_orthogonal_and_of_unit_length_for_any_axis(d, seed, exponent):
    axes = generator(seed).standard_normal((10, d))
    axes[0] = np.eye(d)[0]
    axes[1] = np.eye(d)[0] + 2.0**exponent * np.eye(d)[1] if exponent < 0 else axes[1]
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    found = orthogonal_directions(axes, generator(seed + 1))
    assert np.abs(np.sum(found * axes, axis=1)).max() < 1e-10
    assert np.abs(np.linalg.norm(found, axis=1) - 1).max() < 1e-10


@st.composite
def geometries(draw):
    d, k = draw(st.integers(1, 8)), draw(st.integers(1, 6))
    rng = generator(draw(st.integers(0, 2**32)))
    size = 10.0 ** draw(st.integers(-9, 1))
    means = rng.random((k, d))
    return means, means + size * rng.standard_normal((k, d)), rng


@given(geometries())
def test_the_zone_touches_the_controller_and_leaves_the_mean_outside(geometry):
    means, controller, rng = geometry
    offset = sample_offset(len(means), rng)
    center, radius = sampling_zones(means, controller, offset)
    size = np.linalg.norm(controller - means, axis=1)
    assert np.abs(np.linalg.norm(controller - center, axis=1) - radius).max() <= 1e-12
    assert (np.linalg.norm(means - center, axis=1) >= radius - 1e-12 * (1 + size)).all()


@given(geometries(), st.floats(0.001, 1000))
def test_every_drawn_point_lies_in_its_zone(geometry, epsilon):
    means, controller, rng = geometry
    k, d = means.shape
    offset = sample_offset(k, rng)
    center, radius = sampling_zones(means, controller, offset)
    ratio, angle = sample_pair(offset, epsilon, rng, d == 1)
    points = place(means, controller, ratio, angle, rng)
    size = np.linalg.norm(controller - means, axis=1)
    assert (np.linalg.norm(points - center, axis=1) <= radius + 1e-12 * (1 + size)).all()


@given(geometries())
def test_the_far_point_lies_across_the_mean_on_the_border_of_the_convergent_zone(geometry):
    means, previous, _ = geometry
    far = far_point(previous, means)
    assert far - means == pytest.approx(means - previous, abs=1e-12)
    assert distances(far, means) == pytest.approx(distances(previous, means), rel=1e-6, abs=1e-14)


def test_a_zone_of_no_size_gives_its_point():
    means = np.array([[0.3, 0.7]])
    _, radius = sampling_zones(means, means, np.array([0.7]))
    assert radius.tolist() == [0]
    assert place(means, means, np.array([0.5]), np.array([0.2]), generator()).tolist() == means.tolist()


@pytest.mark.parametrize("d", [1, 2, 5])
def test_placing_keeps_distance_and_angle(d):
    rng = generator(10)
    origin, toward = rng.random((50, d)), rng.random((50, d))
    ratio, angle = rng.random(50), rng.random(50)
    line, moved = toward - origin, place(origin, toward, ratio, angle, rng) - origin
    lengths = np.linalg.norm(line, axis=1)
    assert np.linalg.norm(moved, axis=1) == pytest.approx(ratio * lengths)
    cosine = np.sum(line * moved, axis=1) / (ratio * lengths**2)
    assert cosine == pytest.approx(np.ones(50) if d == 1 else np.cos(angle))
