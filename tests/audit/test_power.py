"""The audit notices: sound mechanisms at nearly their epsilon, every mutant above it, and the paper far above it.

These draw from the seeded double, which has the laws of the secure source, so a test passes always or never. The
registered methods are run with the secure source at a confidence of 1 - 1e-9. False alarm: 1e-9 for each of them.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpkmeans.audit import Runs, audit, mechanism_targets, method_target, mutant_targets, registered_target, worst_pairs
from dpkmeans.audit.method_targets import MethodCase
from dpkmeans.audit.mutants import structural_targets, thin_targets
from dpkmeans.audit.neighbours import duplicate, empty_cluster, outlier
from dpkmeans.audit.power_targets import corner_scores, power_targets
from dpkmeans.audit.targets import targets_of
from dpkmeans.methods.registry import make_method, registry
from dpkmeans.privacy.randomness import Randomness

PROVED = [entry for entry in registry().values() if entry.guarantee == "proved"]
PAPER = [entry for entry in registry().values() if entry.guarantee == "paper"]


def named(targets):
    return pytest.mark.parametrize("target", targets, ids=lambda target: target.name)


@named(mechanism_targets(1.0))
def test_a_sound_mechanism_is_shown_to_lose_nearly_its_epsilon_and_not_more(target):
    one_by_one = {
        "PermuteAndFlip": (20_000, 0.85),
        "PrivTreeSplits": (6_000, 0.3),  # the proof of a tree's shape has slack
        "Gaussian": (100_000, 0.8),  # a difference of frequencies, with a delta
    }
    runs, least = one_by_one.get(target.name, (100_000, 0.9))
    report = audit([target], runs=runs, rng=Randomness.with_seed(11))
    claimed = report.findings[0].claimed
    assert claimed == (0.5 if target.name == "Gaussian" else 1.0)
    assert least <= max(finding.bound for finding in report.findings) / claimed <= 1.0
    assert not report.violations


@named(thin_targets(1.0))
def test_too_little_noise_is_found_from_a_factor_of_1_2_on(target):
    one_by_one = {"1.2": 20_000, "1.5": 5_000, "2": 2_000}  # the less noise, the sooner it shows
    runs = one_by_one[target.name.rpartition(" ")[2]] if "PermuteAndFlip" in target.name else 50_000
    report = audit([target], runs=runs, rng=Randomness.with_seed(12))
    assert report.violations, f"missed {target.name}"
    assert not report.missed


@named(structural_targets(1.0))
def test_every_structural_fault_is_found(target):
    report = audit([target], runs=Runs(mechanism=20_000, paper=500), rng=Randomness.with_seed(13))
    assert report.violations, f"missed {target.name}"


def test_a_mutant_that_is_missed_is_named():
    report = audit(thin_targets(1.0)[:1], runs=40, rng=Randomness.with_seed(14))
    assert report.missed == ("mutant: Laplace, noise / 1.2",)


def test_no_mutant_is_registered_and_none_claims_more_than_nothing():
    for target in mutant_targets(1.0):
        assert target.mutant
        assert target.label == "none"
        assert target.name not in registry()


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("entry", PAPER, ids=lambda entry: entry.name)
def test_the_papers_final_centroids_alone_lose_far_more_than_is_claimed(entry, epsilon):
    target = registered_target(entry, epsilon, [outlier(), duplicate()])
    report = audit([target], runs=400, rng=Randomness.with_seed(15))
    for finding in report.best():
        assert finding.bound > 3.0
        assert finding.verdict == "violation"
        assert 0.7 * epsilon < finding.claimed_mean < 1.3 * epsilon


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "epsilon"), [*zip(PAPER, (0.1, 1.0), strict=True)], ids=lambda one: str(getattr(one, "name", one))
)
def test_with_10_000_runs_a_side_the_bound_for_the_paper_exceeds_five(entry, epsilon):
    report = audit([registered_target(entry, epsilon, [duplicate()])], runs=10_000, rng=Randomness.with_seed(16))
    assert max(finding.bound for finding in report.findings) > 5.0


@pytest.mark.parametrize("entry", PROVED, ids=lambda entry: entry.name)
def test_no_proved_method_is_shown_to_lose_more_than_its_epsilon(entry):
    target = registered_target(entry, 1.0, [outlier(), empty_cluster()])
    report = audit([target], runs=40, confidence=1 - 1e-9)
    assert not report.violations
    assert all(finding.claimed <= 1.0 for finding in report.findings)


@pytest.mark.slow
def test_an_event_made_for_a_method_shows_a_loss_and_none_above_its_epsilon():
    """A centroid in the corner of an empty cell, by `blum` in one step; docs/audit.md has all methods."""
    target = power_targets(1.0)[0]
    first = target.cases[0]
    assert isinstance(first, MethodCase)
    case = replace(first, scored=lambda pair: corner_scores(pair)[:1])
    report = audit([replace(target, cases=(case,))], runs=2000, rng=Randomness.with_seed(19))
    (finding,) = report.findings
    assert (finding.target, finding.event) == ("blum", "centroids at the record")
    assert 0.3 < finding.bound <= finding.claimed == 1.0


def test_the_cases_made_for_a_method_belong_to_its_audit():
    for target in power_targets(1.0):
        (whole,) = targets_of(target.name, 1.0)
        assert [case.pair for case in whole.cases[-len(target.cases) :]] == [case.pair for case in target.cases]
        assert len(whole.cases) == len(worst_pairs()) + len(target.cases)
    assert [target.name for target in targets_of("power", 1.0)] == [target.name for target in power_targets(1.0)]


def test_every_registered_method_is_audited_over_every_pair():
    for entry in registry().values():
        target = registered_target(entry, 1.0)
        assert {case.pair for case in target.cases} == {pair.name for pair in worst_pairs()}
        assert target.label == entry.guarantee


def test_what_promises_nothing_is_shown_to_lose_and_accused_of_nothing():
    report = audit([registered_target(registry()["lloyd"], 1.0, [outlier()])], runs=400, rng=Randomness.with_seed(17))
    assert max(finding.bound for finding in report.findings) > 3
    assert {finding.verdict for finding in report.findings} == {"nothing claimed"}
    assert not report.violations


def test_a_users_own_method_can_be_audited():
    leaky = make_method("posterior", step_epsilon=0.01, release_epsilon=0.01)
    report = audit(
        [method_target(leaky, None, name="mine", pairs=[duplicate()])], runs=200, rng=Randomness.with_seed(18)
    )
    assert {finding.target for finding in report.violations} == {"mine"}
