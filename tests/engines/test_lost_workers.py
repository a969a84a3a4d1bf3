"""Workers that are not there, go away, or cannot see the files: real processes, with a stated time to wait."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.engines.clusters import blobs, write_parquet

import dpkmeans
from dpkmeans import DPKMeans, DurableLedger
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import reveal
from dpkmeans.data.source import Files
from dpkmeans.engines import waiting
from dpkmeans.engines.config import Dask
from dpkmeans.engines.open import open_data
from dpkmeans.errors import (
    ChangedFileError,
    DataError,
    EngineError,
    MissingFileError,
    WorkerMemoryError,
    WorkerVersionError,
)
from dpkmeans.session import FitRequest, run

pytest.importorskip("distributed", reason="the Dask engine needs dask: make setup-scale")
pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]

X = blobs(3000)


@pytest.fixture(scope="module")
def scheduler():
    """A Dask scheduler without workers."""
    from distributed import LocalCluster

    with LocalCluster(n_workers=0, dashboard_address=None, silence_logs=50) as cluster:
        yield cluster.scheduler


@contextmanager
def worker(scheduler, *prefix):
    """A worker process, as on another machine: nobody starts it again."""
    code = (
        f"from distributed.cli.dask_worker import main; main(['{scheduler.address}', '--no-nanny', '--no-dashboard'])"
    )
    command = [*prefix, sys.executable, "-c", code]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not scheduler.workers and time.monotonic() < deadline:
        time.sleep(0.05)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        while scheduler.workers and time.monotonic() < deadline + 60:
            time.sleep(0.05)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "visits").mkdir()
    return write_parquet(tmp_path / "visits", X, [1000])


@pytest.fixture
def store(tmp_path):
    store = DurableLedger.create(tmp_path / "ledger.db")
    store.add("visits", 3.0)
    return store


def table(folder):
    """The records as a CSV file."""
    pd.DataFrame(X, columns=["x0", "x1", "x2"]).to_csv(folder / "x.csv", index=False)
    return folder / "x.csv"


def test_workers_of_a_given_cluster_read_csv_files_by_themselves(scheduler, tmp_path):
    files = Files(table(tmp_path), ("x0", "x1", "x2"))
    options = {"epsilon": 1.0, "bounds": (0, 1), "random_state": 3, "guarantee": "none"}
    with worker(scheduler):
        opened = open_data(files, Dask(scheduler=scheduler.address))
        found = run(FitRequest(n_clusters=4, **options), opened).release
    assert np.array_equal(found.centroids, DPKMeans(4, **options).fit(X).cluster_centers_)
    (tmp_path / "x.csv").write_text("x0,x1,x2\n")
    with pytest.raises(DataError, match=r"x\.csv has no records"):
        open_data(files, Dask(scheduler=scheduler.address))


def fit(records, store, engine):
    model = DPKMeans(4, epsilon=1.0, bounds=(0, 1), method="su", engine=engine, ledger=store, dataset="visits")
    return model.fit(records)


def test_a_scheduler_without_workers_is_refused_before_anything_is_spent(scheduler, folder, store):
    with pytest.raises(EngineError, match=r"there is no worker, and none came for 0\.5 seconds"):
        fit(folder, store, Dask(scheduler=scheduler.address, worker_timeout=0.5))
    assert store.dataset("visits").spent == Epsilon(0)


def test_when_the_last_worker_is_killed_the_fit_ends_and_its_spends_stay(scheduler, folder, store):
    with worker(scheduler) as process:

        def kill(report):
            if report.number == 1:
                os.kill(process.pid, signal.SIGKILL)

        with pytest.raises(EngineError, match=r"there is no worker, and none came for 1 seconds.* stays spent"):
            fit(folder, store, Dask(scheduler=scheduler.address, worker_timeout=1.0, watch=kill))
    assert store.dataset("visits").spent == Epsilon.of(1.0)  # reserved before the first noise, and not given back
    assert store.verify().intact
    with worker(scheduler):
        assert len(fit(folder, store, Dask(scheduler=scheduler.address)).cluster_centers_) == 4


def can_mount():
    command = ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"]
    return shutil.which("unshare") and subprocess.run(command, check=False, capture_output=True).returncode == 0


@pytest.mark.skipif(
    not can_mount(), reason="a worker with a file system of its own needs unshare(1), and the right to mount"
)
def test_a_worker_that_cannot_see_the_files_says_so(scheduler, folder, store, monkeypatch):
    monkeypatch.chdir(folder.parent)
    apart = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(folder)]
    with worker(scheduler, *apart), pytest.raises(MissingFileError) as caught:
        fit("visits", store, Dask(scheduler=scheduler.address))
    csv = Files(table(folder.parent), ("x0", "x1", "x2"))
    shutil.copy(csv.path, folder)
    with (
        worker(scheduler, *apart),
        pytest.raises(MissingFileError, match=r"visits/x\.csv was not found on worker tcp://"),
    ):
        fit(replace(csv, path="visits/x.csv"), store, Dask(scheduler=scheduler.address))
    expected = r"/part-0[01]\.parquet was not found on worker tcp://\S+\. Workers need shared storage: the same path on"
    assert re.match(re.escape(str(folder)) + expected, str(caught.value))
    assert store.dataset("visits").spent == Epsilon(0)


def test_a_file_that_went_away_is_missing_and_not_damaged(scheduler, folder):
    engines = [open_data(folder).engine(Bounds.of((0, 1), 3))]
    with worker(scheduler):
        opened = open_data(folder, Dask(scheduler=scheduler.address))
        engines.append(opened.engine(Bounds.of((0, 1), 3)))
        (folder / "part-01.parquet").rename(folder / "elsewhere")
        for engine, where in zip(engines, ("", " on worker tcp"), strict=True):
            with pytest.raises(MissingFileError, match=f"part-01.parquet was not found{where}"):
                engine.cell_statistics(X[:4])
        opened.close()


def other_code(folder, kind):
    """A copy of the package: with a changed kernel, or of a version that has no check, or empty."""
    source = Path(dpkmeans.__file__).parent
    copy = folder / kind / "dpkmeans"
    if kind == "empty":
        copy.mkdir(parents=True)
        (copy / "__init__.py").touch()
        return copy.parent
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    if kind == "older":
        (copy / "engines/same_code.py").unlink()
    else:
        path = copy / "engines/block_tasks.py"
        path.write_text(path.read_text().replace("now.counts.astype(np.int64)", "now.counts.astype(np.int64) + 1"))
    return copy.parent


@pytest.mark.parametrize("kind", ["kernel", "older", "empty"])
def test_a_worker_with_other_code_is_refused_before_anything_is_spent(scheduler, folder, store, tmp_path, kind):
    expected = "runs dpkmeans .* which is not the code here" if kind == "kernel" else "cannot load the work"
    with (
        worker(scheduler, "env", f"PYTHONPATH={other_code(tmp_path, kind)}"),
        pytest.raises(WorkerVersionError, match=f"worker tcp://\\S+ {expected}"),
    ):
        fit(folder, store, Dask(scheduler=scheduler.address))
    assert store.dataset("visits").spent == Epsilon(0)


def test_a_worker_with_other_code_that_joins_later_adds_nothing(scheduler, folder, tmp_path):
    with worker(scheduler) as right:
        opened = open_data(folder, Dask(scheduler=scheduler.address))
        engine = opened.engine(Bounds.of((0, 1), 3))
        expected = reveal(engine.count(), why="a test looks")
        assert expected == len(X)
        os.kill(right.pid, signal.SIGKILL)
        right.wait()
        while scheduler.workers:
            time.sleep(0.05)
        with (
            worker(scheduler, "env", f"PYTHONPATH={other_code(tmp_path, 'kernel')}"),
            pytest.raises(WorkerVersionError, match="which is not the code here"),
        ):
            engine.cell_statistics(X[:4])
        opened.close()


def test_a_worker_that_dies_of_memory_is_named_with_what_it_needs(folder, store):
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=1, memory_limit="165MB", dashboard_address=None, silence_logs=50) as cluster,
        Client(cluster, set_as_default=False) as client,
        pytest.raises(WorkerMemoryError, match=r"for lack of memory; it has 165 MB.* at least 330 MB"),
    ):
        fit(folder, store, Dask(client=client))
    assert store.dataset("visits").spent <= Epsilon.of(1)  # what was booked before the worker died stays booked


def test_waiting_is_said_on_stderr_before_it_is_given_up(scheduler, folder, store, monkeypatch, capsys):
    monkeypatch.setattr(waiting, "SAY_AFTER", 1.0)
    with pytest.raises(EngineError, match="there is no worker, and none came for 3 seconds"):
        fit(folder, store, Dask(scheduler=scheduler.address, worker_timeout=3.0))
    assert capsys.readouterr().err == "dpkmeans: there is no worker; giving up after 3 seconds of waiting.\n"


def test_a_file_that_changed_is_refused_by_the_worker_that_reads_it_again(scheduler, folder):
    with worker(scheduler) as first:
        opened = open_data(folder, Dask(scheduler=scheduler.address))
        engine = opened.engine(Bounds.of((0, 1), 3))
        engine.count()
        write_parquet(folder, X[::-1], [1000])
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        while scheduler.workers:
            time.sleep(0.05)
        with worker(scheduler), pytest.raises(ChangedFileError, match="changed after the records were opened"):
            engine.cell_statistics(X[:4])
        opened.close()
