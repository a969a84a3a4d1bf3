"""What a start costs: CPU seconds of whole processes, from an empty cache of compiled code and from a full one.

Run with `python benchmarks/start.py --repeats 5 --json start.json`. Each number is the least of the repeats, user and
system time together, of a process and those that it starts. A cold start has a new, empty NUMBA_CACHE_DIR; the warm
ones after it use the same. Python's own bytecode is there in both, as it is after `pip install`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

API = """
import numpy as np
from dpkmeans import DPKMeans
X = np.loadtxt({path!r}, delimiter=",", skiprows=1)
DPKMeans({k}, bounds=(0, 10), epsilon=1.0).fit(X)
"""
SYNOPSIS = """
import numpy as np
from dpkmeans import make_synopsis
X = np.loadtxt({path!r}, delimiter=",", skiprows=1)
make_synopsis(X, epsilon=1.0, bounds=(0, 10)).fit({k})
"""
SIZES = ((1000, 2, 2), (1000, 2, 8), (1000, 4, 3), (100_000, 2, 8), (100_000, 10, 8))


def cpu_seconds(command: list[str], cache: Path) -> float:
    """User and system time of a process that must succeed."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(said.decode())
    return used.ru_utime + used.ru_stime


def write_csv(folder: Path, n: int, d: int) -> Path:
    """Records around a few places in a box from 0 to 10."""
    rng = np.random.default_rng(0)
    X = np.clip(rng.choice([2.0, 5.0, 8.0], (n, 1)) + rng.normal(0, 0.5, (n, d)), 0, 10)
    path = folder / f"{n}x{d}.csv"
    np.savetxt(path, X, fmt="%.4f", delimiter=",", header=",".join(f"x{j}" for j in range(d)), comments="")
    return path


def commands(folder: Path) -> dict[str, list[str]]:
    python = [sys.executable]
    command = [*python, "-m", "dpkmeans"]
    found = {
        "python alone": [*python, "-c", "pass"],
        "`import dpkmeans`": [*python, "-c", "import dpkmeans"],
        "`dpkmeans --help`": [*command, "--help"],
    }
    for n, d, k in SIZES:
        path = write_csv(folder, n, d) if not (folder / f"{n}x{d}.csv").exists() else folder / f"{n}x{d}.csv"
        fit = [*command, "fit", str(path), "--k", str(k), "--header", "--bounds", "0:10", "--epsilon", "1"]
        found[f"`dpkmeans fit` of {n} × {d}, k = {k}"] = fit
    path = folder / "1000x2.csv"
    found["`DPKMeans(2).fit` of 1000 × 2, scikit-learn included"] = [*python, "-c", API.format(path=str(path), k=2)]
    found["`make_synopsis(X).fit(2)` of 1000 × 2"] = [*python, "-c", SYNOPSIS.format(path=str(path), k=2)]
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--json", type=Path)
    options.add_argument("--only", default="", help="a part of the names of what is measured")
    given = options.parse_args()
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, command in commands(Path(folder)).items():
            if given.only not in name:
                continue
            cpu_seconds(command, Path(folder) / "first")  # writes bytecode
            colds, warms = [], []
            for i in range(given.repeats):
                cache = Path(folder) / f"cache{i}"
                colds.append(cpu_seconds(command, cache))
                warms.append(cpu_seconds(command, cache))
                if i and colds[-1] > 5:  # compiling takes long, and about the same each time
                    break
            results[name] = {"cold": min(colds), "warm": min(warms)}
            print(f"| {name} | {min(colds):.2f} | {min(warms):.2f} |", flush=True)
            for cache in Path(folder).glob("cache*"):
                shutil.rmtree(cache)
    if given.json:
        given.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
