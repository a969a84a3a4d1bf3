"""GUPT: Lloyd in many random blocks, centroids averaged with noise. Proved: proofs/gupt.md.

Source: Mohan, Thakurta, Shi, Song and Culler, GUPT: privacy preserving data analysis made easy (2012).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpkmeans.arrays import FloatArray, IntArray
from dpkmeans.bounds import GRID
from dpkmeans.engines.base import Engine
from dpkmeans.iteration.loop import iterate
from dpkmeans.iteration.starts import SampledRows
from dpkmeans.iteration.stopping import Repeats
from dpkmeans.iteration.updates import ExactMean
from dpkmeans.methods.base import Claim, conclude
from dpkmeans.privacy.epsilon import Epsilon
from dpkmeans.privacy.exact import Exact, reveal
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Laplace
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.privacy.record_count import RecordCount, record_count
from dpkmeans.privacy.schedules import Free, Task
from dpkmeans.release import Release


@dataclass(frozen=True)
class Gupt:
    """n^0.4 blocks of about n^0.6 records each; one record changes one block, hence each sum by at most a side.

    `each` is the budget of one coordinate of one centroid; by default the promised total is split evenly.
    """

    record_count: RecordCount
    each: Epsilon | None = None
    max_iter: int = 100
    name: str = "gupt"

    def offers(self) -> Claim:
        """Proved: no block's answer leaves without noise."""
        return Claim.PROVED

    def run(self, engine: Engine, n_clusters: int, *, ledger: Ledger, rng: Randomness) -> Release:
        """Sum the blocks' ordered centroids, add noise, divide by the number of blocks."""
        n_records = self.record_count.get(engine, ledger=ledger, rng=rng)
        n_blocks = max(1, round(n_records**0.4))
        box = engine.bounds
        exact = Exact(self._sum_over_blocks(engine, n_clusters, n_blocks, rng))

        features = np.flatnonzero(box.side > 0)
        shares = self._shares(n_clusters * len(features), ledger)
        noisy: IntArray = np.zeros((n_clusters, engine.n_features), dtype=np.int64)
        for cluster in range(n_clusters):
            for j in features:
                noisy[cluster, j] = Laplace(next(shares), int(box.side[j])).release(
                    exact.map(lambda sums, at=(cluster, j): sums[at].reshape(1)),  # type: ignore[misc]
                    ledger=ledger,
                    rng=rng,
                    label=f"centroid {cluster}, feature {j}",
                )[0]
        centroids = box.clip_unit(noisy / GRID / n_blocks)
        parameters = {"n_blocks": n_blocks, "max_iter": self.max_iter}
        return conclude(self, engine, centroids, ledger=ledger, rng=rng, n_passes=1, n_iter=1, parameters=parameters)

    def _shares(self, n: int, ledger: Ledger) -> Iterator[Epsilon]:
        return iter(ledger.remaining.over(n) if self.each is None else (self.each,) * n)

    def _sum_over_blocks(self, engine: Engine, k: int, n_blocks: int, rng: Randomness) -> IntArray:
        total: IntArray = np.zeros((k, engine.n_features), dtype=np.int64)
        for block in engine.blocks(n_blocks, rng.generator):
            total += np.rint(self._block_centroids(block, k, rng) * GRID).astype(np.int64)
        return total

    def _block_centroids(self, block: Engine, k: int, rng: Randomness) -> FloatArray:
        """Lloyd's centroids of one block in an order that looks at this block alone: along the first feature.

        A block with fewer than k records answers with the middle of the box.
        """
        if reveal(block.count(), why="inside a block; its answer is noised") < k:
            return np.tile(block.bounds.unit_box / 2, (k, 1))
        start = SampledRows().centroids(block, k, rng.generator)
        plan = Free(self.max_iter).plan(Task(Epsilon(0), k, block.n_features, 1.0))
        end = iterate(block, start, plan, update=ExactMean(), stop=Repeats(), ledger=Ledger(), rng=rng)
        centroids = block.bounds.clip_unit(end.centroids)
        return centroids[np.lexsort(centroids.T[::-1])]


def gupt(*, n_records: int | None = None, step_epsilon: float | None = None, max_iter: int = 100) -> Gupt:
    """Sample and aggregate. `step_epsilon` is one coordinate's budget where the total is to come out bottom-up."""
    each = None if step_epsilon is None else Epsilon.of(step_epsilon, "step_epsilon")
    return Gupt(record_count(n_records), each, max_iter)
