"""The demo's data and its matching of towns to centroids."""

from __future__ import annotations

import json
import sys

import numpy as np

from dpkmeans.cli.main import main
from dpkmeans.demo.towns import BOX_KM, N_VISITS, TOWNS, match, visits

PLACES = np.array([(town.east, town.north) for town in TOWNS])


def test_visits_are_the_same_each_time_and_lie_in_the_box():
    X = visits()
    assert X.shape == (N_VISITS, 2)
    assert np.array_equal(X, visits())
    assert X.min() >= 0
    assert X.max() <= BOX_KM


def test_towns_have_uneven_shares_that_add_up():
    shares = [town.share for town in TOWNS]
    assert np.isclose(sum(shares), 1)
    assert max(shares) > 4 * min(shares)
    assert len({town.name for town in TOWNS}) == 8


def test_each_town_gets_the_centroid_that_lies_on_it():
    order = np.array([3, 1, 0, 7, 6, 2, 5, 4])
    found = match(PLACES[order] + 0.5)
    assert [f.town for f in found] == list(TOWNS)
    assert [int(order[f.cluster]) for f in found] == list(range(8))
    assert np.allclose([f.distance for f in found], np.hypot(0.5, 0.5))


def test_no_centroid_is_used_twice():
    found = match(np.tile(PLACES[0], (8, 1)))
    assert sorted(f.cluster for f in found) == list(range(8))


def test_the_demo_prints_towns_and_guarantee_and_writes_a_report(tmp_path, capsys):
    report = tmp_path / "report.html"
    assert main(["demo", "--out", str(report)]) == 0
    out, err = capsys.readouterr()
    assert all(town.name in out for town in TOWNS)
    assert out.startswith("Proved: 1-differential privacy")
    assert str(report) in err
    assert "warning" not in err
    assert "east_km" in report.read_text()


def test_the_demo_prints_one_json_document(tmp_path, capsys):
    assert main(["demo", "--json", "--out", str(tmp_path / "report.html")]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [line["town"] for line in result["towns"]] == [town.name for town in TOWNS]
    assert result["release"]["guarantee"]["label"] == "proved"
    assert result["release"]["epsilon_spent"] <= 1


def test_a_plain_installation_has_the_demo_without_its_report(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert main(["demo"]) == 0
    out, err = capsys.readouterr()
    assert "Ambervale" in out
    assert err.splitlines()[-1] == "There is no report: it needs jinja2 and matplotlib: pip install 'dpkmeans[all]'."
    assert not list(tmp_path.iterdir())
    assert main(["demo", "--out", "report.html"]) == 4  # asked for, and refused before the fit
