"""The door on every path in this process: frames, Arrow, CSV, Parquet, streams. A person is at most m records."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpkmeans import Ball, DPKMeans, Ledger, Number, Person, Row, Rows, Schema, make_synopsis
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.release import Release
from dpkmeans.core.unit import as_unit
from dpkmeans.data import grouping
from dpkmeans.data.source import Files, FrameSource
from dpkmeans.engines import persons
from dpkmeans.engines.block_tasks import Block
from dpkmeans.engines.open import open_data
from dpkmeans.engines.persons import Door
from dpkmeans.errors import BudgetError, DataError, MethodError, SchemaError, TooFewRecordsError
from dpkmeans.kernels.persons import more_of
from dpkmeans.methods.persons import schema_with_ids

KEY = bytes(range(16))
BOX = Bounds.of((0, 1), 2)
COLUMNS = ["who", "x", "y"]
UNITS = (Person("who", at_most=2), Person("who", keep="mean"), Person("who", keep="one"))
AS_ID = {
    "numbers": lambda number: number,
    "texts": lambda number: f"person {number}",
    "uuids": lambda number: str(UUID(int=number)),
    "whole numbers as texts": lambda number: str(number),
}


@dataclass(frozen=True)
class Collect:
    """All records, in the order of the rows."""

    def zero(self):
        return []

    def take(self, total: list, block: Block):
        return [*total, (block.part, block.first, block.rows(np.arange(block.n)))]

    def add(self, a, b):
        return a + b


def after_door(X, unit, engine=None, box=BOX):
    """The records that an engine holds, in their order, shape (n, 2)."""
    door = Door(unit, KEY)
    schema, X = schema_with_ids(X, None, door)
    opened = open_data(X, engine, schema=schema, door=door)
    held = sorted(opened.engine(box)._run(Collect()), key=lambda block: block[:2])
    return np.concatenate([rows for *_, rows in held])


def as_frame(rows):
    return pd.DataFrame(rows, columns=COLUMNS)


def write_parquet(frame, folder, n):
    """In `n` files with row groups of three: the rows of a person are spread over them."""
    folder.mkdir(exist_ok=True)
    for i in range(n):
        part = frame.iloc[i::n]
        if len(part):
            pq.write_table(pa.Table.from_pandas(part, preserve_index=False), folder / f"{i}.parquet", row_group_size=3)
    return folder


def write_csv(frame, folder, n):
    folder.mkdir(exist_ok=True)
    for i in range(n):
        if len(frame.iloc[i::n]):
            frame.iloc[i::n].to_csv(folder / f"{i}.csv", index=False)
    return folder


PATHS = {
    "pandas": lambda frame, _: (frame, None),
    "polars": lambda frame, _: (pl.DataFrame(frame.to_dict("list"), strict=False), None),
    "arrow table": lambda frame, _: (pa.Table.from_pandas(frame, preserve_index=False), None),
    "arrow stream": lambda frame, _: (pa.Table.from_pandas(frame, preserve_index=False).to_reader(4), None),
    "frame, streamed": lambda frame, _: (frame, "stream"),
    "parquet": lambda frame, tmp: (Files(write_parquet(frame, tmp / "pq", 3)), None),
    "parquet, held": lambda frame, tmp: (Files(write_parquet(frame, tmp / "pq", 2)), "memory"),
    "csv": lambda frame, tmp: (Files(write_csv(frame, tmp / "csv", 3), header=True), None),
    "csv, held": lambda frame, tmp: (Files(write_csv(frame, tmp / "csv", 2), columns=COLUMNS), "memory"),
}
GRID_VALUES = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, 0.1, 3.0, -1.0])
ROWS = st.lists(st.tuples(st.integers(1, 5), GRID_VALUES, GRID_VALUES), min_size=1, max_size=25)


@pytest.mark.parametrize("ids", AS_ID)
@pytest.mark.parametrize("path", PATHS)
@settings(max_examples=8)
@given(rows=ROWS, gone=st.integers(1, 5), unit=st.sampled_from(UNITS), data=st.data())
def test_without_a_person_at_most_m_records_are_gone(tmp_path_factory, path, ids, rows, gone, unit, data):
    rows = [(AS_ID[ids](who), x, y) for who, x, y in rows]
    who, tmp = AS_ID[ids](gone), tmp_path_factory.mktemp("rows")
    rest = [row for row in rows if row[0] != who]
    (tmp / "a").mkdir()
    (tmp / "b").mkdir()
    shuffled = data.draw(st.permutations(rows))
    X, engine = PATHS[path](as_frame(shuffled), tmp / "a")
    found = after_door(X, unit, engine)
    assert np.array_equal(found, after_door(as_frame(rows), unit)), "the same on every path and in every order"
    if rest:
        Y, engine = PATHS[path](as_frame(rest), tmp / "b")
        whole, without = (Counter(map(tuple, side.tolist())) for side in (found, after_door(Y, unit, engine)))
        assert not without - whole
        assert (whole - without).total() == min(unit.records, len(rows) - len(rest))


@pytest.mark.parametrize("engine", [None, "stream"])
def test_a_mean_lies_in_the_ball_as_closely_as_any_record_does(engine):
    """Rounding moves a record by at most half a step in each feature; a mean of such records was rounded once more."""
    box, step = Bounds.of(Ball(0, 1.0), 2), 2 / 2**20
    surface = np.rint((1 + np.sqrt(0.5)) / step)
    places = np.array([(surface, surface), (surface + 1, surface - 1)]) * step - 1
    frame = pd.DataFrame({"who": "a", "x": places[:, 0], "y": places[:, 1]})
    for unit in UNITS:
        found = box.from_unit(after_door(frame, unit, engine, box))
        assert (np.hypot(found[:, 0], found[:, 1]) <= 1 + np.sqrt(2) * step / 2).all()
    surfaces = Bounds.of(Ball(0, 1.0, normalize=True), 2)
    opposite = pd.DataFrame({"who": ["a", "a", "b", "b"], "x": [1, 0, 1, -1], "y": [0, 1, 0, 0]})
    found = surfaces.from_unit(after_door(opposite, Person("who", keep="mean"), engine, surfaces))
    assert sorted(np.hypot(found[:, 0], found[:, 1]).round(5)) == [0.0, 1.0]


def visits(n=4000, persons=700, seed=0):
    rng = np.random.default_rng(seed)
    who = (persons * rng.random(n) ** 2).astype(int)
    places = np.array([(0.2, 0.3), (0.7, 0.8), (0.8, 0.2)])[who % 3]
    return pd.DataFrame({"who": who, "x": places[:, 0], "y": places[:, 1]}).assign(
        x=lambda f: np.clip(f.x + 0.05 * rng.standard_normal(n), 0, 1),
        y=lambda f: np.clip(f.y + 0.05 * rng.standard_normal(n), 0, 1),
    )


@pytest.mark.parametrize("at_most", [3, "auto"])
def test_a_seeded_fit_is_the_same_from_memory_and_from_files_in_many_parts(tmp_path, monkeypatch, at_most):
    frame = visits()
    options = {"epsilon": 2.0, "bounds": (0, 1), "random_state": 4, "guarantee": "none", "method": "su"}
    unit = Person("who", at_most=at_most)
    expected = DPKMeans(3, **options, unit=unit).fit(frame).release_
    monkeypatch.setattr(grouping, "FILE_BYTES", 2**10)
    found = DPKMeans(3, **options, unit=unit).fit(Files(write_parquet(frame, tmp_path / "v", 4))).release_
    assert np.array_equal(found.centroids, expected.centroids)
    assert found.guarantee == expected.guarantee
    assert found.spends == expected.spends


@pytest.mark.parametrize("unit", [*UNITS, Person("who", at_most=2, missing_ids="own")], ids=str)
def test_a_person_with_most_of_the_rows_is_read_in_parts_and_the_records_are_the_same(tmp_path, monkeypatch, unit):
    """In files of a kilobyte: one person's many different rows, another's equal ones, and equal rows without an id."""
    rng = np.random.default_rng(5)
    frame = pd.concat(
        [
            visits(),
            pd.DataFrame({"who": 1, "x": rng.random(3000), "y": rng.random(3000)}),
            pd.DataFrame({"who": 2, "x": 0.25, "y": 0.5}, index=range(3000)),
        ]
    ).astype({"who": "Int64"})
    if unit.missing_ids == "own":
        frame = pd.concat([frame, pd.DataFrame({"who": None, "x": 0.5, "y": 0.5}, index=range(2000))])
    expected, folder = after_door(frame, unit), write_parquet(frame, tmp_path / "v", 2)
    looked_at = []
    monkeypatch.setattr(persons, "more_of", lambda *a: looked_at.append(len(a[1])) or more_of(*a))
    monkeypatch.setattr(grouping, "FILE_BYTES", 2**12)
    found = after_door(Files(folder), unit)
    assert np.array_equal(found, expected)
    assert max(looked_at) <= 2**12 // 24


def test_rows_that_are_chosen_to_start_from_are_the_same_too(tmp_path):
    frame = visits()
    options = {
        "epsilon": 1.0,
        "bounds": (0, 1),
        "random_state": 4,
        "guarantee": "none",
        "method": "lloyd",
        "init": "rows",
    }
    unit = Person("who", at_most=3)
    expected = DPKMeans(3, **options, unit=unit).fit(frame).release_
    found = DPKMeans(3, **options, unit=unit).fit(Files(write_csv(frame, tmp_path / "v", 4), header=True)).release_
    assert np.array_equal(found.centroids, expected.centroids)


def test_the_spooled_rows_are_gone_after_the_fit(tmp_path, monkeypatch):
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "spool"))
    (tmp_path / "spool").mkdir()
    DPKMeans(3, epsilon=1.0, bounds=(0, 1), unit=Person("who", at_most=3)).fit(
        Files(write_parquet(visits(), tmp_path / "v", 2))
    )
    assert list((tmp_path / "spool").iterdir()) == []


def test_the_spooled_rows_are_gone_after_an_error_that_somebody_holds(tmp_path, monkeypatch):
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "spool"))
    (tmp_path / "spool").mkdir()
    frame = visits().astype({"who": object})
    frame.loc[3999, "who"] = None
    folder = write_parquet(frame.astype({"who": "Int64"}), tmp_path / "v", 2)
    with pytest.raises(DataError, match="rows without an id") as held:
        DPKMeans(3, epsilon=1.0, bounds=(0, 1), unit=Person("who", at_most=3)).fit(Files(folder))
    assert list((tmp_path / "spool").iterdir()) == []
    assert held.value is not None


def test_rows_without_an_id_are_refused_with_the_place_or_count_as_persons(tmp_path):
    frame = visits().astype({"who": object})
    frame.loc[3:5, "who"] = None
    frame.loc[7, "who"] = "NA"
    folder = write_csv(frame, tmp_path / "v", 1)
    for X, place in ((frame, "'who' of the records"), (Files(folder, header=True), "'who' of ")):
        with pytest.raises(DataError, match="rows without an id") as refused:
            DPKMeans(3, epsilon=1.0, bounds=(0, 1), unit=Person("who", at_most=3)).fit(X)
        assert place in str(refused.value)
        own = Person("who", at_most=1, missing_ids="own")
        found = after_door(X, own)
        assert len(found) == frame.who[~frame.who.isin([None, "NA"])].nunique() + 4


@pytest.mark.parametrize("epsilon", [1.0, 0.3, 0.0000001])
@pytest.mark.parametrize("m", [1, 3, 7, 12])
def test_what_is_booked_is_m_times_what_the_method_spends_and_never_more_than_promised(epsilon, m):
    frame, ledger = visits(), Ledger(promised=epsilon)
    model = DPKMeans(3, epsilon=epsilon, bounds=(0, 1), unit=Person("who", at_most=m), ledger=ledger, method="su")
    try:
        release = model.fit(frame).release_
    except BudgetError:  # too small to be split further: nothing is booked beyond the promise
        assert ledger.spent <= ledger.promised
        return
    assert all(part.nano % m == 0 for spend in release.spends for part in spend.parts)
    total = sum(spend.epsilon.nano for spend in release.spends)
    assert round(epsilon * 10**9) - m * (1 + len(release.spends)) < total <= round(epsilon * 10**9)
    assert ledger.spent.nano == total
    assert release.epsilon_promised == epsilon


def test_a_fit_that_stops_after_its_count_says_what_it_cost_a_person():
    ledger = Ledger(promised=1.0)
    with pytest.raises(TooFewRecordsError, match="cost epsilon") as stopped:
        DPKMeans(900_000, epsilon=1.0, bounds=(0, 1), unit=Person("who", at_most=4), ledger=ledger).fit(visits())
    assert f"cost epsilon={ledger.spent}." in str(stopped.value)


def test_a_mean_and_one_row_get_the_whole_epsilon():
    frame = visits()
    options = {"epsilon": 1.0, "bounds": (0, 1), "method": "su", "random_state": 1, "guarantee": "none"}
    for keep in ("mean", "one"):
        release = DPKMeans(3, **options, unit=Person("who", keep=keep)).fit(frame).release_
        assert release.epsilon_spent == 1.0
        assert release.spends[0] == DPKMeans(3, **options).fit(frame[["x", "y"]]).release_.spends[0]


@pytest.mark.filterwarnings("ignore::dpkmeans.errors.WeakSignalWarning")  # with a large private m there is little left
def test_the_release_says_what_is_protected_and_a_file_keeps_it(tmp_path):
    frame = visits()
    unit = Person("who", at_most="auto")
    release = DPKMeans(3, epsilon=1.0, bounds=(0, 1), unit=unit).fit(frame).release_
    m = release.guarantee.unit.records
    assert f"differ by all rows of one person (at most {m} of which count)" in release.summary()
    assert release.spends[0].label == "rows per person"
    assert release.spends[0].epsilon.nano == 20_000_000
    assert sum(spend.epsilon.nano for spend in release.spends[1:]) % m == 0
    release.save(tmp_path / "model.json")
    again = Release.load(tmp_path / "model.json")
    assert again.guarantee == release.guarantee
    page = again.report()
    assert f"all rows of one person (at most {m} of which count)" in page
    assert "whether or not any one person was in the data" in page
    assert "a given person is in the data" in page
    assert "up to m times as large" not in page
    synopsis = make_synopsis(frame, 1.0, (0, 1), unit=Person("who", keep="mean"))
    assert "whose mean counts" in synopsis.fit(3).summary()
    synopsis.save(tmp_path / "synopsis.json")
    assert type(synopsis).load(tmp_path / "synopsis.json").guarantee.unit == Person("who", keep="mean")


def test_rows_are_the_callers_word_and_divide_epsilon_and_the_share_of_the_bounds():
    frame = visits()[["x", "y"]]
    unit = Rows(4)
    release = DPKMeans(3, epsilon=1.0, bounds=(0, 1), unit=unit).fit(frame).release_
    assert "up to 4 records of one person" in release.summary()
    assert all(spend.epsilon.nano % 4 == 0 for spend in release.spends)
    options = {"epsilon": 4.0, "bounds_epsilon": 2.0, "scale": "box"}
    release = DPKMeans(3, **options, unit=unit).fit(FrameSource(frame, ["x", "y"])).release_
    assert 4.0 - 1e-6 < release.epsilon_spent <= 4.0
    assert release.guarantee.bounds == "estimated"


def test_ids_are_no_feature_and_are_found_beside_a_schema():
    frame, unit = visits(), Person("who", at_most=2)
    schema = Schema.of({"y": Number(0, 1), "x": Number(0, 1)})
    model = DPKMeans(3, epsilon=1.0, schema=schema, unit=unit).fit(frame)
    assert model.release_.feature_names == ("y", "x")
    assert model.release_.schema == schema
    assert model.predict(frame).shape == (len(frame),)
    assert not hasattr(model, "labels_")
    assert DPKMeans(3, epsilon=1.0, bounds={"x": (0, 1), "y": (0, 1)}, unit=unit).fit_predict(frame).shape == (4000,)
    with pytest.raises(SchemaError, match="cannot be a feature"):
        DPKMeans(3, epsilon=1.0, bounds={"x": (0, 1), "who": (0, 1)}, unit=unit).fit(frame)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"unit": "person"}, MethodError, "must be Row"),
        ({"unit": Person("who", at_most=2), "n_records": 10}, MethodError, "n_records cannot be given"),
        ({"unit": Person("nobody", at_most=2)}, DataError, "no column 'nobody'"),
        ({"unit": Person("who", at_most=10**6), "epsilon": 1e-9}, BudgetError, "1000000-th part"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_spent(options, error, match):
    ledger = Ledger(promised=1.0)
    with pytest.raises(error, match=match):
        DPKMeans(3, **{"epsilon": 1.0, "bounds": (0, 1), "ledger": ledger, **options}).fit(visits())
    assert ledger.spent.nano == 0


@pytest.mark.parametrize("unit", [*UNITS, Person("who", at_most="auto")], ids=str)
@pytest.mark.parametrize("engine", [None, "stream"])
@pytest.mark.filterwarnings("ignore")  # of a weak signal
def test_nobody_at_all_is_no_error_so_that_a_single_person_cannot_be_told_from_nobody(unit, engine):
    for n in (0, 1):
        options = {"epsilon": 1.0, "bounds": (0, 1), "method": "su", "unit": unit, "engine": engine}
        model = DPKMeans(2, **options).fit(visits()[:n])
        assert model.release_.epsilon_spent == pytest.approx(1.0)


def test_an_array_has_no_ids():
    with pytest.raises(DataError, match="found by name"):
        DPKMeans(3, epsilon=1.0, bounds=(0, 1), unit=Person("who", at_most=2)).fit(visits().to_numpy())


@pytest.mark.parametrize(
    "options",
    [
        {"column": ""},
        {"column": 3, "at_most": 2},
        {"column": "who"},
        {"column": "who", "at_most": 0},
        {"column": "who", "at_most": 2, "keep": "mean"},
        {"column": "who", "keep": "median"},
        {"column": "who", "at_most": 2, "missing_ids": "drop"},
    ],
)
def test_a_person_that_makes_no_sense_is_refused(options):
    with pytest.raises(MethodError):
        Person(**options)


def test_without_a_unit_a_row_is_protected():
    assert as_unit(None) == Row()
    assert DPKMeans().unit is None


def test_a_ledger_counts_per_row_or_per_person():
    frame, ledger = visits(), Ledger(promised=2.0)
    DPKMeans(3, epsilon=0.5, bounds=(0, 1), ledger=ledger, unit=Person("who", keep="one")).fit(frame)
    DPKMeans(3, epsilon=0.5, bounds=(0, 1), ledger=ledger, unit=Rows(2)).fit(frame[["x", "y"]])
    with pytest.raises(MethodError, match="counts per person"):
        DPKMeans(3, epsilon=0.5, bounds=(0, 1), ledger=ledger).fit(frame[["x", "y"]])
    assert ledger.spent.nano <= 10**9
