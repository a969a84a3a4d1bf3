"""`Synopsis`: released weighted points that answer like records, for nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpkmeans.arrays import FloatArray, IntArray
from dpkmeans.bounds import Bounds
from dpkmeans.engines.base import CellStatistics, Engine, LloydEnd, Query, lloyd_by_passes
from dpkmeans.errors import FileError, MethodError
from dpkmeans.files import read_json, write_json
from dpkmeans.guarantee import Guarantee
from dpkmeans.plain import (
    bounds_from_plain,
    bounds_to_plain,
    guarantee_from_plain,
    guarantee_to_plain,
    names_from_plain,
    spends_from_plain,
    spends_to_plain,
)
from dpkmeans.privacy.exact import Exact, reveal
from dpkmeans.privacy.ledger import Spend
from dpkmeans.release import Release
from dpkmeans.synopsis import kernels
from dpkmeans.synopsis.cluster import best_start, fill, simplified_silhouette, to_fixed_point
from dpkmeans.synopsis.points import WeightedPoints

KIND = "dpkmeans synopsis"
VERSION = 1


@dataclass(frozen=True)
class Explored:
    """What a synopsis says about one k: cost and simplified silhouette on itself, and cluster sizes, largest first."""

    k: int
    cost: float
    silhouette: float
    sizes: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Synopsis:
    """Weighted points in unit coordinates of `bounds`, with the guarantee and the spends they were made under.

    It is an engine: every method runs on it, and whatever is computed from it is post-processing.
    """

    data: WeightedPoints
    bounds: Bounds
    guarantee: Guarantee
    spends: tuple[Spend, ...]
    epsilon_promised: float | None
    kind: str
    feature_names: tuple[str, ...] | None = None
    released = True

    @property
    def points(self) -> FloatArray:
        """The points in the units of the data, shape (m, d)."""
        return self.bounds.from_unit(self.data.points)

    @property
    def weights(self) -> FloatArray:
        """How many records each point stands for, shape (m,)."""
        return self.data.weights.copy()

    @property
    def epsilon_spent(self) -> float:
        """What it cost."""
        return sum(float(spend.epsilon) for spend in self.spends)

    # -- what a user does with it ---------------------------------------------------------------------------------

    def fit(self, n_clusters: int, *, random_state: Any = None) -> Release:
        """Released centroids for this k, at no further cost."""
        from dpkmeans.methods.synopsis import on_synopsis
        from dpkmeans.privacy.randomness import Randomness

        return on_synopsis(self, n_clusters, Randomness.of(random_state))

    def explore(self, ks: Iterable[int], *, random_state: Any = None) -> list[Explored]:
        """Cost, silhouette and sizes for each k, at no further cost. The cost is in squared units of the data."""
        rng = np.random.default_rng(random_state)
        found = []
        for k in ks:
            if k < 1:
                raise MethodError(f"k must be at least 1; got {k}.")
            points = fill(self.data, k, self.bounds.unit_box, rng)
            end = to_fixed_point(points, best_start(points, k, rng))
            cost = end.costs[-1] * self.bounds.longest_side**2
            sizes = tuple(sorted(end.sizes.tolist(), reverse=True))
            found.append(Explored(k, cost, simplified_silhouette(points, end), sizes))
        return found

    # -- as an engine ---------------------------------------------------------------------------------------------

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.bounds.n_features

    def count(self) -> Exact[float]:
        """Total weight."""
        return Exact(float(self.data.weights.sum()))

    def cell_statistics(self, centroids: FloatArray, compare_with: FloatArray | None = None) -> Exact[CellStatistics]:
        """Weights, weighted sums and cost over the cells of `centroids`; `n_changed` counts points."""
        k, d = centroids.shape
        labels = np.full(len(self.data.points), -1, np.int32)
        counts, sums = np.empty(k), np.empty((k, d))
        if compare_with is not None:
            kernels.assign(self.data.points, self.data.weights, compare_with, labels, counts, sums)
        cost, changed = kernels.assign(self.data.points, self.data.weights, centroids, labels, counts, sums)
        return Exact(CellStatistics(counts, sums, cost, changed))

    def lloyd(self, start: FloatArray, max_iter: int) -> Exact[LloydEnd]:
        """Lloyd's algorithm from `start`."""
        return lloyd_by_passes(self, start, max_iter)

    def ask(self, query: Query) -> Exact[IntArray]:
        """Not for a synopsis: it has no whole records to put into tiles."""
        raise MethodError("A synopsis cannot be summarised again; use the synopsis itself.")

    def costs(self, candidates: FloatArray) -> Exact[FloatArray]:
        """Cost of each of m centroid sets, shape (m, k, d) -> (m,)."""
        why = "a synopsis is released"
        return Exact(np.array([reveal(self.cell_statistics(c), why=why).cost for c in candidates]))

    def cell_reach(self, centroids: FloatArray) -> Exact[FloatArray]:
        """Largest distance from the middle of the box, per cell and feature, shape (k, d)."""
        labels = np.full(len(self.data.points), -1, np.int32)
        counts, sums = np.empty(len(centroids)), np.empty(centroids.shape)
        kernels.assign(self.data.points, self.data.weights, centroids, labels, counts, sums)
        reach = np.zeros(centroids.shape)
        np.maximum.at(reach, labels, np.abs(self.data.points - self.bounds.unit_box / 2))
        return Exact(reach)

    def blocks(self, n_blocks: int, rng: np.random.Generator) -> Iterator[Engine]:
        """The points dealt into blocks, each independently and uniformly."""
        from dataclasses import replace

        block = rng.integers(n_blocks, size=len(self.data.points))
        for b in range(n_blocks):
            chosen = block == b
            yield replace(self, data=WeightedPoints(self.data.points[chosen], self.data.weights[chosen]))

    def sample_rows(self, n: int, rng: np.random.Generator) -> Exact[FloatArray]:
        """`n` different points, drawn by weight, shape (n, d)."""
        data = fill(self.data, n, self.bounds.unit_box, rng)
        rows = rng.choice(len(data.points), size=n, replace=False, p=data.weights / data.weights.sum())
        return Exact(data.points[rows])

    # -- files ----------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write a synopsis file (JSON with a checksum)."""
        content = {
            "kind": self.kind,
            "points": self.data.points.tolist(),
            "weights": self.data.weights.tolist(),
            "bounds": bounds_to_plain(self.bounds),
            "guarantee": guarantee_to_plain(self.guarantee, self.epsilon_spent),
            "spends": spends_to_plain(self.spends),
            "epsilon_promised": self.epsilon_promised,
            "feature_names": None if self.feature_names is None else list(self.feature_names),
        }
        write_json(path, KIND, VERSION, content)

    @classmethod
    def load(cls, path: str | Path) -> Synopsis:
        """Read a synopsis file; checks shapes, and that points are finite and inside the box."""
        content = read_json(path, KIND, VERSION)
        try:
            guarantee = guarantee_from_plain(content["guarantee"])
            bounds = bounds_from_plain(content["bounds"], guarantee)
            return cls(
                weighted_points_from(content, bounds),
                bounds,
                guarantee,
                spends_from_plain(content["spends"]),
                content["epsilon_promised"],
                str(content["kind"]),
                names_from_plain(content["feature_names"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, FileError):
                raise
            raise FileError(f"{path} is damaged ({type(error).__name__}). Restore it or make it again.") from None


def weighted_points_from(content: dict[str, Any], bounds: Bounds) -> WeightedPoints:
    """Points and weights out of a file's content, checked."""
    points, weights = np.array(content["points"], np.float64), np.array(content["weights"], np.float64)
    if points.ndim != 2 or points.shape != (len(weights), bounds.n_features) or len(weights) == 0:
        raise FileError("The synopsis is damaged: its points and weights do not fit each other.")
    inside = (points >= -1e-9) & (points <= bounds.unit_box + 1e-9)
    if not (np.isfinite(weights).all() and (weights > 0).all() and inside.all()):
        raise FileError("The synopsis is damaged: weights must be positive and points inside the bounds.")
    return WeightedPoints(points, weights)
