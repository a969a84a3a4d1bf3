"""Neighbours that differ by a person: the door is shown to lose nearly epsilon and not more, and its mutants are found.

Seeded, so a test passes always or never; at a confidence of 1 - 1e-9 as in test_power.
"""

from __future__ import annotations

import numpy as np
import pytest

from dpkmeans.audit import Runs, audit
from dpkmeans.audit.person_targets import UNITS, person_mutants, person_targets, persons, through_door
from dpkmeans.audit.targets import targets_of
from dpkmeans.privacy.randomness import Randomness


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.keep)
def test_the_sides_differ_by_a_person_and_behind_the_door_by_as_many_records_as_the_unit_says(unit):
    without, with_person = (through_door(persons(side), unit) for side in (False, True))
    assert len(persons(True).ids) == len(persons(False).ids) + 7
    assert len(with_person) == len(without) + unit.records
    rest = with_person[(with_person != persons(True).steps[0]).any(axis=1)]
    assert np.array_equal(rest, without)


def test_a_sound_door_loses_nearly_epsilon_and_not_more():
    report = audit(person_targets(1.0)[:1], runs=100_000, rng=Randomness.with_seed(21))
    assert all(0.9 <= finding.bound <= 1.0 for finding in report.findings)
    assert not report.violations


def test_whole_fits_of_persons_are_not_found_to_lose_more_than_epsilon():
    runs = Runs(method=200)
    assert not audit(person_targets(1.0)[1:], runs=runs, rng=Randomness.with_seed(22)).violations


@pytest.mark.parametrize("target", person_mutants(1.0), ids=lambda target: target.name)
def test_every_fault_of_the_door_is_found(target):
    report = audit([target], runs=50_000, rng=Randomness.with_seed(23))
    assert report.violations, f"missed {target.name}"
    assert not report.missed


def test_they_are_targets_of_the_command():
    assert [target.name for target in targets_of("persons", 1.0)] == ["persons", "synopsis of persons"]
    assert {target.name for target in person_mutants(1.0)} <= {target.name for target in targets_of("mutants", 1.0)}
