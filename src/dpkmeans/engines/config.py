"""Values for `engine=`: where a fit runs, in this process, on Dask workers or on Spark executors.

`watch` is called after each pass over the records. It is for the data holder: the number of records is private.
"""

from __future__ import annotations

import logging
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dpkmeans import interrupts
from dpkmeans.engines.block_engine import Watch
from dpkmeans.engines.dask_results import check_code, cluster_errors, result_of
from dpkmeans.engines.reach import reach_dask, reach_spark
from dpkmeans.engines.same_code import same_code
from dpkmeans.engines.spark_jobs import run_job
from dpkmeans.engines.waiting import WORKER_TIMEOUT
from dpkmeans.errors import EngineError, MethodError
from dpkmeans.storage.temporary import TemporaryFolder

_LIGHT_JAVA = "-XX:TieredStopAtLevel=1"
"""For Java on this machine, which here only hands out tasks: compiling it better costs more than it gains."""
_QUIET = {
    # a worker lost a few times is not the fault of the task that it ran; one lost each time is
    "distributed.scheduler.allowed-failures": 10,
    # Dask profiles itself all the time, which costs a tenth of a processor
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
}


@dataclass(frozen=True)
class Stream:
    """Read the records again for each pass, in this process. `batch_rows` and `n_threads` change speed, not results."""

    batch_rows: int | None = None
    n_threads: int | None = None
    watch: Watch | None = None


@dataclass(frozen=True)
class Dask:
    """Dask workers: of an existing `client`, of the `scheduler` at an address, or `workers` local processes.

    `memory` is what each local worker may use, such as "500MB". A fit waits `worker_timeout` seconds for a worker where
    there is none, at its start and later, and then fails with an `EngineError`.
    """

    client: Any = None
    scheduler: str | None = None
    workers: int | None = None
    memory: str | None = None
    watch: Watch | None = None
    worker_timeout: float = WORKER_TIMEOUT

    def connect(self) -> tuple[Any, Callable[[], None]]:
        """A client, and a function that closes what was opened here."""
        try:
            import dask
            from distributed import Client, LocalCluster
        except ImportError:
            raise MethodError("The Dask engine needs dask. Install it with: pip install 'dpkmeans[dask]'") from None
        if self.client is not None:
            return self.client, _nothing
        if self.scheduler is not None:
            reach_dask(self.scheduler)
            restore = _silence_distributed()
            client = Client(self.scheduler, set_as_default=False)

            def end() -> None:
                client.close()
                restore()

            return client, end
        if (default := self._default_client()) is not None:
            return default, _nothing
        folder = TemporaryFolder()  # workers with too little memory put records on the disk
        with dask.config.set({**_QUIET, "temporary-directory": str(folder.path)}):  # the scheduler's, too
            cluster = LocalCluster(
                n_workers=self.workers or 2,
                threads_per_worker=1,
                processes=True,
                memory_limit=self.memory or "auto",
                dashboard_address=None,
                silence_logs=50,
                local_directory=str(folder.path),
            )
        client = Client(cluster, set_as_default=False)

        def close() -> None:
            client.close()
            cluster.close()
            folder.close()

        return client, close

    @property
    def starts_workers(self) -> bool:
        """Whether workers are started here: they see what this process sees. Others may be on other machines."""
        return self.client is None and self.scheduler is None and self._default_client() is None

    def _default_client(self) -> Any:
        """Dask's own default, unless local workers are asked for."""
        if self.workers is not None or self.memory is not None:
            return None
        try:
            from distributed import default_client

            return default_client()
        except (ImportError, ValueError):
            return None

    def check(self, client: Any) -> None:
        """Wait until a worker does something, and refuse workers that run other code."""
        with cluster_errors():
            future = client.submit(int, pure=False)  # every worker can load that
        result_of(client, future, self.worker_timeout)
        check_code(client)


@dataclass(frozen=True)
class Spark:
    """Spark executors: of an existing `session`, of the `master` at an address, or `workers` local ones.

    `memory` and `worker_timeout` are as in `Dask`.
    """

    session: Any = None
    master: str | None = None
    workers: int | None = None
    memory: str | None = None
    watch: Watch | None = None
    worker_timeout: float = WORKER_TIMEOUT

    def connect(self) -> tuple[Any, Callable[[], None]]:
        """A session, and a function that closes what was opened here."""
        try:
            from pyspark.sql import SparkSession
        except ImportError:
            raise MethodError(
                "The Spark engine needs pyspark. Install it with: pip install 'dpkmeans[spark]'"
            ) from None
        if self.session is not None:
            return self.session, _nothing
        if (active := self._active_session()) is not None:
            return active, _nothing
        return self._start(SparkSession)

    @property
    def starts_workers(self) -> bool:
        """As in `Dask`."""
        local = self.master is None or self.master.startswith("local")
        return self.session is None and local and self._active_session() is None

    def _active_session(self) -> Any:
        """The session that is active already, unless a master is named."""
        try:
            from pyspark.sql import SparkSession
        except ImportError:
            return None
        return SparkSession.getActiveSession() if self.master is None else None

    def check(self, session: Any) -> None:
        """Wait until an executor does something."""
        nothing = session.sparkContext.parallelize([0], 1).flatMap(same_code(lambda _: ()))
        run_job(session, nothing.collect, self.worker_timeout)

    def _start(self, kind: Any) -> tuple[Any, Callable[[], None]]:
        import os
        import sys

        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if self.master is not None:
            reach_spark(self.master)
        builder = kind.builder.master(self.master or f"local[{self.workers or 2}]").appName("dpkmeans")
        builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
        builder = builder.config("spark.log.level", "OFF")  # an error says it, in one line and without a record
        folder = TemporaryFolder()
        if self.master is None:  # executors put records on the disk where memory is short
            builder = builder.config("spark.local.dir", str(folder.path))
            builder = builder.config("spark.driver.defaultJavaOptions", _LIGHT_JAVA)
        if self.memory is not None:
            size = self.memory.lower().removesuffix("b")
            builder = builder.config("spark.driver.memory", size).config("spark.executor.memory", size)
        handler = signal.getsignal(signal.SIGINT)
        before = kind.getActiveSession()  # Spark hands it out again, whatever the master
        try:
            with _temporary_files_in(folder):
                session = _started(builder)
        except Exception as error:  # pyspark raises its own exceptions if Java is missing or the master is unknown
            if self.master is None or "JAVA_GATEWAY_EXITED" in str(error):
                raise EngineError(
                    f"Spark could not be started ({type(error).__name__}). It needs Java 17 or newer; set JAVA_HOME."
                ) from None
            raise EngineError(
                f"the Spark master at {self.master!r} did not take the application ({type(error).__name__}).",
                hint="Look whether it runs, whether it is of the same version of Spark, and whether it can reach this "
                "machine.",
            ) from None
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)  # Spark's own raises an exception at any moment

        def close() -> None:
            if before is None or session.sparkContext is not before.sparkContext:
                stop_spark(session)
            folder.close()

        return session, close


def _started(builder: Any) -> Any:
    """A Spark session. The command starts it on a thread of its own, where Spark puts no handler of SIGINT in place.

    That handler raises an exception at any moment, and ends the process with a traceback if that is too early.
    """
    if not interrupts.is_process_ours():
        return builder.getOrCreate()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(builder.getOrCreate).result()


@contextmanager
def _temporary_files_in(folder: TemporaryFolder) -> Iterator[None]:
    """Where Spark leaves a file behind if it is interrupted as it starts. A process that is not ours is left alone."""
    if not interrupts.is_process_ours():
        yield
        return
    before, tempfile.tempdir = tempfile.tempdir, str(folder.path)
    try:
        yield
    finally:
        tempfile.tempdir = before


def _silence_distributed() -> Callable[[], None]:
    """Keep tracebacks of a lost scheduler off stderr: an error says it. The result puts things back as they were."""
    handlers = list(logging.getLogger("distributed").handlers)
    levels = [handler.level for handler in handlers]
    for handler in handlers:
        handler.setLevel(logging.CRITICAL)

    def restore() -> None:
        for handler, level in zip(handlers, levels, strict=True):
            handler.setLevel(level)

    return restore


def stop_spark(session: Any) -> None:
    """Stop a session and the Java process behind it."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    session.stop()
    if gateway is not None:
        process = getattr(gateway, "proc", None)
        gateway.shutdown()
        if process is not None:
            process.stdin.close()
            process.wait(30)
        SparkContext._gateway = None
        SparkContext._jvm = None


def _nothing() -> None:
    return
