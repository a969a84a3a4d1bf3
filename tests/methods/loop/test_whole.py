"""The compiled loop against the loop that defines it, to the bit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import reveal
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.errors import BudgetError
from dpkmeans.kernels.zones import ROOM
from dpkmeans.methods.loop import whole
from dpkmeans.methods.loop.budgets import StepBudget
from dpkmeans.methods.loop.solver import Trajectory, iterate
from dpkmeans.methods.loop.stopping import AfterPlan, Repeats
from dpkmeans.methods.loop.updates import ExactMean, ZoneSampling
from dpkmeans.methods.loop.whole import iterate_whole
from dpkmeans.methods.lu_shen.controllers import PosteriorController, PriorController
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness

CONTROLLERS = (PosteriorController(), PriorController(), PriorController(clip=True))
STEP = StepBudget(zone=Epsilon.of(0.3))


def both_ways(X, start, controller, plan, seed):
    """(trajectory, ledger, next random number) by the loop and by the compiled one."""
    engine = MemoryEngine.of_records(X, Bounds.of((0, 1), X.shape[1]), n_threads=1)
    for loop in (iterate, iterate_whole):
        ledger, rng = Ledger(), Randomness.with_seed(seed)
        end = loop(engine, start, plan, update=ZoneSampling(controller), stop=Repeats(), ledger=ledger, rng=rng)
        yield end, ledger, rng.generator.random()


def assert_same(a: Trajectory, b: Trajectory) -> None:
    assert (len(a.moves), a.passes, a.stopped) == (len(b.moves), b.passes, b.stopped)
    assert np.array_equal(a.centroids, b.centroids)
    for (budget, move), (other_budget, other) in zip(a.moves, b.moves, strict=True):
        assert (budget, move.passes) == (other_budget, other.passes)
        assert np.array_equal(move.centroids, other.centroids)
        assert np.array_equal(move.zones.center, other.zones.center)
        assert np.array_equal(move.zones.radius, other.zones.radius)
    assert (a.exact is None) == (b.exact is None)
    if a.exact is not None and b.exact is not None:
        ends = [reveal(exact, why="a test") for exact in (a.exact, b.exact)]
        assert np.array_equal(ends[0].counts, ends[1].counts)
        assert np.array_equal(ends[0].sums, ends[1].sums)
        assert (ends[0].cost, ends[0].n_changed) == (ends[1].cost, ends[1].n_changed)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 300), st.integers(1, 20), st.integers(1, 12), st.sampled_from(CONTROLLERS))
def test_the_compiled_loop_is_the_loop_to_the_bit(seed, n, d, k, controller):
    """Same draws, zones, centroids, statistics, spends, and as many random numbers used; ties and empty cells too."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, d)) if seed % 3 else rng.integers(0, 3, (n, d)) / 2
    start = X[rng.integers(n, size=k)] if seed % 2 else rng.random((k, d)) * 2
    (slow, slow_ledger, a), (fast, fast_ledger, b) = both_ways(X, start, controller, [STEP] * (2 * ROOM + 3), seed)
    assert_same(slow, fast)
    assert slow_ledger.spends == fast_ledger.spends
    assert a == b


@pytest.mark.parametrize("controller", CONTROLLERS)
@pytest.mark.parametrize("steps", [0, 1, 2, ROOM - 1, ROOM, ROOM + 1])
def test_a_plan_may_end_anywhere_and_its_budgets_may_differ(controller, steps):
    rng = np.random.default_rng(0)
    X = rng.random((4000, 2))
    plan = [StepBudget(zone=Epsilon.of(0.1 + 0.5 * (i % 3))) for i in range(steps)]
    (slow, _, _), (fast, ledger, _) = both_ways(X, X[:20], controller, plan, 1)
    assert_same(slow, fast)
    assert len(fast.moves) == steps
    assert [float(spend.epsilon) for spend in ledger.spends] == [float(budget.zone) for budget in plan]


def test_no_records_and_an_endless_plan_end_at_once():
    engine = MemoryEngine.of_records(np.empty((0, 2)), Bounds.of((0, 1), 2), n_threads=1)
    for loop in (iterate, iterate_whole):
        end = loop(
            engine,
            np.ones((2, 2)),
            itertools.repeat(STEP),
            update=ZoneSampling(CONTROLLERS[0]),
            stop=Repeats(),
            ledger=Ledger(),
            rng=Randomness.with_seed(0),
        )
        assert end.stopped
        assert end.moves == []


def test_a_ledger_that_may_refuse_is_asked_before_each_step():
    engine = MemoryEngine.of_records(np.random.default_rng(0).random((500, 2)), Bounds.of((0, 1), 2), n_threads=1)
    ledger, rng, twin = Ledger(0.7), Randomness.with_seed(0), Randomness.with_seed(0)
    start = np.random.default_rng(1).random((9, 2))
    update = ZoneSampling(PosteriorController())
    with pytest.raises(BudgetError, match="step 3"):
        iterate_whole(engine, start, [STEP] * 9, update=update, stop=Repeats(), ledger=ledger, rng=rng)
    assert len(ledger.spends) == 2
    # nothing of the third step's draw in the zone was made: the generator stands before it
    with pytest.raises(BudgetError, match="step 3"):
        iterate(engine, start, [STEP] * 9, update=update, stop=Repeats(), ledger=Ledger(0.7), rng=twin)
    assert rng.generator.random() == twin.generator.random()


class OtherController(PosteriorController):
    """Not the paper's."""


@pytest.mark.parametrize(
    ("update", "stop", "n_threads"),
    [
        (ZoneSampling(OtherController()), Repeats(), 1),
        (ZoneSampling(PosteriorController()), AfterPlan(), 1),
        (ExactMean(), Repeats(), 1),
        (ZoneSampling(PosteriorController()), Repeats(), 2),
    ],
)
def test_anything_else_goes_step_by_step(update, stop, n_threads, monkeypatch):
    monkeypatch.setattr(whole, "walk", lambda *a, **b: pytest.fail("not the compiled loop's case"))
    X = np.random.default_rng(0).random((20_000, 2))
    engine = MemoryEngine.of_records(X, Bounds.of((0, 1), 2), n_threads=n_threads)
    ledger, rng = Ledger(), Randomness.with_seed(0)
    end = iterate_whole(engine, X[:3], [STEP] * 2, update=update, stop=stop, ledger=ledger, rng=rng)
    assert len(end.moves) == 2
