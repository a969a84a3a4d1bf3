"""A private estimate of the bounds where persons are protected: the histogram counts what passes the door."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.persons.test_doors import KEY, PATHS, UNITS, as_frame, visits

from dpkmeans import DPKMeans, Ledger, Person
from dpkmeans.data.source import FrameSource
from dpkmeans.engines.open import open_data
from dpkmeans.engines.persons import Door
from dpkmeans.engines.survey import Extremes
from dpkmeans.errors import BoundsError, MethodError
from dpkmeans.methods.bounds_estimate import CELLS, CellCounts
from dpkmeans.methods.persons import schema_with_ids

VALUES = st.sampled_from([0.0, -3.0, 3.0, 1e-12, 1e30, 40.0, 45.0])
ROWS = st.lists(st.tuples(st.integers(1, 4), VALUES, VALUES), min_size=1, max_size=25)


def histogram(X, unit, engine=None, features=(0, 1), nulls="refuse"):
    """The exact counts, shape (d, CELLS), before noise."""
    door = Door(unit, KEY)
    schema, X = schema_with_ids(X, None, door)
    return open_data(X, engine, schema=schema, door=door, nulls=nulls).survey(CellCounts(features))


@pytest.mark.parametrize("path", PATHS)
@settings(max_examples=8)
@given(rows=ROWS, gone=st.integers(1, 4), unit=st.sampled_from(UNITS), data=st.data())
def test_a_person_changes_the_histogram_by_at_most_m_in_each_feature(tmp_path_factory, path, rows, gone, unit, data):
    tmp = tmp_path_factory.mktemp("rows")
    X, engine = PATHS[path](as_frame(data.draw(st.permutations(rows))), tmp)
    whole = histogram(X, unit, engine)
    assert np.array_equal(whole, histogram(as_frame(rows), unit)), "the same on every path and in every order"
    rest = [row for row in rows if row[0] != gone]
    if rest:
        fewer = whole - histogram(as_frame(rest), unit)
        assert (fewer >= 0).all()
        assert fewer.sum(axis=1).tolist() == [min(unit.records, len(rows) - len(rest))] * 2


def test_a_person_with_a_thousand_rows_counts_m_times_and_not_a_thousand():
    frame = pd.DataFrame({"who": [1] * 1000 + [2], "x": [7.0] * 1000 + [0.0], "y": 1.0})
    for unit in UNITS:
        assert histogram(frame, unit).sum(axis=1).tolist() == [unit.records + 1] * 2


def test_a_missing_value_counts_nowhere_and_known_features_are_not_asked():
    frame = pd.DataFrame({"who": [1, 2, 3], "x": [7.0, np.nan, 8.0], "y": 1.0})
    unit = Person("who", keep="one")
    assert histogram(frame, unit, nulls="midpoint").sum(axis=1).tolist() == [2, 3]
    assert histogram(frame, unit, features=(1,), nulls="midpoint").shape == (1, CELLS)


def test_a_question_that_is_not_about_cells_gets_no_answer():
    """Extremes over all rows have no bound per person; only bounds that are not private ask for them, by name."""
    door = Door(UNITS[0], KEY)
    schema, X = schema_with_ids(visits(), None, door)
    opened = open_data(X, schema=schema, door=door)
    with pytest.raises(AttributeError):
        opened.survey(Extremes(2))
    assert opened.survey_of_rows is not None
    assert opened.survey_of_rows(Extremes(2)).shape == (2, 2)


@pytest.mark.parametrize("unit", [*UNITS, Person("who", at_most=7)], ids=str)
def test_the_share_is_booked_in_full_and_the_fit_stays_within_its_promise(unit):
    frame, ledger = visits(20_000, 3000).assign(x=lambda f: 50 * f.x), Ledger(promised=9.0)
    options = {"epsilon": 9.0, "bounds_epsilon": 3.0, "scale": "box", "unit": unit, "ledger": ledger}
    release = DPKMeans(3, **options).fit(FrameSource(frame, ("x", "y"))).release_
    assert release.spends[0].label == "bounds"
    assert 3.0 - 1e-6 < float(release.spends[0].epsilon) <= 3.0
    assert 9.0 - 1e-6 < float(ledger.spent) <= 9.0
    assert release.guarantee.bounds == "estimated"
    assert (release.bounds.lower, release.bounds.upper) == ((0.0, 0.0), (50.0, 1.0))
    assert release.feature_names == ("x", "y")


def test_what_cannot_be_estimated_is_refused_before_anything_is_spent():
    ledger, frame = Ledger(promised=9.0), visits()
    options = {"epsilon": 9.0, "bounds_epsilon": 3.0, "scale": "box", "ledger": ledger}
    with pytest.raises(BoundsError, match="how many rows of a person count"):
        DPKMeans(3, **options, unit=Person("who", at_most="auto")).fit(FrameSource(frame, ("x", "y")))
    with pytest.raises(MethodError, match="needs the columns by name"):
        DPKMeans(3, **options, unit=Person("who", at_most=2)).fit(frame)
    assert ledger.spent.nano == 0
