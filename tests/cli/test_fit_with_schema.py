"""From a CSV file with dates, categories and booleans to a table that people read, with a schema file."""

from __future__ import annotations

import re

import numpy as np
import pytest

from dpkmeans import Release
from dpkmeans.cli.main import main

SCHEMA = """
age = {kind = "number"%s}
region = {kind = "category", levels = ["N", "S"], missing = "other"}
joined = {kind = "date", lower = "2015-01-01", upper = "2025-12-31"}
smoker = {kind = "boolean", true = "ja", false = "nein"}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    young = rng.random(6000) < 0.5
    ages = np.where(young, rng.normal(20, 2, 6000), rng.normal(70, 2, 6000)).round(1)
    rest = {True: "N;2022-07-01;ja", False: "S;2018-07-01;nein"}
    rows = [f"p{i};{age};{rest[bool(is_young)]}" for i, (age, is_young) in enumerate(zip(ages, young, strict=True))]
    (tmp_path / "people.csv").write_text("\n".join(["id;age;region;joined;smoker", *rows, "p;70;;2018-07-01;nein", ""]))
    (tmp_path / "schema.toml").write_text(SCHEMA % ", lower = 0, upper = 120")
    (tmp_path / "open.toml").write_text(SCHEMA % "")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(line: str) -> None:
    assert main(line.split()) == 0


FIT = "fit people.csv --delimiter ; --k 2 --epsilon 5 --scale box --seed 0 --guarantee none"
OLD = r"S (9\d|100) % \(± \d %\) +2018-\d\d-\d\d ± \d+ days? +\d(\.\d)? % ± "
YOUNG = r"N (9\d|100) % \(± \d %\) +2022-\d\d-\d\d ± \d+ days? +(9\d|100)(\.\d)? % ± "


def test_fit_and_show_print_dates_and_shares(folder, capsys):
    run(f"{FIT} --schema schema.toml --out model.json")
    fitted = capsys.readouterr().out
    run("show model.json")
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]  # and which release it is
    assert [line for line in fitted.splitlines() if line.split() not in shown] == []
    assert re.search(OLD, fitted), fitted
    assert re.search(YOUNG, fitted), fitted
    assert "region=N" not in fitted
    run("predict model.json people.csv --delimiter ; --keep id --out clusters.csv")
    labels = [line.split(",")[1] for line in (folder / "clusters.csv").read_text().splitlines()[1:]]
    described = Release.load("model.json").to_frame()
    assert described.loc[int(labels[-1]), "region"] == "S"  # the row without a region is one of the old


@pytest.mark.filterwarnings("ignore::dpkmeans.errors.LooseBoundsWarning")
def test_only_bounds_that_were_estimated_are_printed_as_such(folder, capsys):
    run(f"{FIT} --schema open.toml --bounds-epsilon 1")
    [line] = re.findall(r"^estimated bounds +(.*)$", capsys.readouterr().out, re.MULTILINE)
    assert line == "age 0:100"
