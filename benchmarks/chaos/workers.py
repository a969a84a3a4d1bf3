"""Workers, schedulers and masters that are killed, stopped, starved or not there, at random moments of a fit."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.chaos.clusters import (
    COST,
    SOURCE,
    Case,
    Scheduler,
    case,
    dask_scheduler,
    dask_worker,
    end,
    free_port,
    listens,
    running,
    spark_master,
    spark_worker,
    wait_until,
    why_no_dask,
    why_no_spark,
)
from benchmarks.chaos.fault import Fault, Outcome, Tally

WAITED = "there is no"  # what stderr says after fifteen seconds


def _dask(scheduler: Scheduler, timeout: int = 20) -> tuple[str, ...]:
    return ("--engine", "dask", "--scheduler", scheduler.address, "--worker-timeout", str(timeout))


def _spark(master: str, timeout: int = 20) -> tuple[str, ...]:
    return ("--engine", "spark", "--scheduler", master, "--memory", "512MB", "--worker-timeout", str(timeout))


def _says_so(tally: Tally, here: Case, ended: str) -> None:
    """Silence is a fault of its own where nobody works."""
    said = (here.folder / "stderr").read_text()
    silent = "and none came for" in said and f"dpkmeans: {WAITED}" not in said
    tally.must_not("untyped", happened=silent, why="waited in silence")
    tally.saw(ended)


def no_dask_worker(times: int) -> Outcome:
    tally = Tally()
    with case() as here, dask_scheduler(here.folder) as scheduler:
        for _ in range(times):
            _says_so(tally, here, here.fit(tally, *_dask(scheduler)))
    return tally.outcome()


def _after(seconds: float, strike: Callable[[], object]) -> Callable[[subprocess.Popen[str]], None]:
    """Strike so long after the fit was started, unless it has ended."""

    def during(process: subprocess.Popen[str]) -> None:
        deadline = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        strike()

    return during


def _whole(here: Case, *options: str) -> float:
    """How long a fit takes that nothing disturbs."""
    start, tally = time.monotonic(), Tally()
    ended = here.fit(tally, *options)
    if ended != "right result":
        raise RuntimeError(f"the fit did not work before anything was broken: {ended}")
    return time.monotonic() - start


def dask_struck(n_workers: int, what: str) -> Callable[[int], Outcome]:
    """Kill or stop something at a random moment of a fit on so many workers."""

    def run(times: int) -> Outcome:
        tally = Tally()
        whole = None
        for _ in range(times):
            with case() as here, dask_scheduler(here.folder) as scheduler, ExitStack() as stack:
                workers = [stack.enter_context(dask_worker(scheduler, "--no-nanny")) for _ in range(n_workers)]
                scheduler.until_workers(n_workers)
                whole = whole or _whole(here, *_dask(scheduler))
                strikes: dict[str, Callable[[], object]] = {
                    "kill a worker": partial(end, workers[0]),
                    "kill the scheduler": partial(end, scheduler.process),
                    "stop a worker": partial(os.killpg, workers[0].pid, signal.SIGSTOP),
                }
                during = _after(random.uniform(0.3, 1.0) * whole, strikes[what])
                _says_so(tally, here, here.fit(tally, *_dask(scheduler), during=during))
        return tally.outcome()

    return run


def starved_dask_worker(times: int) -> Outcome:
    """A worker whose nanny starts it again whenever it takes more memory than it may."""
    tally = Tally()
    with (
        case() as here,
        dask_scheduler(here.folder) as scheduler,
        dask_worker(scheduler, "--memory-limit", "165MB", "--name", "small"),
    ):
        scheduler.until_workers(1)
        for _ in range(times):
            tally.saw(here.fit(tally, *_dask(scheduler, 60)))
    return tally.outcome()


def _kill_driver(seconds: float, children: list, process: subprocess.Popen[str]) -> None:
    """Kill it, and say which processes it had started."""
    import psutil

    _after(seconds, int)(process)
    if process.poll() is None:
        children.extend(psutil.Process(process.pid).children(recursive=True))
        process.kill()


def killed_driver(times: int) -> Outcome:
    """Workers that a fit started go when it goes, and its spends stay."""
    import psutil

    tally = Tally()
    with case() as here:
        options = ("--engine", "dask", "--workers", "1")
        whole = _whole(here, *options)
        for _ in range(times):
            before = here.spent()
            children: list[psutil.Process] = []
            ended = here.fit(tally, *options, during=partial(_kill_driver, random.uniform(0.3, 1.0) * whole, children))
            left = psutil.wait_procs(children, timeout=60)[1]
            tally.must_not("left_behind", happened=bool(left), why="a worker")
            tally.must_not("lost_spends", happened=here.spent() not in (before, before + COST), why="half of it")
            tally.saw("killed, the ledger right" if ended.startswith("exit -9") else ended)
    return tally.outcome()


# --- Spark ------------------------------------------------------------------------------------------


def no_spark_worker(times: int) -> Outcome:
    tally = Tally()
    with case() as here, spark_master(here.folder) as (_, master):
        for _ in range(times):
            _says_so(tally, here, here.fit(tally, *_spark(master)))
    return tally.outcome()


def spark_struck(what: str) -> Callable[[int], Outcome]:
    def run(times: int) -> Outcome:
        tally, whole = Tally(), None
        for _ in range(times):
            with (
                case() as here,
                spark_master(here.folder) as (process, master),
                spark_worker(here.folder, master) as worker,
            ):
                whole = whole or _whole(here, *_spark(master, 60))
                struck = worker if what == "worker" else process
                during = _after(random.uniform(0.3, 1.0) * whole, partial(end, struck))
                _says_so(tally, here, here.fit(tally, *_spark(master), during=during))
        return tally.outcome()

    return run


_LIMITED = """
import os, signal, threading, time

def _end_above():
    while int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE") < {limit}:
        time.sleep(0.005)
    os.kill(os.getpid(), signal.SIGKILL)

os.register_at_fork(after_in_child=threading.Thread(target=_end_above, daemon=True).start)
"""


def starved_spark_executor(times: int) -> Outcome:
    """Python processes of an executor are killed above 120 MB, as the kernel kills those of a container."""
    tally = Tally()
    with case() as here, spark_master(here.folder) as (_, master):
        limited = here.folder / "limited"
        limited.mkdir()
        (limited / "sitecustomize.py").write_text(_LIMITED.format(limit=120_000_000))
        with spark_worker(here.folder, master, Path(f"{limited}{os.pathsep}{SOURCE}")):
            for _ in range(times):
                ended = here.fit(tally, *_spark(master, 60))
                named = "Spark executor" in ended and "out of memory" in ended
                tally.must_not("untyped", happened=not named, why="the executor is not named")
                tally.saw(ended)
    return tally.outcome()


def absent_master(times: int) -> Outcome:
    """Nobody listens; then somebody who is no Spark master, and hangs up."""
    tally = Tally()
    with case() as here:
        for i in range(times):
            port = free_port()
            if i % 2 == 0:
                tally.saw(here.fit(tally, *_spark(f"spark://127.0.0.1:{port}")))
                continue
            with running([sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]):
                wait_until(partial(listens, port))
                tally.saw(here.fit(tally, *_spark(f"spark://127.0.0.1:{port}")))
    return tally.outcome()


def damaged_on(engine: str) -> Callable[[int], Outcome]:
    """A file whose pages have checksums, and rot; read by workers that are started here."""

    def run(times: int) -> Outcome:
        tally, chance = Tally(), random.Random(1)
        for _ in range(times):
            with case() as here:
                path = here.records / "part-3.parquet"
                content = bytearray(path.read_bytes())
                start = chance.randrange(100, len(content) // 2)
                content[start : start + 200] = chance.randbytes(200)
                path.write_bytes(content)
                here.changed = True
                tally.saw(here.fit(tally, "--engine", engine, "--workers", "1"))
        return tally.outcome()

    return run


ENDS = "a typed error in one line within the stated time, or the right result; spends stay"
SAID = "said after 15 seconds, then a typed error"
NAMED = "a typed error that names the file"


def _on_dask(name: str, promise: str, run: Callable[[int], Outcome], times: int, short: int = 0) -> Fault:
    return Fault(name, promise, run, times, short=short, cluster=True, unavailable=why_no_dask)


def _on_spark(name: str, promise: str, run: Callable[[int], Outcome], times: int, short: int = 0) -> Fault:
    return Fault(name, promise, run, times, short=short, cluster=True, unavailable=why_no_spark)


FAULTS = (
    _on_dask("a Dask cluster without a worker", SAID, no_dask_worker, 2),
    _on_dask("one of two Dask workers is killed", "the right result", dask_struck(2, "kill a worker"), 8),
    _on_dask("the last Dask worker is killed", ENDS, dask_struck(1, "kill a worker"), 6),
    _on_dask("the only Dask worker stops, as a machine that hangs", ENDS, dask_struck(1, "stop a worker"), 4),
    _on_dask("the Dask scheduler is killed", ENDS, dask_struck(1, "kill the scheduler"), 8, short=1),
    _on_dask(
        "a Dask worker has too little memory", "named after three restarts, with what it needs", starved_dask_worker, 2
    ),
    _on_dask("the driver of a fit on Dask is killed", "its workers go, its spends stay", killed_driver, 6),
    _on_dask("a damaged file on Dask", NAMED, damaged_on("dask"), 2),
    _on_spark("a Spark master without a worker", SAID, no_spark_worker, 2),
    _on_spark("the Spark worker and its executor are killed", ENDS, spark_struck("worker"), 4),
    _on_spark("a Spark executor has too little memory", "named, with what it needs", starved_spark_executor, 2),
    _on_spark("the Spark master is killed", ENDS, spark_struck("master"), 4),
    _on_spark("no Spark master at the address", "a typed error in one line", absent_master, 4, short=1),
    _on_spark("a damaged file on Spark", NAMED, damaged_on("spark"), 2),
)
