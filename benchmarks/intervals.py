"""Coverage of `release.intervals(0.95)`: the share of exact means and sizes of released cells that lie in them.

Run with `python benchmarks/intervals.py --fits 300 --keep FILE`, or a part of it: `--sets s1,house --epsilons 0.1,1`.
Every fit has new noise, and is a line of the file: a run that was stopped goes on, and `--fits 0` shows what there is.
`--choose 132 --fits 10` shows, on random problems of the public seed, the coverage, and by how much the factors in
`synopsis/settings.py` would have to change there. docs/uncertainty.md says where they come from.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for those who run this by its path

from dpkmeans.core.exact import reveal
from dpkmeans.core.release import Release
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.errors import WeakSignalWarning
from dpkmeans.methods.registry import make_method
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from problems import PUBLIC_SEED, Workload, load, random_problem

SETS = "s1,house,adult6,lifesci,far,unequal"
EPSILONS = "0.1,0.5,1.0"
MAX_NUMBERS, MAX_FEATURES, MAX_CLUSTERS, MIN_RECORDS = 60_000, 12, 20, 1000  # of random problems that are chosen on
LEAST = 0.93  # coverage that is wanted at least


def fit(engine: MemoryEngine, k: int, epsilon: float) -> Release:
    return make_method("synopsis").run(engine, k, ledger=Ledger(epsilon), rng=Randomness.secure())


def step_of(release: Release) -> str:
    """Whether a step on the records corrected the synopsis, or re-centred the centroids."""
    certificate = release.certificate
    if certificate.correction is not None:
        return "corrected"
    return "no step" if certificate.step is None else "re-centred"


def exact(engine: MemoryEngine, release: Release) -> tuple[np.ndarray, np.ndarray]:
    """Means (k, d) in the units of the data, NaN where there is no record, and sizes (k,) of the released cells."""
    cells = reveal(engine.cell_statistics(engine.bounds.unit_of(release.centroids)), why="a benchmark")
    counts = np.asarray(cells.counts, np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return engine.bounds.from_unit(np.asarray(cells.sums) / counts[:, None]), counts


def covered(engine: MemoryEngine, release: Release) -> tuple[np.ndarray, np.ndarray, float]:
    """Whether each coordinate and each size lies in its interval, and the median width, in sides of the box."""
    means, sizes = exact(engine, release)
    found = release.intervals(0.95)
    known = ~np.isnan(means)
    inside = ((found.lower <= means) & (means <= found.upper))[known]
    width = np.median((found.upper - found.lower) / np.asarray(release.bounds.widths))
    return inside, (found.size_lower <= sizes) & (sizes <= found.size_upper), float(width)


def judge(sets: str, epsilons: str, fits: int, keep: Path | None) -> list[dict[str, Any]]:
    """So many fits of every cell, one of each in turn, with those in `keep`: a run can be stopped, and goes on."""
    rows = [] if keep is None or not keep.exists() else [json.loads(line) for line in keep.read_text().splitlines()]
    done = Counter((row["set"], row["eps"]) for row in rows)
    cells = [(name, float(epsilon)) for name in sets.split(",") for epsilon in epsilons.split(",")]
    loaded: dict[str, tuple[Workload, MemoryEngine]] = {}
    for number in range(fits):
        for name, epsilon in cells:
            if done[name, epsilon] > number:
                continue
            if name not in loaded:
                w = load(name)
                loaded[name] = w, MemoryEngine.of_records(w.X, w.box, n_threads=1)
            w, engine = loaded[name]
            inside, sizes, width = covered(engine, fit(engine, w.k, epsilon))
            counts = {"in": int(inside.sum()), "n": inside.size, "sin": int(sizes.sum()), "k": sizes.size}
            rows.append({"set": name, "eps": epsilon, **counts, "width": width})
            if keep is not None:
                with keep.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    print(f"{'set':10s} {'eps':>4s} {'coordinates':>11s} {'sizes':>8s} {'width':>8s} {'fits':>5s}")
    for name, epsilon in dict.fromkeys((row["set"], row["eps"]) for row in rows):
        own = [row for row in rows if (row["set"], row["eps"]) == (name, epsilon)]
        share = {
            part: sum(row[part] for row in own) / sum(row[of] for row in own)
            for part, of in (("in", "n"), ("sin", "k"))
        }
        width = np.median([row["width"] for row in own])
        print(f"{name:10s} {epsilon:4.1f} {share['in']:11.3f} {share['sin']:8.3f} {width:8.4f} {len(own):5d}")


def choose(problems: int, fits: int) -> None:
    """For random problems, the coverage, and by how much margins would have to grow to hold 95 % of their values."""
    found: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for number in range(problems):
        w = random_problem(PUBLIC_SEED, number, features=(1, MAX_FEATURES), most_numbers=MAX_NUMBERS)
        if w.X.size > MAX_NUMBERS or w.k > MAX_CLUSTERS or len(w.X) < MIN_RECORDS:
            continue
        engine = MemoryEngine.of_records(w.X, w.box, n_threads=1)
        for epsilon in map(float, EPSILONS.split(",")):
            if len(w.X) * epsilon / w.k < max(10, 4 * w.X.shape[1]):
                continue  # the fit warns that no clusters can be told from noise
            needed, size_needed = [], []
            for _ in range(fits):
                release = fit(engine, w.k, epsilon)
                (means, sizes), at, c = exact(engine, release), release.intervals(0.95), release.centroids
                half = np.where(means > c, at.upper - c, c - at.lower)
                n = np.array(release.sizes)
                size_half = np.where(sizes > n, at.size_upper - n, n - at.size_lower)
                z = np.abs(c - means) / np.maximum(half, 1e-12)
                needed.append(z[~np.isnan(z)])
                size_needed.append(np.abs(n - sizes) / np.maximum(size_half, 1e-12))
            kind = str(release.parameters["synopsis"]), step_of(release)
            both = np.concatenate(needed), np.concatenate(size_needed)
            row = *(float((z <= 1).mean()) for z in both), *(float(np.quantile(z, 0.95)) for z in both)
            found.setdefault(kind, []).append(row)
            shape = f"{len(w.X)} x {w.X.shape[1]}, k = {w.k}, epsilon {epsilon:g}"
            print(f"  {w.name}: {shape}, {kind[0]}, {kind[1]}: " + " ".join(f"{x:.2f}" for x in row))
    for kind, rows in sorted(found.items()):
        cells, low = np.array(rows), (np.array(rows)[:, :2] < LEAST).mean(axis=0)
        print(
            f"{kind[0]}, {kind[1]}: {len(cells)} cells; coordinates and sizes: mean coverage "
            f"{cells[:, 0].mean():.3f} and {cells[:, 1].mean():.3f}, below {LEAST} in {low[0]:.0%} and {low[1]:.0%}; "
            f"needed, of the margins: {np.median(cells[:, 2]):.2f} and {np.median(cells[:, 3]):.2f} in the median"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--epsilons", default=EPSILONS)
    parser.add_argument("--fits", type=int, default=300)
    parser.add_argument("--keep", type=Path, help="a file with a line for each fit, which a later run goes on with")
    parser.add_argument(
        "--choose", type=int, default=0, help="random problems of the public seed, in place of the sets"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore", WeakSignalWarning)
    if options.choose:
        choose(options.choose, options.fits)
        return
    show(judge(options.sets, options.epsilons, options.fits, options.keep))


if __name__ == "__main__":
    main()
