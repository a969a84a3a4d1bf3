"""Problems for the quality benchmark: shared and made-up sets by name, and random ones from a seed.

Constants of the library are chosen on the problems of `PUBLIC_SEED` and judged on those of a secret seed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dpkmeans.core.bounds import Bounds
from dpkmeans.reproduction.datasets import cache_folder

PUBLIC_SEED = 20
WHERE = "Name their folder in DPKMEANS_DATA, or let `dpkmeans reproduce` download those of the paper."
CLUSTERS = {"iris": 3, "house": 3, "s1": 15, "birch2": 5, "image": 3, "lifesci": 3, "adult6": 5, "a2": 35}
MAX_NUMBERS = 4_000_000  # of a random problem, records times features
MAX_WORK = 10**9  # of a Lloyd pass of the reference: records times features times clusters, times 30


@dataclass(frozen=True)
class Workload:
    """Records (n, d), how many clusters to look for, and the public box."""

    name: str
    X: np.ndarray
    k: int
    box: Bounds


def load(name: str) -> Workload:
    """A set by name, as in `s1`; `s1:4` has sides four times as wide, the data in a corner, `s1:4m` in the middle."""
    name, _, loose = name.partition(":")
    made = MADE_UP.get(name)
    w = made() if made else shared(name)
    return w if not loose else loosened(w, float(loose.rstrip("m")), 0.5 if loose.endswith("m") else 0.0)


def shared(name: str) -> Workload:
    """A set from a file; Iris, which scikit-learn carries, also without one."""
    file = data_file(f"{name}.csv.gz")
    if file is None and name == "iris":
        from sklearn.datasets import load_iris

        return unit(name, load_iris().data, CLUSTERS[name])
    if file is None:
        raise SystemExit(f"error: {name}.csv.gz is not here. {WHERE} Sets without a file: iris, {', '.join(MADE_UP)}.")
    return unit(name, np.loadtxt(file, delimiter=","), CLUSTERS[name])


def data_file(name: str) -> Path | None:
    """A file of the folder DPKMEANS_DATA, else of ../shared/data, else of the cache of `dpkmeans reproduce`."""
    given = os.environ.get("DPKMEANS_DATA")
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folders = [Path(given)] if given else [beside, cache_folder()]
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def is_here(name: str) -> bool:
    """Whether a set can be loaded."""
    return name == "iris" or name in MADE_UP or data_file(f"{name}.csv.gz") is not None


def those_here(names: Iterable[str], instead: Iterable[str] = ()) -> list[str]:
    """The sets that can be loaded; where some cannot, that is said, and `instead` is added."""
    wanted = list(names)
    found = [name for name in wanted if is_here(name.partition(":")[0])]
    absent = [name for name in wanted if name not in found]
    if absent:
        print(f"left out, not here: {', '.join(absent)}. {WHERE}", file=sys.stderr)
        found += [name for name in instead if name not in found]
    return found


def unit(name: str, X: np.ndarray, k: int) -> Workload:
    width = X.max(axis=0) - X.min(axis=0)
    X = (X - X.min(axis=0)) / np.where(width > 0, width, 1.0)
    return Workload(name, X, k, Bounds.of((0.0, 1.0), X.shape[1]))


def loosened(w: Workload, times: float, place: float) -> Workload:
    """The same records in a box whose sides are `times` as wide; `place` is 0 for its lower corner, 0.5 the middle."""
    lower, upper = np.array(w.box.lower), np.array(w.box.upper)
    side = upper - lower
    low = lower - place * (times - 1) * side
    where = "m" if place else ""
    return replace(w, name=f"{w.name}:{times:g}{where}", box=Bounds.of((low, low + times * side), len(side)))


def blobs(k: int, n: int, d: int, sd: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centers = rng.random((k, d))
    return np.clip(centers[rng.integers(k, size=n)] + sd * rng.standard_normal((n, d)), 0.0, 1.0)


def cube16() -> Workload:
    from sklearn.datasets import make_blobs

    X = make_blobs(20_000, 16, centers=16, random_state=1)[0]
    side = float(np.abs(X).max())
    return Workload("cube16", X, 16, Bounds.of((-side, side), 16))


def dense_and_far(name: str, side: float, sd: float, n: int, n_far: int) -> Workload:
    """Five dense clusters of `n` records close together, and five small ones far from them, in the plane."""
    rng = np.random.default_rng(3)
    near, far = 0.5 - side / 2 + side * rng.random((5, 2)), rng.random((5, 2))
    parts = [c + sd * rng.standard_normal((n, 2)) for c in near]
    parts += [c + 0.015 * rng.standard_normal((n_far, 2)) for c in far]
    return unit(name, np.concatenate(parts), 10)


def corner() -> Workload:
    rng = np.random.default_rng(4)
    X = 30 * rng.random((8, 6))[rng.integers(8, size=20_000)] + 0.5 * rng.standard_normal((20_000, 6))
    return Workload("corner", np.clip(X, 0, 1000), 8, Bounds.of((0.0, 1000.0), 6))


def uneven() -> Workload:
    """Eight clusters in a box whose six sides are 1, 2, 4, ..., 32 times too wide."""
    rng = np.random.default_rng(11)
    X = rng.random((8, 6))[rng.integers(8, size=20_000)] + 0.02 * rng.standard_normal((20_000, 6))
    side, times = np.ptp(X, axis=0), 2.0 ** np.arange(6)
    low = X.min(axis=0) - rng.random(6) * (times - 1) * side
    return Workload("uneven", X, 8, Bounds.of((low, low + times * side), 6))


def lattice() -> Workload:
    rng = np.random.default_rng(5)
    centers = np.stack(np.meshgrid(np.arange(10), np.arange(10)), -1).reshape(-1, 2) + 0.5
    centers = centers + 0.2 * (rng.random(centers.shape) - 0.5)
    X = centers[rng.integers(100, size=100_000)] + 0.12 * rng.standard_normal((100_000, 2))
    return unit("lattice", X, 100)


def seven_million() -> Workload:
    rng = np.random.default_rng(6)
    centers, sizes = rng.random((20, 2)), rng.dirichlet(np.full(20, 3.0))
    labels = rng.choice(20, size=7_000_000, p=sizes)
    return unit("7m", centers[labels] + 0.05 * rng.standard_normal((7_000_000, 2)), 20)


def digits() -> Workload:
    """1800 records of 61 features in ten clusters that overlap, features in whole numbers up to 16, many of them 0."""
    rng = np.random.default_rng(7)
    centers = np.maximum(rng.normal(3, 6, (10, 61)), 0) * (rng.random(61) < 0.8)
    X = np.rint(np.clip(centers[rng.integers(10, size=1800)] + 3.5 * rng.standard_normal((1800, 61)), 0, 16))
    return Workload("digits", X, 10, Bounds.of((0.0, 16.0), 61))


def handwritten() -> Workload:
    """The digits that scikit-learn carries: 1797 pictures of 64 pixels from 0 to 16, the 61 that are not always 0."""
    from sklearn.datasets import load_digits

    X = load_digits().data
    X = X[:, X.max(axis=0) > 0]
    return Workload("handwritten", X, 10, Bounds.of((0.0, 16.0), X.shape[1]))


def unequal() -> Workload:
    rng = np.random.default_rng(8)
    sizes = np.rint(np.geomspace(39, 10_000, 10)).astype(int)
    parts = [c + 0.03 * rng.standard_normal((m, 8)) for c, m in zip(rng.random((10, 8)), sizes, strict=True)]
    return unit("unequal", np.concatenate(parts), 10)


def tails() -> Workload:
    rng = np.random.default_rng(9)
    X = rng.random((6, 5))[rng.integers(6, size=20_000)] + 0.03 * rng.standard_t(2.5, (20_000, 5))
    return unit("tails", X, 6)


MADE_UP = {
    "blobs10": lambda: unit("blobs10", blobs(10, 100_000, 10, 0.06, seed=0), 10),
    "blobs64": lambda: unit("blobs64", blobs(20, 100_000, 64, 0.08, seed=0), 20),
    "cube16": cube16,
    "far": lambda: dense_and_far("far", 0.3, 0.02, 3000, 200),
    "denser": lambda: dense_and_far("denser", 0.1, 0.004, 4000, 150),
    "corner": corner,
    "uneven": uneven,
    "lattice": lattice,
    "7m": seven_million,
    "digits": digits,
    "handwritten": handwritten,
    "unequal": unequal,
    "tails": tails,
}


def random_problem(
    seed: int, number: int, features: tuple[int, int] = (1, 100), most_numbers: int = MAX_NUMBERS
) -> Workload:
    """Problem `number` of a seed: 300 to 10^6 records, 2 to 100 clusters, in a box of any width."""
    rng = np.random.default_rng([seed, number])
    d = int(np.exp(rng.uniform(np.log(features[0]), np.log(features[1] + 0.99))))
    k = int(np.exp(rng.uniform(np.log(2), np.log(100.99))))
    most = min(10**6, most_numbers // d, MAX_WORK // (30 * d * k))
    n = int(np.exp(rng.uniform(np.log(300), np.log(most))))
    k = min(k, n // 20)
    sizes = rng.dirichlet(np.full(k, rng.choice([0.5, 2.0, 100.0])))
    spread = np.exp(rng.uniform(np.log(0.005), np.log(0.2)))
    centers = rng.random((k, d)) ** rng.choice([1.0, 3.0])  # even, or denser towards one corner
    labels = rng.choice(k, size=n, p=sizes)
    noise = {
        "normal": lambda: rng.standard_normal((n, d)),
        "heavy": lambda: rng.standard_t(2.5, (n, d)),
        "flat": lambda: rng.uniform(-1.7, 1.7, (n, d)),
    }[rng.choice(["normal", "heavy", "flat"])]()
    if rng.random() < 0.4:
        noise = noise @ (rng.standard_normal((d, d)) / np.sqrt(d))
    X = centers[labels] + spread * np.exp(rng.normal(0, 0.5, k))[labels, None] * noise
    for j in np.flatnonzero(rng.random(d) < rng.choice([0.0, 0.0, 0.3])):
        X[:, j] = np.rint(X[:, j] * rng.integers(1, 10))
    if rng.random() < 0.2:
        X = X[rng.integers(n // 3 + 1, size=n)]  # duplicates
    low, high = X.min(axis=0), X.max(axis=0)
    side = np.where(high > low, high - low, 1.0)
    times = np.exp(rng.uniform(0, np.log(32.0), d if rng.random() < 0.3 else 1)) * np.ones(d)
    times = times if rng.random() < 0.6 else np.ones(d)
    low = low - rng.random(d) * (times - 1) * side
    return Workload(f"random {number}", X, k, Bounds.of((low, low + times * side), d))
