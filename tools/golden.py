"""Seeded fits of every method, summed up to the last bit: the same on every processor.

`python -m tools.golden` writes tests/contracts/golden.json anew, after an intended change of seeded results.
`python -m tools.golden --print` prints what it would write.
"""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dpkmeans import DPKMeans
from dpkmeans.methods.registry import make_method, registry
from dpkmeans.synopsis.verify import verify

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "contracts" / "golden.json"
MAX_WRITTEN = 100  # coordinates written out one by one
WITHOUT_TOTAL = {"lloyd", "posterior", "prior"}  # methods that split no promised epsilon


@dataclass(frozen=True)
class Case:
    """One seeded fit of n records with d features."""

    method: str
    n: int
    d: int
    k: int
    options: dict[str, Any] = field(default_factory=dict)
    noise: str | None = None  # an option of the method
    times: tuple[float, ...] = ()  # powers of two that features are multiplied by

    @property
    def name(self) -> str:
        """How golden.json calls it."""
        words = [self.method, f"{self.n}x{self.d}", f"k={self.k}", *map(str, self.options)]
        return " ".join(words if self.noise is None else [*words, self.noise])


def cases() -> Iterator[Case]:
    """Every method on a plane, a grid, a tree and hyperplanes, and each way in which Lloyd's algorithm is run."""
    for method in registry():
        for n, d, k in ((400, 2, 3), (900, 3, 4), (700, 5, 3), (500, 12, 3)):
            yield Case(method, n, d, k)
    yield Case("lloyd", 3000, 2, 70)
    yield Case("lloyd", 3000, 40, 60)
    yield Case("synopsis", 2000, 2, 30)  # corrected
    yield Case("synopsis", 3000, 3, 8)
    yield Case("synopsis", 6000, 7, 9)
    yield Case("synopsis", 9000, 14, 6)
    yield Case("gaussian", 2000, 30, 5)
    for method in ("su", "blum", "gupt"):
        yield Case(method, 700, 5, 3, noise="gaussian")
    yield Case("synopsis", 900, 3, 4, {"bounds": None, "bounds_epsilon": 0.5})
    yield Case("synopsis", 9000, 6, 3, {"bounds": (0.0, [2.0**j for j in range(6)])})  # uneven sides, which are cut
    few = np.array([1.0] * 5 + [2.0**-6] * 40)  # clusters are looked for in five features
    yield Case("synopsis", 600, 45, 20, {"bounds": (0.25 * few, 0.75 * few)}, times=tuple(few.tolist()))


def records(n: int, d: int, k: int) -> Any:
    """Records around k places, shape (n, d). Whole numbers over a power of two: no rounding, no special function."""
    rng = np.random.default_rng([n, d, k])
    places = rng.integers(2**18, 3 * 2**18, (k, d))[rng.integers(k, size=n)]
    return (places + rng.integers(-(2**15), 2**15, (4, n, d)).sum(axis=0)) / 2**20


def fit(case: Case, seed: int = 0) -> tuple[DPKMeans, Any]:
    """The fitted model, and its records."""
    X = records(case.n, case.d, case.k) * (case.times or 1.0)
    budget = {} if case.method in WITHOUT_TOTAL else {"epsilon": 1.0}
    if registry()[case.method].spends_rho or case.noise == "gaussian":
        budget["delta"] = 1e-6
    method = case.method if case.noise is None else make_method(case.method, noise=case.noise)
    options = {"bounds": (0, 1), "scale": None, "guarantee": "none", **budget, **case.options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a weak signal
        model = DPKMeans(case.k, method=method, random_state=seed, **options)
        return model.fit(X), X


def summary(case: Case) -> dict[str, Any]:
    """What the fit releases, decides and labels: numbers in hexadecimal, long parts as their SHA-256."""
    model, X = fit(case)
    plain = model.release_.to_dict()
    certified = [verdict.holds for verdict in verify(model.release_)] if plain["certificate"] else [True]
    hexadecimal = [" ".join(value.hex() for value in row) for row in plain["centroids"]]
    return {
        "centroids": hexadecimal if case.k * case.d <= MAX_WRITTEN else _digest(hexadecimal),
        "spends": _digest(plain["spends"]),
        "passes": plain["n_passes"],
        "iterations": plain["n_iter"],
        "transcript": _digest(plain["transcript"]),
        "certificate": _digest(plain["certificate"]),
        "certified": all(certified),
        "labels": _digest(model.predict(X).tolist()),
    }


def summaries() -> dict[str, Any]:
    """All of them, by name."""
    return {case.name: summary(case) for case in cases()}


def _digest(plain: Any) -> str:
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()[:16]


if __name__ == "__main__":
    text = json.dumps(summaries(), indent=1) + "\n"
    if "--print" in sys.argv[1:]:
        sys.stdout.write(text)
    else:
        GOLDEN.write_text(text)
