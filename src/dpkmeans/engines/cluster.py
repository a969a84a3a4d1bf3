"""What Dask and Spark share: a connection that is opened once, and waiting that ends when no worker is left."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar
from uuid import uuid4

from dpkmeans.errors import EngineError, MissingFileError

A = TypeVar("A")

WORKER_TIMEOUT = 60.0  # seconds to wait for a worker where there is none
LOOK_EVERY = 1.0  # seconds between two looks at whether there are workers
_SPENT = "What a fit has spent stays spent."


class Connects(Protocol):
    """`Dask` or `Spark`."""

    @property
    def worker_timeout(self) -> float:
        """Seconds to wait for a worker where there is none."""

    def connect(self) -> tuple[Any, Callable[[], None]]:
        """A client or a session, and a function that closes what was opened here."""

    def check(self, opened: Any) -> None:
        """Wait until one worker answers, or refuse."""


class Connection:
    """A client or a session: opened when it is first needed, and closed once. It can be opened again."""

    def __init__(self, place: Connects) -> None:
        self._place = place
        self.worker_timeout = place.worker_timeout
        self._opened: tuple[Any, Callable[[], None]] | None = None

    def open(self) -> Any:
        """The client or the session, once a worker of it answers."""
        if self._opened is None:
            self._opened = self._place.connect()
            try:
                self._place.check(self._opened[0])
            except BaseException:
                self.close()
                raise
        return self._opened[0]

    def reach(self) -> None:
        """Open it now."""
        self.open()

    def close(self) -> None:
        """Close what was opened for it."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened[1]()


def no_worker(seconds: float) -> EngineError:
    """No worker is left, and none came for so long."""
    return EngineError(
        f"there is no worker, and none came for {seconds:g} seconds. {_SPENT}",
        hint="Start workers again, or wait longer with {worker_timeout}.",
    )


def result_of(client: Any, future: Any, worker_timeout: float) -> Any:
    """The result of a Dask future. An error if the cluster has no worker for `worker_timeout` seconds, or is lost."""
    from distributed import CancelledError
    from distributed.scheduler import KilledWorker

    since = None
    while True:
        try:
            return future.result(timeout=LOOK_EVERY)
        except TimeoutError:
            if future.status in ("finished", "error"):
                continue  # the next look gives the result, or the error of the task
        except CancelledError:
            raise EngineError(f"the Dask scheduler was lost, and with it the work. {_SPENT}") from None
        except KilledWorker:
            raise EngineError(
                f"Dask workers were lost again and again at the same work. {_SPENT}",
                hint="They may need more memory, or smaller row groups.",
            ) from None
        now = time.monotonic()
        since = None if _has_dask_worker(client) else since or now
        if since is not None and now - since >= worker_timeout:
            future.cancel()
            raise no_worker(worker_timeout)


def _has_dask_worker(client: Any) -> bool:
    try:
        return bool(client.nthreads())
    except (OSError, TimeoutError):
        return False


def run_job(session: Any, job: Callable[[], A], worker_timeout: float) -> A:
    """The answer of a Spark job. An error if there is no executor for `worker_timeout` seconds, or the job fails.

    Spark's own error may quote a record, so none of its text is shown.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    context, tag = session.sparkContext, f"dpkmeans-{uuid4().hex}"
    done, lost = threading.Event(), threading.Event()

    def watch() -> None:
        since = None
        while not done.wait(LOOK_EVERY):
            now = time.monotonic()
            since = None if _has_executor(context) else since or now
            if since is not None and now - since >= worker_timeout:
                lost.set()
                context.cancelJobsWithTag(tag)
                return

    watcher = threading.Thread(target=watch, daemon=True)
    context.addJobTag(tag)
    watcher.start()
    try:
        return job()
    except (Py4JError, PySparkException) as error:
        if lost.is_set():
            raise no_worker(worker_timeout) from None
        raise EngineError(
            f"a Spark job failed ({type(error).__name__}); the executors' logs say why. {_SPENT}"
        ) from None
    finally:
        done.set()
        watcher.join()
        context.removeJobTag(tag)


def _has_executor(context: Any) -> bool:
    if context.master == "local" or context.master.startswith("local["):
        return True
    return int(context._jsc.sc().getExecutorMemoryStatus().size()) > 1  # the driver is one of them


def on_worker(batches: Iterator[A]) -> Iterator[A]:
    """What is read on a worker: a file that is not there is the worker's to name."""
    try:
        yield from batches
    except MissingFileError as error:
        raise error.on(_worker()) from None


def _worker() -> str:
    try:
        from distributed import get_worker

        return f"worker {get_worker().address}"
    except (ImportError, ValueError):
        return f"worker {socket.gethostname()}"
