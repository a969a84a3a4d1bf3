"""What long work says of how far it has come, and the bar that the command draws of it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.engines.clusters import blobs, write_parquet

from dpkmeans import DPKMeans, progress
from dpkmeans.cli.main import main
from dpkmeans.data.source import Files
from dpkmeans.engines.config import Stream


@pytest.fixture
def shown():
    """All that a watcher is shown: how much is done, of how much, and of what."""
    seen: list[tuple[float, float | None, str]] = []
    with progress.watch(lambda done, total, what: seen.append((done, total, what))):
        yield seen


@pytest.fixture
def folder(tmp_path):
    return write_parquet(tmp_path, blobs(4000), [1500])


def passes(shown):
    return [(done, total) for done, total, what in shown if what == progress.PASSES]


def test_items_are_counted_as_they_are_done(shown):
    assert list(progress.over("abc", "letters", 3)) == ["a", "b", "c"]
    assert shown == [(0.0, 3, "letters"), (1.0, 3, "letters"), (2.0, 3, "letters"), (3.0, 3, "letters")]


def test_a_total_that_was_too_small_is_given_up(shown):
    progress.stage("steps", 2)
    progress.advance(3)
    assert shown[-1] == (3.0, None, "steps")


@pytest.mark.parametrize(("method", "n"), [("synopsis", None), ("su", None), ("blum", 5), ("privgene", 8)])
def test_a_fit_makes_as_many_passes_as_it_said(folder, shown, method, n):
    DPKMeans(3, epsilon=1, bounds=(0, 1), method=method, engine=Stream(batch_rows=1000)).fit(folder)
    done = [done for done, _ in passes(shown)]
    assert done == sorted(done), "it never goes back"
    assert len(set(done)) > 4, "parts of a pass are shown"
    last, total = passes(shown)[-1]
    assert last == pytest.approx(round(last))
    assert total is None or last <= total <= last + 1, "of two looks at a grid, the first may be left out"
    assert n is None or round(last) == n


@pytest.mark.parametrize("name", ["visits.csv", "visits.csv.gz"])
def test_reading_a_csv_file_says_how_much_is_left_where_that_is_known(tmp_path, shown, name):
    np.savetxt(tmp_path / name, blobs(3000), delimiter=",")
    fit = DPKMeans(2, epsilon=1, bounds=(0, 1), engine="stream")
    fit.fit(Files(tmp_path / name, header=False))
    totals = {total for _, total, what in shown if what == progress.READING}
    assert totals == ({1} if name.endswith(".csv") else {None})


def test_on_a_terminal_a_fit_draws_a_bar_and_keeps_stdout_clean(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    asked = ["--k", "3", "--bounds", "0:1", "--epsilon", "1", "--out", str(tmp_path / "model.json"), "--json"]
    assert main(["fit", f"{folder}/*.parquet", *asked]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["centroids"]
    assert "Fitting" in captured.err
    assert "passes over the records" in captured.err or "clustering the released points" in captured.err
    assert "rows per second" not in captured.err, "the bar says it"


def test_elsewhere_there_is_no_bar(folder, capsys):
    assert main(["fit", f"{folder}/*.parquet", "--k", "3", "--bounds", "0:1", "--epsilon", "1", "--json"]) == 0
    captured = capsys.readouterr()
    assert "\x1b" not in captured.err
    assert progress.PASSES not in captured.err
