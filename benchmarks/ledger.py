"""What it takes to look at a durable ledger with many entries, beside SQLite reading and printing the same rows.

Run with `python -m benchmarks.ledger`. Each number is the least of the repeats, of a whole process, with its output
going nowhere.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dpkmeans import DurableLedger
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.privacy.durable.book import Book

CAP = Epsilon.of(1000.0).nano
COST = Epsilon.of(0.001).nano
HOW = ([], ["--dataset", "visits"], ["--dataset", "visits", "--json"])
PLAIN = """
import sqlite3, sys
rows = sqlite3.connect(sys.argv[1]).execute("SELECT * FROM entries ORDER BY number").fetchall()
sys.stdout.write("".join("  ".join(map(str, row)) + "\\n" for row in rows))
"""


def write(path: Path, entries: int) -> None:
    """A ledger in which every fit has reserved, settled and released, in one transaction; its chain must hold."""
    store = DurableLedger.create(path, analyst="ann")
    store.add("visits", CAP / Epsilon.of(1.0).nano)

    def append(book: Book) -> None:
        for number in range(1, entries):
            fit, kind = f"fit-{(number - 1) // 3:06}", ("reserve", "settle", "release")[(number - 1) % 3]
            book.append(
                kind,
                "visits",
                COST if kind == "reserve" else 0,
                cap=CAP,
                spent=COST * ((number + 2) // 3),
                fit=fit,
                label=f"{number:064x}" if kind == "release" else "synopsis",
            )

    store._write(append)
    store.close()


def seconds(command: list[str]) -> tuple[float, float]:
    """Wall and CPU seconds of a process that must succeed."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return time.perf_counter() - began, used.ru_utime + used.ru_stime


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--entries", type=int, default=100_000)
    options.add_argument("--repeats", type=int, default=5)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        write(path, given.entries)
        ledger, show = [sys.executable, "-m", "dpkmeans", "ledger"], "`dpkmeans ledger show"
        seconds([*ledger, "verify", str(path)])  # ends with an error where the chain does not hold
        runs = {f"{show}{' '.join(['', *how])}`": [*ledger, "show", str(path), *how] for how in HOW}
        runs["SQLite, all rows printed"] = [sys.executable, "-c", PLAIN, str(path)]
        runs["`dpkmeans --version`"] = [sys.executable, "-m", "dpkmeans", "--version"]
        print(f"| {given.entries} entries | wall s | CPU s |\n| --- | --- | --- |")
        for name, command in runs.items():
            found = [seconds(command) for _ in range(given.repeats)]
            print(f"| {name} | {min(wall for wall, _ in found):.2f} | {min(cpu for _, cpu in found):.2f} |", flush=True)


if __name__ == "__main__":
    main()
