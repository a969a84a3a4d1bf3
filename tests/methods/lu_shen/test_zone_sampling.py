"""A compiled run is the same step in a loop: the same transcript in memory, from a stream and step by step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpkmeans import DPKMeans
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import reveal
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.errors import BudgetError
from dpkmeans.methods.loop.budgets import EqualSteps, StepBudget
from dpkmeans.methods.loop.solver import Move, Run, Trajectory, iterate, solve
from dpkmeans.methods.loop.stopping import AfterPlan, Repeats
from dpkmeans.methods.lu_shen.strategies import posterior, prior
from dpkmeans.methods.lu_shen.zone_sampling import STEPS_PER_CALL, Controller, ZoneSampling
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness

STEP = StepBudget(zone=Epsilon.of(0.3))
METHODS = {"posterior": posterior, "prior": prior, "clipped prior": lambda **more: prior(clip=True, **more)}


def both_ways(X, start, controller, plan, seed):
    """(trajectory, ledger, next random number) step by step and compiled."""
    engine = MemoryEngine.of_records(X, Bounds.of((0, 1), X.shape[1]), n_threads=1)
    for run in (iterate, solve):
        ledger, rng = Ledger(), Randomness.with_seed(seed)
        end = run(Run(engine, start, plan, Repeats(), ledger, rng), ZoneSampling(controller))
        yield end, ledger, rng.generator.random()


def assert_same(a: Trajectory, b: Trajectory) -> None:
    assert (len(a.moves), a.n_steps, a.passes, a.stopped) == (len(b.moves), b.n_steps, b.passes, b.stopped)
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
@given(st.integers(0, 2**32), st.integers(1, 300), st.integers(1, 20), st.integers(1, 12), st.sampled_from(Controller))
def test_a_compiled_run_is_the_run_step_by_step_to_the_bit(seed, n, d, k, controller):
    """Same draws, zones, centroids, statistics, spends, and as many random numbers used; ties and empty cells too."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, d)) if seed % 3 else rng.integers(0, 3, (n, d)) / 2
    start = X[rng.integers(n, size=k)] if seed % 2 else rng.random((k, d)) * 2
    plan = EqualSteps(STEP, 2 * STEPS_PER_CALL + 3)
    (slow, slow_ledger, a), (fast, fast_ledger, b) = both_ways(X, start, controller, plan, seed)
    assert_same(slow, fast)
    assert slow_ledger.spends == fast_ledger.spends
    assert a == b


@pytest.mark.parametrize("controller", Controller)
@pytest.mark.parametrize("steps", [0, 1, 2, STEPS_PER_CALL - 1, STEPS_PER_CALL, STEPS_PER_CALL + 1])
def test_a_plan_may_end_anywhere_and_its_budgets_may_differ(controller, steps):
    rng = np.random.default_rng(0)
    X = rng.random((4000, 2))
    plan = [StepBudget(zone=Epsilon.of(0.1 + 0.5 * (i % 3))) for i in range(steps)]
    (slow, _, _), (fast, ledger, _) = both_ways(X, X[:20], controller, plan, 1)
    assert_same(slow, fast)
    assert len(fast.moves) == steps
    assert [float(spend.epsilon) for spend in ledger.spends] == [float(budget.zone) for budget in plan]


def test_no_records_end_at_once():
    for end, _, _ in both_ways(np.empty((0, 2)), np.ones((2, 2)), Controller.POSTERIOR, EqualSteps(STEP, 2**31), 0):
        assert end.stopped
        assert end.moves == []


def test_a_ledger_that_may_refuse_is_asked_before_each_step():
    engine = MemoryEngine.of_records(np.random.default_rng(0).random((500, 2)), Bounds.of((0, 1), 2), n_threads=1)
    ledger, rng, twin = Ledger(0.7), Randomness.with_seed(0), Randomness.with_seed(0)
    start = np.random.default_rng(1).random((9, 2))
    update = ZoneSampling(Controller.POSTERIOR)
    with pytest.raises(BudgetError, match="step 3"):
        solve(Run(engine, start, [STEP] * 9, Repeats(), ledger, rng), update)
    assert len(ledger.spends) == 2
    # nothing of the third step was drawn: the generator stands where two steps leave it
    solve(Run(engine, start, [STEP] * 2, Repeats(), Ledger(), twin), update)
    assert rng.generator.random() == twin.generator.random()


@pytest.mark.parametrize(("stop", "n_threads"), [(AfterPlan(), 1), (Repeats(), 2)], ids=["stop rule", "threads"])
def test_another_stop_rule_and_several_threads_go_step_by_step(stop, n_threads, monkeypatch):
    monkeypatch.setattr(MemoryEngine, "zone_run", lambda *a, **b: pytest.fail("not the compiled run's case"))
    X = np.random.default_rng(0).random((20_000, 2))
    engine = MemoryEngine.of_records(X, Bounds.of((0, 1), 2), n_threads=n_threads)
    update, rng = ZoneSampling(Controller.POSTERIOR), Randomness.with_seed(0)
    end = solve(Run(engine, X[:3], [STEP] * 2, stop, Ledger(), rng), update)
    assert len(end.moves) == 2


def test_an_update_that_moves_in_another_way_does_not_inherit_the_compiled_run():
    class StaysPut(ZoneSampling):
        def move(self, step, *, ledger, rng):
            return Move(step.previous)

    engine = MemoryEngine.of_records(np.random.default_rng(0).random((500, 2)), Bounds.of((0, 1), 2), n_threads=1)
    start, update, rng = np.random.default_rng(1).random((3, 2)), StaysPut(Controller.PRIOR), Randomness.with_seed(0)
    end = solve(Run(engine, start, [STEP] * 5, Repeats(), Ledger(), rng), update)
    assert np.array_equal(end.centroids, start)
    assert (end.n_steps, end.stopped) == (1, True)


def fitted(method, X, engine):
    """What a seeded fit releases, to the bit."""
    value = METHODS[method](publish_centroids=True)
    model = DPKMeans(5, method=value, bounds=(0, 1), guarantee="none", random_state=7, engine=engine)
    release = model.fit(X).release_
    return release.centroids.tolist(), release.transcript, release.n_passes


def records(d):
    return np.random.default_rng(d).random((700, d))


@pytest.mark.parametrize("d", [1, 3, 14])
@pytest.mark.parametrize("method", METHODS)
def test_memory_and_stream_give_the_same_transcript(method, d):
    in_memory, streamed = (fitted(method, records(d), engine) for engine in ("memory", "stream"))
    assert len(in_memory[1]) > 5
    assert in_memory == streamed


class Neighbouring:
    """A NumPy function that returns a neighbouring float in a tenth of the cases, as another processor's may."""

    def __init__(self, function):
        self.function, self.rng = function, np.random.default_rng(0)

    def __call__(self, *args, **kwargs):
        found = np.asarray(self.function(*args, **kwargs))
        if found.dtype != np.float64:
            return found[()]
        off = self.rng.random(found.shape) < 0.1
        return np.where(off, np.nextafter(found, np.inf), found)[()]


TRANSCENDENTAL = ("log", "log1p", "exp", "expm1", "power", "sin", "cos", "arcsin", "arccos", "arctan", "dot", "matmul")


@pytest.mark.parametrize("d", [3, 14])
@pytest.mark.parametrize("method", METHODS)
def test_no_seeded_result_hangs_on_the_last_place_of_a_numpy_function(method, d, monkeypatch):
    sound = [fitted(method, records(d), engine) for engine in ("memory", "stream")]
    log1p, inputs = np.log1p, np.linspace(0, 1, 100)
    for name in TRANSCENDENTAL:
        monkeypatch.setattr(np, name, Neighbouring(getattr(np, name)))
    monkeypatch.setattr(np.linalg, "norm", Neighbouring(np.linalg.norm))
    assert np.log1p(inputs).tolist() != log1p(inputs).tolist()
    assert [fitted(method, records(d), engine) for engine in ("memory", "stream")] == sound
