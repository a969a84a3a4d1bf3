from __future__ import annotations

import math

import pytest

from dpkmeans.core.epsilon import Epsilon
from dpkmeans.errors import BudgetError, MethodError
from dpkmeans.methods.loop.budgets import (
    EqualSteps,
    EvenSplit,
    Free,
    Halving,
    PerStep,
    ScheduleInput,
    StepBudget,
    SuSplit,
    noisy_mean_budget,
)

SPLITS = [EvenSplit(), EvenSplit(1), EvenSplit(13), Halving(), Halving(1), Halving(10), SuSplit()]


def total(plan) -> Epsilon:
    return sum((step.total for step in plan), Epsilon(0))


@pytest.mark.parametrize("schedule", SPLITS, ids=str)
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 999.999999999])
@pytest.mark.parametrize("d", [1, 2, 5, 10, 50, 100])
def test_a_split_spends_its_total_to_the_last_nano(schedule, epsilon, d):
    for k, n in ((1, 1.0), (15, 5000.0), (200, 2.0**33)):
        task = ScheduleInput(Epsilon.of(epsilon), k, d, n)
        plan = list(schedule.plan(task))
        assert total(plan) == task.total
        assert all(step.counts.nano > 0 and step.sums.nano > 0 and step.zone.nano == 0 for step in plan)


def test_blum_gives_every_step_and_every_part_of_it_the_same():
    plan = list(EvenSplit(5).plan(ScheduleInput(Epsilon.of(1.0), 3, 4, 1.0)))
    assert len(plan) == 5
    for step in plan:
        assert float(step.counts) == pytest.approx(0.2 / 5)
        assert float(step.sums) == pytest.approx(0.2 * 4 / 5)


def test_dwork_halves_and_the_last_step_takes_what_is_left():
    plan = list(Halving(4).plan(ScheduleInput(Epsilon.of(1.0), 3, 4, 1.0)))
    assert [float(step.total) for step in plan] == [0.5, 0.25, 0.125, 0.125]


@pytest.mark.parametrize(
    ("k", "d", "n", "epsilon", "steps"),
    [
        (15, 2, 5000, 1.0, 2),  # S1 affords less than one step: the fewest
        (15, 2, 5000, 4.0, 3),
        (3, 10, 26733, 1.0, 6),
        (3, 3, 34112, 1.0, 7),  # the most
    ],
)
def test_su_plans_as_many_steps_as_its_formula_affords(k, d, n, epsilon, steps):
    rho = 0.225
    weight = (4 * d * rho**2) ** (1 / 3)
    smallest = math.sqrt(500 * k**3 / n**2 * (d + weight) ** 3)
    task = ScheduleInput(Epsilon.of(epsilon), k, d, float(n))
    plan = list(SuSplit().plan(task))
    assert SuSplit().smallest_step(task) == pytest.approx(smallest)
    assert len(plan) == steps == min(max(int(epsilon / smallest), 2), 7)


@pytest.mark.parametrize("d", [1, 2, 5, 10, 50, 100])
def test_su_weighs_the_count_against_one_feature_and_not_the_other_way_round(d):
    """The swap of these two shares is what makes a peer spend 2.66 times its budget at 100 features."""
    weight = (4 * d * 0.225**2) ** (1 / 3)
    for step in SuSplit().plan(ScheduleInput(Epsilon.of(1.0), 5, d, 1000.0)):
        assert float(step.counts) / (float(step.sums) / d) == pytest.approx(weight, rel=1e-4)


def test_the_shares_of_a_step_have_names_and_add_up():
    step = noisy_mean_budget(Epsilon.of(0.7), 3, 0.5)
    assert step.counts + step.sums == step.total == Epsilon.of(0.7)
    assert float(step.counts) == pytest.approx(0.1)
    assert StepBudget(zone=Epsilon.of(0.2)).total == Epsilon.of(0.2)


def test_bottom_up_schedules_ask_for_no_total():
    task = ScheduleInput(Epsilon(0), 3, 2, 1.0)
    assert not PerStep(Epsilon.of(0.1), 4).splits
    assert [float(step.zone) for step in PerStep(Epsilon.of(0.1), 4).plan(task)] == [0.1] * 4
    assert total(Free(9).plan(task)) == Epsilon(0)


@pytest.mark.parametrize("schedule", [EvenSplit, Halving])
@pytest.mark.parametrize("steps", [0, -1, 2.5, True, "3", None])
def test_a_number_of_steps_that_makes_no_sense_is_a_clear_error(schedule, steps):
    with pytest.raises(MethodError, match="steps must be a whole number"):
        schedule(steps)


@pytest.mark.parametrize("schedule", [EvenSplit(50), Halving(60), SuSplit()])
def test_a_total_that_is_too_small_to_split_is_a_clear_error(schedule):
    with pytest.raises(BudgetError, match="larger epsilon"):
        list(schedule.plan(ScheduleInput(Epsilon(2), 3, 2, 100.0)))


def test_equal_steps_are_a_sequence_of_any_length():
    step = StepBudget(zone=Epsilon.of(0.1))
    steps = EqualSteps(step, 2**31)
    assert (len(steps), steps[0], steps[-1], len(steps[5:37]), len(steps[2**31 - 3 :])) == (2**31, step, step, 32, 3)
    assert list(EqualSteps(step, 3)) == [step] * 3
    assert not EqualSteps(step, 3)[3:35]
    with pytest.raises(IndexError):
        EqualSteps(step, 3)[3]
