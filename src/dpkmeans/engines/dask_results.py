"""Results of Dask futures, and every way in which none comes: no worker, no memory, no scheduler, other code."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from dpkmeans import interrupts
from dpkmeans.engines.waiting import LOOK_EVERY, SPENT, Waiting, no_worker
from dpkmeans.errors import DPKMeansError, EngineError, WorkerMemoryError, WorkerVersionError

A = TypeVar("A")

MOST_RESTARTS = 3  # of one worker for lack of memory, in one pass
_ANSWER = 10.0  # seconds for a scheduler to say who works for it
_NO_WORKER, _SILENT = "there is no worker", "no worker answers"
_NO_SCHEDULER, _PAUSED = "the scheduler does not answer", "no worker has memory left"
_NEEDS = (
    "A worker needs about 300 MB for itself, 4 bytes for each number of its share of the records, and 12 bytes for "
    "each number of its largest row group."
)


def result_of(client: Any, future: Any, worker_timeout: float) -> Any:
    """The result of a Dask future. An error if nobody works on it for `worker_timeout` seconds, or the work is lost."""
    waiting, look = Waiting(worker_timeout), _Look(client)
    while True:
        interrupts.check()
        with cluster_errors(look.died_of_memory):
            try:
                return future.result(timeout=LOOK_EVERY)
            except TimeoutError:
                if future.status == "error":
                    raise future.exception() from None
                if future.status == "finished":
                    continue
        missing = look.missing()
        if waiting.is_over(missing):
            with cluster_errors():
                future.cancel()
            raise _given_up(missing, worker_timeout, look)


@contextmanager
def cluster_errors(died_of_memory: Callable[[str], bool] = lambda _: False) -> Iterator[None]:
    """What Dask raises when the cluster fails, as our own errors. Whatever else a task raises passes through.

    `died_of_memory` says whether the worker at an address did.
    """
    from distributed import CancelledError
    from distributed.client import ClosedClientError
    from distributed.comm.core import CommClosedError
    from distributed.scheduler import KilledWorker

    try:
        yield
    except DPKMeansError:
        raise
    except KilledWorker as error:
        last = error.last_worker
        if died_of_memory(last.address):
            raise out_of_memory(
                "and others before it were lost at the same work", last.name, last.memory_limit
            ) from None
        raise EngineError(
            f"Dask workers were lost again and again at the same work, the last at {last.address}. {SPENT}",
            hint=f"The logs of the workers say why; lack of memory is usual. {_NEEDS}",
        ) from None
    except MemoryError:
        raise WorkerMemoryError(f"a Dask worker had no memory left for its part. {SPENT}", hint=_NEEDS) from None
    except (ImportError, AttributeError) as error:
        if "dpkmeans" in str(error):
            raise WorkerVersionError.unreadable("a Dask worker") from None
        raise
    except (CancelledError, CommClosedError, ClosedClientError):
        raise _lost() from None
    except RuntimeError as error:
        if "deserialization" in str(error):
            raise WorkerVersionError.unreadable("the Dask scheduler") from None
        raise


def check_code(client: Any) -> None:
    """Refuse a cluster with a worker that runs other code, or none of ours. One that joins later is asked by its tasks.

    The question needs no dpkmeans there: a worker that cannot load a task ends itself. One that does not answer in time
    is asked by its tasks too.
    """
    from dpkmeans.engines.same_code import asked_code, code_here

    answers: dict[str, Any] = {}

    def ask() -> None:
        try:
            answers.update(client.run(asked_code(), on_error="return"))
        except Exception:  # the cluster is lost, or the client was closed meanwhile: the next result says it
            return

    asking = threading.Thread(target=ask, daemon=True, name="dpkmeans-code")
    asking.start()
    asking.join(_ANSWER)
    for worker, found in dict(answers).items():
        if isinstance(found, BaseException):
            continue
        if found is None:
            raise WorkerVersionError.unreadable(f"worker {worker}")
        if found != (code_here().version, code_here().digest):
            raise WorkerVersionError.at(f"worker {worker}", *found)


def _lost() -> EngineError:
    return EngineError(
        f"the Dask scheduler was lost, and with it the work. {SPENT}", hint="Start it again, then fit again."
    )


def _given_up(missing: str | None, seconds: float, look: _Look) -> EngineError:
    if missing == _NO_SCHEDULER:
        return EngineError(
            f"the Dask scheduler did not answer for {seconds:g} seconds. {SPENT}",
            hint="Look whether it runs, or wait longer with {worker_timeout}.",
        )
    if missing == _SILENT:
        return EngineError(
            f"there are workers, and none of them answered for {seconds:g} seconds. {SPENT}",
            hint="Look at their machines and the network, or wait longer with {worker_timeout}.",
        )
    if missing == _PAUSED:
        return out_of_memory("has stopped taking work", *look.last_paused)
    return no_worker(seconds)


def out_of_memory(what: str, name: object, limit: int) -> WorkerMemoryError:
    """A worker by its name, with the memory it has and what it would need."""
    allowed = "no limit of its own" if not limit else f"{in_bytes(limit)}"
    more = "" if not limit else f" Give it at least {in_bytes(2 * limit)}, or have smaller row groups."
    return WorkerMemoryError(f"worker {name} {what} for lack of memory; it has {allowed}. {SPENT}", hint=_NEEDS + more)


def in_bytes(n: int) -> str:
    """A size in words.

    >>> in_bytes(500_000_000), in_bytes(3_200_000_000)
    ('500 MB', '3.2 GB')
    """
    return f"{n / 1e9:.3g} GB" if n >= 10**9 else f"{n / 1e6:.0f} MB"


class _Look:
    """Who works on the cluster now, and whose process had to be started again for lack of memory."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._known: dict[str, tuple[str, str, int]] = {}  # address: nanny, name, memory
        self._seen: int | None = None  # restarts before this look
        self._restarts: Counter[tuple[str, str, int]] = Counter()
        self._heard: dict[str, float] = {}  # address: when the scheduler heard of it last, by its own clock
        self.last_paused = ("", 0)

    def missing(self) -> str | None:
        """What is missing for the work to go on, if anything is."""
        threads = self._ask(lambda: self._client.nthreads(callback_timeout=_ANSWER))
        if threads is None:
            return _NO_SCHEDULER
        workers = (self._ask(self._client.scheduler_info) or {}).get("workers", {})
        self._count_restarts(workers)
        if not threads:
            return _NO_WORKER
        before, self._heard = self._heard, {address: one["last_seen"] for address, one in workers.items()}
        if workers and before == self._heard:
            return _SILENT
        paused = [one for one in workers.values() if one["status"] == "paused" and not _is_busy(one)]
        if workers and len(paused) == len(workers):
            self.last_paused = (str(paused[0]["name"]), int(paused[0]["memory_limit"] or 0))
            return _PAUSED
        return None

    def _count_restarts(self, workers: dict[str, Any]) -> None:
        for address, one in workers.items():
            self._known[address] = (one["nanny"] or address, str(one["name"]), int(one["memory_limit"] or 0))
        events = self._ask(lambda: self._client.get_events("worker-restart-memory")) or ()
        new = () if self._seen is None else events[self._seen :]
        self._seen = len(events)
        for _, event in new:
            address = event["worker"]
            worker = self._known.get(address, (address.rpartition(":")[0], address, 0))
            self._restarts[worker] += 1
            if self._restarts[worker] >= MOST_RESTARTS:
                _, name, limit = worker
                raise out_of_memory(f"was started again {MOST_RESTARTS} times in one pass", name, limit)

    def died_of_memory(self, address: str) -> bool:
        """Whether the worker at this address was ended for taking too much."""
        events = self._ask(lambda: self._client.get_events("worker-restart-memory")) or ()
        return any(event["worker"] == address for _, event in events)

    def _ask(self, question: Callable[[], A]) -> A | None:
        from distributed import CancelledError

        try:
            return question()
        except (OSError, TimeoutError, CancelledError, RuntimeError):  # the scheduler is lost, or the client is closed
            return None


def _is_busy(worker: dict[str, Any]) -> bool:
    counts = worker["metrics"].get("task_counts", {})
    return bool(counts.get("executing") or counts.get("long-running"))
