"""Limits of memory that are too small for a fit, and records that are too many for one."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.chaos.fault import Fault, Outcome, Tally

COMMAND = "import sys; from dpkmeans.cli.main import main; sys.exit(main())"
LIMITS = (600, 1000, 1500, 2000)  # megabytes
MANY_ROWS, ENOUGH_FOR_FEW = 50_000_000, 3500
SECONDS = 240.0  # after which a fit counts as hung; 200 million records are read for most of a minute


def _fit(data: Path, megabytes: int, *more: str) -> subprocess.CompletedProcess[str] | None:
    """A fit under the limit; None if it does not end."""
    size = megabytes * 10**6
    options = ["--k", "2", "--bounds", "0:1", "--epsilon", "1", *more]
    try:
        return subprocess.run(
            [sys.executable, "-c", COMMAND, "fit", str(data), *options],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)),
        )
    except subprocess.TimeoutExpired:
        return None


def _see(tally: Tally, done: subprocess.CompletedProcess[str] | None, why: str, words: str) -> None:
    tally.must_not("hangs", happened=done is None, why=why)
    if done is not None:
        tally.must_not("untyped", happened=done.returncode != 4 or words not in done.stderr, why=why)
    tally.saw("no end" if done is None else f"exit {done.returncode}, and the limit is named")


def low(times: int) -> Outcome:
    """A limit below what an empty fit needs."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "visits.csv"
        np.savetxt(data, np.random.default_rng(0).random((1000, 2)), delimiter=",")
        for number in range(times):
            limit = LIMITS[number % len(LIMITS)]
            _see(tally, _fit(data, limit, "--no-header"), f"{limit} MB", "this process may use")
    return tally.outcome()


def too_many(times: int) -> Outcome:
    """Records that do not fit in memory under the limit, where the engine memory is asked for."""
    import pyarrow as pa
    from pyarrow import parquet

    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "visits.parquet"
        part = pa.table({"east": np.zeros(10**6), "north": np.zeros(10**6)})
        with parquet.ParquetWriter(data, part.schema) as writer:
            for _ in range(MANY_ROWS * 4 // 10**6):
                writer.write_table(part)
        for _ in range(times):
            done = _fit(data, ENOUGH_FOR_FEW, "--engine", "memory")
            _see(tally, done, f"{ENOUGH_FOR_FEW} MB", "--engine stream")
    return tally.outcome()


FAULTS = (
    Fault(
        "a limit of memory (RLIMIT_AS) of 0.6 to 2 GB", "one typed error that names the limit", low, times=20, short=1
    ),
    Fault(
        "more records than the limit of memory allows, held in memory",
        "one typed error that names the limit and --engine stream",
        too_many,
        times=5,
        short=0,
    ),
)
