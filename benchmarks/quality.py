"""Clustering quality of every proved method: median over unseeded runs of cost / best of 30 Lloyd runs.

Run with `make bench-quality`, or a part of it: `python benchmarks/quality.py --sets s1,a2 --epsilons 0.1,1 --runs 30`.
The data sets come from DPKMEANS_DATA, else ../shared/data; each feature is scaled to [0, 1] by the data's own box,
which is given as public, except for `cube16`, whose box is a cube. The number of records is private.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpkmeans.core.bounds import Bounds
from dpkmeans.core.exact import reveal
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.errors import WeakSignalWarning
from dpkmeans.methods.loop.initializers import SpherePacking
from dpkmeans.methods.registry import make_method
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness

METHOD = "synopsis"
BASELINES = ("su", "blum", "dwork", "gupt", "privgene", "eugkm", "su-hybrid", "no data")
CLUSTERS = {"iris": 3, "house": 3, "s1": 15, "birch2": 5, "image": 3, "lifesci": 3, "adult6": 5, "a2": 35}
# Medians that throwaway prototypes reached, by data set and epsilon, with as many digits as count.
TARGETS = {
    "iris": {0.1: "2.7", 0.5: "1.64", 1.0: "1.12"},
    "house": {0.1: "1.06", 0.5: "1.003", 1.0: "1.004"},
    "s1": {0.1: "1.13", 0.5: "1.010", 1.0: "1.002"},
    "birch2": {0.1: "1.004", 0.5: "1.002", 1.0: "1.000"},
    "image": {0.1: "1.002", 0.5: "1.000", 1.0: "1.000"},
    "lifesci": {0.1: "1.03", 0.5: "1.002", 1.0: "1.001"},
    "adult6": {0.1: "1.09", 0.5: "1.009", 1.0: "1.005"},
    "a2": {0.1: "1.56", 0.5: "1.16", 1.0: "1.086"},
    "blobs10": {0.1: "1.014", 1.0: "1.000"},
    "blobs64": {0.1: "3.0", 1.0: "1.22"},
    "cube16": {0.1: "4.0", 0.5: "1.46", 1.0: "1.05"},
}


@dataclass(frozen=True)
class Workload:
    name: str
    X: np.ndarray
    k: int
    box: Bounds


def load(name: str) -> Workload:
    if name == "blobs10":
        return unit(name, blobs(10, 100_000, 10, 0.06, seed=0), 10)
    if name == "blobs64":
        return unit(name, blobs(20, 100_000, 64, 0.08, seed=0), 20)
    if name == "cube16":
        from sklearn.datasets import make_blobs

        X = make_blobs(20_000, 16, centers=16, random_state=1)[0]
        side = float(np.abs(X).max())
        return Workload(name, X, 16, Bounds.of((-side, side), 16))
    folder = os.environ.get("DPKMEANS_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
    X = np.loadtxt(Path(folder) / f"{name}.csv.gz", delimiter=",")
    return unit(name, X, CLUSTERS[name])


def unit(name: str, X: np.ndarray, k: int) -> Workload:
    width = X.max(axis=0) - X.min(axis=0)
    X = (X - X.min(axis=0)) / np.where(width > 0, width, 1.0)
    return Workload(name, X, k, Bounds.of((0.0, 1.0), X.shape[1]))


def blobs(k: int, n: int, d: int, sd: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centers = rng.random((k, d))
    return np.clip(centers[rng.integers(k, size=n)] + sd * rng.standard_normal((n, d)), 0.0, 1.0)


def cost(engine: MemoryEngine, centroids: np.ndarray) -> float:
    return reveal(engine.cell_statistics(engine.bounds.unit_of(centroids)), why="a benchmark").cost


def best_lloyd(engine: MemoryEngine, w: Workload) -> tuple[float, float]:
    """The cheapest of 30 k-means++ runs, and the median of them over it."""
    from sklearn.cluster import kmeans_plusplus

    costs = []
    for seed in range(30):
        start = kmeans_plusplus(w.X, w.k, random_state=seed)[0]
        release = make_method("lloyd", init=start, max_iter=1000).run(
            engine, w.k, ledger=Ledger(), rng=Randomness.with_seed(seed)
        )
        costs.append(cost(engine, release.centroids))
    return min(costs), float(np.median(costs)) / min(costs)


def centroids_of(method: str, engine: MemoryEngine, k: int, epsilon: float) -> np.ndarray:
    rng = Randomness.secure()
    if method == "no data":
        return engine.bounds.from_unit(SpherePacking().centroids(engine, k, rng.generator))
    return make_method(method).run(engine, k, ledger=Ledger(epsilon), rng=rng).centroids


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default=",".join(TARGETS))
    parser.add_argument("--epsilons", default="0.1,0.5,1.0")
    parser.add_argument("--methods", default=",".join((METHOD, *BASELINES)))
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--baseline-runs", type=int, default=0, help="runs of the baselines; by default --runs")
    parser.add_argument("--slow-runs", type=int, default=0, help="runs of privgene, which is slow")
    parser.add_argument("--leave-out", default="", help="what takes too long, as in privgene@blobs64,privgene@blobs10")
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    warnings.simplefilter("ignore", WeakSignalWarning)
    methods = options.methods.split(",")
    print(f"{'set':9s} {'eps':>4s} {'target':>7s} " + " ".join(f"{m:>9s}" for m in (*methods, "lloyd")))
    rows = []
    for name in options.sets.split(","):
        w = load(name)
        engine = MemoryEngine.of_records(w.X, w.box)
        best, lloyd = best_lloyd(engine, w)
        for epsilon in map(float, options.epsilons.split(",")):
            medians = {}
            for method in methods:
                if f"{method}@{name}" in options.leave_out.split(","):
                    medians[method] = float("nan")
                    continue
                runs = options.runs if method == METHOD else options.baseline_runs or options.runs
                runs = options.slow_runs or runs if method == "privgene" else runs
                began = time.perf_counter()
                costs = [cost(engine, centroids_of(method, engine, w.k, epsilon)) for _ in range(runs)]
                medians[method] = float(np.median(costs)) / best
                seconds = (time.perf_counter() - began) / runs
                print(f"  {name} {epsilon} {method}: {medians[method]:.4f}, {seconds:.2f} s a fit", file=sys.stderr)
            rows.append({"set": name, "epsilon": epsilon, "lloyd": lloyd, **medians})
            target = TARGETS.get(name, {}).get(epsilon, "")
            shown = " ".join(f"{medians[m]:9.4f}" for m in methods)
            print(f"{name:9s} {epsilon:4.1f} {target:>7} {shown} {lloyd:9.4f}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))  # NaN: left out


if __name__ == "__main__":
    main()
