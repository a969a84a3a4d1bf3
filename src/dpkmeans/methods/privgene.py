"""PrivGene: a genetic search whose selection is private. Proved: proofs/privgene.md.

Source: Zhang, Xiao, Yang, Zhang and Winslett, PrivGene: differentially private model fitting using genetic algorithms
(2013). `setting="paper"` is for reproducing the paper only: sensitivity is taken over the box that the records fill.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpkmeans.arrays import FloatArray
from dpkmeans.bounds import GRID
from dpkmeans.engines.base import Engine
from dpkmeans.errors import MethodError
from dpkmeans.methods.base import Claim, conclude
from dpkmeans.methods.noisy_lloyd import is_paper_setting
from dpkmeans.privacy.epsilon import Epsilon
from dpkmeans.privacy.exact import reveal
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Choice
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.privacy.record_count import RecordCount, record_count
from dpkmeans.release import Release

LARGEST_ROUNDS = 64
MOST_WORK = 2**25
"""Above this many multiplications the bound on a round's sensitivity is taken from the box alone."""


@dataclass(frozen=True)
class PrivGene:
    """`n_candidates` sets of centroids; each round selects `n_selected` of them privately and breeds the next ones."""

    record_count: RecordCount
    n_candidates: int = 200
    n_selected: int = 10
    in_paper: bool = False
    name: str = "privgene"

    def __post_init__(self) -> None:
        if not 1 <= self.n_selected < self.n_candidates:
            raise MethodError(
                "n_selected must be at least 1 and below n_candidates; "
                f"got n_selected={self.n_selected}, n_candidates={self.n_candidates}."
            )

    def offers(self) -> Claim:
        """Proved with a public sensitivity: candidates are public, and selection is private."""
        return Claim.PAPER_SETTING if self.in_paper else Claim.PROVED

    def rounds(self, n_records: float, total: Epsilon) -> int:
        """max(8, 1.25e-3 N ε / 10), capped for very large N ε, where more rounds buy nothing."""
        wanted = 1.25e-3 * n_records * float(total) / self.n_selected
        return int(min(max(8, wanted), LARGEST_ROUNDS))

    def run(self, engine: Engine, n_clusters: int, *, ledger: Ledger, rng: Randomness) -> Release:
        """Breed and select; the last round selects one."""
        n_records = self.record_count.get(engine, ledger=ledger, rng=rng)
        rounds = self.rounds(n_records, ledger.remaining)
        budgets = ledger.remaining.over(rounds)
        box = engine.bounds.unit_box
        candidates = rng.generator.random((self.n_candidates, n_clusters, engine.n_features)) * box
        for number, budget in enumerate(budgets, start=1):
            wanted = 1 if number == rounds else self.n_selected
            parents = self._select(engine, candidates, budget, wanted, number, ledger, rng)
            if number < rounds:
                step = 0.5 * (1 - number / rounds)
                candidates = self._breed(parents, step * box, box, rng.generator)
        parameters = {
            "n_candidates": self.n_candidates,
            "n_selected": self.n_selected,
            "rounds": rounds,
            "setting": "paper" if self.in_paper else "proved",
        }
        return conclude(
            self,
            engine,
            parents[0],
            ledger=ledger,
            rng=rng,
            n_passes=rounds,
            n_iter=rounds,
            parameters=parameters,
        )

    def _select(
        self,
        engine: Engine,
        candidates: FloatArray,
        budget: Epsilon,
        n: int,
        number: int,
        ledger: Ledger,
        rng: Randomness,
    ) -> FloatArray:
        """n different candidates, one private choice after the other, shape (n, k, d).

        Only differences between scores matter to a choice, so a record that moves them apart by at most `score_range`
        moves each, after a common shift, by at most half of it. Scores are doubled to keep that half whole.
        """
        exact = engine.costs(candidates).map(lambda costs: -2 * np.rint(costs * GRID).astype(np.int64))
        sensitivity = score_range(candidates, *self._box(engine))
        left = np.arange(len(candidates))
        chosen: list[int] = []
        for pick, share in enumerate(budget.over(n), start=1):
            scores = exact.map(lambda s, rows=left: s[rows])  # type: ignore[misc]
            index = Choice(share, sensitivity).release(
                scores, ledger=ledger, rng=rng, label=f"round {number}: choice {pick}"
            )
            chosen.append(int(left[index]))
            left = np.delete(left, index)
        return candidates[chosen]

    def _box(self, engine: Engine) -> tuple[FloatArray, FloatArray]:
        """Lower and upper corner of the box in which a record may lie: the public one, or the paper's local one."""
        box = engine.bounds.unit_box
        if not self.in_paper:
            return np.zeros(len(box)), box
        reach = engine.cell_reach(box[None] / 2)
        half = reveal(reach, why="the paper's experiments use local sensitivity")[0]
        return box / 2 - half, box / 2 + half

    def _breed(self, parents: FloatArray, step: FloatArray, box: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Children of two parents that swap whole centroids, one coordinate moved by at most `step`."""
        n, (_, k, d) = self.n_candidates, parents.shape
        mothers, fathers = parents[rng.integers(len(parents), size=(2, n))]
        swap = rng.random((n, k, 1)) < 0.5
        children = np.where(swap, mothers, fathers)
        cluster, feature = rng.integers(k, size=n), rng.integers(d, size=n)
        children[np.arange(n), cluster, feature] += rng.uniform(-1, 1, n) * step[feature]
        children[: len(parents)] = parents
        return np.asarray(np.clip(children, 0.0, box))


def score_range(candidates: FloatArray, lower: FloatArray, upper: FloatArray) -> int:
    """How far one record can move the scores of two candidates apart, in whole grid steps, from public values alone.

    For sets A and B of centroids and x in the box,

        cost_A(x) - cost_B(x)  =  max_b min_a (|x - a|² - |x - b|²)  <=  max_b min_a max_x (|x - a|² - |x - b|²),

    and the inner term is linear in x, so its maximum lies in a corner. Over all pairs A, B this is the largest value
    of max_b min_a over one set A and every centroid b of the round. Also, no cost is below 0 or above the squared
    distance to the farthest corner. The margin covers the rounding of two costs to grid steps and all float64 errors.
    """
    m, k, d = (int(size) for size in candidates.shape)
    corner = np.maximum(candidates - lower, upper - candidates)
    bound = float((corner**2).sum(axis=2).min(axis=1).max())
    points, of_set = np.unique(candidates.reshape(m * k, d), axis=0, return_inverse=True)
    if len(points) ** 2 * d <= MOST_WORK:
        gaps = _gaps(points, lower, upper)
        bound = min(bound, max(float(gaps[rows].min(axis=0).max()) for rows in of_set.reshape(m, k)))
    margin = 1 + d * (d + 4) * 2.0**-28
    return math.ceil(max(bound, 0.0) * GRID + margin)


def _gaps(points: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Largest |x - a|² - |x - b|² over x in the box, for all pairs a, b of `points`, shape (points, points).

    Feature by feature it is (a - b)(a + b - 2x), largest at the upper end where a < b and at the lower end elsewhere.
    """
    total = np.zeros((len(points), len(points)))
    for j, column in enumerate(points.T):
        apart = column[:, None] - column
        total += apart * (column[:, None] + column - 2 * np.where(apart < 0, upper[j], lower[j]))
    return total


def privgene(
    *,
    n_records: int | None = None,
    n_candidates: int = 200,
    n_selected: int = 10,
    setting: str = "proved",
) -> PrivGene:
    """Genetic search with private selection; the number of records is public or bought."""
    return PrivGene(record_count(n_records), n_candidates, n_selected, is_paper_setting(setting))
