"""The unit in durable ledgers, in model files and in the command."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.persons.test_doors import visits

from dpkmeans import DPKMeans, DurableLedger, Person, Row, Rows, Synopsis, make_synopsis
from dpkmeans.cli.main import main
from dpkmeans.core.epsilon import Epsilon, Spend
from dpkmeans.core.release import Release
from dpkmeans.core.unit import as_unit
from dpkmeans.errors import FileError, LedgerError, MethodError
from dpkmeans.privacy.durable.terms import DataSet
from dpkmeans.storage.codec import decode_unit, encode_unit

UNIT = Person("who", at_most=2)


@pytest.fixture
def table(tmp_path) -> Path:
    visits().to_csv(tmp_path / "visits.csv", index=False)
    return tmp_path / "visits.csv"


def fit(frame, ledger, **options):
    return DPKMeans(3, epsilon=0.4, bounds=(0, 1), ledger=ledger, dataset="visits", **options).fit(frame)


def test_a_data_set_has_one_unit_and_a_fit_with_another_is_refused_and_leaves_no_entry(tmp_path):
    ledger, frame = DurableLedger.create(tmp_path / "ledger.db"), visits()
    ledger.add("visits", cap=1.0, unit="person")
    fit(frame, ledger, unit=UNIT)
    fit(frame[["x", "y"]], ledger, unit=Rows(3))
    before = ledger.entries()
    with pytest.raises(MethodError, match="per person, and the fit is per row"):
        fit(frame[["x", "y"]], ledger)
    ledger.add("rows", cap=1.0)
    with pytest.raises(MethodError, match="per row, and the fit is per person"):
        DPKMeans(3, epsilon=0.4, bounds=(0, 1), ledger=ledger, dataset="rows", unit=UNIT).fit(frame)
    assert ledger.entries()[: len(before)] == before
    assert len(ledger.entries()) == len(before) + 1
    spent = ledger.dataset("visits")
    assert spent == DataSet("visits", spent.privacy, spent.held, "person")
    assert 0.8 - 1e-6 < float(spent.spent) <= 0.8
    assert ledger.verify().intact


def test_the_cap_may_change_and_the_unit_stays(tmp_path):
    ledger = DurableLedger.create(tmp_path / "ledger.db")
    ledger.add("visits", cap=1.0, unit="person")
    ledger.set_cap("visits", 2.0)
    assert ledger.dataset("visits").unit == "person"
    assert [known.unit for known in ledger.datasets()] == ["person"]


def test_a_data_set_from_before_there_were_units_counts_rows(tmp_path):
    """Such a file has a first entry without a label, and its chain is still whole: nothing is rewritten."""
    ledger, frame = DurableLedger.create(tmp_path / "ledger.db"), visits()
    ledger._write(lambda book: book.append("create", "visits", 10**9, cap=10**9, spent=0))
    head = ledger.verify().head
    assert ledger.dataset("visits").unit == "row"
    fit(frame[["x", "y"]], ledger, unit=Row())
    with pytest.raises(MethodError, match="per row"):
        fit(frame, ledger, unit=UNIT)
    assert ledger.verify(head).intact


def test_a_unit_that_is_not_known_is_refused(tmp_path):
    ledger = DurableLedger.create(tmp_path / "ledger.db")
    with pytest.raises(MethodError, match="must be one of row, person"):
        ledger.add("visits", cap=1.0, unit="household")
    ledger._write(lambda book: book.append("create", "v", 10**9, cap=10**9, spent=0, label="unit: household"))
    with pytest.raises(LedgerError, match="does not know"):
        ledger.dataset("v")


def test_a_ledger_with_persons_in_it_is_not_opened_by_a_version_that_knows_rows_alone(tmp_path):
    """Such a version looks at the number in the file's head, and would charge a fit per row to persons."""
    ledger = DurableLedger.create(tmp_path / "ledger.db")
    ledger.add("visits", cap=1.0, unit="person")
    assert head_version(ledger) == 3
    assert DurableLedger(ledger.path).dataset("visits").unit == "person"
    fit(visits(), ledger, unit=UNIT)
    assert ledger.verify().intact


def head_version(ledger):
    ledger.close()
    with closing(sqlite3.connect(ledger.path)) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


def test_a_data_set_that_counts_persons_has_no_account_per_row(tmp_path):
    ledger = DurableLedger.create(tmp_path / "ledger.db")
    ledger.add("visits", cap=1.0, unit="person")
    with pytest.raises(MethodError, match="per person"):
        ledger.account("visits", promised=0.5)
    parent = ledger.account("visits", unit="person")
    with parent.account(Epsilon.of(0.5)) as account:
        account.record(Spend("counts", (Epsilon.of(0.25),)))
    assert float(ledger.dataset("visits").spent) == 0.25


def test_a_file_with_another_unit_than_a_row_has_a_version_that_older_ones_refuse(tmp_path):
    frame = visits()
    for unit, version in ((None, 2), (UNIT, 3), (Rows(2), 3)):
        records = frame if unit == UNIT else frame[["x", "y"]]
        files = tmp_path / "model.json", tmp_path / "synopsis.json"
        DPKMeans(3, epsilon=1.0, bounds=(0, 1), unit=unit).fit(records).release_.save(files[0])
        make_synopsis(records, 1.0, (0, 1), unit=unit).save(files[1])
        assert [json.loads(file.read_text())["version"] for file in files] == [version] * 2
        assert Release.load(files[0]).guarantee.unit == Synopsis.load(files[1]).guarantee.unit == as_unit(unit)


@pytest.mark.parametrize(
    "unit", [Row(), Rows(7), UNIT, Person("who", keep="mean"), Person("who", keep="one", missing_ids="own")]
)
def test_a_unit_survives_a_file(unit):
    assert decode_unit(json.loads(json.dumps(encode_unit(unit)))) == unit
    assert decode_unit(None) == Row()


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "household"},
        {"at_most": "auto"},
        {"at_most": 0},
        {"at_most": None},
        {"at_most": True},
        {"keep": "most"},
        {"column": ""},
        {"column": 3},
        {"missing_ids": None},
    ],
)
def test_a_model_file_with_a_unit_that_no_fit_has_is_refused(change):
    release = DPKMeans(3, epsilon=1.0, bounds=(0, 1), unit=UNIT).fit(visits()).release_
    content = release.to_dict() | {"identity": None}
    assert Release.from_dict(content).guarantee.unit == UNIT
    content["guarantee"]["unit"] |= change
    with pytest.raises(FileError, match="damaged"):
        Release.from_dict(content)


def test_the_command_fits_per_person_and_says_so(table, tmp_path, capsys):
    model, ledger = tmp_path / "model.json", tmp_path / "ledger.db"
    assert main(["ledger", "create", str(ledger), "--dataset", "visits", "--cap", "2", "--unit", "person"]) == 0
    how = ["--k", "3", "--bounds", "x=0:1,y=0:1", "--epsilon", "0.5", "--ledger", str(ledger), "--dataset", "visits"]
    assert main(["fit", str(table), *how, "--person", "who", "--at-most", "4", "--out", str(model)]) == 0
    assert "all rows of one person (at most 4 of which count)" in " ".join(capsys.readouterr().out.split())
    assert Release.load(model).guarantee.unit == Person("who", at_most=4)
    for options, unit in (
        (["--person", "who", "--per-person", "mean"], Person("who", keep="mean")),
        (["--at-most", "3"], Rows(3)),
    ):
        assert main(["fit", str(table), *how, *options, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["guarantee"]["unit"] == encode_unit(unit)
    made = tmp_path / "synopsis.json"
    options = ["--bounds", "x=0:1,y=0:1", "--epsilon", "0.4", "--person", "who", "--at-most", "auto"]
    assert main(["synopsis", str(table), *options, "--out", str(made), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["guarantee"]["unit"]["kind"] == "person"
    assert main(["fit", str(table), *how]) == 2
    assert "per person, and the fit is per row" in capsys.readouterr().err
    assert main(["ledger", "show", str(ledger)]) == 0
    assert "person" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--per-person", "mean"], "Write --person ID too"),
        (["--at-most", "auto"], "Write --person ID too"),
        (["--at-most", "many"], "--at-most must be a whole number or auto; got 'many'"),
        (["--person", "who"], "--at-most is missing"),
        (["--person", "who", "--at-most", "0"], "--at-most must be a whole number of at least 1"),
        (["--person", "who", "--at-most", "2", "--per-person", "one"], "--at-most is for rows that are kept"),
        (["--person", "nobody", "--at-most", "2"], "nobody"),
    ],
)
def test_options_that_do_not_go_together_are_explained_in_the_commands_own_words(table, capsys, options, said):
    assert main(["fit", str(table), "--bounds", "x=0:1,y=0:1", "--epsilon", "1", *options]) != 0
    assert said in " ".join(capsys.readouterr().err.split())


def test_missing_ids_are_explained_in_the_commands_own_words(tmp_path, capsys):
    frame = visits()
    frame["who"] = frame.who.astype("Int64").where(frame.index != 2)
    frame.to_csv(tmp_path / "v.csv", index=False)
    how = [
        "fit",
        str(tmp_path / "v.csv"),
        "--bounds",
        "x=0:1,y=0:1",
        "--epsilon",
        "1",
        "--person",
        "who",
        "--at-most",
        "2",
    ]
    assert main(how) != 0
    assert "--missing-ids own" in " ".join(capsys.readouterr().err.split())
    assert main([*how, "--missing-ids", "own"]) == 0
