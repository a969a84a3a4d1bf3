"""Speed against scikit-learn and other k-means, all in one interleaved run, one thread, CPU and wall time.

Run with `make bench`, or a part: `python benchmarks/speed.py --parts workloads --only a,b,e --json speed.json`.
Ratios count; seconds do not: machines are shared and noisy. A fit is: pack the records, then Lloyd's passes from a
given start, as many as scikit-learn makes with tol=0 (at most --passes for e to j). SuperKMeans and geokmeans choose
their own start, and mlpack and geokmeans may stop earlier. Contestants that are not installed are left out with a line
on stderr; diffprivlib may be in another interpreter, --diffprivlib-python.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import speed_parts
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.exact import reveal
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.kernels.jit import compile_from_now_on
from timing import Allowance, best, measure
from workloads import REAL, TARGETS, WORKLOADS, records, rows

PARTS = ("workloads", "many", "private", "memory", "threads", "savings", "growth", "scaling")


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
        single = X.astype(np.float32)

        def by_faiss() -> Any:
            model = faiss.Kmeans(X.shape[1], k, niter=passes, max_points_per_centroid=10**9, min_points_per_centroid=1)
            model.train(single, init_centroids=start.astype(np.float32))

        found["faiss"] = by_faiss
    except ImportError:
        print("faiss is not installed; left out", file=sys.stderr)
    try:
        from sklearnex.cluster import KMeans as IntelKMeans

        found["sklearnex"] = lambda: IntelKMeans(k, init=start, n_init=1, tol=0, max_iter=passes).fit(X)
    except ImportError:
        print("scikit-learn-intelex is not installed; left out", file=sys.stderr)
    try:
        import mlpack

        def by_mlpack() -> Any:  # it may stop earlier, where centroids hardly move
            mlpack.kmeans(k, X, algorithm="hamerly", initial_centroids=start, max_iterations=passes)

        found["mlpack"] = by_mlpack
    except ImportError:
        print("mlpack is not installed; left out", file=sys.stderr)
    try:
        from geokmeans import GeoKMeans

        def by_geokmeans() -> Any:  # it chooses its own start
            GeoKMeans(k, algorithm="geo", max_iter=passes, tol=0.0, random_state=0).fit(X)

        found["geokmeans"] = by_geokmeans
    except ImportError:
        print("geokmeans is not installed; left out", file=sys.stderr)
    try:
        from superkmeans import SuperKMeans

        def by_superkmeans() -> Any:  # all records, all passes; it chooses its own start
            whole: dict[str, Any] = {"hierarchical": False, "sampling_fraction": 1.0, "max_points_per_cluster": len(X)}
            SuperKMeans(k, X.shape[1], iters=passes, n_threads=1, early_termination=False, **whole).train(X32)

        X32 = np.ascontiguousarray(X, np.float32)
        found["superkmeans"] = by_superkmeans
    except ImportError:
        print("superkmeans is not installed; left out", file=sys.stderr)
    return found


def limit(X: np.ndarray, k: int) -> dict[str, float]:
    """Seconds for one pass at the machine's limit: a float32 matrix product of this size, or reading the data once."""
    X32 = np.ascontiguousarray(X, dtype=np.float32)
    C = np.ascontiguousarray(X32[:k].T)
    out = np.empty((len(X), k), np.float32)
    return {"product": best(lambda: np.dot(X32, C, out=out)), "read": best(X32.sum)}


def one_pass(X: np.ndarray, k: int) -> float:
    """Seconds for a pass over all records and all centroids in which no record changes its cell."""
    engine = MemoryEngine.of_records(X, Bounds.of((0.0, 1.0), X.shape[1]), n_threads=1)
    start = X[:k].copy()
    engine.cell_statistics(start)
    return best(lambda: engine.cell_statistics(start, compare_with=start))


def workload(name: str, repeats: int, passes: int, those: set[str] | None) -> dict[str, Any]:
    """Times of all contestants, how many times longer each takes than we do, and our pass against the limit."""
    n, d, k = WORKLOADS[name]
    X = records(name)
    found = contestants(X, rows(X, k), 300 if name in REAL else passes, k)
    if unknown := (those or set()) - set(found):
        raise SystemExit(f"--contestants: not installed or unknown: {', '.join(sorted(unknown))}.")
    times = measure({other: found[other] for other in found if those is None or other in those}, repeats)
    ratios = {
        clock: {other: t[clock] / times["dpkmeans"][clock] for other, t in times.items() if other != "dpkmeans"}
        for clock in times["dpkmeans"]
    }
    limits, mine = limit(X, k), one_pass(X, k)
    share = max(limits.values()) / mine
    shown = "  ".join(
        f"{other} {ratios['cpu_min'][other]:.1f}x (median {ratios['cpu_median'][other]:.1f}x)"
        for other in ratios["cpu_min"]
    )
    print(
        f"{name} {n}x{d} k{k}: {shown}  (wanted {TARGETS[name] or '–'})  pass at {share:.2f} of the limit", flush=True
    )
    limit_row = {**limits, "our_pass": mine, "share": share}
    return {"shape": (n, d, k), "times": times, "ratios": ratios, "limit": limit_row}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default=",".join(PARTS), help="some of %(default)s")
    parser.add_argument("--only", default=",".join(WORKLOADS), help="workloads")
    parser.add_argument("--contestants", help="beside dpkmeans; all that are installed by default, some take long")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--passes", type=int, default=20)
    parser.add_argument("--diffprivlib-python", type=Path, help="an interpreter that has diffprivlib")
    parser.add_argument("--minutes", type=float, help="after so long nothing new begins, and what is left out is named")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    compile_from_now_on()  # as in any process that has run for a second; benchmarks/start.py times the first one
    results: dict[str, Any] = {"machine": platform.processor() or platform.machine(), "workloads": {}}
    parts, allowance = options.parts.split(","), Allowance(options.minutes)
    those = None if options.contestants is None else {"dpkmeans", *options.contestants.split(",")}
    if "workloads" in parts:
        for name in filter(allowance.admits, options.only.split(",")):
            results["workloads"][name] = workload(name, options.repeats, options.passes, those)
    others: dict[str, Callable[[], Any]] = {
        "many": lambda: speed_parts.many_fits(options.repeats),
        "private": lambda: speed_parts.private_fit(max(options.repeats // 2, 2), options.diffprivlib_python),
        "memory": speed_parts.peak_memory,
        "threads": lambda: speed_parts.two_threads(options.repeats),
        "savings": lambda: speed_parts.savings(options.repeats),
        "growth": speed_parts.growth,
        "scaling": lambda: speed_parts.scaling(10),
    }
    for part, run in others.items():
        if part in parts and allowance.admits(part):
            results[part] = run()
            print(f"{part}: {json.dumps(results[part], indent=1)}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    if options.plot:
        plot(results["workloads"], options.plot)


def plot(workloads: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3))
    others = sorted({other for w in workloads.values() for other in w["ratios"]["cpu_min"]})
    for i, other in enumerate(others):
        values = [w["ratios"]["cpu_min"].get(other, np.nan) for w in workloads.values()]
        axes.bar(np.arange(len(workloads)) + 0.8 * i / len(others), values, width=0.8 / len(others), label=other)
    axes.set_xticks(np.arange(len(workloads)) + 0.3, list(workloads))
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_yscale("log")
    axes.set_ylabel("times slower than dpkmeans")
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    main()
