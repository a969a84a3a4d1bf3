from __future__ import annotations

import numpy as np
import pytest

from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import reveal
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.errors import MethodError
from dpkmeans.kernels.score_range import score_range
from dpkmeans.methods.privgene import MAX_ROUNDS, costs_of, privgene, select
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness


def scores(records: np.ndarray, box: Bounds, candidates: np.ndarray) -> np.ndarray:
    """Minus the costs in whole grid steps, shape (m,), as a selection sees them but not doubled."""
    steps = reveal(MemoryEngine.of_records(records, box, n_threads=1).costs(candidates), why="a test")
    assert steps.dtype == np.int64
    return -steps


def some_candidates(rng: np.random.Generator, box: Bounds, m: int, k: int) -> np.ndarray:
    """Unrelated sets, related sets (children of two parents), and sets in the corners."""
    candidates = rng.random((m, k, box.n_features))
    if rng.random() < 0.5:
        candidates = candidates[rng.integers(2, size=m)] + rng.normal(0, 0.02, candidates.shape)
    if rng.random() < 0.2:
        candidates = np.rint(candidates)
    return np.clip(candidates, 0, 1) * box.unit_box


def test_no_record_moves_two_scores_further_apart_than_the_range():
    """20 000 neighbouring pairs of data sets, records at and beyond the bounds, through the engine, exactly."""
    rng = np.random.default_rng(0)
    closest = np.inf
    for box in (Bounds.of((0, 1), 2), Bounds.of(([-1, 3, 0], [1, 3.5, 0]), 3)):
        d = box.n_features
        for _ in range(200):
            candidates = some_candidates(rng, box, 4, int(rng.integers(1, 4)))
            bound = score_range(candidates, np.zeros(d), box.unit_box)
            records = rng.uniform(-1, 4, (3, d))
            before = scores(records, box, candidates)
            inside = rng.uniform(box.lower, box.upper, (50, d))
            corner = np.where(rng.random((50, d)) < 0.5, -1e300, 1e9)
            for record in np.where(rng.random((50, 1)) < 0.5, inside, corner):
                change = scores(np.vstack([records, record]), box, candidates) - before
                apart = int(change.max() - change.min())
                assert apart <= bound
                closest = min(closest, bound - apart)
    assert closest <= 2  # the bound is attained up to its margin for rounding


def test_the_pairwise_bound_is_never_above_the_one_from_the_box_and_far_below_for_relatives(monkeypatch):
    rng = np.random.default_rng(1)
    zero, one = np.zeros(2), np.ones(2)
    unrelated = rng.random((50, 5, 2))
    relatives = unrelated[:1] + rng.normal(0, 0.001, unrelated.shape)
    tight = [score_range(c, zero, one) for c in (unrelated, relatives)]
    monkeypatch.setitem(score_range.__globals__, "MAX_WORK", 0)
    loose = [score_range(c, zero, one) for c in (unrelated, relatives)]
    assert tight[0] <= loose[0]
    assert tight[1] < 0.05 * loose[1]


@pytest.mark.parametrize("d", [1, 100])
def test_the_range_is_a_positive_integer_even_where_all_candidates_are_the_same(d):
    same = np.full((10, 3, d), 0.5)
    assert 1 <= score_range(same, np.zeros(d), np.ones(d)) <= 2


def test_scores_are_exact_sums_over_records_in_any_order():
    rng = np.random.default_rng(2)
    box = Bounds.of((0, 1), 3)
    candidates, records = rng.random((6, 4, 3)), rng.random((5000, 3))
    whole = scores(records, box, candidates)
    parts = scores(records[:1234], box, candidates) + scores(records[1234:], box, candidates)
    assert np.array_equal(whole, parts)
    assert np.array_equal(whole, scores(records[::-1], box, candidates))


def test_rounds_follow_the_formula_between_eight_and_the_cap():
    method = privgene()
    assert method.rounds(5000, Epsilon.of(1.0)) == 8
    assert method.rounds(200_000, Epsilon.of(1.0)) == 25
    assert method.rounds(200_000, Epsilon.of(0.1)) == 8
    assert method.rounds(2.0**33, Epsilon.of(100.0)) == MAX_ROUNDS


def test_children_swap_whole_centroids_and_differ_in_one_coordinate_by_at_most_the_step():
    rng = np.random.default_rng(3)
    method = privgene()
    parents = rng.random((10, 4, 3)) * 0.8 + 0.1
    step = np.array([0.05, 0.02, 0.0])
    children = method._breed(parents, step, np.ones(3), rng)
    assert children.shape == (200, 4, 3)
    assert np.array_equal(children[:10], parents)
    for child in children[10:]:
        fits = [bool((child[i] == parents[:, i]).all(axis=1).any()) for i in range(4)]
        assert sum(fits) >= 3
        for i in np.flatnonzero(~np.array(fits)):
            moved = np.abs(child[i] - parents[:, i])
            assert any((m > 0).sum() == 1 and (m <= step + 1e-12).all() for m in moved)


def test_every_round_selects_ten_different_candidates_and_the_last_one():
    engine = MemoryEngine.of_records(np.random.default_rng(0).random((100, 2)), Bounds.of((0, 1), 2), n_threads=1)
    ledger = Ledger(1.0)
    release = privgene(n_records=100).run(engine, 2, ledger=ledger, rng=Randomness.with_seed(0))
    assert release.n_iter == 8
    assert len(ledger.spends) == 7 * 10 + 1
    assert float(ledger.spends[-1].epsilon) == pytest.approx(1 / 8)
    assert float(ledger.spends[0].epsilon) == pytest.approx(1 / 80)
    candidates = np.random.default_rng(1).random((200, 2, 2))
    shares = Epsilon.of(1.0).over(10)
    chosen = select(candidates, engine.costs(candidates), shares, 1, Ledger(1.0), Randomness.secure())
    assert len({c.tobytes() for c in chosen}) == 10


def test_with_a_large_budget_the_search_gets_close_to_the_best_cost():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(c, 0.02, (2000, 1)) for c in (0.2, 0.8)])
    engine = MemoryEngine.of_records(X, Bounds.of((0, 1), 1), n_threads=1)
    centroids = np.sort(privgene().run(engine, 2, ledger=Ledger(100.0), rng=Randomness.with_seed(0)).centroids[:, 0])
    assert np.abs(centroids - [0.2, 0.8]).max() < 0.05


def test_the_papers_setting_takes_the_range_over_the_records_and_is_labelled_paper():
    box = Bounds.of((0, 100), 2)
    engine = MemoryEngine.of_records(np.random.default_rng(0).uniform(45, 55, (100, 2)), box, n_threads=1)
    method = privgene(setting="paper")
    assert method.claim.label == "paper"
    candidates = np.random.default_rng(1).random((20, 2, 2))
    filled = method.filled_box(engine)
    declared, used = engine.costs(candidates).sensitivity.gap, costs_of(engine, candidates, filled).sensitivity.gap
    assert declared == score_range(candidates, np.zeros(2), np.ones(2))
    assert score_range(candidates, np.full(2, 0.46), np.full(2, 0.54)) < used
    assert used < score_range(candidates, np.full(2, 0.4), np.full(2, 0.6)) < declared
    release = method.run(engine, 2, ledger=Ledger(1.0), rng=Randomness.secure())
    assert release.guarantee.label == "paper"


@pytest.mark.parametrize(("n_candidates", "n_selected"), [(10, 10), (10, 0), (5, 9)])
def test_selecting_all_or_none_is_a_clear_error(n_candidates, n_selected):
    with pytest.raises(MethodError, match="n_selected"):
        privgene(n_candidates=n_candidates, n_selected=n_selected)
