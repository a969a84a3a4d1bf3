"""The shape of the tree: its law, its loss, and what it records. Proof: proofs/tree.md."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy.stats import beta, chisquare

from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import Exact
from dpkmeans.core.query import Sensitivity
from dpkmeans.errors import BudgetError, DataError
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import PrivTreeSplits, _scale
from dpkmeans.privacy.randomness import Randomness, SecureNoise

ALARM = 1e-9  # how often each test of a law fails by chance
AUDIT_ALARM = 1e-6  # how often a seeded audit would be wrong with another seed
BUDGETS = [0.003, 0.03, 0.1, 0.33, 1.0, 3.0, 10.0, 50.0]


def above(t, scale: float):
    """P(Z > t) for integer t and P(z) ∝ exp(-|z|/scale)."""
    t = np.asarray(t, np.float64)
    q = math.exp(-1 / scale)
    return np.where(t >= 0, q ** np.maximum(t + 1, 0) / (1 + q), 1 - q ** np.maximum(-t, 0) / (1 + q))


def bias_of(scale: float) -> int:
    return math.ceil(scale * PrivTreeSplits.LN2_ABOVE)


def law(cells: tuple[int, ...], scale: float, bias: int, max_leaves: int) -> dict[frozenset, float]:
    """The probability of every shape, by following all outcomes node by node, level by level, from the left."""
    deepest = len(cells).bit_length() - 1
    found: dict[frozenset, float] = {}

    def count(depth: int, prefix: int) -> int:
        width = 2 ** (deepest - depth)
        return sum(cells[prefix * width : (prefix + 1) * width])

    def follow(queue: list, leaves: list, n_leaves: int, probability: float) -> None:
        if not queue:
            shape = frozenset(leaves)
            found[shape] = found.get(shape, 0.0) + probability
            return
        (depth, prefix), *rest = queue
        if depth == deepest or n_leaves == max_leaves:
            follow(rest, [*leaves, (depth, prefix)], n_leaves, probability)
            return
        splits = float(above(-max(count(depth, prefix) - depth * bias, -bias), scale))
        children = [(depth + 1, 2 * prefix), (depth + 1, 2 * prefix + 1)]
        follow([*rest, *children], leaves, n_leaves + 1, probability * splits)
        follow(rest, [*leaves, (depth, prefix)], n_leaves, probability * (1 - splits))

    follow([(0, 0)], [], 1, 1.0)
    return found


def worst_path(scale: float, bias: int, depths: int = 12) -> float:
    """The largest Σ log P'(split)/P(split) over all count paths, by dynamic programming from the deepest level up.

    On a path the counts fall or stay; the record adds 1 to each of them.
    """
    counts = np.arange((depths + 2) * bias + 20)
    below = np.zeros(len(counts))  # best of all paths that go on with at most this count; 0: the node below is a leaf
    for depth in reversed(range(depths)):
        before, after = (np.maximum(c - depth * bias, -bias) for c in (counts, counts + 1))
        loss = np.log(above(-after, scale)) - np.log(above(-before, scale))
        below = np.maximum(np.maximum.accumulate(loss + below), 0.0)
    return float(below[-1])


# --- the loss ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", BUDGETS)
def test_no_path_of_counts_loses_more_than_epsilon_and_two_over_epsilon_would_not_do(epsilon):
    scale = float(_scale(Epsilon.of(epsilon), PrivTreeSplits.LOSSES, SecureNoise()))
    loss = worst_path(scale, bias_of(scale))
    assert loss <= epsilon * (1 + 1e-9)
    if scale > 1:
        assert loss > 0.75 * epsilon  # the bound is not far from the truth
        short = 2 / epsilon
        assert worst_path(short, bias_of(short)) > 1.1 * epsilon


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_without_the_bias_a_deep_path_would_lose_more_than_epsilon(epsilon):
    scale = 3 / epsilon
    assert worst_path(scale, 0, depths=12) > 2 * epsilon
    assert worst_path(scale, bias_of(scale) // 3, depths=12) > epsilon


@pytest.mark.parametrize("scale", [0.2, 1.0, 7.0, 300.0])
def test_a_split_loses_at_most_what_the_proof_says_and_a_leaf_the_other_way_at_most_one_over_the_scale(scale):
    y = np.arange(-round(600 * scale), 2001)  # below, P(split) is no float64
    split = np.log(above(-(y + 1), scale)) - np.log(above(-y, scale))
    bound = np.exp(-np.maximum(y, 0) / scale) / scale
    assert (split <= bound * (1 + 1e-9) + 1e-15).all()
    few = np.arange(-100, 101) if scale > 1 else np.arange(-20, 3)  # where 1 - P is not lost to rounding
    leaf = np.log1p(-above(-few, scale)) - np.log1p(-above(-(few + 1), scale))
    assert leaf.max() <= 1 / scale * (1 + 1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 8.0])
@pytest.mark.parametrize("max_leaves", [1, 3, 100])
def test_no_shape_of_a_small_tree_tells_more_than_epsilon_with_any_cap_on_leaves(epsilon, max_leaves):
    """Counts in 4 cells, among them those at which the bias bites, and every neighbour, shape by shape."""
    scale = float(_scale(Epsilon.of(epsilon), PrivTreeSplits.LOSSES, SecureNoise()))
    bias = bias_of(scale)
    worst = 0.0
    for cells in itertools.product((0, 1, bias, 2 * bias), repeat=4):
        mine = law(cells, scale, bias, max_leaves)
        assert abs(sum(mine.values()) - 1) < 1e-9
        for place in range(4):
            more = tuple(c + (i == place) for i, c in enumerate(cells))
            theirs = law(more, scale, bias, max_leaves)
            assert mine.keys() == theirs.keys()
            worst = max(worst, *(abs(math.log(theirs[s] / mine[s])) for s in mine if min(mine[s], theirs[s]) > 1e-12))
    assert worst <= epsilon * (1 + 1e-3)


def test_the_bias_is_a_whole_number_at_least_the_scale_times_the_logarithm_of_two():
    with localcontext(prec=60):
        ln2 = Decimal(2).ln()
        for epsilon in BUDGETS:
            scale = _scale(Epsilon.of(epsilon), PrivTreeSplits.LOSSES, SecureNoise())
            exact = ln2 * Decimal(scale.numerator) / Decimal(scale.denominator)
            assert math.ceil(scale * PrivTreeSplits.LN2_ABOVE) >= exact


def counted(cells) -> Exact:
    """Counts of cells, of which one record changes one by 1."""
    return Exact(np.array(cells)[:, None], Sensitivity.of_row((1,)))


# --- the law that is drawn --------------------------------------------------------------------------


@pytest.mark.parametrize("max_leaves", [3, 100])
@pytest.mark.parametrize(("rng", "runs"), [(Randomness.secure(), 3000), (Randomness.with_seed(1), 8000)])
def test_shapes_are_drawn_by_their_law_and_by_no_smaller_scale(max_leaves, rng, runs):
    """False alarm: 1e-9 each, by a χ² test over shapes that are expected at least 5 times."""
    cells, epsilon = (6, 1, 0, 4), Epsilon.of(1.0)
    mechanism = PrivTreeSplits(epsilon, max_leaves)
    seen: Counter = Counter()
    for _ in range(runs):
        depths, prefixes = mechanism.release(counted(cells), ledger=Ledger(), rng=rng, label="shape")
        seen[frozenset(zip(depths.tolist(), prefixes.tolist(), strict=True))] += 1

    def p_value(scale: float) -> float:
        expected = law(cells, scale, bias_of(scale), max_leaves)
        assert set(seen) <= set(expected)
        often = [shape for shape in expected if runs * expected[shape] >= 5]
        observed = [seen[shape] for shape in often] + [runs - sum(seen[shape] for shape in often)]
        wanted = [runs * expected[shape] for shape in often]
        wanted.append(runs - sum(wanted))
        if wanted[-1] < 5:  # too rare to stand alone
            observed, wanted = observed[:-1], wanted[:-1]
            wanted = [w * sum(observed) / sum(wanted) for w in wanted]
        return float(chisquare(observed, wanted).pvalue)

    assert p_value(3.0) > ALARM
    assert p_value(2.0) < ALARM


def test_leaves_tile_the_cells_and_never_pass_the_cap():
    rng = np.random.default_rng(0)
    for max_leaves in (1, 2, 7, 64):
        for seed in range(20):
            cells = rng.integers(0, 200, 64) * (rng.random(64) < 0.3)
            depths, prefixes = PrivTreeSplits(Epsilon.of(1.0), max_leaves).release(
                counted(cells), ledger=Ledger(), rng=Randomness.with_seed(seed), label="shape"
            )
            assert 1 <= len(depths) <= max_leaves
            covered = np.concatenate(
                [np.arange(p << (6 - h), (p + 1) << (6 - h)) for h, p in zip(depths, prefixes, strict=True)]
            )
            assert sorted(covered.tolist()) == list(range(64))


def test_many_records_split_and_none_do_not():
    empty, full = np.zeros(256, np.int64), np.full(256, 10**6)
    for cells, wanted in ((empty, range(1, 20)), (full, [256])):
        depths, _ = PrivTreeSplits(Epsilon.of(1.0), 1000).release(
            counted(cells), ledger=Ledger(), rng=Randomness.with_seed(0), label="shape"
        )
        assert len(depths) in wanted


# --- one call checks, records and draws -------------------------------------------------------------


def test_one_call_records_its_budget_once_and_before_the_first_draw():
    ledger = Ledger(1.0)
    rng = Randomness.with_seed(0)
    drawn = []

    class Spy:
        def laplace(self, values, scale):
            drawn.append(ledger.spent)
            return rng.noise.laplace(values, scale)

        def loss(self, change, scale):
            return rng.noise.loss(change, scale)

    PrivTreeSplits(Epsilon.of(0.5), 8).release(
        counted(np.full(16, 99)), ledger=ledger, rng=Randomness(rng.generator, Spy()), label="shape"
    )
    assert [(s.label, float(s.epsilon)) for s in ledger.spends] == [("shape", 0.5)]
    assert set(drawn) == {Epsilon.of(0.5)}


def test_a_call_past_the_cap_and_unfit_values_are_refused_before_anything_is_spent():
    rng, ledger = Randomness.with_seed(0), Ledger(0.1)
    with pytest.raises(BudgetError):
        PrivTreeSplits(Epsilon.of(0.5), 8).release(
            counted(np.zeros(4, np.int64)), ledger=ledger, rng=rng, label="shape"
        )
    for wrong in (np.zeros((4, 1)), np.zeros((2, 2), np.int64), np.zeros((0, 1), np.int64)):
        with pytest.raises(DataError):
            PrivTreeSplits(Epsilon.of(0.05), 8).release(
                Exact(wrong, Sensitivity.of_row((1,))), ledger=ledger, rng=rng, label="shape"
            )
    two = Exact(np.zeros((4, 1), np.int64), Sensitivity.of_row((2,)))
    with pytest.raises(BudgetError, match="one count by 1"):
        PrivTreeSplits(Epsilon.of(0.05), 8).release(two, ledger=ledger, rng=rng, label="shape")
    assert ledger.spends == ()
    with pytest.raises(BudgetError):
        PrivTreeSplits(Epsilon(0), 8)


# --- an audit ---------------------------------------------------------------------------------------


class TooLittleNoise(PrivTreeSplits):
    LOSSES = 1


def loss_at_least(mechanism: PrivTreeSplits, cells: tuple[int, ...], runs: int) -> float:
    """A lower bound for log P'/P of "the record's path is split to the bottom", wrong once in a million audits."""
    counts = []
    for extra in (0, 1):
        rng, answer = Randomness.with_seed(extra), np.array(cells)
        answer[0] += extra
        shapes = (mechanism.release(counted(answer), ledger=Ledger(), rng=rng, label="x") for _ in range(runs))
        counts.append(sum(int(depths[prefixes == 0].max()) == 3 for depths, prefixes in shapes))
    without, with_record = counts
    most = beta.ppf(1 - AUDIT_ALARM / 2, without + 1, runs - without)
    least = beta.ppf(AUDIT_ALARM / 2, with_record, runs - with_record + 1)
    return math.log(least / most)


@pytest.mark.slow
def test_an_audit_of_the_worst_path_finds_no_more_than_epsilon_and_catches_too_little_noise():
    """All records in one cell: the biased counts along its path are δ, 0, -δ, the tight case of the proof."""
    epsilon = Epsilon.of(2.0)
    sound = PrivTreeSplits(epsilon, 100)
    bias = bias_of(float(_scale(epsilon, PrivTreeSplits.LOSSES, SecureNoise())))
    assert 0.5 < loss_at_least(sound, (bias, *[0] * 7), 3000) <= 2.0
    assert loss_at_least(TooLittleNoise(epsilon, 100), (1, *[0] * 7), 3000) > 2.0
