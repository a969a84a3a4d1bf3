"""Shapes and values at the edge of what makes sense: sane results."""

from __future__ import annotations

import numpy as np
import pytest

from dpkmeans import DPKMeans
from dpkmeans.core.release import Release
from dpkmeans.errors import BoundsError
from dpkmeans.methods.registry import registry

PROVED = sorted(entry.name for entry in registry().values() if entry.guarantee == "proved" and not entry.spends_rho)
pytestmark = pytest.mark.filterwarnings("ignore::dpkmeans.errors.WeakSignalWarning")


def fit(records, k: int, box=(0, 1), **options) -> Release:
    given = {"epsilon": 1.0, "random_state": 0, "guarantee": "none"} | options
    release = DPKMeans(k, bounds=box, **given).fit(records).release_
    assert release.centroids.shape == (k, np.shape(records)[1])
    assert (release.centroids >= release.bounds.lower).all()
    assert (release.centroids <= release.bounds.upper).all()
    assert release.epsilon_spent == pytest.approx(1.0, rel=0.01)
    return release


@pytest.mark.parametrize("method", PROVED)
def test_one_cluster_is_found_in_the_middle(method):
    records = np.random.default_rng(1).normal(0.4, 0.05, (20_000, 2))
    release = fit(records, 1, epsilon=1.0, method=method)
    assert np.abs(release.centroids - 0.4).max() < (0.2 if method in ("gupt", "privgene") else 0.05)


@pytest.mark.parametrize("method", PROVED)
@pytest.mark.parametrize("k", [1, 3])
def test_one_record_gives_centroids_in_the_box(method, k):
    fit([[0.3, 0.4]], k, method=method)


@pytest.mark.parametrize("method", PROVED)
@pytest.mark.parametrize("value", [1e300, -1e300, 1e-300, 5e-324, 1e308])
def test_values_of_any_size_are_clipped_to_the_box(method, value):
    fit(np.full((50, 2), value), 2, method=method)


@pytest.mark.parametrize("method", PROVED)
@pytest.mark.parametrize("side", [1e-100, 1e100, 1e150])
def test_boxes_of_any_size_give_centroids_inside(method, side):
    records = np.random.default_rng(1).random((50, 2)) * side
    fit(records, 2, (0, side), method=method)


@pytest.mark.parametrize(("side", "says"), [(1e300, r"must lie within 2\^500"), (1e-300, r"between 2\^-500")])
def test_a_box_beyond_what_can_be_computed_is_refused_with_what_to_do(side, says):
    with pytest.raises(BoundsError, match=says):
        fit([[side, 0.0]], 1, (0, side))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["blum", "synopsis"])
def test_two_hundred_features_and_five_hundred_clusters(method):
    records = np.random.default_rng(1).random((2000, 200), dtype=np.float32)
    fit(records, 500, method=method)


def test_ten_million_equal_records():
    records = np.broadcast_to(np.array([[0.25, 0.75]], dtype=np.float32), (10**7, 2))
    release = fit(records, 3, method="su", n_records=10**7)
    assert np.abs(release.centroids - [0.25, 0.75]).sum(axis=1).min() < 1e-3
