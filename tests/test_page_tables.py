"""The tools that write the tables of pages from the results of runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tools import quality_table, reproduction_tables
from tools.quality_table import BASELINES, METHOD
from tools.reproduction_tables import MARKED

from dpkmeans.reproduction.baselines import problem_of
from dpkmeans.reproduction.reproduce import Order, reproduce

DATA = Path(os.environ.get("DPKMEANS_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


def cell(**medians: float) -> dict[str, Any]:
    return {"set": "s1", "epsilon": 0.5, "lloyd": 1.0, METHOD: 1.0, **dict.fromkeys(BASELINES, 2.0), **medians}


def test_the_quality_table_says_which_targets_are_missed_and_which_baselines_are_ahead():
    line = quality_table.line
    assert line(cell(synopsis=1.0104))[-1] == ""
    assert line(cell(synopsis=1.0106))[-1] == "target missed"
    assert line(cell(synopsis=1.2, su=1.1))[-1] == "target missed, `su` is better"
    assert line(cell(privgene=float("nan")))[8] == "–"


def test_of_two_benchmark_runs_the_later_one_counts_where_it_has_something_to_say():
    (both,) = quality_table.merged([[cell(synopsis=1.2, su=1.4)], [{"set": "s1", "epsilon": 0.5, "synopsis": 1.1}]])
    assert (both["synopsis"], both["su"]) == (1.1, 1.4)


def test_the_quality_page_has_the_table_that_the_tool_writes():
    page = quality_table.PAGE.read_text("utf-8")
    (found,) = quality_table.TABLE.findall(page)
    assert found.splitlines()[0] == quality_table.table([]).splitlines()[0]


def test_the_tables_of_the_reproduction_page_can_be_made_again_from_the_results_of_a_run(tmp_path, monkeypatch):
    if not (DATA / "iris.csv.gz").exists():
        pytest.skip(f"{DATA} is absent; set DPKMEANS_DATA to the folder that holds the paper's data sets")
    monkeypatch.setenv("DPKMEANS_DATA", str(DATA))
    problem_of.cache_clear()
    page = reproduction_tables.PAGE.read_text("utf-8")
    names = [name for _, name in MARKED.findall(page)]
    assert {name.split()[0] for name in names} == set(reproduction_tables.MAKERS)
    reproduce(Order(datasets=("iris",), runs=2, epsilons=(0.5,)), tmp_path)
    again = reproduction_tables.refreshed(page, tmp_path)
    assert [name for _, name in MARKED.findall(again)] == names
    assert "| House |" not in again
    assert again.count("| Iris |") >= len(names) - 1  # the verdicts are not by data set
    assert reproduction_tables.refreshed(again, tmp_path) == again
