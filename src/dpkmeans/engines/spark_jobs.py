"""Answers of Spark jobs, and every way in which none comes: no executor, no memory, other code."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import uuid4

from dpkmeans import interrupts
from dpkmeans.engines.spark_files import GONE
from dpkmeans.engines.waiting import SPENT, Waiting, no_worker
from dpkmeans.errors import EngineError, WorkerMemoryError, WorkerVersionError

A = TypeVar("A")

_LOOK_EVERY = 0.25  # seconds between two looks at whether to go on

# Spark's own text may quote a record, so only these forms are looked for in it, and only what they match is shown.
_OTHER_CODE = re.compile(r"(worker [\w.:-]{1,100}) runs dpkmeans ([\w.+]{1,30}) with code ([0-9a-f]{16})")
_NO_CODE = re.compile(r"No module named 'dpkmeans|Can't get attribute '\w+' on <module 'dpkmeans|from 'dpkmeans")
_NO_MEMORY = re.compile(
    r"Python worker exited unexpectedly|exited with code (137|52)\b|java\.lang\.OutOfMemoryError|"
    r"^([\w.]*\._Array)?MemoryError\b",  # the last line of a Python traceback
    re.MULTILINE,
)
_GONE = re.compile(re.escape(GONE))
_WHERE = re.compile(r"\(TID \d+\) \(([\w.:-]{1,100}) executor (\w{1,30})\)")


class BlocksGoneError(EngineError):
    """The packed blocks of an executor are no longer on its disk. They can be made again."""


def run_job(session: Any, job: Callable[[], A], worker_timeout: float) -> A:
    """The answer of a Spark job. An error if there is no executor for `worker_timeout` seconds, or the job fails.

    A request to stop cancels it.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    context, tag = session.sparkContext, f"dpkmeans-{uuid4().hex}"
    done, lost = threading.Event(), threading.Event()

    def watch() -> None:
        waiting = Waiting(worker_timeout)
        while not done.wait(_LOOK_EVERY):
            try:
                if waiting.is_over(None if _has_executor(context) else "there is no executor"):
                    lost.set()
                if lost.is_set() or interrupts.requested() is not None:
                    context.cancelJobsWithTag(tag)
                    return
            except Exception:  # Java has gone: then the job has failed as well
                return

    watcher = threading.Thread(target=watch, daemon=True)
    interrupts.check()
    try:
        context.addJobTag(tag)
        watcher.start()
        return job()
    except (Py4JError, PySparkException, OSError, EOFError) as error:
        interrupts.check()
        if lost.is_set():
            raise no_worker(worker_timeout) from None
        raise _in_words(error) from None
    finally:
        done.set()
        if watcher.ident is not None:
            watcher.join()
        _untag(context, tag)


def _in_words(error: Exception) -> EngineError:
    text = str(error)
    if other := _OTHER_CODE.search(text):
        return WorkerVersionError.at(*other.groups())
    if _NO_CODE.search(text):
        return WorkerVersionError.unreadable("a Spark executor")
    if _GONE.search(text):
        return BlocksGoneError(f"{GONE}, again and again. {SPENT}", hint="Look at who removes files from its disk.")
    where = _WHERE.search(text)
    at = "a Spark executor" if where is None else f"Spark executor {where[2]} at {where[1]}"
    if _NO_MEMORY.search(text):
        return WorkerMemoryError(
            f"{at} ran out of memory, or lost its process as if it had, again and again at the same work. {SPENT}",
            hint="It needs about 300 MB beside Java's, 4 bytes for each number of its share of the records, and 12 "
            "bytes for each number of its largest row group, for each of its cores.",
        )
    return EngineError(
        f"a Spark job failed ({type(error).__name__}); the executors' logs say why. {SPENT}",
        hint="If Spark itself was stopped, start it again, then fit again.",
    )


def _untag(context: Any, tag: str) -> None:
    try:
        context.removeJobTag(tag)
    except Exception:  # Java has gone, and all tags with it
        return


def _has_executor(context: Any) -> bool:
    if context.master == "local" or context.master.startswith("local["):
        return True
    return int(context._jsc.sc().getExecutorMemoryStatus().size()) > 1  # the driver is one of them
