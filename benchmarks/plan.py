"""Fits the public model behind `dpkmeans plan`: loss = cost / best Lloyd cost - 1 of single fits.

    python benchmarks/plan.py --sets 200 --rows plan_rows.jsonl --write src/dpkmeans/planning/loss_model.json --real

What was measured is kept in the file --rows, and a set that is there is not run again. The model itself is in
`dpkmeans.planning.loss_model`: a Gaussian process per method, fitted here by maximum likelihood. It learns
from synthetic sets only. Each is also predicted by a fit that has not seen it (ten folds), and with --real eight sets
are predicted that are in no fit; they come from DPKMEANS_DATA, else ../shared/data. How far off these predictions are
is stored next to the model.

    python benchmarks/plan.py --check 60

asks the model that comes with the package for the epsilon of a loss, as `dpkmeans plan --loss-at-most` does, on sets
that it was not fitted to, and fits at that epsilon.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dpkmeans.core.bounds import Bounds
from dpkmeans.core.exact import reveal
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.errors import WeakSignalWarning
from dpkmeans.methods.registry import make_method
from dpkmeans.planning.loss_model import LossModel, features, log_loss, straight, surfaces_from
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness

METHODS = ("synopsis", "su", "blum", "dwork", "su-hybrid")
REAL = ("iris", "house", "s1", "birch2", "image", "lifesci", "adult6", "a2")
REAL_EPSILONS = (0.1, 0.5, 1.0)
FOLDS = 10
FRESH = 1000  # the first seed of sets that no model was fitted to
CHECKED_LOSSES = (0.02, 0.1, 0.5)
MAX_FOR_LENGTHS = 200  # rows from which heights and lengths are fitted: the time grows with their cube

Row = dict[str, Any]


def a_set(seed: int) -> tuple[np.ndarray, int, list[float]]:
    """Unlike blobs with some records from everywhere, shape (n, d) in [0, 1]; k; four epsilons from 0.05 to 5."""
    rng = np.random.default_rng(seed)
    n, d, k = int(10 ** rng.uniform(2.5, 5.0)), round(2 ** rng.uniform(0, 4)), round(2 ** rng.uniform(1, 4.6))
    centers = rng.random((k, d)) * 0.8 + 0.1
    spread = 10 ** rng.uniform(-2.0, -0.8)
    shares = rng.dirichlet(np.full(k, 10 ** rng.uniform(0.0, 1.5)))
    own = rng.choice(k, n, p=shares)
    shapes = rng.uniform(0.5, 1.5, (k, d))
    X = centers[own] + spread * shapes[own] * rng.standard_normal((n, d))
    stray = rng.random(n) < rng.uniform(0, 0.05)
    X[stray] = rng.random((int(stray.sum()), d))
    epsilons = [float(f"{10 ** (low + 0.5 * rng.random()):.2g}") for low in (-1.3, -0.8, -0.3, 0.2)]
    return np.clip(X, 0.0, 1.0), k, epsilons


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


def measured(name: str, X: np.ndarray, k: int, epsilons: list[float]) -> list[Row]:
    """One row per epsilon: the public quantities, and the loss of a single fit of each method."""
    n, d = X.shape
    engine = MemoryEngine.of_records(X, Bounds.of((0.0, 1.0), d))
    best = best_cost(engine, X, k)
    rows = []
    for epsilon in epsilons:
        fits = {m: make_method(m).run(engine, k, ledger=Ledger(epsilon), rng=Randomness.secure()) for m in METHODS}
        losses = {m: float(f"{cost(engine, release.centroids) / best - 1:.4g}") for m, release in fits.items()}
        spread = float(f"{np.sqrt(best / (n * d)):.4g}")
        rows.append({"set": name, "n": n, "d": d, "k": k, "spread": spread, "epsilon": epsilon, "loss": losses})
    return rows


def kept(path: Path | None, sets: int, seconds: float) -> list[Row]:
    """The rows of all sets; those that the file does not have are measured, and added to it."""
    rows: list[Row] = []
    if path is not None and path.exists():
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    known, ends = {row["set"] for row in rows}, time.monotonic() + seconds
    for seed in range(sets):
        if str(seed) in known:
            continue
        if time.monotonic() > ends:
            break
        began = time.monotonic()
        X, k, epsilons = a_set(seed)
        new = measured(str(seed), X, k, epsilons)
        rows += new
        if path is not None:
            with path.open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in new)
        print(f"set {seed}: n={X.shape[0]} d={X.shape[1]} k={k}, {time.monotonic() - began:.0f} s", flush=True)
    return [row for row in rows if int(row["set"]) < sets]


def fitted(rows: list[Row]) -> dict[str, Any]:
    """The content of the model's file."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    x = np.array([features(r["n"], r["d"], r["k"], r["epsilon"], r["spread"]) for r in rows]).round(3)
    centre, scale = x.mean(axis=0).round(3), x.std(axis=0).round(3)
    points = (x - centre) / scale
    spreads = sorted({r["set"]: r["spread"] for r in rows}.values())
    content: dict[str, Any] = {
        "sets": len(spreads),
        "centre": centre.tolist(),
        "scale": scale.tolist(),
        "spreads": np.quantile(spreads, (np.arange(15) + 0.5) / 15).round(5).tolist(),
        "features": x.tolist(),
        "methods": {},
    }
    for method in METHODS:
        y = log_loss([r["loss"][method] for r in rows]).round(3)
        line = np.linalg.lstsq(straight(points), y, rcond=None)[0].round(4)
        kernel = ConstantKernel(1.0) * RBF(np.ones(4), (0.3, 30.0)) + WhiteKernel(0.3, (0.01, 10.0))
        few = slice(None, None, max(1, len(rows) // MAX_FOR_LENGTHS))
        process = GaussianProcessRegressor(kernel).fit(points[few], (y - straight(points) @ line)[few])
        height, lengths = process.kernel_.k1.k1.constant_value, process.kernel_.k1.k2.length_scale
        content["methods"][method] = {
            "line": line.tolist(),
            "height": round(float(height), 4),
            "lengths": lengths.round(3).tolist(),
            "noise": round(float(process.kernel_.k2.noise_level), 4),
            "log_losses": y.tolist(),
        }
    return content


def factors(model: LossModel, rows: list[Row], method: str, known: bool) -> list[tuple[float, bool]]:
    """For each row the factor between measured and expected loss, and whether the range holds the measured one."""
    found = []
    for row in rows:
        expected = model.expected(
            method, row["n"], row["d"], row["k"], row["epsilon"], row["spread"] if known else None
        )
        loss = float(np.exp(log_loss([row["loss"][method]])[0]))
        within = expected.low * 0.999 <= loss <= expected.high * 1.001
        found.append((max(loss / expected.loss, expected.loss / loss), within))
    return found


def judged(pairs: list[tuple[float, bool]]) -> dict[str, float]:
    off, within = zip(*pairs, strict=True)
    return {
        "median_factor": round(float(np.median(off)), 2),
        "nine_of_ten_within": round(float(np.quantile(off, 0.9)), 1),
        "in_range": round(float(np.mean(within)), 2),
    }


def held_out(rows: list[Row]) -> dict[str, Any]:
    """How far off the predictions of sets are that the fit has not seen, over ten folds."""
    found: dict[str, Any] = {f"{m}, {s}": [] for m in METHODS for s in ("spread known", "spread unknown")}
    for fold in range(FOLDS):
        away = [row for row in rows if int(row["set"]) % FOLDS == fold]
        model = surfaces_from(fitted([row for row in rows if int(row["set"]) % FOLDS != fold]))
        for m in METHODS:
            found[f"{m}, spread known"] += factors(model, away, m, True)
            found[f"{m}, spread unknown"] += factors(model, away, m, False)
    return {name: judged(pairs) for name, pairs in found.items()}


def real_rows() -> list[Row]:
    """Single fits of eight sets that are in no fit, scaled by their own box."""
    import quality

    rows = []
    for name in REAL:
        w = quality.load(name)
        rows += measured(name, w.X, w.k, list(REAL_EPSILONS))
        print(f"{name}: {rows[-1]}", flush=True)
    return rows


def checked(sets: int) -> str:
    """How often a fit at the epsilon that `--loss-at-most` names stays within the loss, on sets that are in no fit."""
    from dpkmeans.planning.advice import epsilon_for

    held: dict[tuple[float, float, str], list[bool]] = {}
    for seed in range(FRESH, FRESH + sets):
        X, k, _ = a_set(seed)
        n, d = X.shape
        engine = MemoryEngine.of_records(X, Bounds.of((0.0, 1.0), d))
        best = best_cost(engine, X, k)
        for known, spread in (("known", float(np.sqrt(best / (n * d)))), ("unknown", None)):
            for loss in CHECKED_LOSSES:
                for needed in epsilon_for(n, d, k, loss, spread=spread):
                    if needed.epsilon is None:
                        continue
                    ledger = Ledger(needed.epsilon)
                    release = make_method("synopsis").run(engine, k, ledger=ledger, rng=Randomness.secure())
                    within = cost(engine, release.centroids) <= (1 + loss) * best
                    held.setdefault((loss, needed.sure, known), []).append(within)
    lines = ["| loss at most | promised | spread | fits | stayed within it |", "|" + " --- |" * 5]
    for (loss, sure, known), found in sorted(held.items()):
        lines.append(f"| {loss:.0%} | {sure:.0%} | {known} | {len(found)} | {np.mean(found):.0%} |")
    return "\n".join(lines).replace("%", " %")


def table(content: dict[str, Any]) -> str:
    """The table of docs/plan.md."""
    lines = ["| method | spread | sets | median factor | nine of ten within | 80 % range holds |", "|" + " --- |" * 6]
    for where, part in (("held out", content["held_out"]), ("real", content.get("real") or {})):
        for name, v in part.items():
            method, spread = name.split(", spread ")
            shown = f"{v['median_factor']} | {v['nine_of_ten_within']} | {100 * v['in_range']:.0f} %"
            lines.append(f"| `{method}` | {spread} | {where} | {shown} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--rows", type=Path, default=None, help="keep what was measured here (JSON lines)")
    parser.add_argument("--seconds", type=float, default=7200.0, help="begin no further set after this time")
    parser.add_argument("--real", action="store_true", help="also predict sets that are in no fit")
    parser.add_argument("--write", type=Path, default=None)
    parser.add_argument("--check", type=int, default=0, help="fit so many other sets at the epsilon that plan names")
    options = parser.parse_args()
    warnings.simplefilter("ignore", WeakSignalWarning)
    warnings.simplefilter("ignore", ConvergenceWarning)  # of lengths at the end of their range
    if options.check:
        print(checked(options.check))
        return
    rows = kept(options.rows, options.sets, options.seconds)
    content = fitted(rows)
    content["held_out"] = held_out(rows)
    if options.real:
        model, real = surfaces_from(content), real_rows()
        content["real"] = {
            f"{m}, spread {'known' if known else 'unknown'}": judged(factors(model, real, m, known))
            for m in METHODS
            for known in (True, False)
        }
    print(table(content))
    if options.write:
        options.write.write_text(json.dumps(content) + "\n")


if __name__ == "__main__":
    main()
