"""The shapes that speed is measured on, and their records."""

from __future__ import annotations

import sys

import numpy as np

from problems import is_here, load

WORKLOADS = {
    "a": (150, 4, 3),
    "b": (5000, 2, 15),
    "c": (34112, 3, 3),
    "d": (26733, 10, 3),
    "e": (1_000_000, 10, 10),
    "f": (1_000_000, 2, 100),
    "g": (200_000, 64, 64),
    "h": (100_000, 128, 256),
    "i": (30_000, 768, 256),
    "j": (100_000, 384, 100),
}
DIFFUSE = ("i", "j")  # one cloud without clusters, in which bounds on distances say little
REAL = {"a": "iris", "b": "s1", "c": "image", "d": "lifesci"}
TARGETS = {"a": 40, "b": 18, "c": 10, "d": 9, "e": 6.5, "f": 18, "g": 7, "h": 8, "i": None, "j": None}
"""Against scikit-learn; for i and j, the shapes of embeddings, 1.3 times SuperKMeans is wanted."""


def records(name: str) -> np.ndarray:
    """The real data set of this shape where there is one and it is here, else overlapping blobs."""
    n, d, k = WORKLOADS[name]
    if name in REAL and is_here(REAL[name]):
        return load(REAL[name]).X
    if name in REAL:
        print(f"{name}: {REAL[name]} is not here (DPKMEANS_DATA); blobs of its shape instead", file=sys.stderr)
    rng = np.random.default_rng(0)
    if name in DIFFUSE:
        return np.clip(0.5 + 0.1 * rng.standard_normal((n, d)), 0.0, 1.0)
    spread = 0.2 if d > 2 else 0.05
    return np.clip(rng.random((k, d))[rng.integers(k, size=n)] + spread * rng.standard_normal((n, d)), 0.0, 1.0)


def rows(X: np.ndarray, k: int, seed: int = 5) -> np.ndarray:
    """A start: `k` different records."""
    return X[np.random.default_rng(seed).choice(len(X), k, replace=False)].copy()
