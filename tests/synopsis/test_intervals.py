"""Intervals around released centroids and sizes: what they hold, and from what they are computed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import KDTree

from dpkmeans import DPKMeans, Release, Rows, make_synopsis
from dpkmeans.errors import MethodError, WeakSignalWarning
from dpkmeans.synopsis import intervals

CENTERS = np.array([[20.0, 20.0], [80.0, 25.0], [50.0, 80.0]])


def records(seed=5):
    rng = np.random.default_rng(seed)
    return np.clip(np.concatenate([rng.normal(c, 6.0, (1500, 2)) for c in CENTERS]), 0, 100)


def fit(X, seed, **options):
    return DPKMeans(3, **{"epsilon": 0.5, "bounds": (0, 100), "guarantee": "none", **options}, random_state=seed).fit(X)


@pytest.fixture(scope="module")
def release():
    return fit(records(), 0).release_


@pytest.fixture(scope="module")
def corrected():
    """A release of six clusters in three features, whose synopsis was corrected before k-means began."""
    rng = np.random.default_rng(7)
    centers = np.array([[20, 20, 20], [80, 20, 20], [20, 80, 20], [80, 80, 20], [20, 50, 80], [80, 50, 80]])
    X = np.clip(centers[rng.integers(6, size=6000)] + rng.normal(0, 6.0, (6000, 3)), 0, 100)
    return DPKMeans(6, epsilon=0.8, bounds=(0, 100), guarantee="none", random_state=0).fit(X).release_


def test_most_exact_means_and_sizes_lie_in_them_and_half_as_wide_would_not_do():
    X, inside, half, sizes = records(), [], [], []
    for seed in range(20):  # seeded: it fails always or never
        release = fit(X, seed).release_
        labels = release.predict(X)
        means = np.stack([X[labels == c].mean(axis=0) for c in range(3)])
        found, counts = release.intervals(0.95), np.bincount(labels, minlength=3)
        inside.append((found.lower <= means) & (means <= found.upper))
        half.append(np.abs(means - release.centroids) <= (found.upper - found.lower) / 8)
        sizes.append((found.size_lower <= counts) & (counts <= found.size_upper))
    assert np.mean(inside) >= 0.92
    assert np.mean(sizes) >= 0.92
    assert np.mean(half) < 0.85


def test_a_model_file_gives_the_same_intervals_and_a_higher_level_wider_ones(release, tmp_path):
    release.save(tmp_path / "model.json")
    again, here = Release.load(tmp_path / "model.json").intervals(), release.intervals(0.95)
    assert np.array_equal(again.lower, here.lower)
    assert np.array_equal(again.size_upper, here.size_upper)
    wide, narrow = release.intervals(0.99), release.intervals(0.5)
    assert (wide.upper - wide.lower > here.upper - here.lower).all()
    assert (narrow.upper - narrow.lower < here.upper - here.lower).all()
    assert (narrow.size_upper - narrow.size_lower < here.size_upper - here.size_lower).all()


def test_they_stay_in_the_box_and_sizes_at_or_above_zero(release):
    with pytest.warns(WeakSignalWarning):
        weak = fit(records()[::30], 1, epsilon=0.1).release_
    for found in (release.intervals(), weak.intervals()):
        assert (found.lower >= 0).all()
        assert (found.upper <= 100).all()
        assert (found.size_lower >= 0).all()


def test_a_re_centred_cluster_that_does_not_stand_out_of_its_noise_may_be_anywhere(release):
    assert release.certificate.step is not None
    check_that_a_lost_cluster_may_be_anywhere(release)


def test_a_cluster_of_a_corrected_synopsis_that_does_not_stand_out_of_its_noise_may_be_anywhere(corrected):
    assert corrected.certificate.correction is not None
    check_that_a_lost_cluster_may_be_anywhere(corrected)


def check_that_a_lost_cluster_may_be_anywhere(release):
    clear, d = release.intervals(), release.centroids.shape[1]
    assert (clear.upper - clear.lower < 50).all()
    lost = replace(release, sizes=(1.0, *release.sizes[1:]), identity=None).intervals()
    assert np.array_equal(lost.lower[0], [0] * d)
    assert np.array_equal(lost.upper[0], [100] * d)
    assert np.array_equal(lost.upper[1:], clear.upper[1:])


def test_an_interval_is_as_wide_as_the_step_on_the_records_shows_the_synopsis_to_be_off(release):
    step, here = release.certificate.step, release.intervals()
    moved = replace(step, moved_to=step.moved_to + np.array([[0.05, 0.0], [0.0, 0.0], [0.0, 0.0]]))
    found = replace(release, certificate=replace(release.certificate, step=moved), identity=None).intervals()
    wider = (found.upper - found.lower) - (here.upper - here.lower)
    assert wider[0, 0] > 3.0  # in units of the data, of which the box has 100 a side
    assert np.abs(wider.ravel()[1:]).max() < 1e-9
    sizes = replace(release, sizes=(release.sizes[0] - 300.0, *release.sizes[1:]), identity=None).intervals()
    assert sizes.size_upper[0] > here.size_lower[0]
    assert np.array_equal(sizes.size_upper[1:], here.size_upper[1:])


def test_an_interval_is_as_wide_as_a_correction_shows_the_synopsis_to_have_been_off(corrected):
    correction, here = corrected.certificate.correction, corrected.intervals()
    apart = ((correction.means[:, None] - corrected.certificate.fixed_point) ** 2).sum(axis=2)
    away = np.where(np.argmin(apart, axis=1) == 0, 0.05, 0.0)[:, None] * np.array([1.0, 0.0, 0.0])
    further = correction.centroids + np.sign(correction.centroids - correction.means) * away
    changed = replace(corrected.certificate, correction=replace(correction, centroids=further))
    found = replace(corrected, certificate=changed, identity=None).intervals()
    wider = (found.upper - found.lower) - (here.upper - here.lower)
    assert wider[0, 0] > 3.0
    assert np.abs(wider.ravel()[1:]).max() < 1e-9


def test_an_interval_reaches_to_where_clipping_drew_the_mean_from(release, corrected):
    for one in (release, corrected):
        certificate, places = one.certificate, one.certificate.points.copy()
        step, correction = certificate.step, certificate.correction
        looked = (certificate.fixed_point, step.bound) if correction is None else (correction.means, correction.bound)
        asked, bound = looked
        labels = np.argmin(((places[:, None] - asked) ** 2).sum(axis=2), axis=1)
        cell = np.argmax(np.bincount(labels, certificate.weights))
        cluster = np.argmin(((certificate.fixed_point - asked[cell]) ** 2).sum(axis=1))
        radius, middle = bound[cell, 0], asked[cell, 0]
        far = (labels == cell) & (places[:, 0] > middle + 0.4 * radius)
        assert far.any()
        places[far, 0] = middle + 1.4 * radius
        skewed = replace(one, certificate=replace(certificate, points=places), identity=None)
        found, at = skewed.intervals(), skewed.centroids
        assert found.upper[cluster, 0] - at[cluster, 0] > 1.1 * (at[cluster, 0] - found.lower[cluster, 0])


def test_less_noise_gives_narrower_intervals_and_rows_of_persons_wider_ones():
    X = records()
    width = [np.median(r.upper - r.lower) for r in (fit(X, 3, epsilon=e).release_.intervals() for e in (0.5, 5.0))]
    assert width[1] < width[0] / 2
    persons = fit(X, 3, epsilon=5.0, unit=Rows(10)).release_.intervals()
    assert np.median(persons.upper - persons.lower) > 2 * width[1]


@pytest.mark.parametrize(("features", "k"), [(1, 2), (4, 2), (6, 2), (18, 2), (3, 9), (6, 9), (30, 9)])
def test_every_kind_of_synopsis_has_them_with_and_without_a_step_on_the_records(features, k):
    rng = np.random.default_rng(1)
    X = np.clip(
        rng.random((k, features))[rng.integers(k, size=4000)] + 0.05 * rng.standard_normal((4000, features)), 0, 1
    )
    options = {"epsilon": 2.0, "bounds": (0, 1), "random_state": 0, "guarantee": "none"}
    released = [
        DPKMeans(k, **options).fit(X).release_,
        make_synopsis(X, n_clusters=k, **options).fit(k, random_state=0),
    ]
    certificates = [one.certificate for one in released]
    assert [c.step is None for c in certificates] == [k > 2, True]
    assert [c.correction is None for c in certificates] == [k == 2, True]
    for one in released:
        found = one.intervals()
        assert found.lower.shape == (k, features)
        assert (found.lower <= one.centroids).all()
        assert (one.centroids <= found.upper).all()
        assert np.isfinite(found.upper - found.lower).all()


def test_deviations_that_a_method_releases_are_used_as_they_are(release):
    parameters = {"centroid_deviation": np.full((3, 2), 2.0).tolist(), "size_deviation": [10.0] * 3}
    told = replace(release, certificate=None, parameters=parameters)
    found = told.intervals(0.95)
    assert np.allclose(found.upper - told.centroids, 1.96 * 2.0, rtol=1e-3)
    assert np.allclose(found.size_upper - np.array(told.sizes), 19.6, rtol=1e-3)
    with pytest.raises(MethodError, match="do not fit"):
        replace(told, parameters={**parameters, "size_deviation": [1.0]}).intervals()


@pytest.mark.parametrize("level", [0, 1, -0.5, "much", None])
def test_what_is_no_level_is_refused(release, level):
    with pytest.raises(MethodError, match="between 0 and 1"):
        release.intervals(level)


def test_a_method_that_does_not_say_how_far_its_noise_reaches_has_none():
    with pytest.raises(MethodError, match="no intervals"):
        fit(records(), 0, method="su").release_.intervals()


def test_the_short_text_has_the_digits_that_the_noise_leaves(release):
    lines = repr(release).splitlines()
    assert len(lines) == 5
    assert "3 centroids, 2 features" in lines[0]
    assert lines[1] == release.summary()
    assert lines[2].startswith("0: feature 0 ")
    assert lines[2].count(" ± ") == 3


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32), m=st.integers(2, 60), d=st.integers(1, 7))
def test_the_next_point_is_as_far_as_scipys_tree_says_to_the_bit(seed, m, d):
    points = np.random.default_rng(seed).random((m, d))
    points[m // 2] = points[0]
    from_tree = KDTree(points).query(points, k=2)[0][:, 1]
    assert np.array_equal(np.sqrt(intervals._squares_to_next(points)), from_tree)
