from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest

from dpkmeans.audit import QUICK, Runs, Sample, Target, audit, mechanism_targets, registered_target, targets_of
from dpkmeans.audit.auditor import NOTHING_PROVED, draw
from dpkmeans.audit.neighbours import duplicate, empty_cluster
from dpkmeans.audit.noise_sources import InBlocks, Recorder
from dpkmeans.audit.scores import column
from dpkmeans.cli.main import main
from dpkmeans.errors import BudgetError, MethodError
from dpkmeans.methods.registry import registry
from dpkmeans.privacy.randomness import Randomness, SecureNoise, SeededNoise
from dpkmeans.storage.json_files import read_json


@dataclass(frozen=True)
class Coin:
    """Comes up with chance `p` without and `q` with the record; its ledger recorded 0.5."""

    p: float
    q: float
    pair: str = "coin"

    def draw(self, with_record, runs, rng):
        hits = rng.generator.random((runs, 1)) < (self.q if with_record else self.p)
        return Sample(hits.astype(float), np.array([0.5]))

    def scores(self):
        return (column(0, "heads"),)


def coin(p, q, **options):
    return Target("coin", "mechanism", "proved", (Coin(p, q),), **options)


def test_a_loss_above_the_record_is_a_violation_and_one_below_is_none():
    rng = Randomness.with_seed(1)
    assert audit([coin(0.1, 0.3)], runs=20_000, rng=rng).violations
    assert not audit([coin(0.1, 0.12)], runs=20_000, rng=rng).violations


def test_the_same_runs_show_less_where_more_events_are_measured():
    alone = audit([coin(0.1, 0.3)], runs=2_000, rng=Randomness.with_seed(2)).findings[0].bound
    among_many = audit([coin(0.1, 0.3)] * 50, runs=2_000, rng=Randomness.with_seed(2))
    assert among_many.n_events == 50
    assert among_many.findings[0].bound < alone


def test_a_sound_coin_is_accused_no_more_often_than_the_confidence_allows():
    """Exactly epsilon = 0.5 is lost; at 95 % at most 5 % of all reports may hold an accusation."""
    target = [coin(0.2, 0.2 * np.exp(0.5))] * 4
    rng = Randomness.with_seed(3)
    accused = [bool(audit(target, runs=400, rng=rng).violations) for _ in range(150)]
    assert np.mean(accused) <= 0.05


def test_a_report_says_how_sure_it_is_and_that_finding_nothing_proves_nothing():
    content = audit([coin(0.1, 0.1)], runs=100, confidence=0.9, rng=Randomness.with_seed(4)).to_dict()
    assert content["confidence"] == 0.9
    assert content["events"] == 1
    assert content["note"] == NOTHING_PROVED
    assert "proves nothing" in NOTHING_PROVED
    assert json.loads(json.dumps(content, allow_nan=False)) == content


def test_progress_begins_at_nothing_and_ends_with_all_runs():
    seen = []
    audit([coin(0.1, 0.1)] * 3, runs=100, progress=lambda *step: seen.append(step), rng=Randomness.with_seed(5))
    assert [done for _, done, _ in seen] == [0, 200, 400, 600]
    assert {total for *_, total in seen} == {600}


@pytest.mark.parametrize("options", [{"runs": 3}, {"jobs": 0}, {"confidence": 1.0}])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(MethodError):
        audit([coin(0.1, 0.1)], **{"runs": 100, **options})


def test_an_audit_of_nothing_is_refused_and_an_unknown_name_is_told_what_is_known():
    with pytest.raises(MethodError, match="nothing to audit"):
        audit([])
    with pytest.raises(MethodError, match=r"no-such.*Known: all.*laplace.*posterior"):
        targets_of("no-such", 1.0)
    with pytest.raises(BudgetError):
        targets_of("laplace", 0)


def test_a_generator_of_ones_own_is_refused_with_several_processes():
    with pytest.raises(MethodError, match="jobs=1"):
        audit([coin(0.1, 0.1)], runs=100, jobs=2, rng=Randomness.with_seed(6))


def test_all_stands_for_mechanisms_methods_attacks_and_mutants():
    names = [target.name for target in targets_of("all", 1.0)]
    assert len(set(names)) == len(names)
    for name in registry():
        assert any(found.split(" (")[0] == name for found in names)
    assert {"Laplace", "LInfLaplace", "PermuteAndFlip", "degenerate zone", "mutant: float noise"} <= set(names)
    assert {"posterior (0.1)", "posterior (1)", "prior (0.1)", "prior (1)"} <= set(names)


def test_the_number_of_runs_follows_the_kind_of_target():
    laplace, posterior = mechanism_targets(1.0)[0], registered_target(registry()["posterior"], 1.0, [duplicate()])
    su = registered_target(registry()["su"], 1.0, [duplicate()])
    assert [Runs().of(target) for target in (laplace, posterior, su)] == [100_000, 10_000, 2_000]
    assert QUICK.of(su) < Runs().of(su)


# --- noise ------------------------------------------------------------------------------------------


def test_an_audit_draws_from_the_secure_source_unless_told_otherwise(monkeypatch):
    sources = []

    class Watching(Coin):
        def draw(self, with_record, runs, rng):
            sources.append(type(rng.noise))
            return super().draw(with_record, runs, rng)

    audit([Target("coin", "mechanism", "proved", (Watching(0.1, 0.1),))], runs=20)
    draw(Watching(0.1, 0.1), True, 20)
    assert set(sources) == {SecureNoise}


def test_noise_in_blocks_has_the_law_of_its_source_and_never_hands_out_a_draw_twice():
    """By the mean size of 20 000 seeded draws: E|z| = scale, nearly; 0.9 and 1.1 of it are excluded."""
    from fractions import Fraction

    scale = Fraction(2**20)
    source = InBlocks(SeededNoise(1))
    laplace = np.concatenate([source.laplace(np.zeros(5, dtype=np.int64), scale) for _ in range(4000)])
    geometric = np.concatenate([source.geometric(5, scale) for _ in range(4000)])
    for draws in (np.abs(laplace), geometric):
        assert 0.95 < draws.mean() / float(scale) < 1.05
        assert len(np.unique(draws)) > 0.97 * len(draws)
    assert (geometric >= 0).all()
    shifted = source.laplace(np.full((2, 3), 10**12), scale)
    assert shifted.shape == (2, 3)
    assert (np.abs(shifted - 10**12) < 2**26).all()


def test_a_recorder_keeps_exactly_what_was_released():
    from fractions import Fraction

    recorder = Recorder(SeededNoise(2))
    released = recorder.laplace(np.arange(5), Fraction(3))
    assert recorder.released[0] is released


@pytest.mark.slow
def test_several_processes_do_the_same_as_one():
    targets = (*mechanism_targets(1.0)[:1], registered_target(registry()["posterior"], 1.0, [duplicate()]))
    report = audit(targets, runs=400, jobs=2)
    assert {finding.target for finding in report.violations} == {"posterior (1)"}
    assert {finding.runs for finding in report.findings} == {400}


# --- the command ------------------------------------------------------------------------------------


def test_the_command_exits_with_0_where_nothing_is_found_and_says_what_that_means(capsys, tmp_path):
    out = tmp_path / "audit.json"
    assert main(["audit", "laplace", "--runs", "400", "--jobs", "1", "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert "proves nothing" in printed.out
    assert "none found" in printed.out
    assert "Laplace: one entry" in printed.err
    assert read_json(out, "dpkmeans audit", 1)["violations"] == 0


def test_the_command_exits_with_5_where_a_violation_is_shown(capsys):
    assert main(["audit", "degenerate-zone", "--runs", "200", "--jobs", "1", "--json"]) == 5
    content = json.loads(capsys.readouterr().out)
    assert content["violations"] == 1
    assert content["findings"][0]["verdict"] == "violation"


def test_the_command_exits_with_1_where_a_mutant_is_missed(capsys):
    assert main(["audit", "mutants", "--runs", "16", "--jobs", "1"]) == 1
    assert "missed mutant: Laplace" in capsys.readouterr().err


def test_the_command_refuses_what_it_does_not_know(capsys):
    assert main(["audit", "no-such"]) == 2
    assert main(["audit", "laplace", "--runs", "1", "--jobs", "1"]) == 2
    assert main(["audit", "laplace", "--epsilon", "-1"]) == 3
    assert "Known: all" in capsys.readouterr().err


def test_a_fit_that_stops_after_its_noisy_count_is_an_output_too():
    """Of 12 records and 100 clusters, some fits stop and some do not."""
    target = registered_target(registry()["synopsis"], 1.0, pairs=(replace(empty_cluster(), n_clusters=100),))
    outputs = target.cases[0].draw(True, 50, Randomness.with_seed(0)).outputs
    stopped = (outputs == -1.0).all(axis=1)
    assert 0 < stopped.sum() < 50
