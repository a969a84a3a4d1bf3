"""With a schema too: one row in, one point out, on every path, whatever the other rows and the types of columns are.

For tables T and T + {x}, the points of T within T + {x} are those that each row has when it stands alone. The rows x
are such that a library gives the whole column another type: missing values among whole numbers, texts among dates.
"""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.engines.clusters import shared_dask_client, spark_session

from dpkmeans import Boolean, Category, Date, DPKMeans, Ledger, Number, Release, Schema, Time
from dpkmeans.core.exact import reveal
from dpkmeans.core.schema import scaled
from dpkmeans.data.encode import encode
from dpkmeans.data.source import Files, FrameSource
from dpkmeans.engines.config import Dask, Spark, Stream
from dpkmeans.engines.open import open_data
from dpkmeans.errors import DataError, DataTypeError, FileError, SchemaError
from dpkmeans.storage.json_files import write_json
from dpkmeans.storage.models import KIND

SCHEMA = Schema.of(
    {
        "age": Number(0, 120, missing=40, infinite="clip"),
        "region": Category("N", "S", 7, missing="other"),
        "admitted": Date("2015-01-01", "2025-12-31", missing="midpoint"),
        "seen": Date("2020-01-01", "2020-01-03", unit="minute", missing="2020-01-02"),
        "at": Time("08:00", "18:00", missing="midpoint"),
        "smoker": Boolean(missing="midpoint"),
    }
)
BOX = scaled(SCHEMA.bounds(), {"age": 2.0}, SCHEMA, None)
COLUMNS = SCHEMA.names
Row = tuple[Any, ...]


def plain(rng: random.Random) -> Row:
    """A row that every library can hold in columns of one type each."""
    return (
        rng.choice([rng.randrange(130), rng.randrange(1300) / 10]),
        rng.choice(["N", "S", "7", "W", " N "]),
        date(2014, 6, 1) + timedelta(days=rng.randrange(4500)),
        datetime(2019, 12, 31, 12) + timedelta(microseconds=rng.randrange(4 * 86400 * 10**6)),
        time(rng.randrange(24), rng.randrange(60), rng.randrange(60)),
        rng.choice([True, False]),
    )


def odd(rng: random.Random) -> Row:
    """A row by which a library changes the types of its columns."""
    east = timezone(timedelta(hours=2))
    return (
        rng.choice([None, 1e300, Decimal("12.5"), float("inf"), -(10**30), True]),
        rng.choice([None, 7, 7.0, 3, True, Decimal(7), "NA", ""]),
        rng.choice([None, "2019-05-05", datetime(2019, 5, 5, 12), datetime(2019, 5, 5, tzinfo=UTC), pd.NaT, "nan"]),
        rng.choice([None, "2020-01-01T07:30", date(2020, 1, 2), datetime(2020, 1, 1, 3, tzinfo=east)]),
        rng.choice([None, "09:30", "12:00:01.5", time(10)]),
        rng.choice([None, 1, 0.0, "yes", "F", "no", pd.NA]),
    )


def text(value: Any) -> str:
    """How a value stands in a CSV file."""
    if value is None or value is pd.NaT or value is pd.NA:
        return ""
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def points(table: Any, n: int, engine: Any = "memory") -> Any:
    """The grid points that an engine holds, in the order of the rows."""
    held = open_data(table, engine, schema=SCHEMA).engine(BOX)
    found = reveal(held.sample_rows(n, np.random.default_rng(0)), why="a test looks")
    ordered = np.empty_like(found)
    ordered[np.random.default_rng(0).choice(n, n, replace=False)] = found
    held.close()
    return ordered


def columns_of(rows: list[Row]) -> dict[str, list[Any]]:
    ids = {"id": [f"p{i}" for i in range(len(rows))]}
    return ids | dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True))


def objects(rows: list[Row]) -> pd.DataFrame:
    return pd.DataFrame(columns_of(rows), dtype=object)


def frame(rows: list[Row]) -> pd.DataFrame:
    return pd.DataFrame(columns_of(rows))


def typed(rows: list[Row]) -> pd.DataFrame:
    """A frame with categories, timestamps with a zone, and types that know missing values."""
    table = frame(rows)
    table["region"] = table["region"].astype("category")
    table["admitted"] = pd.to_datetime(table["admitted"])
    table["seen"] = pd.to_datetime(table["seen"]).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
    table["smoker"] = table["smoker"].astype("boolean")
    return table


def arrow(rows: list[Row]) -> pa.Table:
    return pa.table(columns_of(rows))


def polars(rows: list[Row]) -> pl.DataFrame:
    return pl.DataFrame(columns_of(rows), strict=False)


def arrow_frame(rows: list[Row]) -> pd.DataFrame:
    return arrow(rows).to_pandas(types_mapper=pd.ArrowDtype)


MIXED: dict[str, Callable[[list[Row]], Any]] = {"pandas, objects": objects, "pandas, as inferred": frame}
PLAIN: dict[str, Callable[[list[Row]], Any]] = {
    "pandas, typed": typed,
    "pandas, Arrow": arrow_frame,
    "Arrow": arrow,
    "Arrow stream": lambda rows: arrow(rows).to_reader(),
    "Arrow, dictionary": lambda rows: arrow(rows).set_column(
        2, "region", arrow(rows)["region"].combine_chunks().dictionary_encode()
    ),
    "polars": polars,
}


def alone(rows: list[Row]) -> Any:
    """The point of each row when it stands alone in a table."""
    return np.concatenate([points(objects([row]), 1) for row in rows])


def csv(folder: Path, rows: list[Row]) -> Files:
    lines = [",".join(["id", *COLUMNS]), *(",".join([f"p{i}", *map(text, row)]) for i, row in enumerate(rows))]
    (folder / "visits.csv").write_text("\n".join(lines) + "\n")
    return Files(folder / "visits.csv")


def in_parquet(folder: Path, rows: list[Row]) -> Files:
    parquet.write_table(arrow(rows), folder / "visits.parquet", row_group_size=2)
    return Files(folder / "visits.parquet")


@pytest.mark.parametrize("path", MIXED)
def test_a_row_becomes_its_point_whatever_the_others_are(path: str) -> None:
    make, rng = MIXED[path], random.Random(0)
    for _ in range(40):
        rows = [plain(rng) for _ in range(4)]
        expected = alone(rows)
        for place in range(5):
            x = odd(rng)
            found = points(make([*rows[:place], x, *rows[place:]]), 5)
            assert np.array_equal(np.delete(found, place, axis=0), expected), (rows, x)
            assert np.array_equal(found[place : place + 1], alone([x])), x


@pytest.mark.parametrize("path", PLAIN)
def test_every_path_gives_the_same_points(path: str) -> None:
    make, rng = PLAIN[path], random.Random(1)
    for n in [1, 2, 5] * 8:
        rows = [plain(rng) for _ in range(n)]
        assert np.array_equal(points(make(rows), n), alone(rows)), rows


@pytest.mark.parametrize("engine", ["memory", "stream"])
@pytest.mark.parametrize("write", [csv, in_parquet])
def test_files_give_the_same_points(write: Callable[[Path, list[Row]], Files], engine: str, tmp_path: Path) -> None:
    rng = random.Random(2)
    for _ in range(12):
        rows = [plain(rng) for _ in range(5)]
        if write is csv:  # text alone, so an odd value is one cell like any other
            rows += [odd(rng), odd(rng)]
            rows = [row for row in rows if text(row[5]) != "0.0" and row[0] is not True]
        spec = "memory" if engine == "memory" else Stream(batch_rows=2, n_threads=1)
        assert np.array_equal(points(write(tmp_path, rows), len(rows), spec), alone(rows)), rows


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore")
def test_dask_frames_give_the_same_points() -> None:
    """Also where Dask makes text of columns of objects, as it does by default, for the sake of one odd record."""
    import dask
    import dask.dataframe

    rng = random.Random(3)
    with shared_dask_client() as client:
        rows = [(1.0 * i, "7", date(2020, 1, i + 1), datetime(2020, 1, 1, i), time(9, i), True) for i in range(5)]
        for x in (odd(rng), (None,) * 6, (1, True, "2020-01-01", "2020-01-01", "09:00", "yes")):
            table = dask.dataframe.from_pandas(frame([*rows, x]), npartitions=1, sort=False)
            assert np.array_equal(points(table, 6, Dask(client=client)), alone([*rows, x]))
    with shared_dask_client() as client, dask.config.set({"dataframe.convert-string": False}):
        for _ in range(6):
            rows = [plain(rng) for _ in range(5)] + [odd(rng)]
            table = dask.dataframe.from_pandas(objects(rows), npartitions=2, sort=False)
            assert np.array_equal(points(table, 6, Dask(client=client)), alone(rows))
            labels = model().predict(table).compute()
            assert labels.tolist() == model().predict(objects(rows)).tolist()


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore")
def test_spark_frames_give_the_same_points() -> None:
    rng = random.Random(4)
    types = "id string, age double, region string, admitted date, seen timestamp_ntz, at string, smoker boolean"
    with spark_session() as session:
        for _ in range(2):
            rows = [plain(rng) for _ in range(5)]
            given = [(f"p{i}", float(r[0]), *r[1:4], r[4].isoformat(), r[5]) for i, r in enumerate(rows)]
            table = session.createDataFrame([*given, ("p", *[None] * 6)], types).coalesce(1)
            expected = alone([*rows, (None,) * 6])
            assert np.array_equal(points(table, 6, Spark(session=session)), expected)
            labels = [row.cluster for row in model().predict(table).collect()]
            assert labels == model().predict(objects([*rows, (None,) * 6])).tolist()


def model() -> Release:
    """A release with the schema, and no fit behind it."""
    rng = random.Random(5)
    exact: dict[str, Any] = {"method": "lloyd", "guarantee": "none", "init": "rows", "random_state": 0}
    fitted = DPKMeans(3, schema=SCHEMA, scale={"age": 2.0}, **exact)
    return fitted.fit(objects([plain(rng) for _ in range(60)])).release_


def test_a_model_file_predicts_with_the_schema_that_it_carries(tmp_path: Path) -> None:
    release, rng = model(), random.Random(6)
    release.save(tmp_path / "model.json")
    loaded = Release.load(tmp_path / "model.json")
    assert loaded.schema == SCHEMA
    assert loaded.bounds == release.bounds
    assert loaded.describe() == release.describe()
    rows = [plain(rng) for _ in range(30)]
    expected = release.predict(objects(rows))
    for make in (objects, typed, arrow, polars):
        assert np.array_equal(loaded.predict(make(rows)), expected)
    assert np.array_equal(loaded.predict(csv(tmp_path, rows)), expected)
    assert np.array_equal(loaded.predict(tmp_path / "visits.csv"), expected)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Date("2020-01-01", "2021-01-01"), ["2020-01-01", "8675309"]),
        (Date("2020-01-01", "2021-01-01"), [date(2020, 1, 1), 8675309]),
        (Date("2020-01-01", "2021-01-01", format="%d.%m.%Y"), ["8675309"]),
        (Time("08:00", "18:00"), ["8675309 o'clock"]),
        (Boolean(), ["true", "8675309"]),
        (Boolean(), [1, 8675309]),
        (Category("N"), ["N", ["8675309"]]),
        (Category("N"), ["N", {"8675309": 1}]),
        (Number(0, 1), ["0.5", "8675309x"]),
        (Number(0, 1), [date(2020, 1, 1)]),
    ],
)
def test_a_value_that_is_not_of_its_kind_is_refused_with_the_column_and_without_the_value(
    kind: Any, values: Any
) -> None:
    with pytest.raises(DataTypeError) as caught:
        encode(pd.Series(values, dtype=object), kind, "column 'x' of the records")
    assert "column 'x' of the records" in str(caught.value)
    assert "8675309" not in str(caught.value)
    assert "2020" not in str(caught.value.message)


def test_model_files_without_schema_and_weights_can_be_read(tmp_path: Path) -> None:
    X = np.random.default_rng(0).random((2000, 2))
    release = DPKMeans(2, epsilon=1.0, bounds=(0, 1)).fit(X).release_
    content = release.to_dict()
    for name in ("identity", "schema", "clusters"):  # as version 1 had it
        del content[name]
    write_json(tmp_path / "old.json", KIND, 1, content)
    assert Release.load(tmp_path / "old.json").summary() == release.summary()


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["schema"]["age"].update(upper=110.0),
        lambda content: content["schema"].pop("age"),
        lambda content: content["schema"]["region"]["levels"].append("W"),
        lambda content: content["schema"]["region"].update(levels=[["N"]]),
        lambda content: content["schema"]["age"].update(kind="numbers"),
        lambda content: content["schema"]["age"].update(lower=float("1e999")),
        lambda content: content["bounds"]["weights"].pop(),
        lambda content: content["bounds"].update(weights=[-1.0] * 8),
        lambda content: content.update(schema=[1, 2]),
    ],
)
def test_a_schema_that_does_not_fit_the_rest_of_a_model_is_refused(change: Callable[[Any], Any]) -> None:
    content = copy.deepcopy(model().to_dict() | {"identity": None})
    Release.from_dict(content)
    change(content)
    with pytest.raises(FileError):
        Release.from_dict(content)


def rows_of(table: Any, schema: Schema) -> Any:
    """The coordinates of the rows, before they are put on the grid."""
    opened = open_data(table, "memory", schema=schema)
    assert opened.chunks is not None
    return np.concatenate(list(opened.chunks()))


HONEST = [True, False, True, True, False]
ENEMIES: list[Any] = [1, 1.0, None, "x", "True", Decimal(1), 7]


@pytest.mark.parametrize(
    "make",
    [
        lambda values: pd.DataFrame({"s": values}),
        lambda values: pd.DataFrame({"s": pd.Series(values, dtype=object)}),
        lambda values: pd.DataFrame({"s": pd.Series(values, dtype="category")}),
        lambda values: pd.DataFrame({"s": pd.Series(values, dtype=object).astype("string")}),
        lambda values: pl.DataFrame({"s": values}, strict=False),
        lambda values: pl.DataFrame({"s": values}),
        lambda values: pa.table({"s": values}),
    ],
)
@pytest.mark.parametrize(
    "kind", [Category(True, False, missing="other"), Boolean(missing="midpoint"), Category("1", "0")]
)
def test_one_record_cannot_turn_booleans_and_numbers_into_something_else(make, kind):
    """Libraries make numbers or texts of booleans, and floats or texts of whole numbers, for the sake of one value."""
    schema = Schema.of({"s": kind})
    for honest in (HONEST, [int(value) for value in HONEST], [float(value) for value in HONEST]):
        for enemy in ENEMIES:
            for values in ([*honest, enemy], [enemy, *honest]):
                try:
                    table = make(values)
                    records = rows_of(table, schema)
                except (DataError, pa.ArrowException, TypeError, pl.exceptions.PolarsError):
                    continue  # refused, here or by the library
                found = np.delete(records, len(values) - 1 if values[-1] is enemy else 0, axis=0)[:, 0]
                assert found.tolist() == [1.0, 0.0, 1.0, 1.0, 0.0], (values, table)


def test_times_that_are_equal_and_not_the_same_stay_apart():
    """The hour that clocks show twice: two datetimes that Python calls equal."""
    berlin = ZoneInfo("Europe/Berlin")
    first, second = datetime(2020, 10, 25, 2, 30, tzinfo=berlin), datetime(2020, 10, 25, 2, 30, fold=1, tzinfo=berlin)
    assert first == second
    kind = Date("2020-10-25", "2020-10-26", unit="hour")
    low = kind.sides()[0][0]
    for values, hours in (([first, second], [0.5, 1.5]), ([second, first], [1.5, 0.5])):
        utc = [value.astimezone(UTC) for value in values]
        zoned = pl.Series(utc).dt.convert_time_zone("Europe/Berlin")
        for column in (pd.Series(values, dtype=object), zoned, pd.Series(utc).dt.tz_convert("Europe/Berlin")):
            assert (encode(column, kind, "x")[0] - low).tolist() == hours
    with pytest.raises(DataTypeError):
        encode(pd.Series([time(8, tzinfo=UTC)], dtype=object), Time("00:00", "24:00"), "x")


def test_texts_for_yes_and_no_mean_the_same_as_numbers_of_the_same_digits():
    coded = Boolean(true="2", false="1")
    for values in ([1, 2, 1], [1.0, 2.0, 1.0], ["1", "2", "1"], ["1.0", "2", " 1 "], [Decimal(1), 2, "1"]):
        assert encode(pd.Series(values, dtype=object), coded, "x")[0].tolist() == [0.0, 1.0, 0.0]
    assert encode(pd.Series([True, False]), Boolean(true="ja", false="nein"), "x")[0].tolist() == [1.0, 0.0]


def test_a_date_that_can_be_read_in_two_ways_is_refused():
    kind = Date("2020-01-01", "2020-12-31", format="%Y-%d-%m")
    assert encode(pd.Series(["2020-03-03"]), kind, "x")[0][0] == kind.number(date(2020, 3, 3))
    with pytest.raises(DataTypeError):
        encode(pd.Series(["2020-03-04"]), kind, "x")
    german = Date("2020-01-01", "2020-12-31", format="%d.%m.%Y")
    both = encode(pd.Series(["04.03.2020", "2020-03-04"]), german, "x")[0]
    assert both[0] == both[1]


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pl.Series([2**62]).cast(pl.Datetime("us")), Date("2020-01-01", "2021-01-01")),
        (pl.Series([2**30]).cast(pl.Int32).cast(pl.Date), Date("2020-01-01", "2021-01-01")),
        (pa.array([2**62], pa.timestamp("us")).dictionary_encode(), Date("2020-01-01", "2021-01-01")),
        (np.array(["NaT", "2020-01-01"], "datetime64[ns]"), Date("2020-01-01", "2021-01-01", missing="midpoint")),
    ],
)
def test_times_beyond_the_calendar_are_clipped_like_others(column, kind):
    found = encode(column, kind, "x")[0]
    assert not np.isnan(found).any()


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([2**62], pa.timestamp("us")), Category("N")),
        (pa.array([[1.5]]), Category("N")),
        (np.array(["2020-01-01"], "datetime64[ns]"), Category(1577836800000000000)),
        (np.array(["2020-01-01"], "datetime64[ns]"), Boolean()),
        (pd.Series([Decimal("sNaN")], dtype=object), Number(0, 1)),
        (np.array(["8675309" * 3]), Number(0, 1)),
    ],
)
def test_columns_of_other_kinds_are_refused_with_errors_of_our_own(column, kind):
    with pytest.raises(DataTypeError) as caught:
        encode(column, kind, "column 'x'")
    assert "21" not in str(caught.value.message), "the length of a text is a record's own"


def test_what_the_schema_refuses_no_other_option_fills_in():
    table = pd.DataFrame({"region": ["N", None] * 5000, "age": [1.0, np.nan] * 5000})
    schema = {"region": Category("N", "S", missing="refuse"), "age": Number(0, 9)}
    with pytest.raises(
        DataError, match="column 'region' of the records has empty cells or NaN, which the schema refuses"
    ):
        DPKMeans(1, epsilon=1.0, schema=schema, nulls="midpoint").fit(table)
    release = DPKMeans(1, epsilon=1.0, schema={"age": Number(0, 9)}).fit(FrameSource(table, nulls="midpoint")).release_
    assert release.schema == Schema.of({"age": Number(0, 9, missing="midpoint")})
    assert release.predict(table).tolist() == [0] * len(table)


def test_a_weight_for_a_column_that_is_not_there_is_refused_before_an_estimate_is_paid_for():
    table, ledger = pd.DataFrame({"age": [30.0, 50.0] * 500, "income": [1e3, 2e3] * 500}), Ledger(1.0)
    schema = {"age": Number(), "income": Number()}
    with pytest.raises(SchemaError, match="'incme'"):
        DPKMeans(2, epsilon=1, schema=schema, scale={"incme": 2.0}, bounds_epsilon=0.5, ledger=ledger).fit(table)
    assert ledger.spends == ()


def test_only_columns_without_bounds_are_estimated_and_zeros_in_them_do_not_stop_the_fit():
    table = pd.DataFrame({"age": [30.0, 50.0] * 2000, "zero": [0.0] * 4000, "smoker": [True, False] * 2000})
    schema = {"age": Number(0, 100), "zero": Number(), "smoker": Boolean()}
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        model = DPKMeans(2, epsilon=4, schema=schema, scale="box", bounds_epsilon=1).fit(table)
    assert (model.release_.bounds.lower, model.release_.bounds.upper) == ((0.0, 0.0, 0.0), (100.0, 0.0, 1.0))
    assert model.release_.guarantee.label == "proved"
