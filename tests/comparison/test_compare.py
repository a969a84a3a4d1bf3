"""Methods side by side on one's own records: every number is the holder's alone."""

from __future__ import annotations

import numpy as np
import pytest

from dpkmeans.cli.main import main
from dpkmeans.comparison.compare import compare
from dpkmeans.errors import MethodError
from dpkmeans.session import FitRequest

RNG = np.random.default_rng(1)
X = np.clip(RNG.random((3, 2))[RNG.integers(3, size=1500)] + 0.03 * RNG.standard_normal((1500, 2)), 0, 1)
REQUEST = FitRequest(n_clusters=3, bounds=(0, 1))


def test_more_budget_costs_less_and_nothing_beats_the_reference():
    rows = compare(REQUEST, X, ["su", "lloyd"], [0.02, 20.0], runs=5)
    by = {(row.method, row.epsilon): row for row in rows}
    assert by["su", 0.02].median > 2 * by["su", 20.0].median
    assert all(1 - 1e-9 <= row.low <= row.median <= row.high for row in rows)
    assert [row.guarantee for row in rows] == ["proved", "proved", "none", "none"]
    assert by["su", 20.0].spent == 20.0


def test_a_method_with_a_budget_for_each_step_shows_what_it_spent_in_all():
    (row,) = compare(REQUEST, X, ["posterior"], [0.5], runs=1)
    assert row.spent is not None
    assert row.spent > 0.5
    assert row.guarantee == "paper"


def test_a_method_that_refuses_is_named_and_the_others_go_on():
    rows = compare(REQUEST, X, ["su", "lloyd"], [1e-9], runs=1)  # a nano-epsilon cannot be divided over steps
    assert rows[0].median is None
    assert rows[0].failure
    assert rows[1].median is not None


@pytest.mark.parametrize(("methods", "runs"), [(["martian"], 1), ([], 1), (["su"], 0)])
def test_what_cannot_be_compared_is_refused_before_the_records_are_read(methods, runs):
    with pytest.raises(MethodError):
        compare(REQUEST, "there is no such file", methods, [1.0], runs=runs)


def test_the_command_says_that_it_is_not_private_and_draws_a_plot(tmp_path, capsys):
    file, plot = tmp_path / "mine.csv", tmp_path / "costs.svg"
    np.savetxt(file, X, delimiter=",", header="east,north", comments="", fmt="%.4f")
    options = ["--k", "3", "--epsilon", "0.1", "1", "--methods", "synopsis,su", "--runs", "1", "--bounds", "0:1"]
    assert main(["bench", str(file), "--header", *options, "--plot", str(plot)]) == 0
    out, err = capsys.readouterr()
    assert out.count("proved") == 4
    assert err.splitlines()[-1].startswith("Not private (label none)")
    assert "Not private" in plot.read_text("utf-8")
