"""`dpkmeans ledger` and `dpkmeans fit --ledger`: exit codes, what is printed, and what is left behind."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpkmeans.cli.main import main
from dpkmeans.privacy.durable.ledger import DurableLedger


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    np.savetxt(path, np.random.default_rng(0).random((10_000, 2)), delimiter=",", fmt="%.6f")
    return path


@pytest.fixture
def ledger(tmp_path: Path, capsys: Any) -> Path:
    path = tmp_path / "ledger.db"
    assert main(["ledger", "create", str(path), "--dataset", "visits", "--cap", "1.5", "--analyst", "ada"]) == 0
    capsys.readouterr()
    return path


def fit(data: Path, ledger: Path, *more: str) -> int:
    arguments = ["--k", "2", "--bounds", "0:1", "--method", "su", "--ledger", str(ledger), "--dataset", "visits"]
    return main(["fit", str(data), "--no-header", *arguments, *more])


def test_a_fit_is_charged_and_the_next_one_is_refused_with_3_and_writes_no_file(data, ledger, tmp_path, capsys):
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    assert fit(data, ledger, "--epsilon", "1", "--out", str(first), "--analyst", "grace") == 0
    assert first.exists()
    capsys.readouterr()
    others = ("--transcript", str(tmp_path / "t.jsonl"), "--report", str(tmp_path / "r.html"))
    assert fit(data, ledger, "--epsilon", "1", "--out", str(second), *others) == 3
    printed = capsys.readouterr()
    assert "data set 'visits' has only 0.5 left" in printed.err
    assert "have the cap raised with: dpkmeans ledger cap" in printed.err
    assert printed.out == ""
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("ledger.db-")) == [
        "first.json",
        "ledger.db",
        "visits.csv",
    ]
    assert [(e.kind, e.analyst) for e in DurableLedger(ledger).entries()][1] == ("reserve", "grace")


def test_a_fit_that_is_not_private_is_refused_by_a_ledger(data, ledger, capsys):
    assert fit(data, ledger, "--epsilon", "1", "--seed", "1", "--guarantee", "none") == 3
    assert "no budget of the ledger covers it" in capsys.readouterr().err
    assert len(DurableLedger(ledger).entries()) == 1


def test_a_failed_estimate_of_the_bounds_costs_its_share_and_gives_back_the_rest(data, ledger, capsys):
    share = ["--k", "2", "--scale", "none", "--bounds-epsilon", "0.001", "--epsilon", "1"]
    share += ["--ledger", str(ledger), "--dataset", "visits"]
    assert main(["fit", str(data), "--no-header", "--columns", "0,1", *share]) == 2
    assert "The share is spent, and nothing after it." in capsys.readouterr().err
    assert float(DurableLedger(ledger).dataset("visits").spent) == 0.001


def test_a_ledger_without_a_data_set_is_a_usage_error(data, ledger, capsys):
    assert main(["fit", str(data), "--no-header", "--bounds", "0:1", "--epsilon", "1", "--ledger", str(ledger)]) == 2
    assert "--dataset visits" in capsys.readouterr().err
    assert main(["fit", str(data), "--no-header", "--bounds", "0:1", "--epsilon", "1", "--dataset", "visits"]) == 2
    assert "--ledger ledger.db" in capsys.readouterr().err


def test_a_fit_with_a_missing_ledger_exits_with_4_and_makes_none(data, tmp_path, capsys):
    assert fit(data, tmp_path / "other.db", "--epsilon", "1") == 4
    assert "dpkmeans ledger create" in capsys.readouterr().err
    assert not (tmp_path / "other.db").exists()


def test_an_output_may_not_replace_the_ledger(data, ledger, capsys):
    assert fit(data, ledger, "--epsilon", "1", "--out", str(ledger)) == 2
    assert DurableLedger(ledger).verify().intact
    capsys.readouterr()


def test_show_lists_data_sets_and_entries(data, ledger, capsys):
    assert fit(data, ledger, "--epsilon", "0.5") == 0
    capsys.readouterr()
    assert main(["ledger", "show", str(ledger)]) == 0
    assert "visits" in capsys.readouterr().out
    assert main(["ledger", "show", str(ledger), "--dataset", "visits", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    amounts = {"cap": 1.5, "spent": 0.5, "remaining": 1.0, "spent_rho": 0.0, "remaining_rho": None, "shares": []}
    assert shown["datasets"] == [{"dataset": "visits", "unit": "row", "kind": "epsilon", "delta": None, **amounts}]
    assert [entry["kind"] for entry in shown["entries"]] == ["create", "reserve", "settle", "release"]
    assert [r["digest"] for r in shown["releases"]] == [shown["entries"][-1]["label"]]
    assert shown["open"] == []
    assert main(["ledger", "show", str(ledger), "--dataset", "visits"]) == 0
    assert "reserve" in capsys.readouterr().out


def test_cap_changes_the_cap(ledger, capsys):
    assert main(["ledger", "cap", str(ledger), "--dataset", "visits", "--cap", "2"]) == 0
    assert "2 is left" in capsys.readouterr().err
    assert main(["ledger", "cap", str(ledger), "--dataset", "sales", "--cap", "2"]) == 2
    assert main(["ledger", "cap", str(ledger), "--dataset", "visits", "--cap", "-1"]) == 3
    assert main(["ledger", "create", str(ledger), "--dataset", "visits", "--cap", "1"]) == 2
    assert main(["ledger", "create", str(ledger), "--dataset", "sales", "--cap", "1"]) == 0
    assert [d.name for d in DurableLedger(ledger).datasets()] == ["sales", "visits"]


def test_a_bad_cap_makes_no_ledger(tmp_path, capsys):
    assert main(["ledger", "create", str(tmp_path / "new.db"), "--dataset", "visits", "--cap", "nan"]) == 3
    assert list(tmp_path.iterdir()) == []


def test_export_writes_every_entry_as_a_line(ledger, tmp_path, capsys):
    out = tmp_path / "entries.jsonl"
    assert main(["ledger", "export", str(ledger), "--out", str(out)]) == 0
    assert main(["ledger", "export", str(ledger)]) == 0
    assert capsys.readouterr().out == out.read_text()
    (line,) = map(json.loads, out.read_text().splitlines())
    assert (line["kind"], line["analyst"], line["sha256"]) == ("create", "ada", DurableLedger(ledger).verify().head)


def test_verify_exits_with_4_and_says_where_a_chain_breaks(ledger, capsys):
    assert main(["ledger", "verify", str(ledger)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("intact: 1 entries\nsigned by: nobody")
    head = out.split()[-1]
    assert main(["ledger", "verify", str(ledger), "--head", head]) == 0
    capsys.readouterr()
    assert main(["ledger", "verify", str(ledger), "--head", "ab" * 32]) == 4
    assert "entries were removed, or it is the head of another ledger" in capsys.readouterr().err
    for other in ("abc", "", head.upper() + "\n"):
        assert main(["ledger", "verify", str(ledger), "--head", other]) == 2
        assert "--head must be 64 hexadecimal digits" in capsys.readouterr().err
    with sqlite3.connect(ledger) as connection:
        connection.execute("DROP TRIGGER no_update")
        connection.execute("UPDATE entries SET nano = 9000000000, cap = 9000000000")
    connection.close()
    capsys.readouterr()
    assert main(["ledger", "verify", str(ledger), "--json"]) == 4
    printed = capsys.readouterr()
    assert json.loads(printed.out)["broken_at"] == 1
    assert "breaks at entry 1" in printed.err
