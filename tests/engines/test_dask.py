"""Dask with real worker processes: any partitioning, killed workers, and what crosses the network."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pandas as pd
import psutil
import pytest
from tests.engines.clusters import SlowCount, blobs, dask_client, kill_soon, write_parquet

from dpkmeans import DPKMeans
from dpkmeans.bounds import Bounds
from dpkmeans.engines.clusters import Dask
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.engines.tasks import Partial
from dpkmeans.errors import DataError
from dpkmeans.opening import open_data
from dpkmeans.privacy.exact import reveal

pytest.importorskip("distributed", reason="the Dask engine needs dask: make setup-scale")
pytestmark = pytest.mark.filterwarnings("ignore")

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
        pids = sorted(client.run(os.getpid).values())
        timer = kill_soon(pids[i % len(pids)])
        assert reveal(engine.ask(SlowCount()), why=WHY).tolist() == [[len(X)]]
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
        assert kinds <= {Partial, dict, np.ndarray}
        assert all(a.table.dtype == np.int64 and a.table.shape == (4, 4) for a in sent if isinstance(a, Partial))
        assert all(isinstance(v, int) for a in sent if isinstance(a, dict) for v in a.values())
        assert all(a.dtype == np.int64 for a in sent if isinstance(a, np.ndarray))
        sizes.append([len(pickle.dumps(a)) for a in sent])
    assert len(sizes[0]) == len(sizes[1])
    assert max(abs(a - b) for a, b in zip(*sizes, strict=True)) < 64


def test_text_and_missing_values_are_refused_without_showing_them(client):
    import dask.dataframe as dd

    text = dd.from_pandas(pd.DataFrame({"a": [0.5, 0.2], "b": ["8675309", "x"]}), npartitions=1)
    holes = dd.from_pandas(pd.DataFrame({"a": [0.5, 0.2], "b": [0.1, np.nan]}), npartitions=1)
    for frame in (text, holes):
        with pytest.raises(DataError, match="column 'b' of partition 0") as caught:
            fit(frame, Dask(client=client))
        assert "8675309" not in str(caught.value)
