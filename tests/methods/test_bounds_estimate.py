"""The private estimate of the box. Proof: proofs/bounds.md."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpkmeans import DPKMeans, Release
from dpkmeans.cli.main import main
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import reveal
from dpkmeans.data.source import Files
from dpkmeans.errors import BoundsError, BudgetError, DataError, GuaranteeError
from dpkmeans.methods.bounds_estimate import CELLS, box_of, cells_of, edges, estimate_bounds, histogram
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Laplace
from dpkmeans.privacy.randomness import Randomness


@given(st.floats(allow_nan=False))
def test_a_value_lies_between_the_borders_of_its_cell(value):
    cell, borders = int(cells_of(np.array([value]))[0]), edges()
    assert 0 <= cell < CELLS
    inside = np.clip(value, borders[0], borders[-1])
    assert borders[cell] <= inside <= borders[cell + 1]


@given(st.lists(st.floats(allow_nan=False), min_size=3, max_size=3))
def test_one_record_adds_one_in_one_cell_of_each_feature(record):
    X = np.array([[1.0, 2.0, 3.0], [0.0, -1.0, 1e300]])
    before = reveal(histogram([X], 3), why="test")
    after = reveal(histogram([np.vstack([X, [record]])], 3), why="test")
    assert ((after - before).sum(axis=1) == 1).all()
    assert np.abs(after - before).sum() == 3


def test_the_estimate_spends_its_share_once_with_sensitivity_d(monkeypatch):
    seen = []
    release = Laplace.release

    def watched(self, exact, **options):
        seen.append((self.epsilon, exact.sensitivity.l1, options["label"]))
        return release(self, exact, **options)

    monkeypatch.setattr(Laplace, "release", watched)
    ledger = Ledger(1.0)
    X = np.random.default_rng(0).uniform(3, 90, (20_000, 4))
    box = estimate_bounds([X], X.shape[1], Epsilon.of(0.25), ledger=ledger, rng=Randomness.with_seed(0))
    assert seen == [(Epsilon.of(0.25), 4, "bounds")]
    assert float(ledger.spent) == 0.25
    assert box.lower == (0.0,) * 4
    assert box.upper == (128.0,) * 4


def test_empty_cells_rarely_widen_the_box_and_outliers_do_not():
    X = np.random.default_rng(1).uniform(-5, 5, (5000, 2))
    X[0] = 1e12
    boxes = [
        estimate_bounds([X], X.shape[1], Epsilon.of(0.5), ledger=Ledger(), rng=Randomness.with_seed(seed))
        for seed in range(40)
    ]
    assert sum(box.upper == (8.0, 8.0) and box.lower == (-8.0, -8.0) for box in boxes) >= 38


def test_too_few_records_are_an_error_about_released_values_only():
    noisy = np.zeros((1, CELLS), dtype=np.int64)
    with pytest.raises(BoundsError, match="found nothing for feature 0"):
        box_of(noisy, Epsilon.of(0.1))
    with pytest.raises(BoundsError, match="found nothing for feature east"):
        box_of(noisy, Epsilon.of(0.1), ("east",))


def test_negative_and_narrow_features_keep_their_sides():
    rng = np.random.default_rng(2)
    X = np.stack([rng.uniform(-90, -3, 9000), rng.uniform(900, 1000, 9000)], axis=1)
    box = estimate_bounds([X], X.shape[1], Epsilon.of(1.0), ledger=Ledger(), rng=Randomness.with_seed(0))
    assert box.lower == (-128.0, 512.0)
    assert box.upper == (0.0, 1024.0)


def test_nan_is_refused():
    with pytest.raises(DataError, match="NaN"):
        DPKMeans(1, epsilon=1.0, bounds_epsilon=0.5).fit(np.array([[np.nan]]))


@given(st.lists(st.floats(), min_size=3, max_size=3))
def test_a_missing_value_adds_nothing_where_it_is_not_refused(record):
    table = reveal(histogram([np.array([record])], 3), why="test")
    assert table.sum(axis=1).tolist() == [0 if np.isnan(value) else 1 for value in record]


def test_the_histogram_is_the_same_in_any_chunks():
    X = np.random.default_rng(5).normal(0, 1e6, (1000, 3))
    whole = reveal(histogram([X], 3), why="test")
    pieces = reveal(histogram([X[:1], X[1:700], X[700:]], 3), why="test")
    assert (whole == pieces).all()


def test_files_with_missing_values_have_their_box_estimated_pass_by_pass(tmp_path):
    X = np.random.default_rng(6).uniform(3, 90, (4000, 2))
    X[::50, 1] = np.nan
    for name in ("a", "b"):
        np.savetxt(tmp_path / f"{name}.csv", X, delimiter=",", header="a,b", comments="")
    files = Files(tmp_path / "*.csv", nulls="midpoint", header=True)
    release = DPKMeans(2, epsilon=1.0, bounds_epsilon=0.2, random_state=0, guarantee="none").fit(files).release_
    assert release.bounds.upper == (128.0, 128.0)
    assert release.spends[0].label == "bounds"
    ledger = Ledger(1.0)
    with pytest.raises(DataError, match="NaN"):
        DPKMeans(2, epsilon=1.0, bounds_epsilon=0.2, ledger=ledger).fit(Files(tmp_path / "*.csv", header=True))
    assert ledger.spends == ()


def test_a_fit_with_estimated_bounds_stays_within_its_promise_and_is_proved(tmp_path):
    """False alarm: none. 4000 records in a cell stand out of noise of scale 20 but for 1 in e^150 fits."""
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(c, 2.0, (4000, 2)) for c in ((20, 20), (80, 70))])
    model = DPKMeans(2, epsilon=1.0, bounds_epsilon=0.1).fit(X)
    release = model.release_
    assert release.guarantee.label == "proved"
    assert release.guarantee.bounds == "estimated"
    assert release.epsilon_spent <= 1.0
    assert release.spends[0].label == "bounds"
    assert float(release.spends[0].epsilon) == 0.1
    seeded = DPKMeans(2, epsilon=1.0, bounds_epsilon=0.1, random_state=0, guarantee="none").fit(X)
    assert np.linalg.norm(np.sort(seeded.cluster_centers_, axis=0) - [(20, 20), (80, 70)]) < 5
    release.save(tmp_path / "model.json")
    assert Release.load(tmp_path / "model.json").guarantee == release.guarantee


def test_nothing_is_spent_on_bounds_when_the_label_is_refused():
    ledger = Ledger(5.0)
    X = np.random.default_rng(0).random((100, 2))
    with pytest.raises(GuaranteeError):
        DPKMeans(2, bounds_epsilon=0.1, method="posterior", ledger=ledger).fit(X)
    with pytest.raises(BudgetError, match="leaves nothing"):
        DPKMeans(2, bounds_epsilon=1.0, epsilon=1.0, ledger=ledger).fit(X)
    with pytest.raises(BoundsError, match="not both"):
        DPKMeans(2, bounds_epsilon=0.1, epsilon=1.0, bounds=(0, 1), ledger=ledger).fit(X)
    assert ledger.spends == ()


def test_the_command_without_bounds_explains_and_reads_no_record(tmp_path, capsys):
    assert main(["fit", str(tmp_path / "missing.csv"), "--k", "2", "--epsilon", "1"]) == 2  # it did not even open it
    shown = capsys.readouterr().err
    assert "known without looking at the data" in shown
    assert "--bounds-epsilon 0.1" in shown


def test_the_command_estimates_bounds_when_asked(tmp_path, capsys):
    X = np.random.default_rng(4).uniform(3, 90, (3000, 2))
    data, model = tmp_path / "x.csv", tmp_path / "model.json"
    np.savetxt(data, X, delimiter=",", header="a,b", comments="")
    asked = ["fit", str(data), "--header", "--k", "2", "--epsilon", "1", "--out", str(model)]
    assert main([*asked, "--bounds-epsilon", "0.2"]) == 0
    assert Release.load(model).guarantee.bounds == "estimated"
    assert Release.load(model).bounds.upper == (128.0, 128.0)
    asked = [*asked, "--force"]
    assert main([*asked, "--bounds-epsilon", "1"]) == 3
    assert "--bounds-epsilon 1" in capsys.readouterr().err
    assert main([*asked, "--bounds-epsilon", "0.2", "--bounds", "0:1"]) == 2
