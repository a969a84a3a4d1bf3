"""Persons on made-up visits: what each way to keep the rows of a person costs, and time and memory at scale.

    python benchmarks/persons.py quality            # the table of docs/persons.md
    python benchmarks/persons.py write --rows 50000000 --persons 5000000 --out visits
    python benchmarks/persons.py scale visits       # the table of docs/scale.md
    python benchmarks/persons.py write --largest 10000000 --out skewed   # one person has ten million rows of these

Visits: k = 8 types of persons. A person has a place of its own around the centre of its type, and its visits lie around
that place. The number of visits is heavy-tailed (a Pareto law of index 1.2, cut at 1000), and types 0 and 1 visit three
times as often, so that rows are not persons.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

K = 8
CENTRES = np.random.default_rng(5).random((K, 2)) * 0.8 + 0.1


def visits(n_persons: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, K, n_persons)
    sizes = np.minimum(np.ceil(rng.pareto(1.2, n_persons) * np.where(kind < 2, 3, 1) + 0.01), 1000).astype(int)
    who = np.repeat(np.arange(n_persons), sizes)
    homes = CENTRES[kind] + 0.03 * rng.standard_normal((n_persons, 2))
    places = np.clip(homes[who] + 0.06 * rng.standard_normal((len(who), 2)), 0, 1)
    frame = pd.DataFrame({"patient": who, "x": places[:, 0], "y": places[:, 1]})
    return frame.sample(frac=1.0, random_state=seed, ignore_index=True)


def cost(points: np.ndarray, weights: np.ndarray, centroids: np.ndarray) -> float:
    nearest = np.min([((points - c) ** 2).sum(axis=1) for c in centroids], axis=0)
    return float((weights * nearest).sum() / weights.sum())


def best(points: np.ndarray, weights: np.ndarray) -> float:
    from sklearn.cluster import KMeans

    model = KMeans(K, init=CENTRES, n_init=1).fit(points, sample_weight=weights)
    return cost(points, weights, model.cluster_centers_)


def quality(n_persons: int, repeats: int) -> None:
    from dpkmeans import DPKMeans, Person

    frame = visits(n_persons, seed=1)
    rows, sizes = frame[["x", "y"]].to_numpy(), frame.groupby("patient").patient.transform("size").to_numpy()
    by_hand = frame.groupby("patient")[["x", "y"]].mean()
    per_row, per_person = np.ones(len(rows)), 1 / sizes
    least = best(rows, per_row), best(rows, per_person)
    quantile = np.quantile(frame.groupby("patient").size(), 0.95)
    print(f"{len(frame)} visits of {n_persons} persons, at most {sizes.max()}; 95 % have at most {quantile:.0f}")
    ways = {
        "`at_most=2`": (frame, Person("patient", at_most=2)),
        "`at_most=5`": (frame, Person("patient", at_most=5)),
        "`at_most=20`": (frame, Person("patient", at_most=20)),
        '`at_most="auto"`': (frame, Person("patient", at_most="auto")),
        '`keep="mean"`': (frame, Person("patient", keep="mean")),
        '`keep="one"`': (frame, Person("patient", keep="one")),
        "aggregated by hand": (by_hand, None),
        "per row (wrong: not per person)": (frame[["x", "y"]], None),
    }
    for epsilon in (0.5, 1.0):
        for name, (X, unit) in ways.items():
            found = []
            for _ in range(repeats):
                centroids = DPKMeans(K, epsilon=epsilon, bounds=(0, 1), unit=unit).fit(X).cluster_centers_
                losses = [cost(rows, per_row, centroids) / least[0], cost(rows, per_person, centroids) / least[1]]
                found.append([loss - 1 for loss in losses])
            row, person = (f"{100 * value:.1f} %" for value in np.median(found, axis=0))
            print(f"| {epsilon:g} | {name} | {row} | {person} |", flush=True)


def write(n_rows: int, n_persons: int, largest: int, out: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out.mkdir(exist_ok=True)
    rng, done, part = np.random.default_rng(2), 0, 0
    while done < n_rows:
        n = min(5_000_000, n_rows - done)
        who = (n_persons * rng.random(n) ** 1.5).astype(np.int64)  # rows of a person are spread over all files
        who[rng.random(n) < largest / n_rows] = 0
        places = np.clip(CENTRES[who % K] + 0.06 * rng.standard_normal((n, 2)), 0, 1)
        table = pa.table({"patient": who, "x": places[:, 0], "y": places[:, 1]})
        pq.write_table(table, out / f"{part:03d}.parquet", row_group_size=2**18)
        done, part = done + n, part + 1


def fit_once(folder: str, way: str) -> None:
    from dpkmeans import DPKMeans, Person
    from dpkmeans.data.source import Files

    units = {"row": None, "rows": Person("patient", at_most=5)}
    unit = units[way] if way in units else Person("patient", keep="mean" if way == "mean" else "one")
    start = time.perf_counter()
    model = DPKMeans(K, epsilon=1.0, bounds={"x": (0, 1), "y": (0, 1)}, unit=unit, engine="stream").fit(Files(folder))
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    cpu = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    found = {"way": way, "seconds": seconds, "cpu": cpu, "peak_gb": peak, "spent": model.release_.epsilon_spent}
    print(json.dumps(found))


def scale(folder: str) -> None:
    for way in ("row", "rows", "mean", "one"):
        done = subprocess.run(
            [sys.executable, __file__, "once", folder, way], capture_output=True, text=True, check=True
        )
        found = json.loads(done.stdout.splitlines()[-1])
        print(f"| {way} | {found['seconds']:.0f} | {found['cpu']:.0f} | {found['peak_gb']:.2f} GB |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    measured = commands.add_parser("quality")
    measured.add_argument("--persons", type=int, default=100_000)
    measured.add_argument("--repeats", type=int, default=5)
    written = commands.add_parser("write")
    written.add_argument("--rows", type=int, default=50_000_000)
    written.add_argument("--persons", type=int, default=5_000_000)
    written.add_argument("--largest", type=int, default=0, help="rows of one person")
    written.add_argument("--out", type=Path, required=True)
    commands.add_parser("scale").add_argument("folder")
    once = commands.add_parser("once")
    once.add_argument("folder")
    once.add_argument("way")
    given = parser.parse_args()
    if given.command == "quality":
        quality(given.persons, given.repeats)
    elif given.command == "write":
        write(given.rows, given.persons, given.largest, given.out)
    elif given.command == "scale":
        scale(given.folder)
    else:
        fit_once(given.folder, given.way)


if __name__ == "__main__":
    main()
