from __future__ import annotations

import numpy as np
import pytest

from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import reveal
from dpkmeans.engines.block_engine import MAX_RECORDS
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.errors import BudgetError, MethodError
from dpkmeans.methods.record_count import NoisyCount, NotNeeded, PublicCount, record_count
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Laplace
from dpkmeans.privacy.randomness import Randomness


def engine_of(n: int) -> MemoryEngine:
    return MemoryEngine.of_records(np.zeros((n, 1)), Bounds.of((0, 1), 1), n_threads=1)


def test_a_noisy_count_costs_its_share_of_what_is_left_and_no_more():
    ledger = Ledger(1.0)
    ledger.spend(Epsilon.of(0.5), "before")
    NoisyCount(0.1).get(engine_of(10), 1, ledger=ledger, rng=Randomness.secure())
    assert float(ledger.spent) == 0.55
    assert ledger.spends[-1].label == "number of records"


def test_a_noisy_count_is_centred_on_the_count_and_has_the_scale_of_its_share():
    """2000 draws at scale 1/0.02 = 50: mean 1000 ± 1.6, mean distance 50 ± 1.2; six deviations, false alarm 1e-8."""
    engine, rng = engine_of(1000), Randomness.with_seed(1)
    drawn = np.array([NoisyCount().get(engine, 1, ledger=Ledger(1.0), rng=rng) for _ in range(2000)])
    assert abs(drawn.mean() - 1000) < 10
    assert abs(np.abs(drawn - 1000).mean() - 50) < 7


def test_one_record_changes_the_exact_count_by_one(monkeypatch):
    seen = []

    def release(self, exact, *, ledger, rng, label):
        seen.append((exact.sensitivity.l1, reveal(exact, why="a test")))
        return seen[-1][1]

    monkeypatch.setattr(Laplace, "release", release)
    for n in range(40):
        NoisyCount().get(engine_of(n), 1, ledger=Ledger(1.0), rng=Randomness.secure())
    assert all(sensitivity == 1 for sensitivity, _ in seen)
    assert [int(value) for _, value in seen] == list(range(40))
    assert seen[0][1].dtype == np.int64


@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_noisy_count_stays_in_its_range_however_large_the_noise(n):
    rng = Randomness.with_seed(0)
    drawn = [NoisyCount().get(engine_of(n), 1, ledger=Ledger(1e-7), rng=rng) for _ in range(300)]
    assert min(drawn) == 1.0
    assert max(drawn) <= MAX_RECORDS


def test_without_a_total_a_noisy_count_cannot_be_bought():
    with pytest.raises(BudgetError, match="epsilon is missing"):
        NoisyCount().get(engine_of(5), 1, ledger=Ledger(), rng=Randomness.secure())


def test_a_public_count_costs_nothing_and_looks_at_no_record():
    ledger = Ledger(1.0)
    assert PublicCount(77).get(None, 1, ledger=ledger, rng=None) == 77.0
    assert NotNeeded().get(None, 1, ledger=ledger, rng=None) == 1.0
    assert not ledger.spends


def test_what_the_caller_gives_decides_where_the_count_comes_from():
    assert record_count(None) == NoisyCount()
    assert record_count(5) == PublicCount(5)
    assert record_count(np.int64(5)) == PublicCount(5)


@pytest.mark.parametrize("n_records", [0, -1, 2.5, float("nan"), "5", True, MAX_RECORDS + 1])
def test_a_public_count_that_makes_no_sense_is_refused(n_records):
    with pytest.raises(MethodError, match="n_records must be a whole number"):
        PublicCount(n_records)
