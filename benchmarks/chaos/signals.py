"""Signals at random moments of a fit: the process ends soon, leaves nothing behind, and the ledger is right."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from benchmarks.chaos.clusters import why_no_dask, why_no_spark
from benchmarks.chaos.fault import Fault, Outcome, Tally
from dpkmeans import DurableLedger

SOON = 5.0  # seconds
NEVER = 60.0  # seconds after which a process counts as hanging
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
ROWS = {"memory": 20_000, "stream": 100_000, "dask": 20_000, "spark": 20_000}
MORE = {"dask": ["--workers", "1"], "spark": ["--workers", "1"]}
COMMAND = "import sys; from dpkmeans.cli.main import main; sys.exit(main())"


class Fits:
    """Fits of one file, each with a ledger, a folder for temporary files and one for the model of its own."""

    def __init__(self, folder: Path, engine: str) -> None:
        self.folder, self.engine = folder, engine
        self.data = folder / "visits.csv"
        np.savetxt(self.data, np.random.default_rng(0).random((ROWS[engine], 2)), delimiter=",", fmt="%.6f")

    def start(self, number: int) -> tuple[subprocess.Popen[str], Path]:
        here = self.folder / str(number)
        for name in ("temporary", "models"):
            (here / name).mkdir(parents=True)
        DurableLedger.create(here / "ledger.db").add("visits", 1.5)
        options = ["--no-header", "--k", "4", "--bounds", "0:1", "--epsilon", "1", "--engine", self.engine]
        options += ["--ledger", str(here / "ledger.db"), "--dataset", "visits", *MORE.get(self.engine, [])]
        command = [sys.executable, "-c", COMMAND, "fit", str(self.data), *options, "--out", str(here / "models/m.json")]
        with (here / "stderr").open("w") as errors:
            child = subprocess.Popen(
                command,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                text=True,
                env=os.environ | {"TMPDIR": str(here / "temporary")},
            )
        return child, here

    def seconds(self) -> float:
        """How long one takes that nothing interrupts, with everything compiled."""
        for number in (-2, -1):
            start = time.monotonic()
            child, here = self.start(number)
            assert child.wait(600) == 0, (here / "stderr").read_text()
            _until_ended(_children(child))
            shutil.rmtree(here)
        return time.monotonic() - start


def signals_on(engine: str) -> Callable[[int], Outcome]:
    """Signals to fits by that engine."""

    def run(times: int) -> Outcome:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a child inherits that it is ignored
        tally, took = Tally(), []
        with tempfile.TemporaryDirectory() as folder:
            fits = Fits(Path(folder), engine)
            whole = fits.seconds()
            for number in range(times):
                took.append(_one(fits, number, random.uniform(0, whole), tally))
        ended = ", ".join(f"{seconds:.1f}" for seconds in took)
        sys.stderr.write(f"{engine}: a fit takes {whole:.1f} s; ended after a signal in {ended} s\n")
        return tally.outcome()

    return run


def _one(fits: Fits, number: int, moment: float, tally: Tally) -> float:
    """One fit and one signal; the seconds that it took to end."""
    which = random.choice([signal.SIGINT, signal.SIGTERM])
    child, here = fits.start(number)
    with suppress(subprocess.TimeoutExpired):
        child.wait(moment)
    others, before, waited = _children(child), _waits(child), 0.0
    child.send_signal(which)
    sent, why = time.monotonic(), f"{which.name} after {moment:.2f} s"
    while child.poll() is None and time.monotonic() < sent + NEVER:
        time.sleep(0.02)
        waited = max(waited, *(seconds - before.get(thread, 0.0) for thread, seconds in _waits(child).items()), 0.0)
    if child.poll() is None:
        child.kill()
        child.wait()
        tally.must_not("hangs", happened=True, why=why)
        tally.saw("no end")
        return NEVER
    took, errors = time.monotonic() - sent, (here / "stderr").read_text()
    tally.must_not("left_behind", happened=not _until_ended(others), why=f"a process, {why}")
    code = 128 - child.returncode if child.returncode < 0 else child.returncode  # as a shell says it
    model = (here / "models/m.json").exists()
    store = DurableLedger(here / "ledger.db")
    spent = store.dataset("visits").spent
    expected = {0, CODES[which]} if model else {CODES[which]}
    early = not errors.startswith(("Fitting", "error"))  # Python itself was starting, and prints what it likes
    tally.must_not("untyped", happened=code not in expected or ("Traceback" in errors and not early), why=why)
    tally.must_not("lost_spends", happened=not store.verify().intact or (model and float(spent) != 1.0), why=why)
    left = [*(here / "temporary").iterdir(), *(path for path in (here / "models").iterdir() if path.name != "m.json")]
    tally.must_not("left_behind", happened=bool(left), why=f"{', '.join(path.name for path in left)}, {why}")
    store.close()
    slow = took - waited > SOON
    tally.must_not("hangs", happened=slow, why=f"ended {took:.1f} s after {why}, {waited:.1f} s without a processor")
    if code == 0:
        tally.saw("finished before")
    elif took <= SOON:
        tally.saw("so, within 5 s")
    else:
        tally.saw(f"so, after {took:.0f} s, of which it waited {waited:.0f} s for a processor")
    shutil.rmtree(here)
    return took


def _children(child: subprocess.Popen[str]) -> list:
    """What the process has started: workers, Java."""
    import psutil

    try:
        return psutil.Process(child.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _until_ended(processes: list) -> bool:
    import psutil

    return not psutil.wait_procs(processes, timeout=20)[1]


def _waits(child: subprocess.Popen[str]) -> dict[str, float]:
    """For each thread, the seconds in which it could run and had no processor, as Linux counts them."""
    found: dict[str, float] = {}
    for path in Path(f"/proc/{child.pid}/task").glob("*/schedstat"):
        with suppress(OSError, IndexError):
            found[path.parent.name] = int(path.read_text().split()[1]) / 1e9
    return found


PROMISE = "exit 130 or 143 within 5 seconds, nothing left behind, the ledger is right"
WHEN = "SIGINT or SIGTERM at a random moment of a"
FAULTS = (
    Fault(f"{WHEN} streamed fit", PROMISE, signals_on("stream"), times=200, short=3, at_once=50),
    Fault(f"{WHEN} fit in memory", PROMISE, signals_on("memory"), times=200, short=2, at_once=50),
    Fault(f"{WHEN} fit on Dask", PROMISE, signals_on("dask"), times=60, short=0, cluster=True,
          unavailable=why_no_dask, at_once=15),
    Fault(f"{WHEN} fit on Spark", PROMISE, signals_on("spark"), times=40, short=0, cluster=True,
          unavailable=why_no_spark, at_once=10),
)  # fmt: skip
