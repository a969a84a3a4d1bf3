"""The short form of the faults that `make chaos` causes: each a few times, on the real thing."""

from __future__ import annotations

import pytest
from benchmarks.chaos.fault import NEVER, Fault, Outcome, Tally
from benchmarks.chaos.registry import groups

SHORT = [
    pytest.param(fault, id=fault.name, marks=[pytest.mark.cluster] if fault.cluster else [])
    for faults in groups().values()
    for fault in faults
    if fault.short
]


@pytest.mark.slow
@pytest.mark.parametrize("fault", SHORT)
def test_a_fault_costs_nothing_but_time(fault):
    why = fault.unavailable()
    if why is not None:
        pytest.skip(why)
    outcome = fault.run(fault.short)
    assert outcome.kept, outcome


def test_each_fault_has_a_name_and_a_promise_of_its_own():
    faults = [fault for found in groups().values() for fault in found]
    assert len({fault.name for fault in faults}) == len(faults)
    assert all(isinstance(fault, Fault) and fault.promise and fault.times > 0 for fault in faults)


@pytest.mark.parametrize("kind", NEVER)
def test_an_outcome_with_anything_that_must_not_happen_is_no_kept_promise(kind):
    tally = Tally()
    assert not tally.outcome().kept, "a fault that was never caused shows nothing"
    tally.saw("right result")
    assert tally.outcome().kept
    tally.must_not(kind, happened=False)
    assert tally.outcome().kept
    tally.must_not(kind, happened=True, why="by accident")
    assert not tally.outcome().kept
    assert not Outcome(1, {}, **{kind: 1}).kept
