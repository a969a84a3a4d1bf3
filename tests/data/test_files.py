"""Reading CSV and Parquet: what is understood, and errors that show no record."""

from __future__ import annotations

import gzip
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from dpkmeans.core.bounds import Bounds
from dpkmeans.data.source import Files
from dpkmeans.engines.open import OpenedData, open_data
from dpkmeans.errors import DataError, DPKMeansError, FileError, MethodError

MARKER = "77.7171771"


@dataclass
class Table:
    names: tuple[str, ...] | None
    records: np.ndarray


def read_table(
    path: Any, *, columns: list[str] | None = None, header: bool | None = None, engine: str = "memory"
) -> Table:
    """A file read by an engine, which refuses missing values."""
    opened = open_data(Files(path, columns, header=header), engine)
    opened.engine(Bounds.of((0, 1), opened.n_features))
    assert MARKER not in repr(opened)
    return Table(opened.names, rows_of(opened))


def rows_of(opened: OpenedData) -> np.ndarray:
    assert opened.chunks is not None
    return np.concatenate(list(opened.chunks()))


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
        ("x\n-1e300\n1e308\n", ("x",), [[-1e300], [1e308]]),
        ("x\n1\n9999999999999999999999\n", ("x",), [[1], [1e22]]),
    ],
)
def test_a_csv_file_is_read_with_or_without_header(tmp_path, content, names, records):
    table = read_table(written(tmp_path, content), header=names is not None)
    assert table.names == names
    assert table.records.tolist() == records
    assert table.records.dtype == np.float64


HEADS = ["37.5%,120 mmHg", "NA,NA", ",", '"0,731","0,112"', "x,y", "1,2", f"{MARKER},setosa"]


@pytest.mark.parametrize("engine", ["memory", "stream"])
@pytest.mark.parametrize("columns", [None, ["0", "1"]])
def test_a_header_is_never_guessed_from_the_first_row(tmp_path, columns, engine):
    messages = set()
    for first in HEADS:
        path = written(tmp_path, f"{first}\n3,4\n")
        with pytest.raises(DataError, match="never guessed") as caught:
            open_data(Files(path, columns), engine)
        messages.add(str(caught.value))
    assert len(messages) == 1  # whatever the row holds


@pytest.mark.parametrize("first", HEADS)
def test_named_columns_are_looked_for_in_the_first_row_and_errors_quote_only_the_callers_names(tmp_path, first):
    path = written(tmp_path, f"{first}\n3,4\n")
    with pytest.raises(DataError, match=r"does not hold the name\(s\) 'east', 'north'") as caught:
        read_table(path, columns=["east", "north"])
    message = str(caught.value).replace(str(path), "")
    assert not any(cell in message for cell in ("37.5", "mmHg", "NA", "0,731", MARKER, "setosa", "'x'"))
    named = written(tmp_path, "east,label,north\n3,a,4\n")
    table = read_table(named, columns=["north", "east"])
    assert (table.names, table.records.tolist()) == (("north", "east"), [[4.0, 3.0]])


def test_a_declared_header_is_one_whatever_it_looks_like(tmp_path):
    numbers = written(tmp_path, "2019,2020\n1,2\n")
    assert read_table(numbers, header=False).names is None
    assert len(read_table(numbers, header=False).records) == 2
    named = read_table(numbers, header=True, columns=["2020"])
    assert (named.names, named.records.tolist()) == (("2020",), [[2.0]])
    mixed = written(tmp_path, "5.1,setosa\n3,rosa\n", "mixed.csv")
    assert read_table(mixed, header=False, columns=["0"]).records.tolist() == [[5.1], [3.0]]


def test_a_first_record_that_is_no_number_is_an_error_that_does_not_show_it(tmp_path):
    path = written(tmp_path, f"{MARKER},setosa\n3,rosa\n")
    with pytest.raises(DataError, match=r"column number 1 of .* does not hold numbers only") as caught:
        read_table(path, header=False)
    assert MARKER not in str(caught.value)
    assert "setosa" not in str(caught.value)


def test_every_cell_is_converted_by_one_rule_whatever_the_others_hold(tmp_path):
    """Among others that a reader would infer another type from, on every engine."""
    good = {"0.1": 0.1, "1e3": 1000.0, " 7 ": 7.0, "+2": 2.0, ".5": 0.5, "5.": 5.0, "-1e308": -1e308}
    good |= {"9007199254740993": 9007199254740992.0, "0.1000000000000000055511151231257827021181583404541": 0.1}
    for cell, value in good.items():
        for other in good:
            path = written(tmp_path, f"0.3\n{other}\n{cell}\n")
            for engine in ("memory", "stream"):
                rows = rows_of(open_data(Files(path, header=False), engine))
                assert rows[2, 0] == value, (cell, other, engine)
    for cell in ("true", "0x1A", "1_000", "1d3", "\u0661", "1 2", "--1", "$5", "5%"):
        path = written(tmp_path, f"0.3\n{cell}\n")
        for engine in ("memory", "stream"):
            with pytest.raises(DataError, match=r"column number 0 of .* does not hold numbers only"):
                open_data(Files(path, header=False), engine)
    for cell in ("1e400", "-inf"):
        path = written(tmp_path, f"0.3\n{cell}\n")
        for engine in ("memory", "stream"):
            with pytest.raises(DataError, match=r"column number 0 of .* holds infinity"):
                rows_of(open_data(Files(path, header=False), engine))
    for cell in ("NA", "nan", "null", '""', "N/A"):
        path = written(tmp_path, f"1,0.3\n1,{cell}\n")
        assert np.isnan(rows_of(open_data(Files(path, nulls="midpoint", header=False), "memory"))[1, 1])


def test_the_same_file_twice_is_refused(tmp_path):
    path = written(tmp_path, "1,2\n", "a.csv")
    (tmp_path / "link.csv").symlink_to(path)
    (tmp_path / "hard.csv").hardlink_to(path)
    zipped = written(tmp_path, gzip.compress(b"1,2\n"), "a.csv.gz")
    other = written(tmp_path, "3,4\n", "b.csv")
    names: list[Any] = [[path, path], [str(tmp_path / "a.*sv"), path], [path, tmp_path / "link.csv"], [path, zipped]]
    names += [[path, tmp_path / "hard.csv"], str(tmp_path / "*.csv"), tmp_path, str(tmp_path / "a.*")]
    for twice in names:
        with pytest.raises(DataError, match="count twice"):
            read_table(twice, header=False)
    assert read_table([path, other], header=False).records.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("engine", ["memory", "stream"])
@pytest.mark.parametrize(
    ("header", "empty"), [(True, "x,y\n"), (True, "x,y"), (False, ""), (False, "\n\n"), (True, "")]
)
def test_a_file_without_records_counts_for_nothing_beside_others(tmp_path, engine, header, empty):
    head = "x,y\n" if header else ""
    for i, content in enumerate((head + "1,2\n", empty, head + "3,4\n")):
        written(tmp_path, content, f"{i}.csv")
    opened = open_data(Files(tmp_path, header=header), engine)
    assert rows_of(opened).tolist() == [[1, 2], [3, 4]]


def test_columns_come_in_the_order_that_was_asked_for(tmp_path):
    headed = written(tmp_path, "x,label,y\n1,p,2\n3,q,4\n")
    table = read_table(headed, columns=["y", "x"])
    assert (table.names, table.records.tolist()) == (("y", "x"), [[2, 1], [4, 3]])
    headless = written(tmp_path, "1,2,3\n4,5,6\n", "headless.csv")
    assert read_table(headless, columns=["2", "0"], header=False).records.tolist() == [[3, 1], [6, 4]]


def test_gzip_is_known_by_its_first_bytes(tmp_path):
    content = gzip.compress(b"x,y\n1,2\n")
    for name in ("data.csv.gz", "data.csv"):
        assert read_table(written(tmp_path, content, name), header=True).records.tolist() == [[1, 2]]


def test_parquet_is_read_by_column(tmp_path):
    table = read_table(parquet_file(tmp_path), columns=["b", "a"])
    assert (table.names, table.records.tolist()) == (("b", "a"), [[0.5, 1], [1.5, 2]])
    renamed = parquet_file(tmp_path).rename(tmp_path / "no_ending")
    assert read_table(renamed, columns=["a"]).records.tolist() == [[1], [2]]


def test_types_may_change_late_in_a_long_column(tmp_path):
    path = written(tmp_path, "x\n" + "123456789012345678\n" * 900_000 + "0.5\n")
    records = read_table(path, header=True).records
    assert records[-1, 0] == 0.5
    assert len(records) == 900_001


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
        (f"x,y\n{MARKER},2\n", ["z"], "does not hold the name(s) 'z'"),
        (f"x,y\n{MARKER},2\n", ["0"], "does not hold the name(s) '0'"),
        (f"{MARKER},2\n", ["2"], "numbered 0 to 1"),
        (f"x,y\n{MARKER},2\n", ["x", "x"], "twice"),
        (f"x,y\n{MARKER},2\n", [], "no columns"),
        (f"x,x\n{MARKER},2\n", ["x"], "several columns"),
    ],
)
def test_bad_content_is_a_data_error_that_shows_no_record(tmp_path, content, columns, says):
    path = written(tmp_path, content)
    with pytest.raises(DataError) as caught:
        read_table(path, columns=columns, header=not content.startswith(MARKER))
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
            read_table(path, header=False)
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


def test_without_pyarrow_the_error_names_what_to_install(tmp_path, monkeypatch):
    path = written(tmp_path, "1,2\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(FileError, match=r"pip install 'dpkmeans\[all\]'"):
        read_table(path, header=False)


@pytest.mark.parametrize("engine", ["memory", "stream"])
@pytest.mark.parametrize("place", [1, 500, 999])
def test_an_unclosed_quote_in_a_column_that_is_left_out_takes_in_no_other_record(tmp_path, engine, place):
    lines = [f"0.3,p{i}" for i in range(1000)]
    lines.insert(place, '0.5,"m')
    path = written(tmp_path, "x,n\n" + "\n".join(lines) + "\n")
    with pytest.raises(DataError, match="close quotes"):
        read_table(path, columns=["x"], engine=engine)


def test_a_quoted_cell_that_goes_over_two_lines_is_refused_wherever_it_stands(tmp_path, monkeypatch):
    monkeypatch.setattr("dpkmeans.data.csv._BLOCK", 64)
    for place in range(12):
        lines = [f"0.{i},note" for i in range(12)]
        lines.insert(place, '0.5,"two\nlines"')
        with pytest.raises(DataError, match="close quotes"):
            read_table(written(tmp_path, "x,n\n" + "\n".join(lines) + "\n"), columns=["x"], engine="stream")


def test_a_record_in_place_of_a_declared_header_is_not_quoted(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n0.1,0.2\n")
    (tmp_path / "b.csv").write_text("0.731,0.112\n0.5,0.5\n")
    for files in (Files(tmp_path, header=True), Files(tmp_path / "b.csv", columns=("x", "y"), header=True)):
        with pytest.raises(DataError) as caught:
            open_data(files)
        assert "0.731" not in str(caught.value)


@pytest.mark.parametrize("header", ["infer", "no", 0, 1])
def test_a_header_is_declared_by_true_or_false_alone(tmp_path, header):
    with pytest.raises(MethodError, match="header must be True or False"):
        open_data(Files(written(tmp_path, "0.731,0.112\n0.5,0.5\n"), header=header))


def test_a_file_beside_its_compressed_self_is_refused_where_both_are_links(tmp_path):
    (tmp_path / "store").mkdir()
    for name, target in (("a.csv", "one"), ("a.csv.gz", "two")):
        (tmp_path / "store" / target).write_text("x\n0.1\n")
        (tmp_path / name).symlink_to(tmp_path / "store" / target)
    with pytest.raises(DataError, match="count twice"):
        open_data(Files([tmp_path / "a.csv", tmp_path / "a.csv.gz"], header=True))


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("place", [0, 1, 70_000])
@pytest.mark.parametrize("cell", [b"M\xfcller", b"a\0b"])
def test_what_is_no_text_is_refused_wherever_it_stands(tmp_path, cell, place, header):
    lines = [b"0.3,a note of some length"] * 70_000  # beyond the part that is read to find the first row
    lines.insert(place, b"0.5," + cell)
    path = written(tmp_path, b"\n".join([b"x,n"] * header + lines) + b"\n")
    with pytest.raises((DataError, FileError)) as caught:
        read_table(path, columns=["x"] if header else ["0"], header=header)
    assert "ller" not in str(caught.value)
