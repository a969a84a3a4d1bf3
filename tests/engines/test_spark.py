"""Spark on a real local cluster of two executor processes: frames, a killed executor, and what crosses the network."""

from __future__ import annotations

import os
import signal
import stat
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.engines.clusters import (
    SlowCount,
    TooLargeCount,
    blobs,
    kill_soon,
    spark_session,
    why_no_spark,
    write_parquet,
)

from dpkmeans import DPKMeans, interrupts
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.exact import reveal
from dpkmeans.data.source import Files, FrameSource
from dpkmeans.engines import spark as spark_engine
from dpkmeans.engines import spark_files
from dpkmeans.engines.block_tasks import Partial
from dpkmeans.engines.config import Spark
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.engines.open import open_data
from dpkmeans.engines.reach import reach_spark
from dpkmeans.engines.spark_jobs import run_job
from dpkmeans.errors import (
    DataError,
    EngineError,
    LeftBehindWarning,
    MethodError,
    MissingFileError,
    WorkerMemoryError,
    WorkerVersionError,
)

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(why_no_spark() is not None, reason=why_no_spark() or "Spark runs"),
]

WHY = "a test looks"
X = blobs(3000)
BOX = Bounds.of((0, 1), 3)


@pytest.fixture(scope="module")
def session():
    with spark_session() as session:
        yield session


def test_a_frame_gives_the_same_fit_and_keeps_the_names(session):
    frame = session.createDataFrame(pd.DataFrame(X, columns=list("abc"))).repartition(3)
    options = {"epsilon": 1.0, "bounds": (0, 1), "method": "su", "guarantee": "none", "random_state": 5}
    model = DPKMeans(4, **options).fit(frame)
    assert np.array_equal(model.cluster_centers_, DPKMeans(4, **options).fit(X).cluster_centers_)
    assert model.feature_names_in_.tolist() == list("abc")


def test_bounds_are_estimated_on_the_executors_with_the_same_bits(session, tmp_path):
    options = {"epsilon": 1.0, "bounds_epsilon": 0.5, "scale": "box", "random_state": 5, "guarantee": "none"}
    expected = DPKMeans(4, **options).fit(X).release_
    frame = session.createDataFrame(pd.DataFrame(X, columns=list("abc"))).repartition(3)
    files = Files(write_parquet(tmp_path, X, [100, 2000]), ("x0", "x1", "x2"))
    pd.DataFrame(X, columns=list("abc")).to_csv(tmp_path / "abc.csv", index=False)
    table = Files(tmp_path / "abc.csv", list("abc"))
    model = DPKMeans(4, **options, engine=Spark(session=session))
    for records in (FrameSource(frame, list("abc")), files, table):
        found = model.fit(records).release_
        assert found.bounds == expected.bounds
        assert np.array_equal(found.centroids, expected.centroids)
    with pytest.raises(MethodError, match="needs the columns by name"):
        model.fit(frame)
    holes = session.createDataFrame([(0.5, None), (0.2, 0.1)], "a double, b double")
    with pytest.raises(DataError, match="column 'b' of the Spark frame has empty cells"):
        model.fit(FrameSource(holes, ("a", "b")))


def test_a_label_is_put_beside_each_row_of_a_frame(session):
    frame = session.createDataFrame(pd.DataFrame(X, columns=list("abc"))).repartition(2)
    model = DPKMeans(4, epsilon=1.0, bounds=(0, 1)).fit(pd.DataFrame(X, columns=list("abc")))
    found = model.predict(frame.select("c", "a", "b")).toPandas()
    assert list(found.columns) == ["c", "a", "b", "cluster"]
    assert np.array_equal(found["cluster"].to_numpy(), model.predict(found[["a", "b", "c"]]))
    with pytest.raises(DataError, match="has a column 'cluster' already"):
        model.predict(model.predict(frame))


def test_labels_of_files_come_in_the_order_of_the_rows(session, tmp_path):
    engine = open_data(write_parquet(tmp_path, X, [10, 1500]), Spark(session=session)).engine(BOX)
    found = list(engine.label_batches(X[:4]))
    assert len(found) == 3
    assert np.array_equal(np.concatenate(found), MemoryEngine.of_records(X, BOX).labels(X[:4]))


def test_arrays_in_memory_are_sent(session, monkeypatch):
    monkeypatch.setattr(spark_engine, "PART_NUMBERS", 1500)
    engine = open_data(X, Spark(session=session)).engine(BOX)
    assert engine._rdd.getNumPartitions() == 6  # type: ignore[attr-defined]
    found, expected = (
        reveal(e.cell_statistics(X[:5]), why=WHY).integers() for e in (engine, MemoryEngine.of_records(X, BOX))
    )
    assert np.array_equal(found, expected)


def test_missing_values_are_put_in_the_middle_on_request(session):
    holes = session.createDataFrame([(0.5, None), (0.2, 0.1), (0.1, float("nan"))], "a double, b double")
    engine = open_data(FrameSource(holes, ("b", "a"), nulls="midpoint"), Spark(session=session)).engine(
        Bounds.of((0, 1), 2)
    )
    stats = reveal(engine.cell_statistics(np.zeros((1, 2))), why=WHY)
    assert stats.sums == pytest.approx(np.array([[1.1, 0.8]]), abs=1e-5)


def test_a_missing_value_and_a_text_column_are_refused(session):
    holes = session.createDataFrame([(0.5, None), (0.2, 0.1)], "a double, b double")
    with pytest.raises(DataError, match="column 'b' of the Spark frame has empty cells"):
        open_data(holes, Spark(session=session)).engine(Bounds.of((0, 1), 2)).count()
    with pytest.raises(DataError, match="column 'b' of the frame does not hold numbers"):
        open_data(session.createDataFrame([(0.5, "8675309")], "a double, b string"))


def test_a_killed_executor_changes_nothing(session, tmp_path):
    folder = write_parquet(tmp_path, X, [500, 1000, 1500, 2000, 2500])
    engine = open_data(folder, Spark(session=session)).engine(BOX)
    engine.count()

    parent = session.sparkContext.parallelize(range(4), 4).map(lambda _: _executor()).distinct().collect()
    timer = kill_soon(parent[0], after=0.3)
    assert reveal(engine.answer(SlowCount()), why=WHY).tolist() == [[len(X)]]
    timer.join()
    found = reveal(engine.cell_statistics(X[:5]), why=WHY)
    expected = reveal(MemoryEngine.of_records(X, BOX).cell_statistics(X[:5]), why=WHY)
    assert np.array_equal(found.integers(), expected.integers())
    assert found.cost == expected.cost


def test_an_executor_that_runs_out_of_memory_again_and_again_is_named_and_another_pass_works(session, tmp_path):
    engine = open_data(write_parquet(tmp_path, X, []), Spark(session=session)).engine(BOX)
    # Spark does not say which executor had an error in Python
    for killed, which in ((False, "a Spark executor"), (True, r"Spark executor \d+ at \S+")):
        expected = f"^{which} ran out of memory, .* stays spent\\. It needs about 300 MB"
        with pytest.raises(WorkerMemoryError, match=expected) as caught:
            engine.answer(TooLargeCount(killed=killed))
        assert "Traceback" not in str(caught.value)
    assert reveal(engine.count(), why=WHY) == len(X)


def test_a_file_that_an_executor_cannot_see_is_missing_and_not_damaged(session, tmp_path):
    folder = write_parquet(tmp_path, X, [1500])
    engine = open_data(folder, Spark(session=session)).engine(BOX)
    (folder / "part-01.parquet").rename(folder / "elsewhere")
    with pytest.raises(MissingFileError, match=r"part-01.parquet was not found on worker .* need shared storage"):
        engine.cell_statistics(X[:5])


def test_when_no_executor_is_left_the_fit_ends_after_the_stated_time(session, tmp_path):
    folder = write_parquet(tmp_path, X, [1500])
    java, no_hosts = session.sparkContext._jsc.sc(), session._jvm.scala.Predef.Map().empty()
    executors = session.sparkContext.parallelize(range(4), 4).map(lambda _: _executor()).distinct().collect()
    java.requestTotalExecutors(0, 0, no_hosts)
    for pid in executors:
        os.kill(pid, signal.SIGKILL)
    try:
        with pytest.raises(EngineError, match="there is no worker, and none came for 1 seconds"):
            DPKMeans(4, epsilon=1.0, bounds=(0, 1), engine=Spark(session=session, worker_timeout=1.0)).fit(folder)
    finally:
        java.requestTotalExecutors(2, 0, no_hosts)
    Spark(session=session).check(session)  # an executor answers again


def test_what_speaks_as_spark_does_is_taken_for_a_master(session):
    reach_spark(f"spark://127.0.0.1:{session.sparkContext.getConf().get('spark.driver.port')}")


def _executor():
    """The Java process above this Python worker."""
    import psutil

    return next(p.pid for p in psutil.Process(os.getpid()).parents() if "java" in p.name())


def test_no_record_leaves_an_executor(session, tmp_path, monkeypatch):
    from pyspark import RDD

    sent = []
    collect = RDD.collect

    def seen(self):
        sent.append(collect(self))
        return sent[-1]

    monkeypatch.setattr(RDD, "collect", seen)
    folder = write_parquet(tmp_path, X, [1500])
    engine = open_data(folder, Spark(session=session)).engine(BOX)
    engine.cell_statistics(X[:5])
    engine.answer(SlowCount())
    assert sent
    for items in sent:
        for item in items:
            if isinstance(item, tuple) and isinstance(item[-1], bool):  # `treeReduce` says whether a part was empty
                item = item[0]
            if isinstance(item, Partial):
                assert (item.table.shape, item.table.dtype) == ((5, 4), np.int64)
            elif isinstance(item, np.ndarray):
                assert (item.shape, item.dtype) == ((1, 1), np.int64)
            else:  # the size of a part, and why it could not be read
                assert [type(value) for value in item] == [int, int, type(None)]


def test_an_executor_with_other_code_adds_nothing(session, tmp_path, monkeypatch):
    """As seen from there, it is the driver that runs other code: every task carries the digest of its own."""
    from dpkmeans.engines import same_code

    files = Files(write_parquet(tmp_path, X, [1500]), ("x0", "x1", "x2"))
    opened = open_data(files, Spark(session=session))
    engine = opened.engine(BOX)
    assert reveal(engine.count(), why=WHY) == len(X)
    monkeypatch.setattr(same_code, "code_here", lambda: same_code.Code("0.0.1", "0" * 16))
    with pytest.raises(WorkerVersionError, match=r"worker \S+ runs dpkmeans .* which is not the code here"):
        engine.cell_statistics(X[:4])
    with pytest.raises(WorkerVersionError, match="which is not the code here"):
        open_data(files, Spark(session=session)).reach()
    monkeypatch.undo()
    assert reveal(engine.count(), why=WHY) == len(X)
    opened.close()


def test_a_request_to_stop_cancels_a_job(session):
    slow = session.sparkContext.parallelize([60], 1).map(time.sleep)
    ask = threading.Timer(0.5, interrupts.request, (signal.SIGTERM,))
    ask.start()
    try:
        with pytest.raises(interrupts.Stopped):
            run_job(session, slow.collect, 60.0)
    finally:
        ask.join()
        interrupts.withdraw()
    assert run_job(session, session.sparkContext.parallelize([7], 1).collect, 60.0) == [7], "the session goes on"


def kept_files(session):
    """Names and modes of the files with packed blocks on the executors."""

    def here(_):
        for folder in os.environ["SPARK_LOCAL_DIRS"].split(","):
            for path in Path(folder).glob("dpkmeans-blocks-*/*"):
                yield str(path), stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)

    return set(session.sparkContext.parallelize(range(8), 8).flatMap(here).collect())


def test_blocks_stay_in_files_for_their_user_alone_are_made_again_if_gone_and_go_with_the_engine(session, tmp_path):
    others = kept_files(session)
    frame = session.createDataFrame(pd.DataFrame(X, columns=list("abc"))).repartition(3)
    expected = reveal(MemoryEngine.of_records(X, BOX).cell_statistics(X[:5]), why=WHY).integers()
    for records in (write_parquet(tmp_path, X, [500, 1500]), frame):
        engine = open_data(records, Spark(session=session)).engine(BOX)
        for removals in range(4):  # more often than it goes on with files
            assert np.array_equal(reveal(engine.cell_statistics(X[:5]), why=WHY).integers(), expected)
            found = kept_files(session) - others
            assert found or removals > 1
            assert all(modes == [0o600, 0o700] for _, *modes in found)
            for path, _, _ in found:
                os.unlink(path)
        engine.close()
        assert kept_files(session) <= others


def test_files_of_an_executor_that_is_too_busy_to_remove_them_are_named(session, monkeypatch):
    engine = open_data(session.createDataFrame(pd.DataFrame(X, columns=list("abc"))), Spark(session=session)).engine(
        BOX
    )
    engine.count()
    remove = spark_files.remove
    monkeypatch.setattr(spark_files, "remove", lambda name: lambda kept: [True for _ in remove(name)(kept)])
    with pytest.warns(LeftBehindWarning, match="dpkmeans-blocks-"):
        engine.close()


def test_a_task_that_removes_files_says_which_lie_on_another_executor(tmp_path, monkeypatch):
    name, files = spark_files.new_name(), []
    for executor in ("one", "two"):
        (tmp_path / executor).mkdir()
        monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / executor))
        files += spark_files.keep(name, 3)(0, [])
    assert spark_files.remove(name)(files) == [True, False]
    assert [os.listdir(tmp_path / executor) for executor in ("one", "two")] == [[name], []]
    assert spark_files.remove(name)(files[1:]) == [False], "it is gone, and was here"


def test_records_that_are_refused_leave_no_file_on_the_executors(session):
    others = kept_files(session)
    missing = X.copy()
    missing[-1, 0] = np.nan
    frame = session.createDataFrame(pd.DataFrame(missing, columns=list("abc"))).repartition(3)
    engine = open_data(frame, Spark(session=session)).engine(BOX)
    with pytest.raises(DataError):
        engine.count()
    assert kept_files(session) - others, "the other partitions were written"
    engine.close()
    assert kept_files(session) <= others
