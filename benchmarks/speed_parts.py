"""The parts of `speed.py` beside single fits: many fits, the private fit, memory, threads and growth."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from dpkmeans import DPKMeans
from dpkmeans.core.bounds import Bounds
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.kernels import lloyd
from dpkmeans.methods.registry import make_method
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from timing import Timed, best, elsewhere, here, measure, take_turns
from workloads import WORKLOADS, records, rows

FITS = 300
HERE = Path(__file__).parent
MIDDLE = {"n": 100_000, "d": 8, "k": 16}
AXES: tuple[tuple[str, dict[str, int], tuple[int, ...]], ...] = (
    ("n", MIDDLE, (100_000, 200_000, 400_000, 800_000)),
    ("d", MIDDLE, (8, 16, 32, 64)),
    ("d", {"n": 4000, "k": 16}, (80, 320, 1280, 5000)),
    ("k", MIDDLE, (16, 32, 64, 128)),
    ("k", {"n": 20_000, "d": 8}, (125, 500, 2000)),
)


def many_fits(repeats: int) -> dict[str, float]:
    """CPU time of 300 fits of b and d by scikit-learn over dpkmeans, which packs the records once for 300 starts."""
    from sklearn.cluster import KMeans

    out = {}
    for name in ("b", "d"):
        X, k = records(name), WORKLOADS[name][2]
        starts = [rows(X, k, seed) for seed in range(FITS)]

        def ours(X: np.ndarray = X, starts: list[np.ndarray] = starts) -> None:
            engine = MemoryEngine.of_records(X, Bounds.of((0.0, 1.0), X.shape[1]), n_threads=1)
            for start in starts:
                engine.lloyd(start, 300)

        def theirs(X: np.ndarray = X, k: int = k, starts: list[np.ndarray] = starts) -> None:
            for start in starts:
                KMeans(k, init=start, n_init=1, tol=0).fit(X)

        times = measure({"dpkmeans": ours, "sklearn": theirs}, min(repeats, 3))
        out[name] = times["sklearn"]["cpu_min"] / times["dpkmeans"]["cpu_min"]
    return out


def private_fit(repeats: int, diffprivlib_python: Path | None) -> dict[str, Any]:
    """The default private fit at 1M x 10, k = 10, epsilon = 1, scikit-learn's to convergence, and diffprivlib's."""
    from sklearn.cluster import KMeans

    X = records("e")
    runs: dict[str, Timed] = {
        "dpkmeans": here(lambda: DPKMeans(10, epsilon=1.0, bounds=(0.0, 1.0)).fit(X)),
        "sklearn": here(lambda: KMeans(10, n_init=1).fit(X)),
    }
    if diffprivlib_python is None:
        times = take_turns(runs, repeats)
        print("diffprivlib is left out; see --diffprivlib-python", file=sys.stderr)
    else:
        with diffprivlib_worker(diffprivlib_python, X) as worker:
            times = take_turns({**runs, "diffprivlib": elsewhere(worker)}, repeats)
    mine = times["dpkmeans"]
    ratios = {name: t["cpu_median"] / mine["cpu_median"] for name, t in times.items() if name != "dpkmeans"}
    return {"times": times, "ratios": ratios}


@contextmanager
def diffprivlib_worker(python: Path, X: np.ndarray) -> Iterator[subprocess.Popen[str]]:
    """The other interpreter, with the records loaded."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "records.npy"
        np.save(file, X)
        command = [str(python), str(HERE / "diffprivlib_fit.py"), str(file), "10", "1.0"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdout is not None
            assert worker.stdin is not None
            if worker.stdout.readline().strip() != "ready":
                raise SystemExit(f"{python} cannot fit with diffprivlib; its message is above.")
            yield worker
            worker.stdin.close()


def peak_memory() -> dict[str, dict[str, float]]:
    """MB beyond the records at the peak of a fit at 1M x 10, and what is allowed: their size as float32 and 50 MB."""
    out = {}
    for what in ("lloyd", "private"):
        command = [sys.executable, str(HERE / "peak_memory.py"), what]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peak, as_float32 = map(float, done.stdout.split())
        out[what] = {"peak": peak, "allowed": as_float32 + 50}
    return out


def fit(X: np.ndarray, k: int, passes: int, n_threads: int = 1) -> Callable[[], Any]:
    """A fit of dpkmeans, packing included."""
    box, start = Bounds.of((0.0, 1.0), X.shape[1]), rows(X, k)
    return lambda: MemoryEngine.of_records(X, box, n_threads=n_threads).lloyd(start, passes)


def savings(repeats: int) -> dict[str, float]:
    """CPU time of 20 passes over all records and centroids, over that of the way we choose; f to j, uniform noise."""
    noise = np.random.default_rng(0).random((100_000, 64))
    shapes = {**{name: (records(name), WORKLOADS[name][2]) for name in "fghij"}, "noise 100000x64": (noise, 64)}
    out = {}
    for name, (X, k) in shapes.items():
        engine = MemoryEngine.of_records(X, Bounds.of((0.0, 1.0), X.shape[1]), n_threads=1)
        start = rows(X, k)

        def chosen(engine: MemoryEngine = engine, start: np.ndarray = start) -> None:
            engine.lloyd(start, 20)

        def plain(chosen: Callable[[], None] = chosen) -> None:
            with mock.patch.multiple(lloyd, MIN_HAMERLY_SIZE=10**9, MIN_PRUNED_CENTROIDS=10**9):
                chosen()

        times = measure({"chosen": chosen, "plain": plain}, repeats)
        out[name] = times["plain"]["cpu_min"] / times["chosen"]["cpu_min"]
    return out


def two_threads(repeats: int) -> dict[str, dict[str, float]]:
    """How many times faster two threads are by the clock, on e and g, by the minimum and the median of many fits.

    Beside it what the machine gives: two fits of one thread each, at the same time, against one after the other.
    """
    out = {}
    for name in ("e", "g"):
        X, k = records(name), WORKLOADS[name][2]
        alone = fit(X, k, 20)

        def at_once(alone: Callable[[], Any] = alone) -> None:
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(lambda _: alone(), range(2)))

        times = measure({"one": alone, "two": fit(X, k, 20, 2), "at once": at_once}, 4 * repeats)
        out[name] = {
            f"{what}, {by}": factor * times["one"][f"wall_{by}"] / times[of][f"wall_{by}"]
            for what, factor, of in (("two threads", 1, "two"), ("two fits at once", 2, "at once"))
            for by in ("min", "median")
        }
    return out


def growth() -> dict[str, Any]:
    """CPU time of 10 passes, and of a private fit, at 1M, 3M and 10M x 10, with the fitted exponents."""
    sizes = (1_000_000, 3_000_000, 10_000_000)
    X = np.random.default_rng(0).random((sizes[-1], 10))
    times = {"passes": [best(fit(X[:n], 10, 10), 2) for n in sizes]}
    times["private fit"] = [best(private_run(X[:n], 10), 2) for n in sizes]
    exponents = {what: float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0]) for what, seconds in times.items()}
    return {"n": sizes, "seconds": times, "exponents": exponents}


def scaling(passes: int) -> list[dict[str, Any]]:
    """CPU time against n, d and k, with the fitted exponents: of passes of Lloyd's algorithm, and of private fits."""
    out = []
    for axis, base, values in AXES:
        seconds, private = [], []
        for value in values:
            shape = {**base, axis: value}
            X, k = np.random.default_rng(0).random((shape["n"], shape["d"])), shape["k"]
            seconds.append(best(fit(X, k, passes), 3))
            private.append(best(private_run(X, k), 2))
        exponents = [float(np.polyfit(np.log(values), np.log(times), 1)[0]) for times in (seconds, private)]
        found = {"seconds": seconds, "exponent": exponents[0], "private": private, "private_exponent": exponents[1]}
        out.append({"axis": axis, "base": base, "values": values, **found})
    return out


def private_run(X: np.ndarray, k: int) -> Callable[[], Any]:
    """A private fit, packing included."""
    box = Bounds.of((0.0, 1.0), X.shape[1])

    def run() -> None:
        engine = MemoryEngine.of_records(X, box, n_threads=1)
        make_method("synopsis").run(engine, k, ledger=Ledger(1.0), rng=Randomness.secure())

    return run
