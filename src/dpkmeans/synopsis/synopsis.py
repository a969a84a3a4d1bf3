"""`Synopsis`: released weighted points that answer queries like records, at no privacy cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from dpkmeans._typing import FloatArray, IntArray
from dpkmeans.core.bounds import GRID, Bounds
from dpkmeans.core.checks import check_n_clusters
from dpkmeans.core.cost import Cost
from dpkmeans.core.engine import CellStatistics, Engine, LloydEnd, cell_sensitivity, lloyd_by_passes
from dpkmeans.core.epsilon import MAX_EPSILON, Spend
from dpkmeans.core.exact import Exact, reveal
from dpkmeans.core.guarantee import Guarantee
from dpkmeans.core.identity import Identity
from dpkmeans.core.query import Query, Sensitivity
from dpkmeans.core.release import Release
from dpkmeans.core.schema import Schema
from dpkmeans.engines.block_tasks import block_of_points
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.errors import FileError
from dpkmeans.kernels import weighted_lloyd
from dpkmeans.kernels.score_range import cost_sensitivity
from dpkmeans.kernels.siphash import hash_points
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.storage import codec
from dpkmeans.storage.identity import (
    check_digest,
    check_unchanged,
    decode_identity,
    encode_identity,
    identified_by_source,
)
from dpkmeans.storage.json_files import read_versioned, write_json
from dpkmeans.synopsis.kmeans import Explored, explore, pad
from dpkmeans.synopsis.weighted_points import WeightedPoints

KIND = "dpkmeans synopsis"
VERSION = 3  # 2: a schema, and weights of features; 3: another unit than a row, balls


@dataclass(frozen=True, eq=False)
class Synopsis:
    """Weighted points in unit coordinates of `bounds`, with the guarantee and the spends they were made under.

    It is an engine: every method runs on it, and whatever is computed from it is post-processing.

    Guarantee: `guarantee` says it; `proved` means ε-differential privacy for ε = `epsilon_spent`, and whatever is
    computed from it inherits that. Source: proofs/synopsis.md. Made by `dpkmeans.make_synopsis`.

    >>> from dpkmeans import make_synopsis
    >>> X = np.random.default_rng(0).random((2000, 2))
    >>> synopsis = make_synopsis(X, epsilon=1.0, bounds=(0, 1))
    >>> synopsis.points.shape == (len(synopsis.weights), 2)
    True
    """

    data: WeightedPoints
    bounds: Bounds
    guarantee: Guarantee
    spends: tuple[Spend, ...]
    epsilon_promised: float | None
    kind: str
    feature_names: tuple[str, ...] | None = None
    schema: Schema | None = None
    delta: float | None = None
    rho_promised: float | None = None
    identity: Identity | None = None
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
    def cost(self) -> Cost:
        """What was promised and spent."""
        return Cost.of(self.spends, self.epsilon_promised, self.delta, self.rho_promised)

    @property
    def file_version(self) -> int:
        """The version of its file: the oldest that reads it rightly."""
        return codec.file_version(self.guarantee, self.bounds, self.cost)

    @property
    def epsilon_spent(self) -> float | None:
        """Realised total, out of the ledger's entries: at `delta` with Gaussian noise; None where there is no delta."""
        return self.cost.epsilon

    @property
    def rho_spent(self) -> float | None:
        """Realised total in zero-concentrated differential privacy; None where all spends are pure."""
        return self.cost.rho

    # -- what a user does with it ---------------------------------------------------------------------------------

    def fit(self, n_clusters: int, *, method: str = "synopsis", random_state: Any = None, **options: Any) -> Release:
        """Released centroids for this k, at no further cost, whatever the method and its options.

        A method that adds noise has no need of it here, so it gets the largest budget there is; nothing is spent.
        The centroids have shape (k, d), in the units of the data. The identity of the release names this synopsis.

        Guarantee: the synopsis' own, by post-processing.

        >>> from dpkmeans import make_synopsis
        >>> X = np.random.default_rng(0).random((2000, 2))
        >>> synopsis = make_synopsis(X, epsilon=1.0, bounds=(0, 1))
        >>> synopsis.fit(3).centroids.shape, synopsis.fit(5, method="synopsis-posterior").epsilon_spent
        ((3, 2), 1.0)
        """
        from dpkmeans.methods.registry import make_method

        k = check_n_clusters(n_clusters)
        scratch = Ledger(float(MAX_EPSILON))  # what goes in here is about released values
        found = make_method(method, **options).run(self, k, ledger=scratch, rng=Randomness.of(random_state))
        return found if self.identity is None else identified_by_source(found, self.identity)

    def explore(self, ks: Iterable[int], *, random_state: Any = None) -> list[Explored]:
        """Cost, silhouette and sizes for each k, at no further cost. Costs are in squared units, after scaling.

        Guarantee: the synopsis' own, by post-processing. All values are those on the synopsis, not on the records.

        >>> from dpkmeans import make_synopsis
        >>> X = np.random.default_rng(0).random((2000, 2))
        >>> synopsis = make_synopsis(X, epsilon=1.0, bounds=(0, 1))
        >>> [(row.k, len(row.sizes)) for row in synopsis.explore(range(2, 5))]
        [(2, 2), (3, 3), (4, 4)]
        """
        rng = Randomness.of(random_state).generator
        return [explore(self.data, k, self.bounds, rng) for k in map(check_n_clusters, ks)]

    # -- as an engine ---------------------------------------------------------------------------------------------

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.bounds.n_features

    def count(self) -> Exact[IntArray]:
        """Total weight, rounded, shape ()."""
        return Exact(np.array(round(self.data.weights.sum()), np.int64), Sensitivity.of_row((1,)))

    def cell_statistics(self, centroids: FloatArray, compare_with: FloatArray | None = None) -> Exact[CellStatistics]:
        """Weights, weighted sums and cost over the cells of `centroids`; `n_changed` counts points."""
        k, d = centroids.shape
        labels = np.full(len(self.data.points), -1, np.int64)
        counts, sums = np.empty(k), np.empty((k, d))
        if compare_with is not None:
            weighted_lloyd.assign(self.data.points, self.data.weights, compare_with, labels, counts, sums)
        cost, changed = weighted_lloyd.assign(self.data.points, self.data.weights, centroids, labels, counts, sums)
        return Exact(CellStatistics(counts, sums, cost, changed), cell_sensitivity(self.bounds))

    def lloyd(self, start: FloatArray, max_iter: int) -> Exact[LloydEnd]:
        """Lloyd's algorithm from `start`."""
        return lloyd_by_passes(self, start, max_iter)

    def answer(self, query: Query) -> Exact[IntArray]:
        """The query's table over the points on the grid, each as often as its weight, rounded, says.

        Bit by bit of the weights, so that a heavy point is looked at some thirty times and not a million times.
        """
        table: IntArray = np.zeros(query.shape, np.int64)
        weights = np.rint(self.data.weights).astype(np.int64)
        corner = Bounds((0.0,) * self.n_features, (1.0,) * self.n_features)
        for bit in range(int(weights.max()).bit_length()):
            points = self.data.points[(weights >> bit) & 1 == 1]
            part = MemoryEngine.of_records(points, corner, n_threads=1).answer(query)
            table += reveal(part, why="a synopsis is released") << bit
        return Exact(table, query.sensitivity)

    def costs(self, candidates: FloatArray) -> Exact[IntArray]:
        """Cost of each of m centroid sets, shape (m, k, d) -> (m,), in grid steps; the sums are rounded."""
        costs = np.array([reveal(self.cell_statistics(c), why="a synopsis is released").cost for c in candidates])
        return Exact(np.rint(costs * GRID).astype(np.int64), cost_sensitivity(candidates, self.bounds.unit_box))

    def max_abs_deviation(self, centroids: FloatArray) -> Exact[FloatArray]:
        """Largest distance from the middle of the box, per cell and feature, shape (k, d)."""
        labels = np.full(len(self.data.points), -1, np.int64)
        counts, sums = np.empty(len(centroids)), np.empty(centroids.shape)
        weighted_lloyd.assign(self.data.points, self.data.weights, centroids, labels, counts, sums)
        reach = np.zeros(centroids.shape)
        np.maximum.at(reach, labels, np.abs(self.data.points - self.bounds.unit_box / 2))
        return Exact(reach)

    def partition(self, n_blocks: int, key: bytes) -> Iterator[Engine]:
        """The points in blocks, as records would be; see `Engine`."""
        block = block_of_points(self.data.points)
        number = hash_points(block.tiles, block.n, key) % np.uint64(n_blocks)
        for b in range(n_blocks):
            yield replace(self, data=WeightedPoints(self.data.points[number == b], self.data.weights[number == b]))

    def sample_rows(self, n: int, rng: np.random.Generator) -> Exact[FloatArray]:
        """`n` different points, drawn by weight, shape (n, d)."""
        data = pad(self.data, n, self.bounds.unit_box, rng, None)
        rows = rng.choice(len(data.points), size=n, replace=False, p=data.weights / data.weights.sum())
        return Exact(data.points[rows])

    # -- files ----------------------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Write a synopsis file (JSON with a checksum). Guarantee: the synopsis' own; the file may be published.

        >>> from dpkmeans import make_synopsis
        >>> X = np.random.default_rng(0).random((2000, 2))
        >>> synopsis = make_synopsis(X, epsilon=1.0, bounds=(0, 1))
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "synopsis.json"
        >>> synopsis.save(file)
        >>> Synopsis.load(file).epsilon_spent
        1.0
        """
        check_unchanged(self)
        write_json(path, KIND, self.file_version, self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "identity": encode_identity(self.identity),
            "kind": self.kind,
            "points": self.data.points.tolist(),
            "weights": self.data.weights.tolist(),
            "bounds": codec.encode_bounds(self.bounds),
            "guarantee": codec.encode_guarantee(self.guarantee, self.cost),
            "spends": codec.encode_spends(self.spends),
            **codec.encode_promise(self.epsilon_promised, self.delta, self.rho_promised),
            "feature_names": None if self.feature_names is None else list(self.feature_names),
            "schema": None if self.schema is None else self.schema.to_dict(),
        }

    @classmethod
    def load(cls, path: str | Path) -> Synopsis:
        """Read a synopsis file; checks shapes, and that points are finite and inside the box.

        Guarantee: what the file says; it is refused where its own content contradicts that.

        >>> from dpkmeans import make_synopsis
        >>> X = np.random.default_rng(0).random((2000, 2))
        >>> synopsis = make_synopsis(X, epsilon=1.0, bounds=(0, 1))
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "synopsis.json"
        >>> synopsis.save(file)
        >>> bool((Synopsis.load(file).points == synopsis.points).all())
        True
        """
        content, version = read_versioned(path, KIND, VERSION)
        try:
            guarantee = codec.decode_guarantee(content["guarantee"])
            bounds = codec.decode_bounds(content["bounds"], guarantee)
            names = codec.decode_names(content["feature_names"])
            synopsis = cls(
                WeightedPoints(*codec.decode_points(content, bounds)),
                bounds,
                guarantee,
                codec.decode_spends(content["spends"]),
                kind=codec.read_text(content["kind"]),
                feature_names=names,
                schema=codec.decode_schema(content.get("schema"), bounds, names),
                identity=decode_identity(content),
                **codec.decode_promise(content),
            )
            synopsis._check_claims()
            check_digest(content, synopsis.identity, version)
            return synopsis
        except codec.DAMAGED as error:
            raise FileError(f"{path} is damaged ({type(error).__name__}). Restore it from a copy.") from None

    def _check_claims(self) -> None:
        """Refuse what no making of a synopsis gives. A checksum does not tell: anyone can make one that matches."""
        if self.feature_names is not None and len(self.feature_names) != self.n_features:
            raise FileError("The synopsis is damaged: its names do not fit its points.")
        exact = not self.guarantee.seeded and self.guarantee.bounds != "from data"
        within = self.cost.privacy is not None and self.cost.within
        if self.guarantee.label == "proved" and not (exact and within and self.spends):
            raise FileError("The synopsis says 'proved', and its content contradicts that. Do not trust this file.")
