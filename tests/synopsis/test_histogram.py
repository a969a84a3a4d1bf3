from __future__ import annotations

import math

import numpy as np
import pytest

from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.errors import MethodError
from dpkmeans.privacy import mechanisms
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis.histogram import Histogram, parts_of
from dpkmeans.synopsis.method import eugkm, lei
from dpkmeans.synopsis.settings import MAX_ROUNDING, MAX_UNIFORM_CELLS
from dpkmeans.synopsis.verify import verify
from dpkmeans.synopsis.view import View
from dpkmeans.synopsis.weighted_points import NoisyTotal


def engine_of(n: int, d: int = 2) -> MemoryEngine:
    X = np.random.default_rng(0).random((n, d))
    return MemoryEngine.of_records(X, Bounds.of((0, 1), d), n_threads=1)


@pytest.mark.parametrize("n", [100, 5000, 30_000])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_width_of_a_cell_follows_from_the_number_of_records_as_in_the_theorem(n, d):
    width = (math.sqrt(math.log(n)) / n) ** (2 / (2 + d))
    parts = parts_of(float(n), np.array([True] * d + [False]))
    assert parts[-1] == 1  # no width
    assert (np.abs(parts[:-1] - 1 / width) <= 0.51).all()


def test_there_is_a_cap_and_a_count_of_almost_nothing_gives_cells_too():
    for n, d in ((1e9, 3), (1e6, 20), (2.0, 2), (-5.0, 1), (1e4, 100)):
        parts = parts_of(n, np.ones(d, bool))
        assert (parts >= 1).all()
        assert math.prod(parts.tolist()) <= MAX_ROUNDING * MAX_UNIFORM_CELLS


def test_all_that_the_count_leaves_is_spent_on_one_look_at_all_cells(monkeypatch):
    shapes = []
    release = mechanisms.Laplace.release

    def watched(self, exact, **options):
        released = release(self, exact, **options)
        shapes.append(np.shape(released))
        return released

    monkeypatch.setattr(mechanisms.Laplace, "release", watched)
    ledger = Ledger(1.0)
    found = lei().run(engine_of(2000), 3, ledger=ledger, rng=Randomness.secure())
    assert [spend.label for spend in found.spends] == ["number of records", "histogram: counts"]
    assert float(ledger.spent) == 1.0
    assert shapes[0] == ()
    assert 600 < shapes[1][0] < 900  # (2000/√ln 2000)^1 = 725, within the noise of the count and rounding
    assert found.n_passes == 2


def test_points_are_the_middles_of_cells_with_positive_noisy_counts(monkeypatch):
    noisy = []

    engine, rng = engine_of(3000), Randomness.with_seed(3)
    draw = rng.noise.laplace
    monkeypatch.setattr(rng.noise, "laplace", lambda values, scale: noisy.append(draw(values, scale)) or noisy[-1])
    built = Histogram().build(View.of(engine), 3, Epsilon.of(0.5), NoisyTotal(3000.0, 0.0), ledger=Ledger(0.5), rng=rng)
    counts, parts = noisy[0][:, 0], parts_of(3000.0, np.ones(2, bool))
    assert (counts < 0).any()
    assert np.array_equal(built.points.weights, counts[counts > 0])
    steps = built.points.points * parts - 0.5
    assert np.abs(steps - np.rint(steps)).max() < 1e-9


def test_with_much_budget_it_finds_clusters_and_with_little_it_is_behind_a_grid_that_knows_epsilon():
    """Lei's width does not look at ε: at small ε its many cells hold noise, which Su et al. mended."""
    rng = np.random.default_rng(1)
    X = np.clip(rng.choice([0.2, 0.5, 0.8], (3000, 1)) + 0.03 * rng.standard_normal((3000, 2)), 0, 1)
    engine = MemoryEngine.of_records(X, Bounds.of((0, 1), 2), n_threads=1)

    def error(method, epsilon, seed):
        release = method.run(engine, 3, ledger=Ledger(epsilon), rng=Randomness.with_seed(seed))
        assert all(verdict.holds for verdict in verify(release))
        return float(np.abs(np.sort(release.centroids[:, 0]) - [0.2, 0.5, 0.8]).max())

    assert error(lei(n_records=3000), 20.0, 0) < 0.02
    weak = [[error(make(n_records=3000), 0.15, seed) for seed in range(5)] for make in (lei, eugkm)]
    assert np.median(weak[0]) > np.median(weak[1])


def test_it_has_no_intervals_because_none_were_measured_for_it():
    release = lei().run(engine_of(2000), 3, ledger=Ledger(1.0), rng=Randomness.secure())
    with pytest.raises(MethodError, match="has no intervals"):
        release.intervals()
