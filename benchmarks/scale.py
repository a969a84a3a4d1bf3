"""Memory and time per pass over Parquet files, and what a pass costs with Dask workers.

Each measurement runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

D, K, FILE_ROWS, PASSES = 10, 10, 10**6, 5


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


def timed(function) -> dict[str, float]:
    """The fastest of a few runs, wall and CPU: others share the machine."""
    wall, cpu = [], []
    for _ in range(PASSES):
        w, c = time.perf_counter(), time.process_time()
        function()
        wall.append(time.perf_counter() - w)
        cpu.append(time.process_time() - c)
    return {"wall_s": round(min(wall), 3), "cpu_s": round(min(cpu), 3)}


def measure(what: str, folder: Path) -> dict[str, float]:
    from dpkmeans.bounds import Bounds
    from dpkmeans.opening import open_data

    centroids = np.random.default_rng(0).random((K, D))
    if what == "read":
        found = timed(lambda: read_alone(folder))
    elif what == "dask":
        found = _dask(folder, centroids)
    else:
        engine = open_data(folder, what).engine(Bounds.of((0, 1), D))
        engine.cell_statistics(centroids)
        if what == "memory":  # without what it remembers of the last assignment
            found = timed(lambda: (engine._assignments.clear(), engine.cell_statistics(centroids)))
        else:
            found = timed(lambda: engine.cell_statistics(centroids))
    return {**found, "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000)}


def _dask(folder: Path, centroids) -> dict[str, float]:
    """CPU of the two workers and of this process together."""
    import psutil

    from dpkmeans.bounds import Bounds
    from dpkmeans.engines.clusters import Dask
    from dpkmeans.opening import open_data

    client, close = Dask(workers=2).connect()
    engine = open_data(folder, Dask(client=client)).engine(Bounds.of((0, 1), D))
    engine.cell_statistics(centroids)
    here = psutil.Process()
    people = [here, *here.children(recursive=True)]

    def cpu() -> float:
        return sum(p.cpu_times().user + p.cpu_times().system for p in people)

    walls, start = [], cpu()
    for _ in range(PASSES):
        w = time.perf_counter()
        engine.cell_statistics(centroids)
        walls.append(time.perf_counter() - w)
    spent = (cpu() - start) / PASSES
    close()
    return {"wall_s": round(min(walls), 3), "cpu_s": round(spent, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[5, 20], help="millions of records")
    parser.add_argument("--what", nargs="+", default=["read", "stream", "memory", "dask"])
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one[0], Path(options.one[1]))))
        return
    print(f"{D} features, {K} clusters, fastest of {PASSES} passes")
    print(f"{'rows':>6} {'what':<8} {'wall s':>8} {'CPU s':>8} {'peak MB':>8}")
    for millions in options.rows:
        with tempfile.TemporaryDirectory() as name:
            write(Path(name), millions)
            for what in options.what:
                if millions > 5 and what in {"memory", "dask"}:
                    continue
                done = subprocess.run(
                    [sys.executable, __file__, "--one", what, name],
                    capture_output=True,
                    text=True,
                    check=True,
                    env={**os.environ, "OMP_NUM_THREADS": "1"},
                )
                found = json.loads(done.stdout.splitlines()[-1])
                numbers = " ".join(f"{found[name]:>8}" for name in ("wall_s", "cpu_s", "peak_mb"))
                print(f"{millions:>5}M {what:<8} {numbers}", flush=True)


if __name__ == "__main__":
    main()
