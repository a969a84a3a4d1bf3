"""Persons on Dask and Spark: rows of a person in many partitions, and the same records and fits as in memory."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import numpy as np
import pytest
from tests.engines.clusters import shared_dask_client, spark_session, why_no_spark
from tests.persons.test_doors import after_door, visits, write_csv, write_parquet

from dpkmeans import DPKMeans, Person
from dpkmeans.data.source import Files, FrameSource
from dpkmeans.engines.config import Dask, Spark
from dpkmeans.errors import DataError

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]

FRAME = visits()
TIED = FRAME.round(1)[:1500]
"""With many equal rows, those of a person among them."""
UNITS = (Person("who", at_most=2), Person("who", keep="mean"), Person("who", keep="one"))
OPTIONS = {"epsilon": 2.0, "bounds": (0, 1), "random_state": 4, "guarantee": "none", "method": "su"}


@pytest.fixture(scope="module")
def client():
    pytest.importorskip("distributed", reason="the Dask engine needs dask: make setup-scale")
    with shared_dask_client() as client:
        yield client


@pytest.fixture(scope="module")
def session():
    if why_no_spark() is not None:
        pytest.skip(why_no_spark())
    with spark_session() as session:
        yield session


def check(collection, engine, folder, thorough=UNITS):
    """The same records, without a person too; and the same fit of files, frames, texts as ids, and a private m.

    Kinds of ids and estimated bounds are tried for the units that are `thorough`.
    """
    for unit in UNITS:
        expected = after_door(FRAME, unit)
        assert np.array_equal(after_door(collection(FRAME), unit, engine), expected)
        parquet = Files(write_parquet(FRAME, folder / "v", 3), ("who", "x", "y"))
        assert np.array_equal(after_door(parquet, unit, engine), expected)
        assert np.array_equal(after_door(FRAME, unit, engine), expected), "sent from here"
        gone = FRAME[FRAME.who != 3]
        assert np.array_equal(after_door(collection(gone), unit, engine), after_door(gone, unit))
        for as_id in (lambda who: f"p-{who}", lambda who: str(UUID(int=who))) if unit in thorough else ():
            named = TIED.assign(who=list(map(as_id, TIED.who)))
            found = after_door(collection(named), unit, engine)
            assert np.array_equal(found, after_door(named, unit))
            rest = after_door(collection(named[named.who != as_id(3)]), unit, engine)
            whole, without = (Counter(map(tuple, side.tolist())) for side in (found, rest))
            assert not without - whole
            assert (whole - without).total() == unit.records
    unit = Person("who", at_most="auto")
    expected = DPKMeans(3, **OPTIONS, unit=unit).fit(FRAME).release_
    csv = Files(write_csv(FRAME, folder / "c", 3), ("who", "x", "y"))
    for records in (collection(FRAME), csv):
        found = DPKMeans(3, **OPTIONS, unit=unit, engine=engine).fit(records).release_
        assert np.array_equal(found.centroids, expected.centroids)
        assert (found.spends, found.guarantee) == (expected.spends, expected.guarantee)
    options = {**OPTIONS, "bounds": None, "bounds_epsilon": 1.0, "scale": "box", "epsilon": 20.0}
    for unit in thorough:
        expected = DPKMeans(3, **options, unit=unit).fit(FrameSource(FRAME, ("x", "y"))).release_
        for records in (FrameSource(collection(FRAME), ("x", "y")), Files(folder / "v", ("x", "y"))):
            found = DPKMeans(3, **options, unit=unit, engine=engine).fit(records).release_
            assert np.array_equal(found.centroids, expected.centroids)
            assert (found.bounds, found.spends) == (expected.bounds, expected.spends)
    missing = FRAME.assign(who=FRAME.who.astype(str).where(FRAME.index != 9, None))
    for unit in (Person("who", at_most=2), Person("who", at_most="auto")):
        with pytest.raises(DataError, match="rows without an id"):
            DPKMeans(3, **OPTIONS, unit=unit, engine=engine).fit(collection(missing))


def test_dask_frames_and_files_give_the_same_records_and_fits(client, tmp_path):
    import dask.dataframe as dd

    check(lambda frame: dd.from_pandas(frame, npartitions=5, sort=False), Dask(client=client), tmp_path)


def test_spark_frames_and_files_give_the_same_records_and_fits(session, tmp_path):
    whole = session.createDataFrame(FRAME).repartition(3).cache()

    def collection(frame):
        return whole if frame is FRAME else session.createDataFrame(frame).repartition(3)

    check(collection, Spark(session=session), tmp_path, UNITS[:1])
