"""Memory and time per pass over Parquet files, with Dask workers and with Spark: the tables of docs/scale.md.

    python benchmarks/scale.py [--rows 5 20] [--what read stream memory dask spark]

Each measurement runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np

D, K, FILE_ROWS, PASSES, FITS = 10, 10, 10**6, 9, 3
SMALL = 5  # millions: what is measured on every engine, and what the model is made from
CORES = 64
NAMES = {
    "read": "pyarrow reading alone",
    "stream": "`stream`",
    "memory": "`memory`, one full assignment",
    "dask": "`dask`, two workers, held blocks; all processes",
    "spark": "`spark`, local[2], held blocks; all processes",
}


def write(folder: Path, millions: int) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    for i in range(millions):
        rows = np.random.default_rng(i).random((FILE_ROWS, D))
        parquet.write_table(pa.table({f"x{j}": rows[:, j] for j in range(D)}), folder / f"{i:04}.parquet")


def read_alone(folder: Path) -> None:
    from pyarrow import parquet

    for path in sorted(folder.glob("*.parquet")):
        with parquet.ParquetFile(path) as file:
            for _ in file.iter_batches(2**17):
                pass


def timed(function, times: int = PASSES) -> dict[str, float]:
    """The median of a few passes or fits, by the wall clock and by the processors."""
    walls, cpus = [], []
    for _ in range(times):
        w, c = time.perf_counter(), time.process_time()
        function()
        walls.append(time.perf_counter() - w)
        cpus.append(time.process_time() - c)
    return {"wall_s": statistics.median(walls), "cpu_s": statistics.median(cpus)}


def measure(what: str, folder: Path) -> dict[str, float]:
    from dpkmeans.core.bounds import Bounds
    from dpkmeans.engines.memory import MemoryEngine
    from dpkmeans.engines.open import open_data
    from dpkmeans.methods.registry import make_method
    from dpkmeans.privacy.ledger import Ledger
    from dpkmeans.privacy.randomness import Randomness

    centroids = np.random.default_rng(0).random((K, D))
    if what == "read":
        read_alone(folder)
        found = timed(lambda: read_alone(folder))
    else:
        with closing(open_data(folder, where(what)).engine(Bounds.of((0, 1), D))) as engine:
            engine.cell_statistics(centroids)

            def one_pass() -> None:
                if isinstance(engine, MemoryEngine):  # without what it remembers of the last assignment
                    engine._assignments.clear()
                engine.cell_statistics(centroids)

            def one_fit() -> None:
                make_method("synopsis").run(engine, K, ledger=Ledger(1.0), rng=Randomness.secure())

            alone = what in {"stream", "memory"}
            found = timed(one_pass) if alone else _all_processes(one_pass)
            one_fit()  # compiles
            whole = timed(one_fit, FITS) if alone else _all_processes(one_fit, FITS)
            found |= {f"fit_{clock}": seconds for clock, seconds in whole.items()}
    return {**found, "peak_mb": peak_mb()}


def peak_mb() -> float:
    """The most memory this process has held. `getrusage` would count what its parent held when it started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1000


def where(what: str):
    from dpkmeans.engines.config import Dask, Spark

    return {"dask": Dask(workers=2), "spark": Spark(workers=2)}.get(what, what)


def _all_processes(one_pass, times: int = 2 * PASSES) -> dict[str, float]:
    """CPU of this process and of all below it. Their clocks tick in hundredths of a second: the mean of all passes."""
    import psutil

    for _ in range(2):
        one_pass()
    here = psutil.Process()
    people = [here, *here.children(recursive=True)]

    def cpu() -> float:
        return sum(p.cpu_times().user + p.cpu_times().system for p in people)

    walls, start = [], cpu()
    for _ in range(times):
        w = time.perf_counter()
        one_pass()
        walls.append(time.perf_counter() - w)
    return {"wall_s": statistics.median(walls), "cpu_s": (cpu() - start) / len(walls)}


def in_a_process(what: str, folder: str) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", what, folder]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ})
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def tables(found: dict[tuple[int, str], dict[str, float]]) -> None:
    """What the page shows, from what was measured."""
    print(
        f"\nMeasured: {D} features, k = {K}, Parquet with snappy, median of {PASSES} passes, {os.cpu_count()} cores.\n"
    )
    print("| records | what | wall s per pass | CPU s per pass | wall s per private fit | CPU s | peak MB (driver) |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for (millions, what), row in found.items():
        fit = f"{row['fit_wall_s']:.2f} | {row['fit_cpu_s']:.2f}" if "fit_wall_s" in row else "– | –"
        numbers = f"{row['wall_s']:.2f} | {row['cpu_s']:.2f} | {fit} | {row['peak_mb']:.0f}"
        print(f"| {scientific(millions * 10**6)} | {NAMES[what]} | {numbers} |")
    print()
    for millions, what, base in [(5, "stream", "read"), (20, "stream", "read"), (5, "dask", "memory")]:
        if {(millions, what), (millions, base)} <= set(found):
            a, b = found[millions, what], found[millions, base]
            wall, cpu = a["wall_s"] / b["wall_s"], a["cpu_s"] / b["cpu_s"]
            print(f"- {NAMES[what]} against {NAMES[base]}, {millions}M: {wall:.2f} by the clock, {cpu:.2f} by CPU")
    if {(SMALL, what) for what in ("read", "stream", "memory")} <= set(found):
        model(found)


def model(found: dict[tuple[int, str], dict[str, float]]) -> None:
    """The cost of a number, from the small files, and what it says about larger ones."""
    n = SMALL * 10**6 * D
    read, stream, held = (found[SMALL, what]["cpu_s"] for what in ("read", "stream", "memory"))
    r, p, a = read / n, max(stream - read - held, 0.0) / n, held / n / K
    print(f"\nr = {1e9 * r:.1f} ns, p = {1e9 * p:.1f} ns, a = {1e9 * a:.2f} ns\n")
    print(
        "| records (d = 10, k = 10) | stream, CPU | measured | held blocks, CPU | held blocks, memory "
        f"| held blocks, {CORES} cores |\n| --- | --- | --- | --- | --- | --- |"
    )
    for records in (2 * 10**7, 10**9, 10**12):
        measured = found.get((records // 10**6, "stream"))
        streamed, work = records * D * (r + p + K * a), records * D * K * a
        print(
            f"| {scientific(records)} | {duration(streamed)} | {duration(measured['cpu_s']) if measured else '–'} "
            f"| {duration(work)} | {records * D * 4 / 1e9:,.1f} GB | {duration(work / CORES)} |"
        )


def scientific(n: int) -> str:
    power = len(str(n)) - 1
    lead = "" if n == 10**power else f"{n // 10**power}·"
    return f"{lead}10{str(power).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


def duration(seconds: float) -> str:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[SMALL, 20], help="millions of records")
    parser.add_argument("--what", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one[0], Path(options.one[1]))))
        return
    found = {}
    for millions in options.rows:
        with tempfile.TemporaryDirectory() as name:
            write(Path(name), millions)
            for what in options.what:
                if millions > SMALL and what in {"memory", "dask", "spark"}:
                    continue
                try:
                    found[millions, what] = in_a_process(what, name)
                except subprocess.CalledProcessError:
                    print(f"{millions}M {what}: could not be measured", file=sys.stderr, flush=True)
                    continue
                print(f"{millions}M {what}: {found[millions, what]}", file=sys.stderr, flush=True)
    tables(found)


if __name__ == "__main__":
    main()
