"""Speed against scikit-learn and other k-means, all in one interleaved run, one thread, CPU and wall time.

Run with `make bench`, or a part: `python benchmarks/speed.py --only a,b,e --json speed.json --plot speed.svg`.
Ratios count; seconds do not: machines are shared and noisy. A fit is: pack the records, then Lloyd's passes from a
given start, as many as scikit-learn makes with tol=0 (at most --passes for e to h). Contestants that are not
installed are left out with a line on stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from dpkmeans import DPKMeans
from dpkmeans.bounds import Bounds
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.privacy.exact import reveal
from quality import load

WORKLOADS = {
    "a": (150, 4, 3),
    "b": (5000, 2, 15),
    "c": (34112, 3, 3),
    "d": (26733, 10, 3),
    "e": (1_000_000, 10, 10),
    "f": (1_000_000, 2, 100),
    "g": (200_000, 64, 64),
    "h": (100_000, 128, 256),
}
REAL = {"a": "iris", "b": "s1", "c": "image", "d": "lifesci"}
TARGETS = {"a": 40, "b": 18, "c": 10, "d": 8, "e": 5, "f": 18, "g": 4, "h": 4}


def records(name: str) -> np.ndarray:
    """The real data set of this shape where there is one, else overlapping blobs."""
    n, d, k = WORKLOADS[name]
    if name in REAL:
        return load(REAL[name]).X
    rng = np.random.default_rng(0)
    spread = 0.2 if d > 2 else 0.05
    return np.clip(rng.random((k, d))[rng.integers(k, size=n)] + spread * rng.standard_normal((n, d)), 0.0, 1.0)


def contestants(X: np.ndarray, start: np.ndarray, passes: int, k: int) -> dict[str, Callable[[], Any]]:
    from sklearn.cluster import KMeans

    box = Bounds.of((0.0, 1.0), X.shape[1])

    def ours() -> Any:
        return reveal(MemoryEngine.of_records(X, box, n_threads=1).lloyd(start, passes), why="a benchmark")

    found: dict[str, Callable[[], Any]] = {
        "dpkmeans": ours,
        "sklearn tol=0": lambda: KMeans(k, init=start, n_init=1, tol=0, max_iter=passes).fit(X),
        "sklearn": lambda: KMeans(k, init=start, n_init=1, max_iter=passes).fit(X),
    }
    try:
        import faiss

        faiss.omp_set_num_threads(1)
        X32 = X.astype(np.float32)

        def by_faiss() -> Any:
            model = faiss.Kmeans(X.shape[1], k, niter=passes, max_points_per_centroid=10**9, min_points_per_centroid=1)
            model.train(X32, init_centroids=start.astype(np.float32))

        found["faiss"] = by_faiss
    except ImportError:
        print("faiss is not installed; left out", file=sys.stderr)
    try:
        from sklearnex.cluster import KMeans as IntelKMeans

        found["sklearnex"] = lambda: IntelKMeans(k, init=start, n_init=1, tol=0, max_iter=passes).fit(X)
    except ImportError:
        print("scikit-learn-intelex is not installed; left out", file=sys.stderr)
    return found


def measure(runs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, dict[str, float]]:
    """Interleaved: every contestant once, then again; minimum and median of CPU and wall time."""
    cpu: dict[str, list[float]] = {name: [] for name in runs}
    wall: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(repeats):
        for name, run in runs.items():
            c, w = time.process_time(), time.perf_counter()
            run()
            cpu[name].append(time.process_time() - c)
            wall[name].append(time.perf_counter() - w)
    return {
        name: {
            "cpu_min": min(cpu[name]),
            "cpu_median": float(np.median(cpu[name])),
            "wall_min": min(wall[name]),
            "wall_median": float(np.median(wall[name])),
        }
        for name in runs
    }


def limit(X: np.ndarray, k: int) -> dict[str, float]:
    """Seconds for one pass at the machine's limit: a float32 matrix product of this size, or reading the data once."""
    X32 = np.ascontiguousarray(X, dtype=np.float32)
    C = np.ascontiguousarray(X32[:k].T)
    out = np.empty((len(X), k), np.float32)

    def product() -> None:
        np.dot(X32, C, out=out)

    def read() -> None:
        X32.sum()

    return {"product": best(product), "read": best(read)}


def best(run: Callable[[], Any], repeats: int = 5) -> float:
    run()
    times = []
    for _ in range(repeats):
        began = time.process_time()
        run()
        times.append(time.process_time() - began)
    return min(times)


def one_pass(X: np.ndarray, k: int) -> float:
    """Seconds for a pass in which no record changes its cell."""
    box = Bounds.of((0.0, 1.0), X.shape[1])
    engine = MemoryEngine.of_records(X, box, n_threads=1)
    start = X[:k].copy()
    engine.cell_statistics(start)
    return best(lambda: engine.cell_statistics(start, compare_with=start))


def scaling(passes: int) -> list[dict[str, Any]]:
    """Time against n, d and k, each from 1 to 8 times, with the fitted exponent."""
    rows = []
    base = {"n": 100_000, "d": 8, "k": 16}
    for axis in base:
        times = []
        for factor in (1, 2, 4, 8):
            shape = {**base, axis: base[axis] * factor}
            X = np.random.default_rng(0).random((shape["n"], shape["d"]))
            box, start = Bounds.of((0.0, 1.0), shape["d"]), X[: shape["k"]].copy()
            times.append(
                best(lambda X=X, b=box, s=start: MemoryEngine.of_records(X, b, n_threads=1).lloyd(s, passes), 3)
            )
        exponent = float(np.polyfit(np.log([1, 2, 4, 8]), np.log(times), 1)[0])
        rows.append({"axis": axis, "seconds": times, "exponent": exponent})
    return rows


def threads() -> dict[str, float]:
    """Wall time of one thread over that of two, on e and g."""
    out = {}
    for name in ("e", "g"):
        X = records(name)
        k = WORKLOADS[name][2]
        box, start = Bounds.of((0.0, 1.0), X.shape[1]), X[:k].copy()
        walls = []
        for n_threads in (1, 2):
            times = []
            for _ in range(3):
                began = time.perf_counter()
                MemoryEngine.of_records(X, box, n_threads=n_threads).lloyd(start, 20)
                times.append(time.perf_counter() - began)
            walls.append(min(times))
        out[name] = walls[0] / walls[1]
    return out


def private_fit(repeats: int) -> dict[str, float]:
    """The default private fit at 1M x 10, k = 10, epsilon = 1 against scikit-learn's own fit to convergence."""
    from sklearn.cluster import KMeans

    X = records("e")
    runs: dict[str, Callable[[], Any]] = {
        "dpkmeans": lambda: DPKMeans(10, epsilon=1.0, bounds=(0.0, 1.0)).fit(X),
        "sklearn": lambda: KMeans(10, n_init=1).fit(X),
    }
    times = measure(runs, repeats)
    tracemalloc.start()
    runs["dpkmeans"]()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "dpkmeans_cpu": times["dpkmeans"]["cpu_median"],
        "sklearn_cpu": times["sklearn"]["cpu_median"],
        "ratio": times["sklearn"]["cpu_median"] / times["dpkmeans"]["cpu_median"],
        "peak_mb": peak / 2**20,
        "float32_mb": X.size * 4 / 2**20,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(WORKLOADS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--passes", type=int, default=20)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    results: dict[str, Any] = {"machine": platform.processor() or platform.machine(), "workloads": {}}
    for name in options.only.split(","):
        n, d, k = WORKLOADS[name]
        X = records(name)
        start = X[np.random.default_rng(5).choice(len(X), k, replace=False)].copy()
        passes = 300 if name in REAL else options.passes
        repeats = options.repeats if n * d * k > 1e7 else 6 * options.repeats
        times = measure(contestants(X, start, passes, k), repeats)
        mine = times["dpkmeans"]["cpu_min"]
        ratios = {other: t["cpu_min"] / mine for other, t in times.items() if other != "dpkmeans"}
        best_pass = limit(X, k)
        share = max(best_pass.values()) / one_pass(X, k)
        results["workloads"][name] = {"shape": (n, d, k), "times": times, "ratios": ratios, "share_of_limit": share}
        shown = "  ".join(f"{other} {ratio:5.1f}x" for other, ratio in ratios.items())
        print(f"{name} {n}x{d} k{k}: {shown}  (wanted {TARGETS[name]})  pass at {share:.2f} of the limit", flush=True)
    results["private_fit"] = private_fit(max(options.repeats // 2, 2))
    print("private fit 1Mx10 k10 eps=1:", json.dumps(results["private_fit"]))
    results["two_threads"] = threads()
    print("two threads over one:", json.dumps(results["two_threads"]))
    results["scaling"] = scaling(10)
    for row in results["scaling"]:
        print(f"time grows as {row['axis']}^{row['exponent']:.2f}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    if options.plot:
        plot(results, options.plot)


def plot(results: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3))
    names = list(results["workloads"])
    others = sorted({other for w in results["workloads"].values() for other in w["ratios"]})
    for i, other in enumerate(others):
        values = [results["workloads"][name]["ratios"].get(other, np.nan) for name in names]
        axes.bar(np.arange(len(names)) + 0.8 * i / len(others), values, width=0.8 / len(others), label=other)
    axes.set_xticks(np.arange(len(names)) + 0.3, names)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_yscale("log")
    axes.set_ylabel("times slower than dpkmeans")
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    main()
