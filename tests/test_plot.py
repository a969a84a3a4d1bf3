"""Plots: each draws what the release says on the Axes it is given, and nothing global."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from dpkmeans import DPKMeans, plot
from dpkmeans.errors import MethodError
from dpkmeans.synopsis.kmeans import Explored


@pytest.fixture(scope="module")
def release():
    rng = np.random.default_rng(2)
    X = np.concatenate([rng.normal(c, 0.05, (1500, 3)) for c in ((0.2, 0.3, 0.8), (0.7, 0.6, 0.2))])
    return DPKMeans(2, epsilon=1.0, bounds=(0, 1), method="synopsis-posterior").fit(X).release_


@pytest.fixture
def ax():
    return Figure().subplots()


def test_the_centroids_are_where_the_release_says(release, ax):
    assert plot.centroids(release, ax, features=(0, 2)) is ax
    np.testing.assert_allclose(ax.collections[0].get_offsets(), release.centroids[:, [0, 2]])


def test_each_way_ends_at_its_released_centroid(release, ax):
    plot.trajectory(release, ax, features=(0, 1))
    ends = [[line.get_xdata()[-1], line.get_ydata()[-1]] for line in ax.lines[:2]]
    np.testing.assert_allclose(ends, release.centroids[:, :2])


def test_zones_have_the_radii_of_the_transcript(release, ax):
    plot.zones(release, ax, iteration=1, features=(0, 1))
    radii = [patch.width / 2 for patch in ax.patches]
    assert len(radii) == 4  # two convergent ones, two sampling ones
    np.testing.assert_allclose(radii[2:], [zone.radius for zone in release.transcript[:2]])
    with pytest.raises(MethodError, match="iteration must be from 1"):
        plot.zones(release, ax, iteration=10**6)


def test_the_bars_are_the_spends(release, ax):
    plot.budget(release, ax)
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], [float(s.epsilon) for s in release.spends])


def test_explore_and_quality_draw_their_numbers(ax):
    rows = [Explored(2, 9.0, 0.5, (1.0,)), Explored(3, 4.0, 0.7, (1.0,))]
    plot.explore(rows, ax)
    assert ax.lines[0].get_ydata().tolist() == [9.0, 4.0]
    plot.explore(rows, ax, value="silhouette")
    assert ax.lines[1].get_ydata().tolist() == [0.5, 0.7]
    with pytest.raises(MethodError, match="value must be"):
        plot.explore(rows, ax, value="sizes")
    other = Figure().subplots()
    plot.quality({"su": [(1.0, 1.5), (0.1, 3.0)]}, other)
    np.testing.assert_allclose(other.lines[0].get_ydata(), [2.0, 0.5])


def test_a_release_that_tells_of_no_steps_is_refused_with_advice(ax):
    X = np.random.default_rng(0).random((10_000, 1))
    release = DPKMeans(2, epsilon=1.0, bounds=(0, 1), method="su").fit(X).release_
    with pytest.raises(MethodError, match="records no steps"):
        plot.trajectory(release, ax)
    plot.centroids(release, ax)  # one feature is drawn on a line
    with pytest.raises(MethodError, match="features must be two"):
        plot.centroids(release, ax, features=(0, 1))
