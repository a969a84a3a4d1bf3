from __future__ import annotations

import numpy as np
import pytest

from dpkmeans import DPKMeans, DurableLedger
from dpkmeans.audit.hard_pairs import hard_pairs, replay_pair
from dpkmeans.core.bounds import GRID, Bounds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import reveal
from dpkmeans.data.source import array_batch
from dpkmeans.engines import block_engine
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.engines.stream import StreamEngine
from dpkmeans.errors import BudgetError, MethodError
from dpkmeans.methods.gupt import gupt
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness, SeededNoise
from dpkmeans.session import FitRequest

BOX = Bounds.of(([0, -2, 5], [1, 2, 5]), 3)  # unequal sides, the last without width


def hard_records(rng: np.random.Generator, n: int) -> np.ndarray:
    """Records at, inside and beyond the bounds."""
    inside = rng.uniform(BOX.lower, BOX.upper, (n, 3))
    beyond = rng.normal(0, 1e6, (n, 3))
    corner = np.where(rng.random((n, 3)) < 0.5, BOX.lower, BOX.upper)
    return np.choose(rng.integers(3, size=(n, 1)), [inside, beyond, corner])


def engine_of(records: np.ndarray, box: Bounds = BOX) -> MemoryEngine:
    return MemoryEngine.of_records(records, box, n_threads=1)


def test_no_two_blocks_whatever_their_records_answer_further_apart_than_the_sensitivity():
    """101 025 pairs of blocks: neighbours or not, their answers differ by at most the side, exactly."""
    rng = np.random.default_rng(0)
    method = gupt()
    answers = np.array(
        [
            method._answer(engine_of(hard_records(rng, int(rng.integers(0, 9)))), 3, seed, Randomness.with_seed(0))
            for seed in range(450)
        ]
    )
    assert answers.dtype == np.int64
    apart = np.abs(answers[:, None] - answers).max(axis=(0, 1))
    assert (apart <= BOX.side).all()
    assert (apart[:, :2].max(axis=0) == BOX.side[:2]).all()  # and corners reach it


def test_one_record_more_changes_the_answer_of_one_block_and_no_other():
    rng = np.random.default_rng(1)
    method = gupt()
    for seed in range(150):
        records = hard_records(rng, 40)
        more = np.vstack([records, hard_records(rng, 1)])
        before, after = (
            method._answers(engine_of(X), 2, 6, Randomness.with_seed(seed)) for X in (records, more)
        )  # the same seed gives the same key
        changed = (before != after).any(axis=(1, 2))
        assert changed.sum() <= 1
        assert (np.abs(before.sum(axis=0) - after.sum(axis=0)) <= BOX.side).all()


def test_different_records_go_to_blocks_independently():
    """The number of records in a block is binomial: with blocks of equal size its variance would be near 0.

    2000 keys, 60 records, 6 blocks: the variance is 25/3 with a deviation of about 0.26; false alarm below 1e-6 of all
    seeds, and the seed is fixed.
    """
    engine = engine_of(np.random.default_rng(5).uniform(BOX.lower, BOX.upper, (60, 3)))
    generator = np.random.default_rng(0)
    partitions = (engine.partition(6, generator.bytes(16)) for _ in range(2000))
    sizes = [[int(reveal(block.count(), why="a test")) for block in blocks] for blocks in partitions]
    assert all(sum(blocks) == 60 for blocks in sizes)
    assert 7 < np.var([blocks[0] for blocks in sizes]) < 10


class Shuffled:
    """A source that gives its records in another order on every pass."""

    def __init__(self, records: np.ndarray) -> None:
        self.n_features, self.nulls, self._records = records.shape[1], "refuse", records
        self._rng = np.random.default_rng(0)

    @property
    def pieces(self):
        return [self]

    @property
    def n_rows(self):
        return len(self._records)

    def split(self, rows):
        return [self]

    def batches(self, rows):
        shuffled = self._rng.permutation(self._records)
        for start in range(0, len(shuffled), 7):
            yield array_batch(shuffled[start : start + 7])


def test_a_record_stays_in_its_block_whatever_the_order_of_the_records_and_however_many_passes(monkeypatch):
    """A stream in another order on every pass, with a pass for each block, gives the blocks that memory gives."""
    monkeypatch.setattr(block_engine, "_NUMBERS_AT_ONCE", 3)
    records = hard_records(np.random.default_rng(6), 90)
    engine = StreamEngine(Shuffled(records), BOX)
    found = [gupt()._answers(e, 2, 6, Randomness.with_seed(3)) for e in (engine, engine, engine_of(records))]
    assert np.array_equal(found[0], found[2])
    assert np.array_equal(found[1], found[2])
    sizes = [int(reveal(block.count(), why="a test")) for block in engine.partition(6, bytes(16))]
    assert sum(sizes) == 90
    assert max(sizes) < 90


def test_even_with_the_key_known_one_record_changes_one_block():
    """Given the key the loss stays ε: 3ε were shown where the order of the records decided about their blocks."""
    rng = np.random.default_rng(7)
    for _ in range(100):
        key, records = rng.bytes(16), hard_records(rng, 30)
        more = rng.permutation(np.vstack([records, hard_records(rng, 1)]))
        held = [
            [reveal(b.cell_statistics(np.zeros((1, 3))), why="a test").integers().tolist() for b in blocks]
            for blocks in (engine_of(records).partition(8, key), engine_of(more).partition(8, key))
        ]
        assert sum(a != b for a, b in zip(*held, strict=True)) == 1


def test_the_key_is_secret_without_a_seed_and_repeats_with_one():
    assert Randomness.with_seed(1).key() == Randomness.with_seed(1).key()
    secure = Randomness.secure()
    assert len({secure.key() for _ in range(100)} | {Randomness.secure().key()}) == 101
    state = secure.generator.bit_generator.state
    assert len(secure.key()) == 16
    assert secure.generator.bit_generator.state == state  # it comes from the operating system, not from the generator


def test_what_a_block_answers_does_not_depend_on_the_other_blocks():
    rng = np.random.default_rng(3)
    method = gupt()
    records = hard_records(rng, 60)
    blocks = list(engine_of(records).partition(5, bytes(16)))
    alone = [method._answer(block, 2, seed, Randomness.with_seed(1)) for seed, block in enumerate(blocks)]
    again = [method._answer(block, 2, seed, Randomness.with_seed(2)) for seed, block in reversed([*enumerate(blocks)])]
    assert all(np.array_equal(a, b) for a, b in zip(alone, reversed(again), strict=True))


def test_a_block_orders_its_centroids_along_the_first_feature_and_answers_in_the_box():
    rng = np.random.default_rng(4)
    for seed in range(30):
        answer = gupt()._answer(engine_of(hard_records(rng, 30)), 4, seed, Randomness.with_seed(0))
        assert (np.diff(answer[:, 0]) >= 0).all()
        assert (answer >= 0).all()
        assert (answer <= BOX.side).all()


@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_block_with_fewer_records_than_clusters_answers_with_the_middle(n):
    answer = gupt()._answer(engine_of(np.ones((n, 3))), 4, 0, Randomness.with_seed(0))
    assert answer.tolist() == [[GRID // 8, GRID // 2, 0]] * 4


def test_the_number_of_blocks_is_the_power_of_a_released_or_public_number_of_records():
    engine = engine_of(np.ones((50, 3)))
    release = gupt(n_records=5000).run(engine, 2, ledger=Ledger(1.0), rng=Randomness.secure())
    assert release.parameters["n_blocks"] == round(5000**0.4)


def test_a_budget_per_coordinate_adds_up_from_below_and_respects_a_cap():
    engine = engine_of(np.random.default_rng(0).random((100, 2)), Bounds.of((0, 1), 2))
    ledger = Ledger()
    gupt(n_records=100, step_epsilon=0.1).run(engine, 3, ledger=ledger, rng=Randomness.secure())
    assert float(ledger.spent) == pytest.approx(0.6)
    with pytest.raises(BudgetError, match="only"):
        gupt(n_records=100, step_epsilon=0.1).run(engine, 3, ledger=Ledger(0.5), rng=Randomness.secure())


@pytest.mark.parametrize("privacy", [{"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.02}], ids=str)
def test_with_gaussian_noise_one_call_spends_the_rho_that_is_left_and_no_more(privacy):
    X = np.random.default_rng(0).uniform(BOX.lower, BOX.upper, (3000, 3))
    release = DPKMeans(2, bounds=BOX, method=gupt(noise="gaussian"), scale=None, **privacy).fit(X).release_
    assert release.guarantee.label == "proved"
    assert release.cost.within
    assert release.parameters["noise"] == "gaussian"
    assert [spend.label for spend in release.spends] == ["number of records", "centroids"]
    assert 0 <= release.cost.privacy.left_rho(release.cost.loss).femto < 100
    assert (release.centroids[:, 2] == 5).all()  # without width, without noise


def test_gaussian_noise_is_scaled_to_all_sides_of_all_centroids_at_once():
    """k · Σ side² over 2 rho, exactly: what one block can change."""
    asked = []

    class Watched(SeededNoise):
        def gaussian(self, values, variance):
            asked.append((values.shape, variance))
            return super().gaussian(values, variance)

    engine, rng = engine_of(hard_records(np.random.default_rng(0), 500)), np.random.default_rng(0)
    gupt(noise="gaussian", n_records=500).run(engine, 4, ledger=Ledger(rho=0.5), rng=Randomness(rng, Watched(0)))
    assert asked == [((4, 2), 4 * int((BOX.side**2).sum()))]


def test_no_hard_pair_loses_more_than_the_rho_that_gaussian_noise_declares():
    request = FitRequest(method=gupt(noise="gaussian", n_records=100), epsilon=1.0, delta=1e-6)
    replayed = [replay_pair(pair, request, i) for i, pair in enumerate(hard_pairs(8, 0))]
    assert all(found.holds for found in replayed)
    assert any(found.rho > 0 for found in replayed)


def test_gaussian_noise_is_for_a_promised_total_in_the_proved_setting():
    for options in ({"setting": "paper"}, {"step_epsilon": 0.1}):
        with pytest.raises(MethodError, match="only Laplace noise"):
            gupt(noise="gaussian", **options)
    with pytest.raises(MethodError, match="'laplace' or 'gaussian'"):
        gupt(noise="uniform")
    with pytest.raises(BudgetError, match="delta"):
        DPKMeans(2, epsilon=1.0, bounds=(0, 1), method=gupt(noise="gaussian")).fit(np.zeros((90, 2)))


def test_with_a_large_budget_the_average_of_the_blocks_comes_out():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(c, 0.01, (1000, 2)) for c in ((0.1, 0.5), (0.9, 0.5))])
    engine = engine_of(X, Bounds.of((0, 1), 2))
    centroids = gupt().run(engine, 2, ledger=Ledger(900.0), rng=Randomness.with_seed(0)).centroids
    assert np.abs(centroids - [[0.1, 0.5], [0.9, 0.5]]).max() < 0.02


def test_the_papers_setting_scales_noise_to_the_blocks_and_is_labelled_paper():
    engine = engine_of(np.random.default_rng(0).normal(0.5, 0.01, (500, 2)), Bounds.of((0, 1), 2))
    method = gupt(setting="paper", n_records=500)
    assert method.claim.label == "paper"
    found = np.array(
        [method.run(engine, 2, ledger=Ledger(1.0), rng=Randomness.with_seed(s)).centroids for s in range(20)]
    )
    assert np.abs(found - 0.5).mean() < 0.05  # the public box would give noise of a third of its side
    with pytest.raises(MethodError, match="setting must be"):
        gupt(setting="local")
    with pytest.raises(MethodError, match="max_iter"):
        gupt(max_iter=0)


@pytest.mark.parametrize("durable", [False, True])
def test_budgets_from_below_that_the_ledger_cannot_pay_are_refused_before_anything_is_spent(tmp_path, durable):
    X = np.random.default_rng(0).random((300, 2))
    method = gupt(n_records=300, step_epsilon=0.5)  # 8 centroids in 2 features: 8 in all
    kept, passing = DurableLedger.create(tmp_path / "ledger.db"), Ledger(5.0)
    kept.add("visits", cap=5)
    place = {"ledger": kept, "dataset": "visits"} if durable else {"ledger": passing}
    with pytest.raises(BudgetError):
        DPKMeans(8, bounds=(0, 1), method=method, **place).fit(X)
    assert kept.dataset("visits").spent == passing.spent == Epsilon(0)
