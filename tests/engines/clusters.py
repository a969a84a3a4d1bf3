"""Dask workers and Spark executors for tests: real processes, started once, and stopped at the end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

import dpkmeans
from dpkmeans.core.query import Sensitivity


@contextmanager
def dask_client(n_workers=2):
    pytest.importorskip("distributed", reason="the Dask engine needs dask: make setup-scale")
    import dask
    from distributed import Client, LocalCluster

    settings = {
        "distributed.scheduler.allowed-failures": 100,
        "distributed.nanny.pre-spawn-environ.OMP_NUM_THREADS": 1,
        "distributed.comm.compression": False,  # so that a test can look at messages
    }
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def why_no_spark():
    """None, or why Spark cannot run here."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "the Spark engine needs pyspark: make setup-scale"
    java = os.path.join(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else shutil.which("java")
    if java is None or not os.path.exists(java):
        return "Spark needs Java 17 or newer; there is none"
    text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    major = text.split('"')[1].split(".")[0] if '"' in text else "0"
    return None if int(major) >= 17 else f"Spark needs Java 17 or newer; this is {major}"


_started = []
"""The Spark session of this process. Starting Java, executors and their Python workers takes longer than most tests."""
_shared = ExitStack()
_clients = []
"""The Dask client of this process, and what stops its two workers."""


@contextmanager
def shared_dask_client():
    """A client of two workers, which the tests of a process share; for tests that neither kill nor change them."""
    if not _clients:
        _clients.append(_shared.enter_context(dask_client(2)))
    yield _clients[0]


@contextmanager
def spark_session():
    """A real cluster of two executor processes, which the tests of a process share; see `stop_started`."""
    reason = why_no_spark()
    if reason is not None:
        pytest.skip(reason)
    if not _started:
        _started.append(_start_spark())
    yield _started[0]


def stop_started():
    """Stop what the tests of this process shared; called when they have ended."""
    from dpkmeans.engines.config import stop_spark

    _clients.clear()
    _shared.close()

    while _started:
        stop_spark(_started.pop())


def _start_spark():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    code = (Path(dpkmeans.__file__).parents[1], Path(__file__).parents[2])  # the package, and queries of these tests
    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "2")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")  # pandas frames of tests go in at once
        .config("spark.executorEnv.PYTHONPATH", os.pathsep.join(map(str, code)))
        .config("spark.task.maxFailures", "8")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


def blobs(n=4000, d=3, k=4, seed=0):
    """Records around k places in the unit box."""
    rng = np.random.default_rng(seed)
    return rng.random((k, d))[rng.integers(k, size=n)] + rng.normal(0, 0.05, (n, d))


def write_parquet(folder, X, edges, row_group_size=1500):
    """The records in several files, cut at `edges`."""
    import pyarrow as pa
    from pyarrow import parquet

    names = [f"x{j}" for j in range(X.shape[1])]
    for i, rows in enumerate(np.split(X, edges)):
        columns = {name: rows[:, j] for j, name in enumerate(names)}
        parquet.write_table(pa.table(columns), folder / f"part-{i:02}.parquet", row_group_size=row_group_size)
    return folder


class SlowCount:
    """A query that takes its time, so that a process can be killed in the middle of a pass."""

    shape = (1, 1)
    sensitivity = Sensitivity.of_row((1,))

    def add(self, tiles, n, table):
        time.sleep(0.1)
        table[0, 0] += n


class TooLargeCount(SlowCount):
    """A query that takes more memory than there is, or whose process is killed for that, as by the kernel."""

    def __init__(self, *, killed):
        self.killed = killed

    def add(self, tiles, n, table):
        if self.killed:
            os.kill(os.getpid(), signal.SIGKILL)
        table[0, 0] += len(np.zeros(2**55))


def two_workers(client):
    """Process ids of the Dask workers, once there are two: one has to outlive the other.

    A nanny whose worker is killed while it starts may give up, and take down a worker that has registered. Then
    a further worker is started. Only workers that answer are counted.
    """
    for _ in range(10):
        try:
            client.wait_for_workers(2, timeout=30)
        except TimeoutError:
            client.cluster.scale(len(client.cluster.worker_spec) + 1)
            client.wait_for_workers(2, timeout=60)
        pids = client.run(os.getpid, on_error="ignore")
        if len(pids) >= 2:
            return sorted(pids.values())
    raise AssertionError(f"two workers were asked ten times and never both answered: {client}")


def kill_soon(pid, after=0.25):
    """Kill a process without a warning, a moment from now."""
    timer = threading.Timer(after, os.kill, (pid, signal.SIGKILL))
    timer.start()
    return timer
