from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from dpkmeans.core.exact import reveal
from dpkmeans.engines.packing import grid_points
from dpkmeans.reproduction.baselines import baseline, cost, problem_of
from dpkmeans.reproduction.zone_runs import zone_run


@pytest.mark.parametrize("strategy", ["posterior", "prior"])
def test_what_is_seen_of_a_run_is_what_each_step_shows(tiny, strategy):
    """δ, α, zones and costs again, step by step and cluster by cluster, from the records themselves."""
    problem = problem_of(tiny, 3)
    points = grid_points(problem.data.unit_records(), problem.engine.bounds).astype(float)
    for run in range(5):
        previous = baseline(problem, run, 0).start
        done = zone_run(problem, strategy, 0.5, previous, run)
        zones, outside, ratios, angles, costs = 0, 0, 0.0, 0.0, []
        for _, move in done.trajectory.moves:
            labels = problem.engine.labels(previous)
            costs.append(cost(problem, previous))
            for i, (centre, radius) in enumerate(zip(move.zones.center, move.zones.radius, strict=True)):
                cell = points[labels == i]
                mean = cell.mean(axis=0) if len(cell) else previous[i]
                reach = np.linalg.norm(centre - mean) + radius
                if reach < 1e-12:
                    continue
                zones += 1
                outside += bool(reach > np.linalg.norm(previous[i] - mean) * (1 + 1e-6) + 1e-9)
                drawn, axis = move.centroids[i] - mean, centre - mean
                ratios += np.linalg.norm(drawn) / reach
                cosine = drawn @ axis / (np.linalg.norm(drawn) * np.linalg.norm(axis))
                angles += np.arccos(min(max(cosine, -1.0), 1.0))
            previous = move.centroids
        assert (done.watch.zones, done.watch.outside) == (zones, outside)
        assert done.watch.ratios == pytest.approx(ratios)
        assert done.watch.angles == pytest.approx(angles, abs=1e-6)
        assert done.watch.rises == sum(b > a * (1 + 1e-9) for a, b in pairwise(costs))


def test_a_run_under_another_stop_rule_ends_at_a_fixed_point(tiny):
    problem = problem_of(tiny, 3)
    for run in range(5):
        done = zone_run(problem, "posterior", 0.5, baseline(problem, run, 0).start, run, "fixed-point stop")
        end = reveal(problem.engine.lloyd(done.means, 10), why="a test")
        assert np.array_equal(end.centroids, done.means)
