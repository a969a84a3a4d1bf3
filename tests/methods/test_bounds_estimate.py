"""The private estimate of the box. Proof: proofs/bounds.md."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpkmeans import DPKMeans, Release
from dpkmeans.cli.main import main
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.data.source import Files, FrameSource, array_batch
from dpkmeans.engines.survey import over_batches
from dpkmeans.errors import BoundsError, BudgetError, DataError, GuaranteeError, LooseBoundsWarning, MethodError
from dpkmeans.methods.bounds_estimate import (
    CELLS,
    STEPS,
    CellCounts,
    box_of,
    cells_of,
    check_share,
    edges,
    estimate_bounds,
)
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Laplace
from dpkmeans.privacy.randomness import Randomness


def asking(*arrays):
    """A survey of these records."""
    return lambda task: over_batches(task, [array_batch(array) for array in arrays], "midpoint")


def reveal_counts(*arrays):
    return asking(*arrays)(CellCounts(tuple(range(arrays[0].shape[1]))))


@given(st.floats(allow_nan=False))
def test_a_value_lies_between_the_borders_of_its_cell(value):
    cell, borders = int(cells_of(np.array([value]))[0]), edges()
    assert 0 <= cell < CELLS
    inside = np.clip(value, borders[0], borders[-1])
    assert borders[cell] <= inside <= borders[cell + 1]


@given(st.lists(st.floats(allow_nan=False), min_size=3, max_size=3))
def test_one_record_adds_one_in_one_cell_of_each_feature(record):
    X = np.array([[1.0, 2.0, 3.0], [0.0, -1.0, 1e300]])
    before = reveal_counts(X)
    after = reveal_counts(np.vstack([X, [record]]))
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
    box = estimate_bounds(
        asking(X), range(X.shape[1]), Epsilon.of(0.25), ledger=ledger, rng=Randomness.with_seed(0)
    ).bounds
    assert seen == [(Epsilon.of(0.25), 4, "bounds")]
    assert float(ledger.spent) == 0.25
    assert box.lower == (0.0,) * 4
    assert box.upper == (100.0,) * 4


def test_empty_cells_rarely_widen_the_box_and_outliers_do_not():
    X = np.random.default_rng(1).uniform(-5, 5, (5000, 2))
    X[0] = 1e12
    boxes = [
        estimate_bounds(
            asking(X), range(X.shape[1]), Epsilon.of(0.5), ledger=Ledger(), rng=Randomness.with_seed(seed)
        ).bounds
        for seed in range(40)
    ]
    assert sum(box.upper == (5.0, 5.0) and box.lower == (-5.0, -5.0) for box in boxes) >= 38


def test_too_few_records_are_an_error_about_released_values_only():
    noisy = np.zeros((1, CELLS), dtype=np.int64)
    with pytest.raises(BoundsError, match="found nothing for feature 0"):
        box_of(noisy, Epsilon.of(0.1))
    with pytest.raises(BoundsError, match="found nothing for feature east"):
        box_of(noisy, Epsilon.of(0.1), ("east",))


def test_negative_and_narrow_features_keep_their_sides():
    rng = np.random.default_rng(2)
    X = np.stack([rng.uniform(-90, -3, 9000), rng.uniform(900, 1000, 9000)], axis=1)
    box = estimate_bounds(
        asking(X), range(X.shape[1]), Epsilon.of(1.0), ledger=Ledger(), rng=Randomness.with_seed(0)
    ).bounds
    assert box.lower == (-100.0, 500.0)
    assert box.upper == (0.0, 1000.0)


def test_nan_is_refused():
    with pytest.raises(DataError, match="NaN"):
        DPKMeans(1, epsilon=1.0, bounds_epsilon=0.5).fit(np.array([[np.nan]]))


@given(st.lists(st.floats(), min_size=3, max_size=3))
def test_a_missing_value_adds_nothing_where_it_is_not_refused(record):
    table = reveal_counts(np.array([record]))
    assert table.sum(axis=1).tolist() == [0 if np.isnan(value) else 1 for value in record]


def test_the_histogram_is_the_same_in_any_chunks():
    X = np.random.default_rng(5).normal(0, 1e6, (1000, 3))
    whole = reveal_counts(X)
    pieces = reveal_counts(X[:1], X[1:700], X[700:])
    assert (whole == pieces).all()


def test_files_with_missing_values_have_their_box_estimated_pass_by_pass(tmp_path):
    X = np.random.default_rng(6).uniform(3, 90, (4000, 2))
    X[::50, 1] = np.nan
    for name in ("a", "b"):
        np.savetxt(tmp_path / f"{name}.csv", X, delimiter=",", header="a,b", comments="")
    files = Files(tmp_path / "*.csv", nulls="midpoint", columns=("a", "b"))
    model = DPKMeans(2, scale=None, epsilon=1.0, bounds_epsilon=0.2, random_state=0, guarantee="none")
    release = model.fit(files).release_
    assert release.bounds.upper == (100.0, 100.0)
    assert release.spends[0].label == "bounds"
    ledger = Ledger(1.0)
    with pytest.raises(DataError, match="NaN"):
        DPKMeans(2, scale=None, epsilon=1.0, bounds_epsilon=0.2, ledger=ledger).fit(
            Files(tmp_path / "*.csv", columns=("a", "b"))
        )
    assert ledger.spends == ()


def test_a_fit_with_estimated_bounds_stays_within_its_promise_and_is_proved(tmp_path):
    """False alarm: none. 4000 records in a cell stand out of noise of scale 20 but for 1 in e^150 fits."""
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(c, 2.0, (4000, 2)) for c in ((20, 20), (80, 70))])
    model = DPKMeans(2, scale=None, epsilon=1.0, bounds_epsilon=0.1).fit(X)
    release = model.release_
    assert release.guarantee.label == "proved"
    assert release.guarantee.bounds == "estimated"
    assert release.epsilon_spent <= 1.0
    assert release.spends[0].label == "bounds"
    assert float(release.spends[0].epsilon) == 0.1
    seeded = DPKMeans(2, scale=None, epsilon=1.0, bounds_epsilon=0.1, random_state=0, guarantee="none").fit(X)
    assert np.linalg.norm(np.sort(seeded.cluster_centers_, axis=0) - [(20, 20), (80, 70)]) < 5
    release.save(tmp_path / "model.json")
    assert Release.load(tmp_path / "model.json").guarantee == release.guarantee


def test_nothing_is_spent_on_bounds_when_the_label_is_refused():
    ledger = Ledger(5.0)
    X = np.random.default_rng(0).random((100, 2))
    with pytest.raises(GuaranteeError):
        DPKMeans(2, scale=None, bounds_epsilon=0.1, method="posterior", ledger=ledger).fit(X)
    with pytest.raises(BudgetError, match="leaves nothing"):
        DPKMeans(2, scale=None, bounds_epsilon=1.0, epsilon=1.0, ledger=ledger).fit(X)
    with pytest.raises(BoundsError, match="not both"):
        DPKMeans(2, scale=None, bounds_epsilon=0.1, epsilon=1.0, bounds=(0, 1), ledger=ledger).fit(X)
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
    asked = ["fit", str(data), "--columns", "a,b", "--k", "2", "--epsilon", "1", "--out", str(model)]
    assert main([*asked, "--bounds-epsilon", "0.2", "--scale", "none"]) == 0
    assert Release.load(model).guarantee.bounds == "estimated"
    assert Release.load(model).bounds.upper == (100.0, 100.0)
    asked = [*asked, "--force"]
    assert main([*asked, "--bounds-epsilon", "1"]) == 3
    assert "--bounds-epsilon 1" in capsys.readouterr().err
    assert main([*asked, "--bounds-epsilon", "0.2", "--bounds", "0:1"]) == 2


def noisy_table(*features):
    """A noisy histogram with these counts, {value: count} for each feature, and nothing elsewhere."""
    table = np.zeros((len(features), CELLS), dtype=np.int64)
    for row, counts in zip(table, features, strict=True):
        for value, count in counts.items():
            row[cells_of(np.array([value]))[0]] = count
    return table


def test_every_end_of_a_cell_is_a_round_number():
    assert all(f"{abs(edge):.0e}"[0] in "125" and float(f"{edge:.0e}") == edge for edge in edges())
    assert edges()[STEPS] == -1e-9
    assert len(edges()) == CELLS + 1


def test_zeros_at_an_end_of_a_feature_make_it_zero():
    table = noisy_table({0.0: 9000, 3.0: 9000}, {-3.0: 9000, 0.0: 9000}, {-1e-30: 9000, 1e-30: 9000, 40.0: 9000})
    box = box_of(table, Epsilon.of(1.0)).bounds
    assert box.lower == (0.0, -5.0, 0.0)
    assert box.upper == (5.0, 0.0, 50.0)


def test_an_estimate_says_which_features_collapsed_are_wide_or_lie_in_one_cell():
    table = noisy_table(
        {0.0: 90_000},
        {1.5: 90_000, 30.0: 2000},
        {1500.0: 90_000},
        {-3.0: 50_000, 0.5: 50_000},
        {0.0: 90_000, 7.0: 1000},
    )
    found = box_of(table, Epsilon.of(1.0))
    assert (found.collapsed, found.wide, found.one_cell) == ((0,), (1, 4), (2,))
    assert found.findings(("a", "b", "c", "d", "e")) == {"collapsed": ["a"], "wide": ["b", "e"], "one_cell": ["c"]}
    with pytest.warns(LooseBoundsWarning, match=r"are 0 in 0: leave .* box in 1, 4: .* one cell was found in 2, such"):
        found.warn(None)
    with pytest.raises(BoundsError, match="nothing but zeros"):
        box_of(noisy_table({0.0: 90_000}), Epsilon.of(1.0))


def test_a_release_keeps_what_was_found_and_the_command_shows_it(tmp_path, capsys):
    """False alarm: none. 9000 records in a cell stand out of noise of scale 4 but for 1 in e^2000 fits."""
    rng = np.random.default_rng(8)
    years, empty, shares = rng.uniform(1990, 1999, 9000), np.zeros(9000), rng.uniform(1, 100, 9000)
    data, model = tmp_path / "x.csv", tmp_path / "model.json"
    np.savetxt(data, np.stack([years, empty, shares], axis=1), delimiter=",", header="year,empty,share", comments="")
    asked = [
        "fit",
        str(data),
        "--columns",
        "year,share,empty",
        "--k",
        "2",
        "--epsilon",
        "1",
        "--bounds-epsilon",
        "0.75",
        "--scale",
        "none",
    ]
    assert main([*asked, "--out", str(model)]) == 0
    shown = capsys.readouterr()
    assert "warning: the private estimate of the bounds is loose" in shown.err
    assert "year 1000:2000 (one cell), share 0:100, empty 0:0 (collapsed)" in shown.out
    found = Release.load(model)
    assert found.parameters["estimated_bounds"] == {"collapsed": ["empty"], "wide": [], "one_cell": ["year"]}
    assert (found.bounds.lower, found.bounds.upper) == ((1000.0, 0.0, 0.0), (2000.0, 100.0, 0.0))


def test_what_a_share_cannot_do_is_refused_before_it_is_spent():
    X, ledger = np.random.default_rng(0).random((50, 2)), Ledger(1.0)
    with pytest.raises(BudgetError, match=r"^bounds_epsilon=0.1 is too little for 2 .* at least \d+ records"):
        DPKMeans(2, scale=None, epsilon=1.0, bounds_epsilon=0.1, n_records=50, ledger=ledger).fit(X)
    with pytest.raises(BudgetError, match="is too little for 1000 feature"):
        check_share(Epsilon(1), 1000, None)  # no engine takes so many records
    assert ledger.spends == ()
    check_share(Epsilon.of(0.1), 2, 10_000)


def test_bounds_are_estimated_of_named_columns_only(tmp_path):
    X, ledger = np.random.default_rng(9).uniform(3, 90, (3000, 2)), Ledger(1.0)
    frame = pd.DataFrame({"age": X[:, 0], "patient": np.arange(3000), "weight": X[:, 1]})
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet")
    frame.to_csv(tmp_path / "y.csv", index=False, header=False)
    model = DPKMeans(2, scale=None, epsilon=1.0, bounds_epsilon=0.2, ledger=ledger)
    unnamed = (frame, FrameSource(frame), tmp_path / "x.parquet", Files(tmp_path / "x.csv", header=True))
    for records in (*unnamed, Files(tmp_path / "y.csv", header=False)):
        with pytest.raises(MethodError, match=r"^bounds_epsilon needs the columns by name: an id"):
            model.fit(records)
    assert ledger.spends == ()
    for records in (FrameSource(frame, ("age", "weight")), Files(tmp_path / "x.csv", ("age", "weight")), X):
        found = DPKMeans(2, scale=None, epsilon=1.0, bounds_epsilon=0.2).fit(records)
        assert found.release_.bounds.upper == (100.0, 100.0)
