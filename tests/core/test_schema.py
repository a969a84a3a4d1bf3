"""Schemas: what they refuse, how they are written and read, and how features are scaled."""

from __future__ import annotations

import math
from datetime import date, datetime, time, timedelta, timezone

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dpkmeans import Boolean, Bounds, Category, Date, Number, Schema, Time
from dpkmeans.core.schema import check_scale, scaled
from dpkmeans.errors import FileError, SchemaError
from dpkmeans.storage.schema_files import read_schema, template, write_schema

SCHEMA = Schema.of(
    {
        "age": Number(0, 120, missing=40, infinite="clip"),
        "region": Category("N", "S", 7, missing="other"),
        "admitted": Date("2015-01-01", "2025-12-31", missing="midpoint"),
        "seen": Date("2020-01-01T12:00", "2020-01-02", unit="hour", format="%d.%m.%Y %H:%M"),
        "at": Time("08:00", "18:30", missing="12:00"),
        "smoker": Boolean(true="ja", false=("nein", "nie"), missing=False),
    }
)

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
finite = st.floats(-1e12, 1e12)
levels = st.lists(
    st.one_of(names.filter(str.strip), st.integers(-(10**20), 10**20), st.floats(-1e9, 1e9)), min_size=1, max_size=5
)


@st.composite
def kinds(draw):
    which = draw(st.sampled_from(["number", "date", "time", "boolean", "category"]))
    missing = draw(st.sampled_from([None, "refuse", "midpoint"]))
    if which == "number":
        low, high = sorted(draw(st.tuples(finite, finite).filter(lambda ends: ends[0] != ends[1])))
        return Number(low, high, missing=draw(st.sampled_from([missing, high])))
    if which == "date":
        low = draw(st.datetimes(datetime(1000, 1, 1), datetime(2900, 1, 1)))
        unit = draw(st.sampled_from(["day", "hour", "minute", "second"]))
        return Date(low, low + timedelta(days=draw(st.integers(1, 10**4))), unit=unit, missing=missing)
    if which == "time":
        return Time("00:00", draw(st.times(time(0, 1))), missing=missing)
    if which == "boolean":
        return Boolean(missing=draw(st.sampled_from([missing, True, False])))
    try:
        found = draw(levels.filter(lambda some: list(some) != ["?"]))  # the mark of what is to be filled in
        return Category(*found, missing=missing)
    except SchemaError:  # two levels of the same text
        return Category("a")


@given(st.dictionaries(names, kinds(), min_size=1, max_size=4))
def test_what_is_written_comes_back(tmp_path_factory, columns):
    names = [name for column, kind in columns.items() for name in kind.coordinates(column)]
    assume(len(set(names)) == len(names))
    schema = Schema.of(columns)
    assert Schema.from_dict(schema.to_dict()) == schema
    path = tmp_path_factory.mktemp("schema") / "schema.toml"
    path.write_text(write_schema(schema), encoding="utf-8")
    assert read_schema(path) == schema


def test_a_schema_has_the_coordinates_and_the_box_of_its_columns():
    assert SCHEMA.coordinates == ("age", "region=N", "region=S", "region=7", "admitted", "seen", "at", "smoker")
    box = SCHEMA.bounds()
    assert box.lower[:4] == (0.0, 0.0, 0.0, 0.0)
    assert box.upper[:4] == (120.0, 1.0, 1.0, 1.0)
    assert box.widths[4] == (date(2025, 12, 31) - date(2015, 1, 1)).days
    assert box.widths[5:] == (12.0, 10.5, 1.0)
    assert Schema.of(SCHEMA) is SCHEMA


@pytest.mark.parametrize("unit", ["day", "hour", "minute", "second"])
def test_the_ends_of_time_are_readable(unit):
    kind = Date("0001-01-01", "9999-12-31T23:59:59.999999", unit=unit)
    low, high = kind.sides()[0]
    assert str(kind.readable([low])).startswith("0001-01-01")
    assert str(kind.readable([high])).startswith("9999-12-31")


def test_released_coordinates_are_readable():
    values = [40.25, 0.5, 0.125, 0.25, 365.0 * 50, 24 * 365 * 49.0, 12.75, 1.2]
    found = SCHEMA.readable(values)
    assert found["age"] == 40.25
    assert list(found["region"].items()) == [("N", 0.5), ("7", 0.25), ("S", 0.125), ("other", 0.125)]
    assert found["admitted"] == date(2019, 12, 20)
    assert found["seen"] == datetime(2020, 1, 1, 12, 0)  # clipped to its box
    assert (found["at"], found["smoker"]) == ("12:45", 1.0)
    shares = Category("a", "b").readable([0.9, 0.9])
    assert shares == {"a": 0.5, "b": 0.5, "other": 0.0}


def test_other_is_a_level_where_it_is_listed():
    assert Category("N", "other").readable([0.25, 0.25]) == {"other": 0.75, "N": 0.25}
    assert Category("N", "other", missing="other").fill() == (0.0, 1.0)
    assert Category("N", missing="other").fill() == (0.0,)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Number(1, 0), "lower must be below upper"),
        (lambda: Number(0), "both ends or none"),
        (lambda: Number("0", 1), "lower must be a finite number; got '0'"),
        (lambda: Number(0, math.inf), "upper must be a finite number"),
        (lambda: Number(True, 2), "finite number"),
        (lambda: Number(0, 1, missing="mean"), "missing must be a number, 'midpoint' or 'refuse'; got 'mean'"),
        (lambda: Number(0, 1, infinite="drop"), "infinite must be"),
        (lambda: Number(missing="midpoint"), "has no middle"),
        (lambda: Number(2000, 7000, missing=0), "missing must lie between lower and upper; got 0"),
        (lambda: Date("2020-01-01", "2021-01-01", missing="2022-01-01"), "missing must lie between"),
        (lambda: Date("yesterday", "2020-01-01"), "not a date: 'yesterday'"),
        (lambda: Date("2020-01-01", "2019-01-01"), "lower must be below upper"),
        (lambda: Date("2020-01-01", "2021-01-01", unit="week"), "unit must be one of day, hour"),
        (lambda: Date("2020-01-01", "2021-01-01", missing=5), "not a date: 5"),
        (lambda: Time("8 am", "18:00"), "not a time of day: '8 am'"),
        (lambda: Boolean(true="x", false="X"), "both true and false"),
        (lambda: Boolean(true=()), "true must be texts"),
        (lambda: Boolean(missing="yes"), "missing must be True, False"),
        (lambda: Category(), "needs 1 to 1000 levels"),
        (lambda: Category(["N", "S"]), "one by one: Category"),
        (lambda: Category("1", 1), "listed twice: '1'"),
        (lambda: Category(True, "1"), "listed twice: True"),
        (lambda: Category("01", "1.0"), "listed twice: '01'"),
        (lambda: Date("2020-01-01", "2021-01-01", format=5), "format must be a text"),
        (lambda: Category("N", None), "a level must be a text"),
        (lambda: Category("N", " "), "must not be empty"),
        (lambda: Category("N", missing="W"), "missing must be a level"),
        (lambda: Schema.of({}), "at least one column"),
        (lambda: Schema.of([("age", Number(0, 1))]), "must map names to kinds; got list"),
        (lambda: Schema.of({"age": 5}), "schema of column 'age' must be a kind or a pair"),
        (lambda: Schema.of({"age": (5, 1)}), "schema of column 'age': lower must be below upper"),
        (lambda: Schema.of({3: (0, 1)}), "names must be texts"),
        (lambda: Schema.of({"a=b": (0, 1), "a": Category("b")}), "two features would be called 'a=b'"),
        (lambda: Schema.of({"age": Number()}).bounds(), "column 'age' of the schema has no bounds"),
        (lambda: Schema.from_dict({"age": {"kind": "text"}}), "'vector'; got 'text'"),
        (lambda: Schema.from_dict({"age": {"kind": "number", "low": 0}}), "a number takes lower, upper,"),
        (lambda: check_scale("units"), "scale got 'units'. Write scale='box'"),
        (lambda: check_scale({"age": -1}), "scale must have positive numbers as weights; 'age' has -1"),
        (lambda: scaled(Bounds((0.0,), (1.0,)), {"b": 2.0}, None, ("a",)), "column that is not used: 'b'"),
    ],
)
def test_what_is_wrong_is_refused_with_the_column_and_the_remedy(make, message):
    with pytest.raises(SchemaError) as caught:
        make()
    assert message in str(caught.value)


def test_scales_multiply_differences_and_keep_units():
    schema = Schema.of({"age": (0, 100), "income": (0, 1e5), "region": Category("N", "S")})
    box = scaled(schema.bounds(), "box", schema, None)
    assert box.unit_box[:2].tolist() == [1.0, 1.0]
    ends = box.unit_of([[0, 0, 0, 0], [100, 0, 0, 0], [0, 1e5, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    gap = {(i, j): np.linalg.norm(ends[i] - ends[j]) for i in range(5) for j in range(i)}
    assert gap[1, 0] == pytest.approx(1)
    assert gap[2, 0] == pytest.approx(1)
    assert gap[4, 3] == pytest.approx(1), "two levels are as far apart as the two ends of a number"
    assert np.allclose(box.from_unit(ends)[1], [100, 0, 0, 0])
    twice = scaled(schema.bounds(), {"age": 2.0}, schema, None)
    moved = twice.unit_of([[0, 0, 0, 0], [100, 0, 0, 0], [0, 1e5, 0, 0]]) * twice.longest_side
    assert np.linalg.norm(moved[1] - moved[0]) == pytest.approx(2 * np.linalg.norm(moved[2] - moved[0]))
    kept = scaled(schema.bounds(), None, schema, None)
    assert kept.longest_side == 1e5
    assert scaled(Bounds((0.0, 0.0), (1.0, 9.0)), None, None, None).weights is None


def test_widths_that_differ_more_than_tenfold_need_a_decision():
    wide = Bounds((0.0, 0.0, 3.0), (1.0, 10.5, 3.0))
    with pytest.raises(SchemaError, match=r"10.5 times as wide in 'b' as in 'a'.*scale='box'.*scale=None"):
        scaled(wide, "auto", None, ("a", "b", "c"))
    assert scaled(Bounds((0.0, 0.0), (1.0, 10.0)), "auto", None, None).weights is None
    assert scaled(Bounds((0.0, 0.0), (1.0, 11.0), from_data=True), "auto", None, None).weights is None


def test_a_first_schema_has_to_be_filled_in(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(template([("age", "number"), ("the region", "category"), ("smoker", "boolean")]))
    with pytest.raises(SchemaError, match="lower of column 'age' is still to be filled in"):
        read_schema(path)
    filled = path.read_text().replace('lower = "?"', "lower = 0").replace('upper = "?"', "upper = 120")
    path.write_text(filled)
    with pytest.raises(SchemaError, match="levels of column 'the region' is still"):
        read_schema(path)
    path.write_text(filled.replace('levels = ["?"]', 'levels = ["N", 7]'))
    assert read_schema(path) == Schema.of({"age": (0, 120), "the region": Category("N", 7), "smoker": Boolean()})


def test_a_question_mark_may_be_a_level_beside_others_and_is_refused_alone_before_it_is_written(tmp_path):
    path = tmp_path / "schema.toml"
    answers = Schema.of({"answer": Category("yes", "?", missing="?")})
    path.write_text(write_schema(answers))
    assert read_schema(path) == answers
    with pytest.raises(SchemaError, match="the one level '\\?', which in a file marks what is to be filled in"):
        write_schema(Schema.of({"answer": Category("?")}))


def test_a_schema_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(FileError, match="cannot read"):
        read_schema(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("[age\n")
    with pytest.raises(SchemaError, match="is not TOML"):
        read_schema(tmp_path / "bad.toml")
    for text in ("a=" + "[" * 5000, "a=" + "1" * 5000, "a=\xff"):
        (tmp_path / "odd.toml").write_bytes(text.encode("latin-1"))
        with pytest.raises(SchemaError, match=r"is not TOML|needs a kind"):
            read_schema(tmp_path / "odd.toml")
    for text in ('kind = ["x"]', 'kind = "category"\nlevels = "NS"', 'kind = "category"\nlevels = {x = 1}'):
        (tmp_path / "odd.toml").write_text(f"[age]\n{text}\n")
        with pytest.raises(SchemaError, match="column 'age'"):
            read_schema(tmp_path / "odd.toml")
    (tmp_path / "kind.toml").write_text("age = 5\n")
    with pytest.raises(SchemaError, match=r"kind\.toml: column 'age' needs a kind"):
        read_schema(tmp_path / "kind.toml")


def test_dates_with_a_zone_are_converted_to_utc():
    east = timezone(timedelta(hours=2))
    kind = Date("2020-01-01", "2020-01-03", unit="hour")
    assert kind.number(datetime(2020, 1, 1, 2, tzinfo=east)) == kind.number("2020-01-01") == kind.sides()[0][0]
    assert kind.number("2020-01-01T02:00+02:00") == kind.sides()[0][0]
    assert (
        Date("2020-01-01", "2020-01-03", format="%d.%m.%Y").number("02.01.2020") == kind.number(date(2020, 1, 2)) / 24
    )
