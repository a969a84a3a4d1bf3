"""Dask with real worker processes: any partitioning, killed workers, and what crosses the network."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from tests.engines.clusters import SlowCount, blobs, dask_client, kill_soon, two_workers, write_parquet

from dpkmeans import DPKMeans
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.exact import reveal
from dpkmeans.data.source import Files, FrameSource
from dpkmeans.engines import dask as dask_engine
from dpkmeans.engines.block_tasks import Partial
from dpkmeans.engines.config import Dask
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.engines.open import open_data
from dpkmeans.engines.packing import grid_points
from dpkmeans.engines.survey import bounds_around
from dpkmeans.errors import DataError, MethodError

pytest.importorskip("distributed", reason="the Dask engine needs dask: make setup-scale")
psutil = pytest.importorskip("psutil", reason="comes with dask: make setup-scale")
pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]

WHY = "a test looks"
X = blobs(3000)
BOX = Bounds.of((0, 1), 3)
MEMORY = MemoryEngine.of_records(X, BOX, n_threads=1)


@pytest.fixture(scope="module")
def client():
    with dask_client(2) as client:
        yield client


def fit(records, where=None):
    model = DPKMeans(4, epsilon=1.0, bounds=(0, 1), method="su", guarantee="none", random_state=5, engine=where)
    return model.fit(records)


def test_bounds_are_estimated_on_the_workers_with_the_same_bits(client, tmp_path):
    import dask.array as da
    import dask.dataframe as dd

    frame = pd.DataFrame(X, columns=list("abc"))
    options = {"epsilon": 1.0, "bounds_epsilon": 0.5, "scale": "box", "random_state": 5, "guarantee": "none"}
    expected = DPKMeans(4, **options).fit(X).release_
    model = DPKMeans(4, **options, engine=Dask(client=client))
    for records in (
        da.from_array(X, chunks=(700, 2)),
        FrameSource(dd.from_pandas(frame, npartitions=3), list("abc")),
        Files(write_parquet(tmp_path, X, [100, 2000]), ("x0", "x1", "x2")),
    ):
        found = model.fit(records).release_
        assert found.bounds == expected.bounds
        assert np.array_equal(found.centroids, expected.centroids)
    with pytest.raises(MethodError, match="needs the columns by name"):
        model.fit(dd.from_pandas(frame, npartitions=3))


def test_bounds_are_read_on_the_workers_too(client):
    import dask.dataframe as dd

    frame = pd.DataFrame(X, columns=list("abc"))
    data = open_data(dd.from_pandas(frame, npartitions=3), Dask(client=client))
    assert bounds_around(data.survey, 3) == Bounds.read_from(X)


def same_statistics(engine):
    found, expected = (reveal(e.cell_statistics(X[:5], X[5:10]), why=WHY) for e in (engine, MEMORY))
    assert np.array_equal(found.integers(), expected.integers())
    assert (found.cost, found.n_changed) == (expected.cost, expected.n_changed)


@pytest.mark.parametrize("chunks", [(3000, 3), (1, 1), (617, 2)])
def test_any_chunks_of_an_array_give_the_same_bits(client, chunks):
    import dask.array as da

    array = da.from_array(X, chunks=(max(chunks[0], 100), chunks[1]))
    same_statistics(open_data(array, Dask(client=client)).engine(BOX))


@pytest.mark.parametrize("n", [1, 4])
def test_any_partitioning_of_a_frame_gives_the_same_fit_and_keeps_the_names(client, n):
    import dask.dataframe as dd

    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abc")), npartitions=n)
    model = fit(frame, Dask(client=client))
    assert np.array_equal(model.cluster_centers_, fit(X).cluster_centers_)
    assert model.feature_names_in_.tolist() == list("abc")


@pytest.mark.parametrize("n_workers", [1, 4])
def test_any_number_of_workers_gives_the_same_fit(tmp_path, n_workers):
    folder = write_parquet(tmp_path, X, [1000])
    children = set(psutil.Process().children(recursive=True))
    found = fit(folder, Dask(workers=n_workers, memory="500MB")).cluster_centers_
    assert np.array_equal(found, fit(X).cluster_centers_)
    left = psutil.wait_procs(set(psutil.Process().children(recursive=True)) - children, timeout=10)[1]
    assert not [p for p in left if "resource_tracker" not in " ".join(p.cmdline())]  # Python's own helper stays


def test_killed_workers_change_nothing(client, tmp_path):
    """SIGKILL in the middle of a pass, ten times."""
    folder = write_parquet(tmp_path, X, [500, 1000, 1500, 2000, 2500])
    engine = open_data(folder, Dask(client=client)).engine(BOX)
    engine.count()
    for i in range(10):
        pids = two_workers(client)
        timer = kill_soon(pids[i % len(pids)])
        assert reveal(engine.answer(SlowCount()), why=WHY).tolist() == [[len(X)]]
        timer.join()
    same_statistics(engine)


def test_no_record_leaves_a_worker(client, tmp_path, monkeypatch):
    """All that the driver fetches is a partial answer, as large for 300 records as for 3000."""
    import distributed

    sent = []
    fetch = distributed.Future.result

    def result(self, *args, **kwargs):
        sent.append(fetch(self, *args, **kwargs))
        return sent[-1]

    monkeypatch.setattr(distributed.Future, "result", result)
    monkeypatch.setattr(client, "gather", None)  # no other way is used
    sizes = []
    for n in (300, 3000):
        (tmp_path / str(n)).mkdir()
        sent.clear()
        fit(write_parquet(tmp_path / str(n), X[:n], [n // 3]), Dask(client=client))
        kinds = {type(answer) for answer in sent}
        assert kinds <= {Partial, dict, np.ndarray, int}  # 0 from a worker that is only to answer
        assert all(answer == 0 for answer in sent if isinstance(answer, int))
        assert all(a.table.dtype == np.int64 and a.table.shape == (4, 4) for a in sent if isinstance(a, Partial))
        assert all(isinstance(v, int) for a in sent if isinstance(a, dict) for v in a.values())
        assert all(a.dtype == np.int64 for a in sent if isinstance(a, np.ndarray))
        sizes.append([len(pickle.dumps(a)) for a in sent])
    assert len(sizes[0]) == len(sizes[1])
    assert max(abs(a - b) for a, b in zip(*sizes, strict=True)) < 64


def test_no_message_to_the_driver_holds_a_record(client, tmp_path, monkeypatch):
    """Looks at the bytes that client and scheduler read from their sockets; sampled rows show that it sees them."""
    from distributed.comm import tcp

    record = np.array([0.7231450796127319, 0.1947259902954102, 0.5512743473052979])
    folder = write_parquet(tmp_path, np.tile(record, (3000, 1)), [1000])
    point = grid_points(record[None], BOX)[0]
    marks = [v.tobytes() for t in ("f4", "f8") for v in (np.full(2, point[0], t), point[:2].astype(t))]
    marks.append(record[:1].tobytes())
    read, seen = tcp.from_frames, []

    def watched(frames, *args, **kwargs):
        seen.extend(bytes(frame) for frame in frames)
        return read(frames, *args, **kwargs)

    monkeypatch.setattr(tcp, "from_frames", watched)
    engine = open_data(folder, Dask(client=client)).engine(BOX)
    engine.count()
    engine.cell_statistics(X[:4], X[4:8])
    engine.costs(X[None, :4])
    fit(folder, Dask(client=client))
    assert sum(map(len, seen)) > 1000
    assert not [mark for mark in marks for frame in seen if mark in frame]
    engine.sample_rows(3, np.random.default_rng(0))
    assert [mark for mark in marks for frame in seen if mark in frame]


def test_arrays_in_memory_are_sent_and_survive_a_killed_worker(client, monkeypatch):
    monkeypatch.setattr(dask_engine, "PART_NUMBERS", 1500)
    engine = open_data(X, Dask(client=client)).engine(BOX)
    assert len(engine._parts) == 6  # type: ignore[attr-defined]
    same_statistics(engine)
    timer = kill_soon(two_workers(client)[0], after=0.1)
    assert reveal(engine.answer(SlowCount()), why=WHY).tolist() == [[len(X)]]
    timer.join()
    same_statistics(engine)
    assert np.array_equal(fit(pd.DataFrame(X), Dask(client=client)).cluster_centers_, fit(X).cluster_centers_)


def test_labels_of_arrays_and_frames_are_lazy_and_those_of_memory(client):
    import dask.array as da
    import dask.dataframe as dd

    model = fit(X, Dask(client=client))
    labels = model.predict(da.from_array(X, chunks=(700, 2)))
    assert isinstance(labels, da.Array)
    assert np.array_equal(client.compute(labels).result(), model.predict(X))
    frame = pd.DataFrame(X, columns=list("abc"), index=np.arange(len(X)) + 7)
    model = fit(dd.from_pandas(frame, npartitions=3), Dask(client=client))
    series = model.predict(dd.from_pandas(frame[["c", "a", "b"]], npartitions=2))
    found = client.compute(series).result()
    assert found.name == "cluster"
    assert found.index.equals(frame.index)
    assert np.array_equal(found.to_numpy(), model.predict(frame))
    assert model.score(dd.from_pandas(frame, npartitions=2)) == model.score(frame)


@pytest.mark.parametrize("kind", ["array", "frame"])
def test_nulls_of_dask_objects_are_put_in_the_middle_on_request(client, kind):
    import dask.array as da
    import dask.dataframe as dd

    holed = X.copy()
    holed[2500, 1] = np.nan
    frame = dd.from_pandas(pd.DataFrame(holed, columns=list("abc")), npartitions=2)
    records = da.from_array(holed, chunks=(1000, 3)) if kind == "array" else frame
    name = "column number 1" if kind == "array" else "column 'b' of partition 1"
    with pytest.raises(DataError, match=f"{name}.* has empty cells"):
        fit(records, Dask(client=client))
    found = fit(FrameSource(records, nulls="midpoint"), Dask(client=client))
    assert np.array_equal(found.cluster_centers_, fit(np.where(np.isnan(holed), 0.5, holed)).cluster_centers_)


def test_text_and_missing_values_are_refused_without_showing_them(client):
    import dask.dataframe as dd

    text = dd.from_pandas(pd.DataFrame({"a": [0.5, 0.2], "b": ["8675309", "x"]}), npartitions=1)
    holes = dd.from_pandas(pd.DataFrame({"a": [0.5, 0.2], "b": [0.1, np.nan]}), npartitions=1)
    for frame in (text, holes):
        with pytest.raises(DataError, match="column 'b' of partition 0") as caught:
            fit(frame, Dask(client=client))
        assert "8675309" not in str(caught.value)
