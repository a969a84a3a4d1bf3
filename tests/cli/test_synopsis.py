"""`dpkmeans synopsis`, `dpkmeans explore`, and `dpkmeans show --verify`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dpkmeans import make_synopsis
from dpkmeans.cli.main import main
from dpkmeans.core.release import Release
from dpkmeans.storage import json_files as files
from dpkmeans.storage.models import KIND, VERSION
from dpkmeans.synopsis.synopsis import Synopsis


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    towns = np.array([[2.0, 2.0], [8.0, 3.0], [5.0, 9.0]])
    records = towns[rng.integers(3, size=3000)] + 0.3 * rng.standard_normal((3000, 2))
    path = tmp_path / "visits.csv"
    path.write_text("east,north\n" + "".join(f"{x:.4f},{y:.4f}\n" for x, y in records))
    return path


@pytest.fixture
def synopsis(data: Path, tmp_path: Path, capsys) -> Path:
    path = tmp_path / "s.json"
    assert (
        main(["synopsis", str(data), "--header", "--epsilon", "1", "--bounds", "0:10", "--k", "4", "--out", str(path)])
        == 0
    )
    out = capsys.readouterr()
    assert out.out.startswith("Proved: 1-differential privacy")
    assert "dpkmeans explore" in out.err
    return path


@pytest.fixture
def model(data: Path, tmp_path: Path, capsys) -> Path:
    path = tmp_path / "model.json"
    assert (
        main(["fit", str(data), "--header", "--k", "3", "--bounds", "0:10", "--epsilon", "1", "--out", str(path)]) == 0
    )
    assert "synopsis" in capsys.readouterr().out
    return path


def test_a_fit_needs_only_k_bounds_and_epsilon_and_uses_the_synopsis(model):
    release = Release.load(model)
    assert release.method == "synopsis"
    assert release.guarantee.label == "proved"
    assert release.certificate is not None


def test_a_synopsis_file_carries_names_spends_and_the_guarantee(synopsis):
    made = Synopsis.load(synopsis)
    assert made.feature_names == ("east", "north")
    assert made.epsilon_spent == 1.0
    assert made.guarantee.label == "proved"


def test_explore_prints_a_line_per_k_and_leaves_the_file_as_it_was(synopsis, capsys):
    before = synopsis.read_bytes()
    assert main(["explore", str(synopsis), "--k", "2:20"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[0].split() == ["k", "cost", "silhouette", "largest", "smallest"]
    assert [int(line.split()[0]) for line in lines[2:]] == list(range(2, 21))
    assert synopsis.read_bytes() == before


def test_explore_as_json_tells_the_right_k(data, tmp_path, capsys):
    records = np.loadtxt(data, delimiter=",", skiprows=1)
    make_synopsis(records, 1.0, (0, 10), random_state=0, guarantee="none").save(tmp_path / "seeded.json")
    assert main(["explore", str(tmp_path / "seeded.json"), "--k", "2,3,4,5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [f["k"] for f in found] == [2, 3, 4, 5]
    assert max(found, key=lambda f: f["silhouette"])["k"] == 3
    assert all(len(f["sizes"]) == f["k"] for f in found)


def test_explore_writes_a_model_for_a_single_k(synopsis, tmp_path, capsys):
    out = tmp_path / "m.json"
    assert main(["explore", str(synopsis), "--k", "3", "--out", str(out)]) == 0
    assert f"The model is in {out}" in capsys.readouterr().err
    assert Release.load(out).n_clusters == 3
    assert main(["show", str(out), "--verify"]) == 0
    assert main(["explore", str(synopsis), "--k", "3:4", "--out", str(out)]) == 2
    assert "one model" in capsys.readouterr().err


def test_a_file_of_the_other_kind_is_named_with_the_command_that_reads_it(synopsis, model, capsys):
    for command, file, says in (
        ("report", synopsis, "is a dpkmeans synopsis file, not a dpkmeans model file. Read it with dpkmeans show or"),
        ("explore", model, "is a dpkmeans model file, not a dpkmeans synopsis file. Read it with dpkmeans show"),
    ):
        assert main([command, str(file)]) == 4
        assert says in capsys.readouterr().err


@pytest.mark.parametrize("k", ["x", "5:2", "1:2:3", "", ":", "0:3", "1:5000"])
def test_numbers_of_clusters_that_make_no_sense_are_a_usage_error(synopsis, k, capsys):
    assert main(["explore", str(synopsis), "--k", k]) == 2
    assert "error:" in capsys.readouterr().err


def test_a_synopsis_wants_epsilon_bounds_and_a_place_and_refuses_a_seed(data, tmp_path, capsys):
    out = str(tmp_path / "s.json")
    assert main(["synopsis", str(data), "--header", "--bounds", "0:10", "--out", out]) == 3
    assert "--epsilon is missing" in capsys.readouterr().err
    assert main(["synopsis", str(data), "--header", "--epsilon", "1", "--out", out]) == 2
    missing = capsys.readouterr().err
    assert "--bounds are missing" in missing
    assert "--bounds-epsilon" not in missing
    assert main(["synopsis", str(data), "--header", "--epsilon", "1", "--bounds", "0:10"]) == 2
    assert (
        main(["synopsis", str(data), "--header", "--epsilon", "1", "--bounds", "0:10", "--seed", "1", "--out", out])
        == 3
    )
    assert main(["synopsis", str(data), "--header", "--epsilon", "0", "--bounds", "0:10", "--out", out]) == 3
    assert main(["synopsis", str(data), "--header", "--epsilon", "1", "--bounds", "0:10", "--out", str(data)]) == 2
    assert not Path(out).exists()
    assert "error:" in capsys.readouterr().err


def test_a_synopsis_is_charged_to_a_durable_ledger(data, tmp_path, capsys):
    ledger = str(tmp_path / "ledger.db")
    assert main(["ledger", "create", ledger, "--dataset", "visits", "--cap", "1.5"]) == 0
    options = ["--epsilon", "1", "--bounds", "0:10", "--ledger", ledger, "--dataset", "visits"]
    assert main(["synopsis", str(data), "--header", *options, "--out", str(tmp_path / "a.json")]) == 0
    assert main(["synopsis", str(data), "--header", *options, "--out", str(tmp_path / "b.json")]) == 3
    capsys.readouterr()


def test_show_verify_prints_every_verdict(model, capsys):
    assert main(["show", str(model), "--verify"]) == 0
    out = capsys.readouterr().out
    assert "the cost never rises" in out
    assert "the stated number of passes" in out
    assert "NO" not in out
    assert main(["show", str(model), "--verify", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["holds"]
    assert all(v["holds"] for v in found["verdicts"])
    assert found["checked"] == ["the certificate of convergence", "the digest"]


def test_show_verify_fails_with_exit_code_4_on_a_changed_file_and_on_a_changed_fixed_point(model, capsys):
    text = model.read_text()
    content = json.loads(text)["content"]
    model.write_text(text.replace('"n_iter": ', '"n_iter": 1'))
    assert main(["show", str(model), "--verify"]) == 4
    content["certificate"]["fixed_point"][0][0] *= 0.99
    content["identity"] = None
    files.write_json(model, KIND, VERSION, content)  # with a checksum that matches
    assert main(["show", str(model), "--verify"]) == 4
    assert "NO" in capsys.readouterr().out


def test_show_verify_of_a_model_without_a_certificate_fails(data, tmp_path, capsys):
    path = str(tmp_path / "m.json")
    assert (
        main(
            [
                "fit",
                str(data),
                "--header",
                "--method",
                "su",
                "--bounds",
                "0:10",
                "--epsilon",
                "1",
                "--k",
                "3",
                "--out",
                path,
            ]
        )
        == 0
    )
    assert main(["show", path, "--verify"]) == 4
    assert "NO" in capsys.readouterr().out


def test_help_has_an_example(capsys):
    for command in ("synopsis", "explore", "show"):
        assert main([command, "--help"]) == 0
        assert f"Example: dpkmeans {command}" in capsys.readouterr().out


def test_the_synopsis_of_a_folder_with_missing_values_puts_the_middle_in_their_place(data, tmp_path, capsys):
    folder, out = tmp_path / "parts", tmp_path / "s.json"
    folder.mkdir()
    records = np.loadtxt(data, delimiter=",", skiprows=1)
    records[::20, 1] = np.nan
    for name in ("a", "b"):
        np.savetxt(folder / f"{name}.csv", records, delimiter=",", header="east,north", comments="")
    asked = ["synopsis", str(folder / "*.csv"), "--header", "--epsilon", "1", "--bounds", "0:10", "--out", str(out)]
    assert main(asked) == 4
    assert "--nulls midpoint" in capsys.readouterr().err
    assert main([*asked, "--nulls", "midpoint"]) == 0
    made = Synopsis.load(out)
    assert made.feature_names == ("east", "north")
    assert made.weights.sum() == pytest.approx(2 * len(records), rel=0.05)


@pytest.fixture
def signed(data, tmp_path, capsys) -> Path:
    """A signed synopsis with its entry in a ledger."""
    assert main(["key", "create", str(tmp_path / "curator.key")]) == 0
    ledger, key = str(tmp_path / "ledger.db"), str(tmp_path / "curator.key")
    assert main(["ledger", "create", ledger, "--dataset", "visits", "--cap", "3", "--sign", key]) == 0
    options = ["--header", "--epsilon", "1", "--bounds", "0:10", "--k", "4", "--out", str(tmp_path / "signed.json")]
    assert main(["synopsis", str(data), *options, "--ledger", ledger, "--dataset", "visits", "--sign", key]) == 0
    capsys.readouterr()
    return tmp_path / "signed.json"


def test_a_synopsis_is_shown_and_checked_like_a_model(signed, synopsis, tmp_path, capsys):
    key, ledger = str(tmp_path / "curator.pub"), str(tmp_path / "ledger.db")
    assert main(["show", str(signed)]) == 0
    assert capsys.readouterr().out.startswith("Proved: 1-differential privacy")
    assert main(["show", str(signed), "--verify", "--key", key, "--ledger", ledger]) == 0
    out = capsys.readouterr().out
    assert "holds: it is signed by the key given" in out
    assert "holds: the ledger keeps its digest" in out
    assert "DOES NOT HOLD" not in out
    assert main(["show", str(synopsis), "--verify", "--key", key]) == 4, "nobody signed it"
    assert "DOES NOT HOLD: it is signed by the key given" in capsys.readouterr().out
    assert main(["show", str(synopsis), "--verify", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["checked"] == ["the digest"]


def test_a_model_from_a_synopsis_names_it_and_is_found_in_the_ledger_by_it(signed, tmp_path, capsys):
    model, ledger = tmp_path / "from.json", str(tmp_path / "ledger.db")
    assert main(["explore", str(signed), "--k", "3", "--out", str(model)]) == 0
    source, made = Synopsis.load(signed).identity, Release.load(model).identity
    assert made.made_from == source.digest != made.digest
    assert (made.dataset, made.fit, made.head, made.time) == (source.dataset, source.fit, source.head, None)
    capsys.readouterr()
    assert main(["show", str(model), "--verify", "--ledger", ledger]) == 0
    out = capsys.readouterr().out
    assert "holds: the ledger keeps its synopsis' digest" in out
    assert f"that it was computed from the synopsis {source.digest}" in out
    content = files.read_json(model, KIND, VERSION)
    content["identity"]["made_from"] = "0" * 64
    files.write_json(model, KIND, content["identity"]["schema"], content)
    assert main(["show", str(model), "--verify"]) == 4
    assert "changed after it was released" in capsys.readouterr().err
