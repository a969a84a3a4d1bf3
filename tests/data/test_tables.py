"""Reading CSV and Parquet: what is understood, and errors that show no record."""

from __future__ import annotations

import gzip
import random
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from dpkmeans.data.tables import has_names, read_table
from dpkmeans.errors import DataError, DPKMeansError, FileError

MARKER = "77.7171771"


def written(folder: Path, content: str | bytes, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def parquet_file(folder: Path) -> Path:
    path = folder / "data.parquet"
    columns = {"a": [1, 2], "b": [0.5, 1.5], "text": ["q", "r"], "gaps": [None, 1.0], "nan": [1.0, float("nan")]}
    parquet.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize(
    ("content", "names", "records"),
    [
        ("x,y\n1,2\n3,4.5\n", ("x", "y"), [[1, 2], [3, 4.5]]),
        ("1,2\n3,4.5", None, [[1, 2], [3, 4.5]]),
        ("1,2", None, [[1, 2]]),
        ("\ufeffx,y\r\n1, 2\r\n", ("x", "y"), [[1, 2]]),
        ("\n\nx,y\n1,2\n\n3,4\n\n", ("x", "y"), [[1, 2], [3, 4]]),
        ('"a, b","c\nd"\n1,2\n', ("a, b", "c\nd"), [[1, 2]]),
        ("x\n-1e300\ninf\n", ("x",), [[-1e300], [np.inf]]),
        ("x\n1\n9999999999999999999999\n", ("x",), [[1], [1e22]]),
    ],
)
def test_a_csv_file_is_read_with_or_without_header(tmp_path, content, names, records):
    table = read_table(written(tmp_path, content))
    assert table.names == names
    assert table.records.tolist() == records
    assert table.records.dtype == np.float64


def test_header_options_override_what_the_first_row_looks_like(tmp_path):
    numbers = written(tmp_path, "2019,2020\n1,2\n")
    assert read_table(numbers).names is None
    named = read_table(numbers, header=True, columns=["2020"])
    assert (named.names, named.records.tolist()) == (("2020",), [[2.0]])
    mixed = written(tmp_path, "5.1,setosa\n3,rosa\n", "mixed.csv")
    assert read_table(mixed, header=False, columns=["0"]).records.tolist() == [[5.1], [3.0]]


def test_a_first_row_that_mixes_numbers_and_text_is_refused_without_showing_it(tmp_path):
    path = written(tmp_path, f"{MARKER},setosa\n3,rosa\n")
    with pytest.raises(DataError, match="--no-header") as caught:
        read_table(path, columns=["nope"])
    assert MARKER not in str(caught.value)
    assert "setosa" not in str(caught.value)


def test_columns_come_in_the_order_that_was_asked_for(tmp_path):
    headed = written(tmp_path, "x,label,y\n1,p,2\n3,q,4\n")
    table = read_table(headed, columns=["y", "x"])
    assert (table.names, table.records.tolist()) == (("y", "x"), [[2, 1], [4, 3]])
    headless = written(tmp_path, "1,2,3\n4,5,6\n", "headless.csv")
    assert read_table(headless, columns=["2", "0"]).records.tolist() == [[3, 1], [6, 4]]


def test_gzip_is_known_by_its_first_bytes(tmp_path):
    content = gzip.compress(b"x,y\n1,2\n")
    for name in ("data.csv.gz", "data.csv"):
        assert read_table(written(tmp_path, content, name)).records.tolist() == [[1, 2]]


def test_parquet_is_read_by_column(tmp_path):
    table = read_table(parquet_file(tmp_path), columns=["b", "a"])
    assert (table.names, table.records.tolist()) == (("b", "a"), [[0.5, 1], [1.5, 2]])
    renamed = parquet_file(tmp_path).rename(tmp_path / "no_ending")
    assert read_table(renamed, columns=["a"]).records.tolist() == [[1], [2]]


def test_types_may_change_late_in_a_long_column(tmp_path):
    path = written(tmp_path, "x\n" + "123456789012345678\n" * 900_000 + "0.5\n")
    records = read_table(path).records
    assert records[-1, 0] == 0.5
    assert len(records) == 900_001


def test_has_names_tells_headers_from_records(tmp_path):
    assert has_names(written(tmp_path, "x,y\n1,2\n"))
    assert not has_names(written(tmp_path, "1,2\n"))
    assert has_names(written(tmp_path, "1,2\n3,4\n"), header=True)
    assert has_names(parquet_file(tmp_path))


@pytest.mark.parametrize(
    ("content", "columns", "says"),
    [
        ("", None, "is empty"),
        ("\n\n", None, "is empty"),
        ("x,y\n", None, "no records"),
        ("x,y", None, "no records"),
        (f"x,y\n1,{MARKER}\n3\n", None, "as many cells"),
        (f"x,y\n1,2\n{MARKER},4,5\n", None, "as many cells"),
        (f"x,y\n{MARKER},abc\n3,4\n", None, "column 'y'"),
        (f"x,day\n{MARKER},2020-01-01\n", None, "column 'day'"),
        (f"x,y\n{MARKER},\n3,4\n", None, "column 'y'"),
        (f"x,y\n{MARKER},NaN\n3,4\n", None, "column 'y'"),
        (f"x,y\n{MARKER},\n4,\n", None, "column 'y'"),
        (f"{MARKER},\n", None, "--no-header"),
        (f"x,y\n{MARKER},2\n", ["z"], "no column 'z'. It has: x, y."),
        (f"x,y\n{MARKER},2\n", ["0"], "no column '0'"),
        (f"{MARKER},2\n", ["2"], "numbered 0 to 1"),
        (f"x,y\n{MARKER},2\n", ["x", "x"], "twice"),
        (f"x,y\n{MARKER},2\n", [], "no columns"),
        (f"x,x\n{MARKER},2\n", ["x"], "several columns"),
    ],
)
def test_bad_content_is_a_data_error_that_shows_no_record(tmp_path, content, columns, says):
    path = written(tmp_path, content)
    with pytest.raises(DataError) as caught:
        read_table(path, columns=columns)
    message = str(caught.value)
    assert says in message
    assert MARKER not in message
    assert "abc" not in message
    assert str(path) in message or "asked for" in message


@pytest.mark.parametrize(
    ("column", "says"), [("text", "column 'text'"), ("gaps", "'gaps'"), ("nan", "'nan'"), ("z", "It has: a, b")]
)
def test_bad_parquet_columns_are_named(tmp_path, column, says):
    with pytest.raises(DataError, match=says):
        read_table(parquet_file(tmp_path), columns=[column])


def test_what_cannot_be_read_at_all_is_a_file_error(tmp_path):
    zipped = gzip.compress("".join(f"{i},{i * 0.37}\n" for i in range(50_000)).encode())
    flipped = bytearray(zipped)
    flipped[len(zipped) // 2] ^= 255
    paths = [
        tmp_path,
        tmp_path / "missing.csv",
        written(tmp_path, b"\x89PNG\r\n\xff\xfe\x00\x00" * 9, "picture.csv"),
        written(tmp_path, "1,2\n".encode("utf-16"), "utf16.csv"),
        written(tmp_path, b"1,2\0\n", "zeros.csv"),
        written(tmp_path, zipped[: len(zipped) // 2], "cut.csv.gz"),
        written(tmp_path, zipped[:-4], "cut_at_the_end.csv.gz"),
        written(tmp_path, bytes(flipped), "flipped.csv.gz"),
        written(tmp_path, "x,y\n1,2\n", "text.parquet"),
        written(tmp_path, parquet_file(tmp_path).read_bytes()[:-20], "cut.parquet"),
    ]
    for path in paths:
        with pytest.raises(FileError) as caught:
            read_table(path)
        assert str(path) in str(caught.value)


def test_randomly_damaged_parquet_gives_typed_errors_only(tmp_path):
    good = parquet_file(tmp_path).read_bytes()
    rng = random.Random(0)
    for _ in range(200):
        damaged = bytearray(good)
        for _ in range(rng.choice([1, 4])):
            damaged[rng.randrange(len(good))] = rng.randrange(256)
        try:
            read_table(written(tmp_path, bytes(damaged), "damaged.parquet"), columns=["a", "b"])
        except DPKMeansError:
            continue


def test_a_table_has_no_text_that_shows_its_records(tmp_path):
    assert MARKER not in repr(read_table(written(tmp_path, f"x,y\n{MARKER},2\n")))


def test_without_pyarrow_the_error_names_what_to_install(tmp_path, monkeypatch):
    path = written(tmp_path, "1,2\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(FileError, match=r"pip install 'dpkmeans\[files\]'"):
        read_table(path)
