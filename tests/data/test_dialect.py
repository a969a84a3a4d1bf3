"""CSV as it is written in the world: what is declared is read, cell by cell as in the plain dialect."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpkmeans.data.dialect import Dialect
from dpkmeans.data.source import Files
from dpkmeans.engines.open import open_data
from dpkmeans.errors import DataError, FileError, MethodError

READERS = ("memory", "stream")
MARKER = "77.7171771"


def numbers(files: Files, engine: str = "memory") -> Any:
    opened = open_data(files, engine)
    assert opened.chunks is not None
    return np.concatenate(list(opened.chunks()))


def arrow_compressed(name: str) -> Any:
    def compress(content: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, name) as stream:
            stream.write(content)
        return sink.getvalue().to_pybytes()

    return compress


COMPRESSORS: dict[str, Any] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": arrow_compressed("zstd"),
    ".lz4": arrow_compressed("lz4"),
}
DIALECTS = st.builds(
    Dialect,
    st.sampled_from([";", "\t", "|", " ", ":", "~"]),
    st.sampled_from([".", ","]),
    st.sampled_from(["utf-8", "latin-1", "cp1252", "utf-16", "utf-32-be", "utf-8-sig", "koi8-r", "gb18030"]),
    st.sampled_from(['"', "'", None]),
)
CELLS = st.one_of(
    st.floats(allow_nan=False).map(repr),
    st.integers().map(str),
    st.sampled_from(["", "NA", "-inf", "+2", ".5", "5.", "1e400", "0.1000000000000000055511151231257827"]),
)
TABLES = st.integers(1, 4).flatmap(
    lambda d: st.lists(st.lists(CELLS, min_size=d, max_size=d), min_size=1, max_size=8).filter(
        lambda rows: d > 1 or all(row[0] for row in rows)  # a blank line is no record
    )
)


def write(path: Path, rows: list[list[str]], dialect: Dialect, quoted: bool) -> None:
    """With the csv module, which knows nothing of this library."""
    text = io.StringIO(newline="")
    if dialect.quote is None:
        how: dict[str, Any] = {"quoting": csv.QUOTE_NONE, "quotechar": None}
    else:
        how = {"quoting": csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL, "quotechar": dialect.quote}
    csv.writer(text, delimiter=dialect.delimiter, lineterminator="\r\n", **how).writerows(
        [[cell.replace(".", dialect.decimal) for cell in row] for row in rows]
    )
    path.write_bytes(
        COMPRESSORS[path.suffix if path.suffix in COMPRESSORS else ""](text.getvalue().encode(dialect.encoding))
    )


def files(path: Path, dialect: Dialect, **how: Any) -> Files:
    return Files(
        path,
        nulls="midpoint",
        header=False,
        delimiter=dialect.delimiter,
        decimal=dialect.decimal,
        encoding=dialect.encoding,
        quote=dialect.quote,
        **how,
    )


@settings(max_examples=150)
@given(TABLES, DIALECTS, st.booleans(), st.sampled_from(sorted(COMPRESSORS)))
@example([["1.5", "NA"]], Dialect(";", ",", "utf-16", None), False, ".zst")
def test_what_is_written_in_a_dialect_comes_back_cell_by_cell_as_in_the_plain_one(rows, dialect, quoted, ending):
    with TemporaryDirectory() as folder:
        plain, other = Path(folder) / "plain.csv", Path(folder) / f"other.csv{ending}"
        write(plain, rows, Dialect(), quoted=False)
        write(other, rows, dialect, quoted)
        expected = [[float(cell) if cell not in ("", "NA") else np.nan for cell in row] for row in rows]
        assert np.array_equal(numbers(files(plain, Dialect())), expected, equal_nan=True)
        for reader in READERS:
            assert np.array_equal(numbers(files(other, dialect), reader), expected, equal_nan=True)


@settings(max_examples=50)
@given(TABLES, DIALECTS, st.booleans(), st.data())
def test_a_records_cells_depend_on_that_record_alone(rows, dialect, quoted, data):
    """Each record reads the same with and without the others, wherever it stands among them."""
    order = data.draw(st.permutations(range(len(rows))))
    with TemporaryDirectory() as folder:
        whole = Path(folder) / "whole.csv"
        write(whole, [rows[i] for i in order], dialect, quoted)
        together = {reader: numbers(files(whole, dialect), reader) for reader in READERS}
        for place, i in enumerate(order):
            one = Path(folder) / f"{i}.csv"
            write(one, [rows[i]], dialect, quoted)
            alone = numbers(files(one, dialect))[0]
            for reader in READERS:
                assert np.array_equal(together[reader][place], alone, equal_nan=True)


NAMES = {"latin-1": "Größe", "cp1252": "Preis €", "utf-16": "身長", "shift_jis": "身長", "cp1251": "рост"}


@pytest.mark.parametrize(("encoding", "name"), NAMES.items())
def test_names_are_read_in_the_declared_encoding(tmp_path, encoding, name):
    path = tmp_path / "a.csv"
    path.write_bytes(f"{name};n\n1,5;é\n".encode(encoding, "ignore"))
    opened = open_data(Files(path, columns=(name,), delimiter=";", decimal=",", encoding=encoding))
    assert opened.names == (name,)


@pytest.mark.parametrize(("encoding", "odd"), [("cp1252", b"\x81"), ("ascii", b"\xe9"), ("shift_jis", b"\x82")])
@pytest.mark.parametrize("place", [0, 1, 70_000])
def test_bytes_that_are_not_of_the_declared_encoding_are_refused_wherever_they_stand(tmp_path, encoding, odd, place):
    lines = [b"0.3,a note of some length"] * 70_000  # beyond the part that is read to find the first row
    lines.insert(place, MARKER.encode() + b"," + odd)
    path = tmp_path / "a.csv"
    path.write_bytes(b"\n".join(lines) + b"\n")
    for reader in READERS:
        with pytest.raises(FileError, match=f"is not text in {encoding}") as caught:
            numbers(Files(path, columns=("0",), header=False, encoding=encoding), reader)
        assert MARKER not in str(caught.value)


@pytest.mark.parametrize("ending", [".gz", ".zst", ".bz2", ".lz4"])
def test_compressed_files_are_known_by_their_bytes_found_in_folders_and_refused_beside_themselves(tmp_path, ending):
    content = b"x,y\n" + b"1,2\n" * 3 + b"3,4\n"
    whole, named = COMPRESSORS[ending](content), tmp_path / f"a.csv{ending}"
    named.write_bytes(whole)
    assert len(numbers(Files(tmp_path, header=True))) == 4
    unnamed = tmp_path / "b.csv"
    unnamed.write_bytes(whole)
    assert len(numbers(Files(unnamed, header=True))) == 4
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(DataError, match="count twice"):
        open_data(Files([tmp_path / "a.csv", named], header=True))
    for damaged in (whole[: len(whole) // 2], whole[:-4]):
        unnamed.write_bytes(damaged)
        with pytest.raises(FileError, match="damaged"):
            numbers(Files(unnamed, header=True))


@pytest.mark.parametrize("ending", [".gz", ".zst", ".bz2"])
def test_all_parts_of_a_file_that_was_compressed_in_parts_are_read(tmp_path, ending):
    path = tmp_path / f"a.csv{ending}"
    path.write_bytes(b"".join(COMPRESSORS[ending](part) for part in (b"x,y\n", b"1,2\n3,4\n", b"5,6\n")))
    for reader in READERS:
        assert numbers(Files(path, header=True), reader).tolist() == [[1, 2], [3, 4], [5, 6]]


def test_thousands_are_not_separated(tmp_path):
    path = tmp_path / "a.csv"
    for cell in ("1.234,5", "1 234,5", "1'234,5", "1.234"):
        path.write_text(f"0,5;1\n{cell};2\n")
        with pytest.raises(DataError, match=r"column number 0 .* does not hold numbers only") as caught:
            numbers(Files(path, header=False, delimiter=";", decimal=","))
        assert "234" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "how", "says"),
    [
        ("age;income;kids\n1;2;3\n", {"header": True}, "1 column and 2 semicolons: .* delimiter=';'"),
        ("age;income;kids\n1,5;2;3\n", {"header": True}, "1 column and 2 semicolons: .* delimiter=';'"),
        ("age;income\n1;2\n", {"columns": ("age", "income")}, "1 column and 1 semicolon: .* delimiter=';'"),
        ("age\tincome\n1\t2\n", {"columns": ("age",)}, "1 column and 1 tab: .* delimiter='tab'"),
        (
            "age,income,a,b\n1,2,3,4\n",
            {"columns": ("age",), "delimiter": ";"},
            "1 column and 3 commas: .* delimiter=','",
        ),
        ("age;income\n1,5;2,5\n", {"header": True, "delimiter": ";"}, "'age' .* like 1,5, write decimal=','"),
        (
            "age;b\n1.5;2.5\n",
            {"header": True, "delimiter": ";", "decimal": ","},
            "'age' .* like 1.5, write decimal='.'",
        ),
    ],
)
def test_a_declared_header_in_another_dialect_gives_a_hint(tmp_path, content, how, says):
    path = tmp_path / "a.csv"
    path.write_text(content)
    for reader in READERS:
        with pytest.raises(DataError, match=says):
            numbers(Files(path, **how), reader)


def test_where_the_first_row_is_a_record_no_error_counts_what_it_holds(tmp_path):
    path, messages = tmp_path / "a.csv", set()
    for first in ("7;7;7", "7|7", "7a", "7\t7"):
        path.write_text(f"{first}\n1\n")
        with pytest.raises(DataError) as caught:
            numbers(Files(path, header=False))
        messages.add(str(caught.value))
    assert len(messages) == 1


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"delimiter": ""}, "delimiter must be one character"),
        ({"delimiter": ";;"}, "delimiter must be one character"),
        ({"delimiter": "a"}, "delimiter must be one character"),
        ({"delimiter": "\n"}, "delimiter must be one character"),
        ({"delimiter": "§"}, "delimiter must be one character"),
        ({"delimiter": "-"}, "delimiter must be one character"),
        ({"delimiter": None}, "delimiter must be one character"),
        ({"decimal": ";"}, "decimal must be a point or a comma"),
        ({"decimal": ","}, r"decimal and the delimiter are both ','; they must differ\. .*delimiter=';'"),
        ({"quote": ","}, "quote and the delimiter are both ','"),
        ({"quote": "''"}, "quote must be one character"),
        ({"quote": ""}, "quote must be one character"),
        ({"encoding": "klingon"}, "encoding is not known; got 'klingon'. .*encoding='latin-1'"),
        ({"encoding": None}, "encoding is not known; got None"),
        ({"encoding": "utf\0"}, "encoding is not known"),
        ({"encoding": "iso2022_jp"}, "encoding cannot be 'iso2022_jp': .* to UTF-8"),
        ({"encoding": "utf-7"}, "encoding cannot be 'utf-7'"),
        ({"encoding": "hex"}, "encoding cannot be 'hex'"),
        ({"encoding": "idna"}, "encoding cannot be 'idna'"),
        ({"encoding": "unicode_escape"}, "encoding cannot be"),
    ],
)
def test_a_dialect_that_cannot_be_is_refused_before_the_file_is_looked_for(how, says):
    with pytest.raises(MethodError, match=says):
        open_data(Files("no/such/file.csv", header=True, **how))


def test_no_encoding_that_is_taken_carries_a_state_from_one_record_to_the_next():
    """Every line decodes the same by itself: in each codec that is accepted, a line feed ends what came before it."""
    from encodings.aliases import aliases

    taken = 0
    for name in sorted(set(aliases.values())):
        try:
            known = Dialect(encoding=name).encoding
        except MethodError:
            continue
        taken += 1
        feed = "\n".encode(known) if known not in ("utf-16", "utf-32", "utf-8-sig") else None
        for lead in range(256) if feed is not None else ():
            try:
                text = (bytes([lead]) * (len(feed or b"") or 1) + (feed or b"")).decode(known)
            except UnicodeDecodeError:
                continue
            assert text.endswith("\n"), (name, lead)
    assert taken > 60
