"""The fields of a public deployment record follow from the release alone."""

from __future__ import annotations

import numpy as np

from dpkmeans import DPKMeans, Person
from dpkmeans.report.record import TO_FILL_IN, deployment_record

X = np.random.default_rng(0).random((2000, 2))


def test_a_record_says_mechanism_unit_budget_accounting_software_and_contact():
    release = DPKMeans(3, epsilon=0.5, bounds=(0, 1)).fit(X).release_
    record = deployment_record(release, contact="privacy@example.org")
    assert record["mechanism"].startswith("synopsis: ")
    assert (record["privacy_unit"], record["neighbours"]) == ("row", "add or remove one record")
    assert (record["epsilon"], record["delta"], record["contact"]) == (0.5, 0.0, "privacy@example.org")
    assert record["accounting"].startswith("sequential composition")
    assert record["proof"] == "proofs/synopsis.md (dpkmeans)"
    assert record["software"].startswith("dpkmeans ")
    assert record["purpose"] == TO_FILL_IN


def test_gaussian_noise_has_its_delta_and_persons_are_the_unit():
    import pandas as pd

    frame = pd.DataFrame(X, columns=["east", "north"]).assign(who=np.arange(2000) // 2)
    bounds = {"east": (0, 1), "north": (0, 1)}
    unit = Person("who", at_most=2)
    release = DPKMeans(2, epsilon=1, delta=1e-6, bounds=bounds, unit=unit, method="gaussian").fit(frame).release_
    record = deployment_record(release)
    assert (record["epsilon"], record["delta"], record["privacy_unit"]) == (1.0, 1e-6, "person")
    assert record["accounting"].startswith("zero-concentrated")


def test_what_is_not_private_has_no_epsilon():
    release = DPKMeans(2, method="lloyd", bounds=(0, 1), guarantee="none").fit(X).release_
    record = deployment_record(release)
    assert record["epsilon"] is None
    assert record["accounting"] == "none"
