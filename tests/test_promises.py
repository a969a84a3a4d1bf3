"""Fits that promise (epsilon, delta) or rho, from the estimator to the file."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from dpkmeans import DPKMeans, Ledger, Release, make_synopsis
from dpkmeans.cli.main import main
from dpkmeans.core.bounds import GRID
from dpkmeans.core.conversion import capacity
from dpkmeans.core.cost import promised_fields
from dpkmeans.core.engine import Engine
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import Exact, reveal
from dpkmeans.core.guarantee import Claim, Guarantee
from dpkmeans.core.privacy import Privacy
from dpkmeans.core.query import Sensitivity
from dpkmeans.core.rho import Rho
from dpkmeans.errors import BudgetError, FileError, LargeDeltaWarning, MethodError
from dpkmeans.methods.base import Outcome, make_release
from dpkmeans.privacy.accounts import warn_of_delta
from dpkmeans.privacy.mechanisms import Gaussian, Laplace
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis.synopsis import Synopsis

X = np.random.default_rng(0).random((20_000, 2))


@dataclass(frozen=True)
class OneMean:
    """One private mean, with a pure count first where `counts` says so: the smallest method with Gaussian noise."""

    counts: float | None = None
    name: str = "one-mean"
    claim: ClassVar[Claim] = Claim.PROVED
    spends_rho: ClassVar[bool] = True
    needs_epsilon: ClassVar[bool] = True

    def run(self, engine: Engine, n_clusters: int, *, ledger: Ledger, rng: Randomness) -> Release:
        number = engine.count()
        if self.counts is not None:
            Laplace(Epsilon.of(self.counts)).release(number, ledger=ledger, rng=rng, label="count")
        stats = reveal(engine.cell_statistics(np.full((1, 2), 0.5)), why="a test of mechanisms")
        sums = Exact(np.rint(stats.sums * GRID).astype(np.int64), Sensitivity(l2_squared=2 * GRID**2))
        noisy = Gaussian(ledger.remaining_rho).release(sums, ledger=ledger, rng=rng, label="sums")
        return make_release(self, Outcome(noisy / GRID / 20_000, 1, 1, None), engine, ledger=ledger, rng=rng)


WHOSE = "The proof of OneMean is that of the package tests, not of dpkmeans."


def fit(method=None, **privacy) -> Release:
    return DPKMeans(1, bounds=(0, 1), method=OneMean() if method is None else method, **privacy).fit(X).release_


def test_a_fit_with_epsilon_and_delta_spends_all_of_it_and_says_so():
    release = fit(epsilon=1.0, delta=1e-6)
    assert release.summary() == (
        "Proved: (1, 1e-06)-differential privacy for neighbours that differ by one record added or removed "
        "((2, 3.72e-06) for one replaced). " + WHOSE
    )
    assert (release.epsilon_promised, release.delta, release.epsilon_spent) == (1.0, 1e-6, 1.0)
    assert release.rho_spent == float(capacity(Epsilon.of(1.0), 1e-6))
    assert release.cost.spent_in_words() == "1 at delta 1e-06 (rho 0.024355970359538)"


def test_a_fit_with_rho_spends_all_of_it_and_has_no_epsilon():
    release = fit(rho=0.02)
    assert release.summary() == (
        "Proved: 0.02-zero-concentrated differential privacy for neighbours that differ by one record added or removed "
        "(0.08 for one replaced). " + WHOSE
    )
    assert (release.epsilon_promised, release.rho_promised, release.delta) == (None, 0.02, None)
    assert (release.epsilon_spent, release.rho_spent) == (None, 0.02)


def test_pure_spends_come_off_epsilon_before_the_first_rho():
    release = fit(OneMean(counts=0.25), epsilon=1.0, delta=1e-6)
    assert release.epsilon_spent == 1.0
    in_rho = capacity(Epsilon.of(0.75), 1e-6)
    assert sum(spend.rho.femto for spend in release.spends if spend.rho is not None) == in_rho.femto
    assert release.rho_spent == pytest.approx(0.25**2 / 2 + float(in_rho), rel=1e-12)  # pure spends have a rho too


@pytest.mark.parametrize("method", ["synopsis", "su", "eugkm", "gupt"])
def test_a_method_without_gaussian_noise_gets_all_of_epsilon_and_stays_pure(method):
    release = DPKMeans(2, epsilon=1.0, delta=1e-6, bounds=(0, 1), method=method).fit(X).release_
    assert release.guarantee.label == "proved"
    assert (release.epsilon_promised, release.delta, release.rho_spent) == (1.0, None, None)
    assert release.summary().startswith("Proved: 1-differential privacy")
    by_rho = DPKMeans(2, rho=0.02, bounds=(0, 1), method=method).fit(X).release_
    assert by_rho.epsilon_promised == 0.2
    assert by_rho.cost.within


def test_a_synopsis_takes_the_same_promises():
    assert make_synopsis(X, 1.0, (0, 1), delta=1e-6).epsilon_spent == 1.0
    assert make_synopsis(X, rho=0.02, bounds=(0, 1)).epsilon_spent == 0.2


@pytest.mark.parametrize(
    ("privacy", "said"),
    [
        ({}, "epsilon"),
        ({"delta": 1e-6}, "delta needs an epsilon"),
        ({"epsilon": 1.0, "rho": 0.1}, "rho stands alone"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta must be above 0 and below 1"),
        ({"epsilon": 1.0}, "delta"),
    ],
    ids=str,
)
def test_promises_that_no_fit_can_keep_are_refused_before_anything_is_drawn(privacy, said, monkeypatch):
    monkeypatch.setattr(Gaussian, "release", lambda *_, **__: pytest.fail("drawn"))
    with pytest.raises(BudgetError, match=said):
        fit(**privacy)


def test_a_large_delta_draws_a_warning_from_public_numbers():
    with pytest.warns(LargeDeltaWarning, match="number of records, 100000"):
        warn_of_delta(1e-5, 100_000)
    warn_of_delta(1e-6, 100_000)
    with pytest.warns(LargeDeltaWarning, match="is large"):
        fit(epsilon=1.0, delta=0.001)


# Ledgers of several fits.


def test_fits_share_a_ledger_in_epsilon_and_delta_or_rho():
    for ledger in (Ledger(1.0, delta=1e-6), Ledger(rho=0.02)):
        before = ledger.remaining_rho
        released = fit(epsilon=0.5, delta=1e-6, ledger=ledger)
        assert released.summary().startswith("Proved: (0.5, 1e-06)-differential privacy")
        assert released.epsilon_spent == 0.5
        assert ledger.remaining_rho == before - capacity(Epsilon.of(0.5), 1e-6)
        fit(rho=0.001, ledger=ledger)
        fit("synopsis", epsilon=0.1, ledger=ledger)
        others = Rho.of(0.001) + capacity(Epsilon.of(0.5), 1e-6)
        assert others < ledger.loss.rho <= others + Rho.of(0.005)  # squares of the parts of 0.1 add up to less
        with pytest.raises(BudgetError, match="the whole fit"):
            fit(rho=0.02, ledger=ledger)


def test_a_pure_fit_comes_first_under_epsilon_and_delta():
    ledger = Ledger(1.0, delta=1e-6)
    fit("synopsis", epsilon=0.5, delta=1e-6, ledger=ledger)
    assert ledger.loss.pure == Epsilon.of(0.5)
    fit(epsilon=0.4, delta=1e-6, ledger=ledger)
    assert ledger.spent <= Epsilon.of(1.0)


def test_a_ledger_in_pure_epsilon_refuses_a_fit_with_gaussian_noise():
    ledger = Ledger(1.0)
    with pytest.raises(MethodError, match="knows no delta"):
        fit(epsilon=0.5, delta=1e-6, ledger=ledger)
    assert ledger.spends == ()


# Files.


@pytest.mark.parametrize(
    "privacy", [{"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.02}, {"rho": 12.34567890123456}], ids=str
)
def test_a_release_survives_its_file_and_an_older_version_refuses_it(privacy, tmp_path):
    release = fit(**privacy)
    release.save(tmp_path / "model.json")
    back = Release.load(tmp_path / "model.json")
    assert back.summary() == release.summary()
    assert back.cost == release.cost
    assert back.cost.within
    assert json.loads((tmp_path / "model.json").read_text())["version"] == 3
    made = make_synopsis(X, 1.0, (0, 1))
    made = replace(made, spends=release.spends, identity=None, **promised_fields(release.cost.privacy))
    made.save(tmp_path / "synopsis.json")
    loaded = Synopsis.load(tmp_path / "synopsis.json")
    assert loaded.cost == release.cost
    assert f"{loaded.fit(2).summary()} {WHOSE}" == release.summary()


@pytest.mark.parametrize(
    "change",
    [
        {"delta": None},
        {"delta": 1.5},
        {"delta": "small"},
        {"epsilon_promised": None},
        {"epsilon_promised": 0.9},
        {"delta": 1e-7},
        {"rho_promised": 0.001},
        {"rho_promised": -1},
        {"spends": [{"label": "x", "femto": 10**15}]},
        {"spends": [{"label": "x", "femto": -1}]},
        {"spends": [{"label": "x", "femto": 0.5}]},
    ],
    ids=str,
)
def test_a_file_that_claims_more_than_its_spends_allow_is_refused(change):
    content = fit(epsilon=1.0, delta=1e-6).to_dict() | {"identity": None}
    Release.from_dict(content)
    with pytest.raises(FileError):
        Release.from_dict({**content, **change})


def test_a_file_from_before_there_was_a_delta_is_read():
    content = fit("synopsis", epsilon=1.0).to_dict()
    for name in ("identity", "delta", "rho_promised", "rho_spent"):
        del content[name]
    assert Release.from_dict(content).epsilon_spent == 1.0


# Words.


def test_sentences_round_up():
    proved = Guarantee("proved")
    assert "(0.5, 1e-05)-differential" in proved.in_words(0.5, delta=1e-5)
    assert "((1, 2.65e-05) for one replaced)" in proved.in_words(0.5, delta=1e-5)
    assert "(2000, 1) for one replaced" in proved.in_words(1000.0, delta=1e-5)
    assert "0.123456789012345-zero-concentrated" in proved.in_words(0.0, rho=Rho(123456789012345))


def test_reports_and_commands_show_both_currencies(tmp_path, capsys):
    from matplotlib.figure import Figure

    from dpkmeans import plot

    release = fit(OneMean(counts=0.25), epsilon=1.0, delta=1e-6)
    page = release.report()
    assert "1 at delta 1e-06 (rho" in page
    assert '<th scope="col">rho</th>' in page
    assert plot.budget(release, Figure().subplots()).get_xlabel().startswith("rho (1 at delta 1e-06")
    release.save(tmp_path / "model.json")
    assert main(["show", str(tmp_path / "model.json")]) == 0
    shown = capsys.readouterr().out
    assert "(1, 1e-06)-differential privacy" in shown
    assert "1 at delta 1e-06" in shown
    by_rho = fit(rho=0.02)
    assert "rho 0.02" in by_rho.report()


def test_the_command_takes_delta_and_rho_and_explains_what_does_not_go_together(tmp_path, capsys):
    table = tmp_path / "points.csv"
    np.savetxt(table, X, delimiter=",")
    options = ["fit", str(table), "--no-header", "--k", "2", "--bounds", "0:1"]
    for more in (["--epsilon", "1", "--delta", "1e-6"], ["--rho", "0.02"]):
        assert main([*options, *more, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["guarantee"]["label"] == "proved"
    assert main([*options, "--delta", "1e-6"]) == 3
    assert "--delta needs an epsilon beside it. Write, say, --epsilon 1.0" in capsys.readouterr().err
    assert main([*options, "--epsilon", "1", "--rho", "0.02"]) == 3
    assert "Give --rho, or --epsilon with --delta" in capsys.readouterr().err
    made = ["synopsis", str(table), "--no-header", "--bounds", "0:1", "--out", str(tmp_path / "s.json")]
    assert main([*made, "--rho", "0.02", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["epsilon_spent"] == 0.2


def test_the_estimator_is_cloned_with_its_promise():
    from sklearn.base import clone

    assert clone(DPKMeans(2, epsilon=1.0, delta=1e-6)).delta == 1e-6
    assert Privacy.of(1.0, 1e-6) == Privacy(Epsilon.of(1.0), 1e-6)
