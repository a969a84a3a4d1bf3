"""Fits the public model behind `dpkmeans plan`: loss = cost / best Lloyd cost - 1, on synthetic sets only.

Run with `python benchmarks/plan.py --sets 60 --write src/dpkmeans/plan_model.json`. For each method
log(loss) is a linear function of log(N ε / k), log d and log k, fitted by least squares on three sets of four. The
fourth is held out, and how far off the prediction is there is stored next to the coefficients.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np

from dpkmeans.bounds import Bounds
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.errors import WeakSignalWarning
from dpkmeans.methods import make_method
from dpkmeans.privacy.exact import reveal
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness

METHODS = ("synopsis", "su", "blum", "dwork", "su-hybrid")
EPSILONS = (0.1, 0.3, 1.0, 3.0)
LEAST = 1e-4  # a smaller loss counts as this


def a_set(seed: int) -> tuple[np.ndarray, int]:
    """Blobs of unlike sizes and spreads, with some records from everywhere: shape (n, d) in [0, 1], and k."""
    rng = np.random.default_rng(seed)
    n, d, k = int(10 ** rng.uniform(2.5, 4.6)), int(rng.integers(1, 11)), int(rng.integers(2, 17))
    centers = rng.random((k, d)) * 0.8 + 0.1
    spread = 10 ** rng.uniform(-1.8, -0.9)
    shares = rng.dirichlet(np.full(k, 3.0))
    own = rng.choice(k, n, p=shares)
    X = centers[own] + spread * rng.uniform(0.5, 1.5, k)[own, None] * rng.standard_normal((n, d))
    stray = rng.random(n) < rng.uniform(0, 0.05)
    X[stray] = rng.random((int(stray.sum()), d))
    return np.clip(X, 0.0, 1.0), k


def cost(engine: MemoryEngine, centroids: np.ndarray) -> float:
    return reveal(engine.cell_statistics(engine.bounds.unit_of(centroids)), why="a benchmark").cost


def best_cost(engine: MemoryEngine, X: np.ndarray, k: int) -> float:
    from sklearn.cluster import kmeans_plusplus

    costs = []
    for seed in range(10):
        method = make_method("lloyd", init=kmeans_plusplus(X, k, random_state=seed)[0], max_iter=300)
        release = method.run(engine, k, ledger=Ledger(), rng=Randomness.with_seed(seed))
        costs.append(cost(engine, release.centroids))
    return min(costs)


def measured(sets: int, runs: int, seconds: float) -> list[dict[str, float | str | int]]:
    rows: list[dict[str, float | str | int]] = []
    ends = time.monotonic() + seconds
    for seed in range(sets):
        if time.monotonic() > ends:
            break
        X, k = a_set(seed)
        n, d = X.shape
        engine = MemoryEngine.of_records(X, Bounds.of((0.0, 1.0), d))
        best = best_cost(engine, X, k)
        for epsilon in EPSILONS:
            for name in METHODS:
                found = [
                    make_method(name).run(engine, k, ledger=Ledger(epsilon), rng=Randomness.secure())
                    for _ in range(runs)
                ]
                loss = float(np.median([cost(engine, release.centroids) for release in found])) / best - 1
                rows.append({"set": seed, "method": name, "n": n, "d": d, "k": k, "epsilon": epsilon, "loss": loss})
        print(f"set {seed}: n={n} d={d} k={k}", flush=True)
    return rows


def features(row: dict) -> list[float]:
    return [1.0, np.log(row["n"] * row["epsilon"] / row["k"]), np.log(row["d"]), np.log(row["k"])]


def fitted(rows: list[dict]) -> dict:
    model: dict = {"sets": len({row["set"] for row in rows}), "methods": {}}
    for name in METHODS:
        own = [row for row in rows if row["method"] == name]
        A = np.array([features(row) for row in own])
        y = np.log(np.maximum([row["loss"] for row in own], LEAST))
        held = np.array([row["set"] % 4 == 3 for row in own])
        coefficients = np.linalg.lstsq(A[~held], y[~held], rcond=None)[0]
        off = np.abs(A[held] @ coefficients - y[held])
        explained = 1 - float(np.sum(off**2) / np.sum((y[held] - y[~held].mean()) ** 2))
        model["methods"][name] = {
            "coefficients": [round(float(c), 4) for c in coefficients],
            "held_out_sets": len({row["set"] for row in own if row["set"] % 4 == 3}),
            "typical_factor": round(float(np.exp(np.median(off))), 3),
            "ninetieth_factor": round(float(np.exp(np.quantile(off, 0.9))), 3),
            "explained": round(explained, 3),
        }
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=60)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin no further set after this time")
    parser.add_argument("--write", type=Path, default=None)
    options = parser.parse_args()
    warnings.simplefilter("ignore", WeakSignalWarning)
    model = fitted(measured(options.sets, options.runs, options.seconds))
    print(json.dumps(model, indent=1))
    if options.write:
        options.write.write_text(json.dumps(model, indent=1) + "\n")


if __name__ == "__main__":
    main()
