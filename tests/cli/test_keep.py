"""`dpkmeans predict --keep`: ids beside clusters, unchanged, in the order of the rows."""

from __future__ import annotations

import csv
import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from dpkmeans import DPKMeans
from dpkmeans.cli.main import main

N = 3000
IDS = ["007", "a,b", 'say "x"', "", "NA", " 1 ", "1e5", "größe", "-0.0", "9007199254740993"] * (N // 10)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    """A model of two groups of records, whose group stands beside each id."""
    place: Path = tmp_path_factory.mktemp("keep")
    X = np.random.default_rng(0).permutation(np.repeat([10.0, 90.0], N // 2))
    with (place / "visits.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["patient_id", "x", "ward"])
        writer.writerows(zip(IDS, X.tolist(), map(str, X), strict=True))
    DPKMeans(2, epsilon=50, bounds=(0, 100)).fit(X[:, None]).release_.save(place / "bare.json")
    DPKMeans(2, epsilon=50, bounds=(0, 100)).fit(pa.table({"x": X})).release_.save(place / "model.json")
    return place


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(text.splitlines()))


def check(rows: list[list[str]]) -> None:
    assert rows[0] == ["patient_id", "ward", "cluster"]
    assert [row[0] for row in rows[1:]] == IDS
    assert len({(row[1], row[2]) for row in rows[1:]}) == 2  # one cluster for each group


@pytest.mark.parametrize("keep", [["--keep", "patient_id,ward"], ["--keep", "patient_id", "--keep", "ward"]])
def test_ids_of_a_csv_file_stand_beside_their_clusters_as_they_were_written(folder, keep, capsys, tmp_path):
    asked = ["predict", str(folder / "model.json"), str(folder / "visits.csv"), *keep]
    assert main(asked) == 0
    check(rows_of(capsys.readouterr().out))
    assert main([*asked, "--out", str(tmp_path / "out.csv")]) == 0
    check(rows_of((tmp_path / "out.csv").read_text("utf-8")))
    capsys.readouterr()
    assert main([*asked, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    columns = zip(printed["kept"]["patient_id"], printed["kept"]["ward"], map(str, printed["clusters"]), strict=True)
    check([["patient_id", "ward", "cluster"], *map(list, columns)])
    assert main([*asked, "--out", str(tmp_path / "out.parquet")]) == 0
    table = parquet.read_table(tmp_path / "out.parquet")
    assert table.schema.types == [pa.string(), pa.string(), pa.int32()]
    check([table.schema.names, *[[str(cell) for cell in row.values()] for row in table.to_pylist()]])


@pytest.mark.parametrize("block", [2**10, 2**13])
def test_rows_stay_together_where_ids_and_clusters_come_in_different_batches(folder, block, monkeypatch, capsys):
    monkeypatch.setattr("dpkmeans.cli.inputs.MAX_HELD", 0)
    monkeypatch.setattr("dpkmeans.data.csv._BLOCK", block)
    monkeypatch.setattr("dpkmeans.engines.stream.BATCH_NUMBERS", 1)
    model, data = str(folder / "model.json"), str(folder / "visits.csv")
    assert main(["predict", model, data, "--keep", "patient_id,ward"]) == 0
    check(rows_of(capsys.readouterr().out))


def test_ids_of_parquet_files_keep_their_types(folder, tmp_path, capsys):
    ids: dict[str, Any] = {
        "id": pa.array([2**63 - 1, 5, None]),
        "day": pa.array([date(2020, 1, 1)] * 3),
        "price": pa.array([Decimal("1.50")] * 3),
        "level": pa.array(["a", None, "b"]).dictionary_encode(),
    }
    kept = ",".join(ids)
    for part in range(2):
        parquet.write_table(pa.table({"x": [10.0, 90.0, 10.0], **ids}), tmp_path / f"{part}.parquet", row_group_size=2)
    asked = ["predict", str(folder / "model.json"), str(tmp_path / "*.parquet"), "--keep", kept]
    assert main([*asked, "--out", str(tmp_path / "out.pq")]) == 0
    found = parquet.read_table(tmp_path / "out.pq")
    assert found.select([*ids]).to_pylist() == pa.table(ids).to_pylist() * 2
    assert found.schema.types[:3] == [column.type for column in ids.values()][:3]
    capsys.readouterr()
    assert main(asked) == 0
    rows = rows_of(capsys.readouterr().out)
    assert [row[:4] for row in rows[1:4]] == [
        ["9223372036854775807", "2020-01-01", "1.50", "a"],
        ["5", "2020-01-01", "1.50", ""],
        ["", "2020-01-01", "1.50", "b"],
    ]
    assert rows[1][4] == rows[3][4] != rows[2][4]


def test_columns_of_a_file_without_header_are_kept_by_number(folder, tmp_path, capsys):
    (tmp_path / "bare.csv").write_text("007;10,5\n008;90,5\n")
    how = ["--no-header", "--columns", "1", "--delimiter", ";", "--decimal", ",", "--keep", "0"]
    assert main(["predict", str(folder / "bare.json"), str(tmp_path / "bare.csv"), *how]) == 0
    assert [row[0] for row in rows_of(capsys.readouterr().out)] == ["0", "007", "008"]


@pytest.mark.parametrize(
    ("keep", "code", "says"),
    [
        ("cluster", 2, "--keep cluster is not possible"),
        ("patient", 4, "does not hold the name(s) 'patient'"),
        ("ward,ward", 4, "a column was asked for twice"),
    ],
)
def test_what_cannot_be_kept_is_refused_before_anything_is_written(folder, tmp_path, keep, code, says, capsys):
    out = tmp_path / "out.csv"
    model, data = str(folder / "model.json"), str(folder / "visits.csv")
    assert main(["predict", model, data, "--keep", keep, "--out", str(out)]) == code
    assert says in capsys.readouterr().err
    assert not out.exists()


def test_nested_columns_and_types_that_differ_between_files_are_refused(folder, tmp_path, capsys):
    parquet.write_table(pa.table({"x": [1.0], "id": [1], "pairs": [[1, 2]]}), tmp_path / "a.parquet")
    model = str(folder / "model.json")
    assert main(["predict", model, str(tmp_path / "a.parquet"), "--keep", "pairs"]) == 4
    assert "column 'pairs'" in capsys.readouterr().err
    parquet.write_table(pa.table({"x": [1.0], "id": ["1"], "pairs": [[1, 2]]}), tmp_path / "b.parquet")
    assert main(["predict", model, str(tmp_path), "--keep", "id"]) == 4
    assert "of another type" in capsys.readouterr().err
