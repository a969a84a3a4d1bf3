"""What the package promises about itself; dpkmeans' own contract tests run over it too."""

from __future__ import annotations

import numpy as np

from dpkmeans import DPKMeans
from dpkmeans.audit import replays_of
from dpkmeans.methods.registry import registry

RNG = np.random.default_rng(0)
X = np.clip(RNG.random((3, 2))[RNG.integers(3, size=5000)] + 0.03 * RNG.standard_normal((5000, 2)), 0, 1)


def test_it_is_found_under_its_name_with_the_package_that_vouches_for_it():
    entry = registry()["one-step"]
    assert (entry.guarantee, entry.package) == ("proved", "one-step 0.1.0")


def test_it_spends_exactly_what_it_was_given_and_says_whose_proof_it_is():
    release = DPKMeans(3, epsilon=1.0, bounds=(0, 1), method="one-step").fit(X).release_
    assert release.epsilon_spent == 1.0
    assert release.summary().endswith("The proof of OneStep is that of the package one_step, not of dpkmeans.")


def test_with_much_budget_it_is_one_step_of_lloyd():
    release = DPKMeans(3, epsilon=1000.0, bounds=(0, 1), method="one-step").fit(X).release_
    assert ((release.centroids >= 0) & (release.centroids <= 1)).all()
    assert DPKMeans(3, epsilon=1000.0, bounds=(0, 1), method="one-step").fit(X).score(X) > -0.2 * len(X)


def test_its_exact_loss_on_hard_neighbours_stays_within_what_the_ledger_books():
    for replayed in replays_of("one-step", pairs=5, epsilon=1.0):
        assert replayed.holds
