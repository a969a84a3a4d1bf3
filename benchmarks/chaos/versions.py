"""Workers with other code: an older or a newer version, another kernel, or no dpkmeans at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from benchmarks.chaos.clusters import (
    SOURCE,
    case,
    dask_scheduler,
    dask_worker,
    spark_master,
    spark_worker,
    why_no_dask,
    why_no_spark,
)
from benchmarks.chaos.fault import Fault, Outcome, Tally


def another_version(code: Path) -> None:
    """One that knows of no check."""
    (code / "dpkmeans/engines/same_code.py").unlink()
    _change(code / "dpkmeans/__init__.py", "__version__ = ", "__version__ = '0.0.1'  # ")
    for path in (code / "dpkmeans").rglob("*.py"):
        text = path.read_text()
        if "same_code" in text:
            lines = [line for line in text.splitlines() if "import same_code" not in line]
            path.write_text("\n".join(lines).replace("same_code(", "("))


def another_kernel(code: Path) -> None:
    """The same version, with counts that are one too high in the sums of a query."""
    _change(code / "dpkmeans/engines/block_tasks.py", "now.counts.astype(np.int64)", "now.counts.astype(np.int64) + 1")


def no_dpkmeans(code: Path) -> None:
    shutil.rmtree(code / "dpkmeans")
    (code / "dpkmeans").mkdir()
    (code / "dpkmeans/__init__.py").touch()


KINDS: dict[str, Callable[[Path], None]] = {
    "an older version": another_version,
    "another kernel": another_kernel,
    "no dpkmeans": no_dpkmeans,
}


def _change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def other_code(folder: Path, kind: str) -> Path:
    """A copy of the package with other code."""
    code = folder / kind.replace(" ", "-")
    if not code.exists():
        shutil.copytree(SOURCE / "dpkmeans", code / "dpkmeans", ignore=shutil.ignore_patterns("__pycache__"))
        KINDS[kind](code)
    return code


def on_dask(kind: str, joins_later: bool) -> Callable[[int], Outcome]:
    def run(times: int) -> Outcome:
        tally = Tally()
        with case() as here, dask_scheduler(here.folder) as scheduler:
            options = ("--engine", "dask", "--scheduler", scheduler.address, "--worker-timeout", "20")
            for _ in range(times):
                if not joins_later:
                    with dask_worker(scheduler, "--no-nanny", code=other_code(here.folder, kind)):
                        scheduler.until_workers(1)
                        tally.saw(here.fit(tally, *options))
                else:
                    with dask_worker(scheduler, "--no-nanny"), dask_worker(
                        scheduler, "--no-nanny", code=other_code(here.folder, kind)
                    ):  # fmt: skip
                        scheduler.until_workers(2)
                        tally.saw(here.fit(tally, *options))
                scheduler.until_workers(0)
        return tally.outcome()

    return run


def on_spark(kind: str) -> Callable[[int], Outcome]:
    def run(times: int) -> Outcome:
        tally = Tally()
        with case() as here, spark_master(here.folder) as (_, master):
            options = ("--engine", "spark", "--scheduler", master, "--memory", "512MB", "--worker-timeout", "40")
            with spark_worker(here.folder, master, code=other_code(here.folder, kind)):
                for _ in range(times):
                    tally.saw(here.fit(tally, *options))
        return tally.outcome()

    return run


PROMISE = "a typed error, and nothing that it computed is added up"
FAULTS = (
    *(
        Fault(f"a Dask worker with {kind}", PROMISE, on_dask(kind, False), times=2,
              short=int(kind == "another kernel"), cluster=True, unavailable=why_no_dask)
        for kind in KINDS
    ),
    Fault("a Dask worker with another kernel beside a right one", "a typed error, or the right result",
          on_dask("another kernel", True), times=4, short=0, cluster=True, unavailable=why_no_dask),
    *(
        Fault(f"a Spark executor with {kind}", PROMISE, on_spark(kind), times=2, short=0, cluster=True,
              unavailable=why_no_spark)
        for kind in KINDS
    ),
)  # fmt: skip
