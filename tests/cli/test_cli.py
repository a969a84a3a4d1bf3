"""The command: its exit codes, what it prints where, and what it never shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpkmeans.cli.app import app
from dpkmeans.cli.inputs import parse_bounds
from dpkmeans.cli.main import main
from dpkmeans.cli.options import WHOLE
from dpkmeans.core.release import Release
from dpkmeans.errors import BoundsError

N = 61
MARKER = (3.717177, 8.181719)
LLOYD = ("--bounds", "0:10", "--method", "lloyd", "--guarantee", "none", "--k", "2")
PAPER = ("--bounds", "0:10", "--method", "posterior", "--guarantee", "paper", "--k", "2")
PROVED = ("--bounds", "0:10", "--epsilon", "1", "--k", "2", "--n-records", "61")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A headed CSV file with two groups, a marker record and a text column."""
    rng = np.random.default_rng(1)
    records = np.vstack([rng.normal(2, 0.5, (30, 2)), rng.normal(8, 0.5, (30, 2)), [MARKER]])
    path = tmp_path / "visits.csv"
    path.write_text("east,north,name\n" + "".join(f"{x:.6f},{y:.6f},someone\n" for x, y in records))
    return path


@pytest.fixture
def model(tmp_path: Path, data: Path, capsys: Any) -> Path:
    path = tmp_path / "model.json"
    assert main(["fit", str(data), *LLOYD, "--columns", "north,east", "--out", str(path)]) == 0
    capsys.readouterr()
    return path


def process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dpkmeans", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


def fit(data: Path, *arguments: str) -> int:
    return main(["fit", str(data), "--columns", "east,north", *arguments])


# --- as a process -----------------------------------------------------------------------------------


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from dpkmeans.cli.main import main; main(['--help']); main(['fit', '--help']);"
        "heavy = {'numpy', 'scipy', 'sklearn', 'numba', 'pyarrow', 'opendp', 'matplotlib', 'jinja2'};"
        "sys.exit(len(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert done.returncode == 0
    assert "LOW:HIGH" in done.stdout


def test_a_fit_as_a_process_prints_json_alone_on_stdout(data):
    done = process("fit", str(data), "--columns", "east,north", *PROVED, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["guarantee"]["label"] == "proved"
    assert "Traceback" not in done.stderr


def test_a_missing_file_as_a_process_gives_one_line_and_exit_code_4(tmp_path):
    done = process("fit", str(tmp_path / "missing.csv"), "--bounds", "0:1", "--epsilon", "1")
    assert done.returncode == 4
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: cannot read")
    assert last.endswith("Check the path; for several files give a folder or a quoted pattern.")
    assert done.stdout == ""


def test_a_reader_that_goes_away_causes_no_traceback():
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "dpkmeans", "--help"]
    done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, "")


# --- exit codes ---------------------------------------------------------------------------------------


def test_version_and_help_are_done_with_exit_code_0(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip()[0].isdigit()
    assert main([]) == 0
    for command in ("fit", "predict", "show", "methods", "demo"):
        assert main([command, "--help"]) == 0
        assert f"Example: dpkmeans {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--nope",), 2, "--nope"),
        (("--bounds", "0:1", "--k", "two"), 2, "--k"),
        ((*PROVED[:4], "--k", "2.5"), 2, "whole number; got '2.5'"),
        ((*PROVED[:4], "--k", "2.0"), 2, "whole number; got '2.0'"),
        ((*PROVED[:-2], "--n-records", "199.9"), 2, "whole number; got '199.9'"),
        (("--bounds", "0:1", "--guarantee", "perfect"), 2, "perfect"),
        ((), 2, "--bounds are missing"),
        ((), 2, "--bounds-epsilon 0.1"),
        (("--bounds", "0,1"), 2, "LOW:HIGH"),
        (("--bounds", "0:1,0:1,0:1", "--epsilon", "1"), 2, "given for 3 features; the records have 2"),
        (("--bounds", "1:0", "--epsilon", "1"), 2, "lower must be below upper"),
        (("--bounds", "0:1,100:0", "--epsilon", "1"), 2, "Did you mean 0 to 100?"),
        ((*PROVED, "--bounds-epsilon", "0.1"), 2, "Give --bounds or --bounds-epsilon, not both"),
        (("other.csv", *PROVED), 2, "DATA is one file, folder or pattern; put a pattern in quotes: 'visits/*.csv'."),
        ((*PROVED, "--seed"), 2, "--seed needs a value. Try: dpkmeans fit --help"),
        (("--bounds", "0:nan", "--epsilon", "1"), 2, "finite"),
        (("--bounds", "0:1", "--method", "magic"), 2, "unknown method 'magic'"),
        (("--bounds", "0:1", "--method", "lloyd", "--step-epsilon", "1"), 2, "--step-epsilon is not for"),
        (("--bounds", "0:1", "--k", "0", "--epsilon", "1"), 2, "--k must be"),
        (("--bounds", "0:1", "--method", "posterior"), 3, "--guarantee paper"),
        (("--bounds", "0:1", "--method", "posterior"), 3, "labelled 'paper' (the algorithm as published; its epsilon"),
        (("--bounds", "0:1", "--method", "posterior"), 3, "but you accept only 'proved'."),
        ((*LLOYD[:4], "--guarantee", "paper"), 3, "but you accept only 'paper' or 'proved'."),
        (("--bounds", "0:1", "--method", "lloyd"), 3, "--guarantee none"),
        (("--bounds", "0:1", "--epsilon", "1", "--seed", "1"), 3, "--seed"),
        (("--bounds", "from data", "--epsilon", "1"), 3, "read from the data"),
        (("--bounds", "0:1", "--epsilon", "-1"), 3, "must be positive"),
        (("--bounds", "0:1"), 3, "--epsilon is missing. Write, say, --epsilon 1.0."),
        ((*PAPER, "--epsilon", "0.05"), 3, "only"),
        ((*LLOYD, "--k", "100"), 2, "--k"),
        (("--bounds", "0:1", "--method", "lloyd", "--guarantee", "none", "--k", "100"), 4, "--k 100 is larger"),
    ],
)
def test_bad_fits_end_with_the_right_exit_code_and_one_line(data, capsys, arguments, code, says):
    assert fit(data, *arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    last = err.splitlines()[-1]
    assert last.startswith("error: ")
    assert says in last


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nope",), 'Unknown command "nope"'),
        (("fit",), "DATA is missing. Try: dpkmeans fit --help"),
        (("predict", "model.json"), "DATA is missing."),
        (("show",), "MODEL is missing."),
        (("ledger", "verify"), "LEDGER is missing. Try: dpkmeans ledger verify --help"),
        (("synopsis", "a.csv", "--epsilon", "1"), "--out is missing."),
        (("methods", "x"), "not expected here: x. Try: dpkmeans methods --help"),
    ],
)
def test_commands_that_cannot_be_understood_exit_with_2(arguments, says, capsys):
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"error: {says}")


def test_no_command_has_an_option_that_rounds_a_fraction_to_a_whole_number():
    commands = [app[name] for name in app if name[0] != "-" and app[name].default_command]
    arguments = [a for command in commands for a in command.assemble_argument_collection()]
    whole = [a for a in arguments if a.hint in (int, int | None)]
    assert {"--k", "--seed", "--workers", "--records", "--features", "--runs", "--jobs"} <= {a.name for a in whole}
    assert [a.name for a in whole if a.parameter.converter is not WHOLE.converter] == []


def test_a_plan_takes_no_fraction_of_a_record_or_a_feature(capsys):
    for records, features in (("1000.7", "2"), ("1000", "2.5")):
        assert main(["plan", "--records", records, "--features", features]) == 2
        assert "whole number" in capsys.readouterr().err


def test_columns_of_a_file_with_semicolons_are_refused_with_what_separates_cells(tmp_path, capsys):
    path = tmp_path / "semicolons.csv"
    path.write_text("east;north\n1;2\n")
    asked = ["fit", str(path), "--bounds", "0:10", "--epsilon", "1", "--k", "1", "--columns"]
    assert main([*asked, "east,north"]) == 4
    assert "1 column and 1 semicolon: if these separate the cells, write --delimiter ';'." in capsys.readouterr().err
    assert main([*asked, "east,north", "--delimiter", ";"]) == 0
    assert main([*asked, "0,1", "--no-header"]) == 4
    assert "it has one column, number 0" in capsys.readouterr().err


@pytest.mark.parametrize("delimiter", ["tab", "\\t", "\t"])
def test_a_file_is_read_as_the_options_say(tmp_path, delimiter, capsys):
    path = tmp_path / "export.txt"
    path.write_bytes("'größe'\tn\n1,5\ta\n".encode("cp1252"))
    asked = ["fit", str(path), "--bounds", "0:10", "--epsilon", "1", "--k", "1"]
    asked += ["--columns", "größe", "--delimiter", delimiter, "--decimal", ","]
    assert main([*asked, "--encoding", "cp1252", "--quote", "'"]) == 0
    assert "größe" in capsys.readouterr().out
    assert main([*asked, "--encoding", "cp1252", "--quote", "none"]) == 4
    assert "does not hold the name(s) 'größe'" in capsys.readouterr().err
    assert main([*asked, "--quote", "'"]) == 4
    assert "is not text in utf-8. Give the encoding" in capsys.readouterr().err


def test_a_column_of_text_recommends_a_header_only_where_there_is_none(data, capsys):
    for declared in (["--header"], ["--columns", "east,name"], ["--no-header"]):
        assert main(["fit", str(data), *PROVED, *declared]) == 4
        assert ("If the first row holds names" in capsys.readouterr().err) == (declared == ["--no-header"])


def test_data_that_cannot_be_used_exits_with_4_and_shows_no_record(data, tmp_path, capsys):
    ragged = tmp_path / "ragged.csv"
    ragged.write_text(f"x,y\n1,2\n{MARKER[0]},3,4\n")
    empty = tmp_path / "empty"
    empty.mkdir()
    for path, says in ((data, "column 'name'"), (ragged, "as many cells"), (empty, "holds no Parquet")):
        assert main(["fit", str(path), "--header", *LLOYD]) == 4
        err = capsys.readouterr().err
        assert says in err
        assert str(MARKER[0]) not in err
        assert "someone" not in err


def test_an_unforeseen_exception_shows_its_type_only(data, capsys, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(f"the record {MARKER}")

    monkeypatch.setattr("dpkmeans.session.run", fail)
    assert fit(data, *LLOYD) == 1
    err = capsys.readouterr().err
    assert "RuntimeError" in err
    assert str(MARKER[0]) not in err


def test_an_interruption_exits_with_130(data, capsys, monkeypatch):
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dpkmeans.session.run", interrupt)
    assert fit(data, *LLOYD) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "error: interrupted. What was spent before stays spent."


def test_without_cyclopts_the_message_names_what_to_install(capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "dpkmeans.cli.app")
    monkeypatch.setitem(sys.modules, "cyclopts", None)
    assert main(["--help"]) == 2
    assert "repair yours with: pip install dpkmeans" in capsys.readouterr().err


# --- bounds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("0:1", [(0, 1)]),
        ("-5:-1", [(-5, -1)]),
        (" 0:10 , -1e3:+2.5E-1 ", [(0, 10), (-1000, 0.25)]),
        ("from data", "from data"),
    ],
)
def test_bounds_are_written_as_pairs(text, pairs):
    assert parse_bounds(text) == pairs


@pytest.mark.parametrize("text", ["", ":", "0", "0,1", "0:1:2", "0:1,", "a:b", "0;1", "from the data", "0-1"])
def test_other_ways_to_write_bounds_are_refused(text):
    with pytest.raises(BoundsError, match="LOW:HIGH"):
        parse_bounds(text)


def test_bounds_may_begin_with_a_minus_sign(data, capsys):
    assert fit(data, *LLOYD[2:], "--bounds", "-10:10,-1e1:1e1", "--json") == 0
    assert json.loads(capsys.readouterr().out)["bounds"] == {"lower": [-10, -10], "upper": [10, 10]}


# --- what is printed and written ----------------------------------------------------------------------


def test_a_fit_prints_the_guarantee_first_and_names_the_features(data, capsys):
    assert fit(data, *PROVED) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Proved: 1-differential privacy")
    assert "east" in out
    assert "epsilon promised  1\n" in out
    assert " over the records; converged after " in out
    assert err.splitlines()[:2] == [f"Fitting {data}", "The model was not saved: give --out next time."]


def test_a_seeded_fit_repeats_and_is_labelled_none(data, capsys):
    results = []
    for _ in range(2):
        assert fit(data, *PAPER[:4], "--guarantee", "none", "--k", "2", "--seed", "5", "--json") == 0
        results.append(json.loads(capsys.readouterr().out))
    assert results[0] == results[1]
    assert results[0]["guarantee"]["label"] == "none"
    assert results[0]["guarantee"]["seeded"]


def test_a_run_that_max_iter_ends_gives_a_warning_line(data, capsys):
    assert fit(data, *PAPER, "--max-iter", "1") == 0
    out, err = capsys.readouterr()
    assert "warning: posterior was ended by max_iter" in err
    assert "warning" not in out


def test_no_output_holds_a_record_or_an_array_as_long_as_the_data(data, tmp_path, capsys):
    names = ("model.json", "t.jsonl", "report.html")
    out, transcript, report = (tmp_path / name for name in names)
    written = ("--out", str(out), "--transcript", str(transcript), "--report", str(report), "--json")
    assert fit(data, *PAPER[:4], "--guarantee", "none", "--k", "2", "--seed", "5", *written) == 0
    printed = capsys.readouterr()
    everything = [printed.out, printed.err, *(path.read_text() for path in (out, transcript, report))]
    for text in everything:
        assert "3.71717" not in text
        assert "8.18171" not in text
        assert "labels_" not in text
    assert N not in lengths(json.loads(printed.out))
    head, *lines = [json.loads(line) for line in transcript.read_text().splitlines()]
    assert head["kind"] == "dpkmeans transcript"
    assert lines == json.loads(printed.out)["transcript"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names, data.name])


def lengths(content: Any) -> set[int]:
    """Lengths of all lists in a JSON document, without the transcript's, which counts iterations."""
    if isinstance(content, dict):
        return {n for key, value in content.items() if key != "transcript" for n in lengths(value)}
    if isinstance(content, list):
        return {len(content)}.union(*(lengths(value) for value in content))
    return set()


def test_a_fit_says_where_its_files_are_and_asks_how_to_scale_features_of_very_different_widths(data, tmp_path, capsys):
    out = tmp_path / "m.json"
    assert fit(data, *PROVED, "--out", str(out)) == 0
    err = capsys.readouterr().err
    assert f"The model is in {out}" in err
    assert "not saved" not in err
    wide = ("--bounds", "0:10,0:1000", "--epsilon", "1", "--k", "2")
    assert fit(data, *wide) == 2
    err = capsys.readouterr().err
    assert "100 times as wide in 'north' as in 'east'" in err
    assert "Write --scale box to give every feature the same say" in err
    assert "--scale none to keep units" in err
    assert fit(data, *wide, "--scale", "none") == 0
    assert "The model was not saved: give --out next time." in capsys.readouterr().err
    assert fit(data, *wide, "--scale", "north=2,east=0.5") == 0


def test_show_prints_what_fit_wrote(model, capsys):
    assert main(["show", str(model), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == Release.load(model).to_dict()
    assert main(["show", str(model)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Not private.")
    assert out.index("north") < out.index("east")


def test_wide_tables_are_not_squeezed(tmp_path, capsys):
    path = tmp_path / "wide.csv"
    names = [f"a_long_name_{j}" for j in range(30)]
    path.write_text(",".join(names) + "\n" + "".join(",".join(["0.5"] * 30) + "\n" for _ in range(3)))
    assert main(["fit", str(path), "--header", *LLOYD[:-1], "1"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in names)


def test_names_from_a_stranger_cannot_write_over_the_terminal(tmp_path, capsys):
    path = tmp_path / "odd.csv"
    path.write_text("[red]x[/red],\x1b[2Jy\n1,2\n3,4\n")
    assert main(["fit", str(path), "--header", *LLOYD]) == 0
    printed = capsys.readouterr()
    assert "\x1b" not in printed.out + printed.err
    assert "[red]x[/red]" in printed.out


def test_methods_lists_the_registry(capsys):
    assert main(["methods"]) == 0
    table = capsys.readouterr().out
    assert main(["methods", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["default"] in {entry["name"] for entry in listed["methods"]}
    for entry in listed["methods"]:
        assert {"name", "summary", "guarantee", "package", "proof", "source", "options"} == set(entry)
        assert entry["name"] in table
        assert entry["summary"] in table


# --- predictions --------------------------------------------------------------------------------------


def test_predict_finds_the_columns_of_the_model_by_name(model, data, tmp_path, capsys):
    assert main(["predict", str(model), str(data)]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0] == "cluster"
    assert len(lines) == N + 1
    assert len(set(lines[1:31])) == len(set(lines[31:61])) == 1
    assert lines[1] != lines[31]
    assert "not private" in err

    labels = tmp_path / "labels.csv"
    assert main(["predict", str(model), str(data), "--out", str(labels)]) == 0
    assert labels.read_text() == out
    out, err = capsys.readouterr()
    assert out == ""
    assert f"The predictions are in {labels}" in err


def test_predictions_as_json_are_those_of_the_file(model, data, tmp_path, capsys):
    assert main(["predict", str(model), str(data)]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert main(["predict", str(model), str(data), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"private": False, "clusters": [int(line) for line in lines]}
    assert main(["predict", str(model), str(data), "--json", "--out", str(tmp_path / "labels.csv")]) == 2
    assert "Give one of the two" in capsys.readouterr().err


def test_predict_takes_headerless_data_in_the_order_of_the_fit(model, tmp_path, capsys):
    path = tmp_path / "headless.csv"
    path.write_text("8,8\n2,2\n")
    assert main(["predict", str(model), str(path)]) == 4
    assert "does not hold the name(s) 'north', 'east'" in capsys.readouterr().err
    assert main(["predict", str(model), str(path), "--no-header"]) == 0
    first, second = capsys.readouterr().out.splitlines()[1:]
    assert first != second


def test_predict_with_the_wrong_number_of_columns_exits_with_4(model, tmp_path, capsys):
    path = tmp_path / "one.csv"
    path.write_text("8\n2\n")
    assert main(["predict", str(model), str(path), "--no-header"]) == 4
    assert "gives 1 column(s); the model was fitted on 2: north, east." in capsys.readouterr().err


# --- files ----------------------------------------------------------------------------------------------


def test_damaged_and_foreign_model_files_exit_with_4(model, data, tmp_path, capsys):
    good = model.read_text()
    wrong = tmp_path / "wrong.json"
    for text in (good[: len(good) // 2], good.replace("lloyd", "llyod"), "{}", "[]", "", "\x00\x01", data.read_text()):
        wrong.write_text(text)
        assert main(["show", str(wrong)]) == 4
        assert main(["predict", str(wrong), str(data)]) == 4
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("error: ") == 2
    assert main(["show", str(tmp_path / "missing.json")]) == 4
    assert main(["show", str(tmp_path)]) == 4


def test_outputs_that_cannot_be_written_are_refused_before_the_fit(data, tmp_path, capsys):
    for out in (tmp_path / "no_folder" / "model.json", tmp_path):
        assert fit(data, *LLOYD, "--out", str(out)) == 4
        err = capsys.readouterr().err
        assert "cannot write" in err
        assert "Fitting" not in err


def test_an_output_may_not_replace_an_input(model, data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(model), "--out", model.name]) == 2
    assert f"{model.name} would be replaced, but it is read" in capsys.readouterr().err
    before = data.read_text()
    assert fit(data, *LLOYD, "--out", str(data)) == 2
    assert main(["predict", str(model), str(data), "--out", str(model)]) == 2
    assert fit(data, *LLOYD, "--out", str(tmp_path / "a"), "--report", str(tmp_path / "a")) == 2
    assert data.read_text() == before


@pytest.mark.parametrize(("failure", "code"), [(OSError(28, "No space left on device"), 4), (KeyboardInterrupt(), 130)])
def test_a_write_that_fails_leaves_the_old_file_and_still_prints_the_result(
    model, data, tmp_path, capsys, monkeypatch, failure, code
):
    before = model.read_text()

    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(os, "fsync", fail)
    assert fit(data, *LLOYD, "--json", "--out", str(model), "--force") == code
    assert json.loads(capsys.readouterr().out)["method"] == "lloyd"
    assert model.read_text() == before
    assert {path.name for path in tmp_path.iterdir()} == {model.name, data.name}
