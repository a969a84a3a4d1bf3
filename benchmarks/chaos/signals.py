"""Signals at random moments of a fit: the process ends soon, leaves nothing behind, and the ledger is right."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from benchmarks.chaos.fault import Fault, Outcome, Tally

from dpkmeans import DurableLedger

SOON = 5.0  # seconds
NEVER = 60.0  # seconds after which a process counts as hanging
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
ROWS = {"memory": 20_000, "stream": 300_000, "dask": 20_000, "spark": 20_000}
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
        child = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"TMPDIR": str(here / "temporary")},
        )
        return child, here

    def seconds(self) -> float:
        """How long one takes that nothing interrupts, with everything compiled."""
        for number in (-2, -1):
            start = time.monotonic()
            child, here = self.start(number)
            _, errors = child.communicate(timeout=600)
            assert child.returncode == 0, errors
            shutil.rmtree(here)
        return time.monotonic() - start


def signals_on(engine: str, seed: int | None = None) -> Callable[[int], Outcome]:
    """Signals to fits by that engine."""

    def run(times: int) -> Outcome:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a child inherits that it is ignored
        tally, rng, slowest = Tally(), random.Random(seed), 0.0
        with tempfile.TemporaryDirectory() as folder:
            fits = Fits(Path(folder), engine)
            whole = fits.seconds()
            for number in range(times):
                slowest = max(slowest, _one(fits, number, rng, whole, tally))
        sys.stderr.write(f"{engine}: a fit takes {whole:.1f} s; slowest end after a signal {slowest:.2f} s\n")
        return tally.outcome()

    return run


def _one(fits: Fits, number: int, rng: random.Random, whole: float, tally: Tally) -> float:
    """One fit and one signal; the seconds that it took to end."""
    child, here = fits.start(number)
    which, moment = rng.choice([signal.SIGINT, signal.SIGTERM]), rng.uniform(0, whole)
    try:
        child.wait(moment)
    except subprocess.TimeoutExpired:
        child.send_signal(which)
    sent = time.monotonic()
    why = f"{which.name} after {moment:.2f} s"
    try:
        _, errors = child.communicate(timeout=NEVER)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        tally.must_not("hangs", happened=True, why=why)
        tally.saw("no end")
        return NEVER
    took = time.monotonic() - sent
    code = 128 - child.returncode if child.returncode < 0 else child.returncode  # as a shell says it
    model = (here / "models/m.json").exists()
    store = DurableLedger(here / "ledger.db")
    spent = store.dataset("visits").spent
    expected = {0, CODES[which]} if model else {CODES[which]}
    early = not errors.startswith(("Fitting", "error"))  # Python itself was starting, and prints what it likes
    tally.must_not("untyped", happened=code not in expected or ("Traceback" in errors and not early), why=why)
    tally.must_not("lost_spends", happened=not store.verify().intact or (model and float(spent) != 1.0), why=why)
    left = [*(here / "temporary").iterdir(), *(path for path in (here / "models").iterdir() if path.name != "m.json")]
    tally.must_not("left_behind", happened=bool(left), why=why)
    store.close()
    tally.must_not("hangs", happened=took > 2 * SOON, why=f"ended {took:.1f} s after {why}")
    tally.saw(
        "finished before" if code == 0 else f"exit 130 or 143 {'within' if took <= SOON else 'after more than'} 5 s"
    )
    shutil.rmtree(here)
    return took


PROMISE = "exit 130 or 143 within 5 seconds, nothing left behind, the ledger is right"
FAULTS = (
    Fault("SIGINT or SIGTERM at a random moment of a streamed fit", PROMISE, signals_on("stream"), times=250, short=4),
    Fault("SIGINT or SIGTERM at a random moment of a fit in memory", PROMISE, signals_on("memory"), times=250, short=2),
)


def main() -> None:
    """Send signals and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--signals", type=int, default=500)
    parser.add_argument("--engine", choices=list(ROWS), default="stream")
    parser.add_argument("--seed", type=int)
    arguments = parser.parse_args()
    print(signals_on(arguments.engine, arguments.seed)(arguments.signals))


if __name__ == "__main__":
    main()
