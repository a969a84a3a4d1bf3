from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpkmeans.audit.scores import (
    choice_law,
    choice_ratio,
    classifier,
    cube_ratio,
    exact_answer,
    laplace_ratio,
    low_bits,
    nearest_centroid,
    seen_before,
)


def score(which, rows):
    return which.scorer(np.asarray(rows, dtype=float))


def test_the_ratio_of_laplace_noise_is_the_log_of_its_densities():
    ratio = laplace_ratio((0, 0), (3, 1), (2.0, 5.0))
    y = np.array([[1.0, -2.0], [7.0, 4.0]])

    def log_density(x):
        return -(np.abs(y - x) / [2.0, 5.0]).sum(axis=1)

    np.testing.assert_allclose(score(ratio, y), log_density([3, 1]) - log_density([0, 0]))


def test_the_ratio_of_cube_noise_grows_with_the_likelihood_of_the_record():
    y = np.array([[5, 5], [0, 0], [-4, 1]])
    np.testing.assert_array_equal(score(cube_ratio((0, 0), (2, 2)), y), [2, -2, -2])


def test_the_law_of_a_choice_is_that_of_permute_and_flip():
    scores, scale = (0, 3, 5, 5), 4.0
    stays = np.exp(-(5 - np.array(scores)) / scale)
    law = np.zeros(4)
    for kept in itertools.product([0, 1], repeat=4):
        if any(kept):
            law += np.array(kept) / sum(kept) * np.prod(np.where(kept, stays, 1 - stays))
    np.testing.assert_allclose(choice_law(scores, scale), law)
    assert choice_law(scores, scale).sum() == pytest.approx(1)
    ratio = score(choice_ratio((0, 2), (1, 1), 2.0), [[0.0], [1.0]])
    assert ratio[0] == pytest.approx(1.0)  # the tight case of proofs/choice.md
    assert ratio[1] < 0


def test_low_bits_tell_a_sum_with_one_from_noise_around_zero_and_let_integers_pass():
    noise = np.random.default_rng(1).laplace(0, 1, (5000, 1))
    assert score(low_bits(), noise).mean() > 0.2
    assert score(low_bits(), 1 + noise).sum() == 0
    assert score(low_bits(), np.rint(noise * 2**40)).sum() == 0


def test_exact_answers_are_counted():
    np.testing.assert_array_equal(score(exact_answer((0, 7)), [[0, 7], [0, 6], [1, 1]]), [2, 1, 0])


def test_the_nearest_centroid_is_measured_from_the_record():
    rows = [[0.0, 0.0, 3.0, 4.0, 99.0]]
    assert score(nearest_centroid((3.0, 0.0), 2), rows)[0] == pytest.approx(3.0)


def test_rays_recur_where_only_lengths_are_noisy_and_values_do_not():
    rng = np.random.default_rng(2)

    def runs(*sums):
        return np.hstack([rng.uniform(0.5, 2, (50, 1)) * np.array(s) for s in sums])

    without, with_record = runs((1, 2), (3, 1)), runs((1, 2), (3, 1.001))
    rays = seen_before((0.0, 0.0), 2, rays=True).train(without, with_record)
    np.testing.assert_array_equal(rays(runs((1, 2), (3, 1.001))), 1)
    np.testing.assert_array_equal(rays(runs((3, 1), (1, 2))), -1)
    values = seen_before((0.0, 0.0), 2, rays=False).train(without, with_record)
    np.testing.assert_array_equal(values(runs((1, 2), (3, 1.001))), 0)
    assert values(with_record[:5]).tolist() == [2] * 5


def test_a_learned_score_separates_what_no_single_number_does():
    """Two centroids whose order is random; with the record they are close to each other."""
    rng = np.random.default_rng(3)

    def runs(gap, n=600):
        place = rng.random(n)
        flip = rng.random(n) < 0.5
        pair = np.stack([np.where(flip, place + gap, place), np.where(flip, place, place + gap)], axis=1)
        return np.hstack([pair, np.full((n, 1), 7.0)])

    for centroids_only in (True, False):
        scorer = classifier(2, 1, centroids_only=centroids_only).train(runs(0.6), runs(0.1))
        assert np.mean(scorer(runs(0.1)) > 0) > 0.9
        assert np.mean(scorer(runs(0.6)) < 0) > 0.9
