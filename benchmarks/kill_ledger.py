"""Kill writers of a durable ledger, at random and at forced points, and check that nothing is lost.

    python benchmarks/kill_ledger.py --kills 300

Eight processes spend from one ledger through real mechanisms. Each notes in a log of its own, with one write, every
draw and every release. A kill strikes at a random moment, or at one of three points: inside the transaction before
its commit, between the commit and the noise, between the noise and the release. Then, over logs and ledger:

- no data set is spent beyond its cap,
- every draw and every release has its entry,
- no entry is there twice,
- the chain is whole.

Last it counts spends per second. Prints JSON; exits with 1 where a check fails.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import Exact
from dpkmeans.core.query import Sensitivity
from dpkmeans.errors import BudgetError
from dpkmeans.privacy.durable.account import Account
from dpkmeans.privacy.durable.ledger import DurableLedger
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Laplace
from dpkmeans.privacy.randomness import Randomness, SecureNoise

WRITERS = 8
POINTS = ("before the commit", "between commit and noise", "between noise and release")
WIDE, TIGHT = "wide", "tight"
TOTAL = Epsilon(30_000)
EXACT = Exact(np.array([1000], dtype=np.int64), Sensitivity.of_row((1,)))


class Writer:
    """One process: spends and draws until it is killed, or until it reaches its point."""

    def __init__(self, store: DurableLedger, log: Path, point: str | None) -> None:
        self.store, self.point = store, point
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.random = random.Random(os.getpid())
        self.countdown = self.random.randint(1, 6)
        self.account: Account | None = None
        self.draws = 0
        commit = store._file._commit

        def watched_commit(connection: sqlite3.Connection) -> None:
            self.reach(POINTS[0])
            commit(connection)
            self.reach(POINTS[1])

        store._file._commit = watched_commit  # type: ignore[method-assign]
        writer = self

        class WatchedNoise(SecureNoise):
            def laplace(self, values, scale):
                writer.draws += 1
                writer.note("draw")
                noisy = super().laplace(values, scale)
                writer.reach(POINTS[2])
                return noisy

        self.rng = Randomness(np.random.default_rng(), WatchedNoise())

    def reach(self, point: str) -> None:
        if point == self.point:
            self.countdown -= 1
            if self.countdown == 0:
                self.note("killed")
                os.kill(os.getpid(), signal.SIGKILL)

    def note(self, what: str) -> None:
        account = self.account
        fit, dataset = (account.fit, account.dataset) if account else ("", "")
        os.write(self.log, (json.dumps([what, fit, dataset, self.draws, self.point]) + "\n").encode())

    def run(self) -> None:
        while True:
            promised = self.random.choice([None, TOTAL])
            try:
                self.account = self.store.account(
                    self.random.choice([WIDE, TIGHT]), promised=promised, note="kill test"
                )
                self.draws = 0
                ledger = Ledger(promised, parent=self.account)
                for number, share in enumerate(TOTAL.over(4)):
                    Laplace(share).release(EXACT, ledger=ledger, rng=self.rng, label=f"draw {number}")
                self.note("release")
                self.account.settle()
            except BudgetError:
                self.note("refused")


def spawn(store: DurableLedger, folder: Path, forced: bool) -> int:
    point = random.choice(POINTS) if forced else None
    pid = os.fork()
    if pid == 0:
        try:
            random.seed(os.getpid())
            Writer(store, folder / f"{os.getpid()}-{time.monotonic_ns()}.log", point).run()
        finally:
            os._exit(70)  # a writer ends by a kill only
    return pid


def storm(store: DurableLedger, folder: Path, kills: int) -> Counter[str]:
    """Keep eight writers going until `kills` of them were killed."""
    done: Counter[str] = Counter()
    writers: dict[int, float] = {}
    while sum(done.values()) < kills:
        while len(writers) < WRITERS:
            forced = random.random() < 0.5
            pid = spawn(store, folder, forced)
            writers[pid] = time.monotonic() + (2.0 if forced else random.uniform(0.005, 0.6))
        time.sleep(0.002)
        for pid in [pid for pid, due in writers.items() if time.monotonic() > due]:
            os.kill(pid, signal.SIGKILL)
        for pid in list(writers):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
                done["kills" if killed else "crashes"] += 1
                del writers[pid]
    for pid in writers:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    done["kills"] += len(writers)
    return done


def judge(store: DurableLedger, folder: Path) -> dict[str, object]:
    """What the logs and the ledger say about each other."""
    found = store.verify()
    reserved: dict[str, int] = {}
    single: Counter[str] = Counter()
    entries = store.entries()
    seen: Counter[tuple[str, str, str]] = Counter()
    sums: dict[str, int] = defaultdict(int)
    for entry in entries:
        if entry.kind == "reserve":
            reserved[entry.fit] = entry.nano
        if entry.kind == "spend":
            single[entry.fit] += 1
        if entry.kind in ("reserve", "spend", "settle"):
            seen[entry.fit, entry.kind, entry.label] += 1
            sums[entry.dataset] += entry.nano
    noted: Counter[str] = Counter()
    points: Counter[str] = Counter()
    uncovered = 0
    for log in folder.glob("*.log"):
        for line in log.read_text().splitlines():
            what, fit, _, draws, point = json.loads(line)
            noted[what] += 1
            if what == "killed":
                points[point] += 1
            if what in ("draw", "release") and fit not in reserved:
                uncovered += single[fit] < draws
    datasets = store.datasets()
    return {
        "entries": len(entries),
        "draws": noted["draw"],
        "releases": noted["release"],
        "refusals": noted["refused"],
        "forced kills": dict(points),
        "overspends": sum(sums[d.name] > d.cap.nano or d.spent.nano != sums[d.name] for d in datasets),
        "draws or releases without an entry": uncovered,
        "duplicates": sum(n - 1 for n in seen.values()),
        "chain intact": found.intact,
        "why": found.why,
    }


def speed(store: DurableLedger, seconds: float) -> dict[str, float]:
    """Spends per second of all writers together: each an entry of its own, and within promised totals."""
    rates: dict[str, float] = {}
    for name, promised in (("each an entry", None), ("within promised totals", Epsilon(10_000))):
        read, write = os.pipe()
        for _ in range(WRITERS):
            if os.fork() == 0:
                end, spends = time.monotonic() + seconds, 0
                while time.monotonic() < end:
                    account = store.account(WIDE, promised=promised)
                    ledger = Ledger(promised, parent=account)
                    for _ in range(100):
                        if time.monotonic() < end:
                            ledger.spend(Epsilon(100), "spend")
                            spends += 1
                    account.settle()
                os.write(write, spends.to_bytes(8, "little"))
                os._exit(0)
        start = time.monotonic()
        total = sum(int.from_bytes(os.read(read, 8), "little") for _ in range(WRITERS))
        rates[f"spends per second, {name}"] = round(total / (time.monotonic() - start))
        for _ in range(WRITERS):
            os.wait()
    return rates


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--kills", type=int, default=300)
    options.add_argument("--seconds", type=float, default=3.0, help="how long to measure speed")
    options.add_argument("--cap", type=float, default=0.003, help="cap of the data set that runs out")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = DurableLedger.create(folder / "ledger.db", analyst="kill test")
        store.add(WIDE, 1000.0)
        store.add(TIGHT, given.cap)
        Laplace(TOTAL).release(EXACT, ledger=Ledger(), rng=Randomness.secure(), label="loads what forks then share")
        start = time.monotonic()
        done = storm(store, folder, given.kills)
        result = {**done, "seconds": round(time.monotonic() - start, 1), **judge(store, folder)}
        if given.seconds > 0:
            result |= speed(store, given.seconds)
    print(json.dumps(result, indent=1))
    bad = ("crashes", "overspends", "draws or releases without an entry", "duplicates")
    return int(any(result.get(name) for name in bad) or not result["chain intact"])


if __name__ == "__main__":
    sys.exit(main())
