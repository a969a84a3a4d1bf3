"""Each attack on the algorithm as published does what its name says. Draws are seeded."""

from __future__ import annotations

import numpy as np
import pytest

from dpkmeans.audit import audit
from dpkmeans.audit.attacks import (
    attack_targets,
    degenerate_zones,
    fixed_point_sums,
    infer_missing_record,
    mean_from_zone,
    outside_support,
    ray_misfit,
    zone_misfit,
)
from dpkmeans.audit.neighbours import corner, duplicate, outlier
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.exact import reveal
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.methods.registry import make_method
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness

START = np.array([[0.2, 0.6], [0.8, 0.4]])


def published(records, start, seed, **options):
    engine = MemoryEngine.of_records(records, Bounds.of((0, 1), records.shape[1]), n_threads=1)
    method = make_method("posterior", init=start, publish_centroids=True, **options)
    release = method.run(engine, len(start), ledger=Ledger(), rng=Randomness.with_seed(seed))
    first = release.transcript[: len(start)]
    center, radius = np.array([z.center for z in first]), np.array([z.radius for z in first])
    return engine, release, center, radius, np.array([z.centroid for z in first])


def test_the_missing_record_follows_from_exact_centroids_and_counts():
    pair = corner()
    sides = [reveal(pair.engine(side).cell_statistics(START), why="test") for side in (False, True)]
    means = [stats.means(empty=START) for stats in sides]
    cluster = int(np.argmax(sides[1].counts - sides[0].counts))
    found = infer_missing_record(means[1][cluster], sides[1].counts[cluster], means[0][cluster])
    np.testing.assert_allclose(found, pair.extra, atol=1e-12)


def test_in_one_dimension_a_published_zone_gives_the_exact_mean():
    records = np.random.default_rng(1).random((50, 1))
    start = np.array([[0.1], [0.6]])
    for seed in range(20):
        engine, _, center, radius, _ = published(records, start, seed)
        means = reveal(engine.cell_statistics(start), why="test").means(empty=start)
        for i in range(2):
            assert mean_from_zone(start[i, 0], center[i, 0], radius[i]) == pytest.approx(means[i, 0], abs=1e-15)


def test_a_published_zone_fits_the_true_mean_to_the_last_bits_and_no_neighbours_mean():
    pair = duplicate()
    for seed in range(20):
        engine, _, center, radius, _ = published(pair.side(False), START, seed)
        means = reveal(engine.cell_statistics(START), why="test").means(empty=START)
        others = reveal(pair.engine(True).cell_statistics(START), why="test").means(empty=START)
        assert zone_misfit(START, center, radius, means).max() < 1e-14
        assert zone_misfit(START, center, radius, others).max() > 1e-9


def test_final_centroids_lie_on_rays_of_exact_sums_whatever_the_noise():
    pair = duplicate()
    rng = np.random.default_rng(2)
    sums = [fixed_point_sums(pair.engine(side), 2, 200, rng) for side in (False, True)]
    for seed in range(20):
        release = published(pair.side(True), START, seed, release_epsilon=0.01)[1]
        assert ray_misfit(release.centroids, sums[1], np.zeros(2)).max() < 1e-12
        assert ray_misfit(release.centroids, sums[0], np.zeros(2)).max() > 1e-9


@pytest.mark.parametrize("n_features", [1, 2, 3])
def test_the_support_holds_every_released_centroid_and_is_not_that_of_a_neighbour(n_features):
    rng = np.random.default_rng(3)
    records = rng.random((12, n_features))
    start = rng.random((2, n_features))
    far = np.vstack([records, np.ones(n_features)])
    outside = 0
    for seed in range(200):
        engine, _, _, _, released = published(far, start, seed)
        means = reveal(engine.cell_statistics(start), why="test").means(empty=start)
        assert not outside_support(start, released, means).any()
        others = MemoryEngine.of_records(records, engine.bounds, n_threads=1).cell_statistics(start)
        outside += int(outside_support(start, released, reveal(others, why="test").means(empty=start)).any())
    assert outside > 0


def test_a_degenerate_zone_gives_the_mean_itself():
    pair = outlier()
    means = reveal(pair.engine(False).cell_statistics(START), why="test").means(empty=START)
    start = np.vstack([means[:1], [[0.9, 0.9]]])  # the first cluster's mean, by luck, and an empty cell
    first = reveal(pair.engine(False).cell_statistics(start), why="test").means(empty=start)
    start = np.vstack([first[:1], start[1:]])
    _, _, _, radius, released = published(pair.side(False), start, 1)
    assert degenerate_zones(radius).all()
    np.testing.assert_array_equal(released, start)


@pytest.mark.parametrize("target", attack_targets(1.0), ids=lambda target: target.name)
def test_the_auditor_shows_every_attack_to_be_a_violation(target):
    report = audit([target], runs=600, rng=Randomness.with_seed(7))
    assert [finding.verdict for finding in report.findings] == ["violation"]
    assert report.findings[0].bound > 2
