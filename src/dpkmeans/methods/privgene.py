"""PrivGene: a genetic search whose selection is private. Proved: proofs/privgene.md.

Source: Zhang, Xiao, Yang, Zhang and Winslett, PrivGene: differentially private model fitting using genetic algorithms
(2013). `setting="paper"` is for reproducing the paper only: sensitivity is taken over the box that the records fill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpkmeans._typing import FloatArray, IntArray
from dpkmeans.core.bounds import GRID
from dpkmeans.core.engine import Engine
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import Exact, reveal
from dpkmeans.core.guarantee import Claim, claim_of
from dpkmeans.core.query import Sensitivity
from dpkmeans.core.release import Release
from dpkmeans.errors import MethodError
from dpkmeans.kernels.score_range import score_range
from dpkmeans.methods.base import Outcome, make_release
from dpkmeans.methods.noisy_lloyd import is_paper_setting
from dpkmeans.methods.record_count import RecordCount, record_count
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import PermuteAndFlip
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.progress import expect

MAX_ROUNDS = 64
WHY = "the paper's experiments use local sensitivity"


@dataclass(frozen=True)
class PrivGene:
    """`n_candidates` sets of centroids; each round selects `n_selected` of them privately and breeds the next ones.

    Centroids lie on the records' grid: then their costs are cheap and exact, see `engines.costs`.
    """

    record_count: RecordCount
    n_candidates: int = 200
    n_selected: int = 10
    in_paper: bool = False
    name: str = "privgene"
    needs_epsilon: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 1 <= self.n_selected < self.n_candidates:
            raise MethodError(
                "n_selected must be at least 1 and below n_candidates; "
                f"got n_selected={self.n_selected}, n_candidates={self.n_candidates}."
            )

    @property
    def claim(self) -> Claim:
        """Proved with a public sensitivity: candidates are public, and selection is private."""
        return claim_of(Claim.PAPER_SETTING if self.in_paper else Claim.PROVED, self.record_count)

    def rounds(self, n_records: float, total: Epsilon) -> int:
        """max(8, 1.25e-3 N ε / 10), capped for very large N ε, where more rounds buy nothing."""
        wanted = 1.25e-3 * n_records * float(total) / self.n_selected
        return int(min(max(8, wanted), MAX_ROUNDS))

    def run(self, engine: Engine, n_clusters: int, *, ledger: Ledger, rng: Randomness) -> Release:
        """Breed and select; the last round selects one."""
        n_records = self.record_count.get(engine, n_clusters, ledger=ledger, rng=rng)
        rounds = self.rounds(n_records, ledger.remaining)
        budgets = ledger.remaining.over(rounds)
        box = _on_grid(engine.bounds.unit_box)
        candidates = _on_grid(rng.generator.random((self.n_candidates, n_clusters, engine.n_features)) * box)
        filled = self.filled_box(engine)
        expect(rounds)
        for number, budget in enumerate(budgets, start=1):
            wanted = 1 if number == rounds else self.n_selected
            costs = costs_of(engine, candidates, filled)
            parents = select(candidates, costs, budget.over(wanted), number, ledger, rng)
            if number < rounds:
                step = 0.5 * (1 - number / rounds)
                candidates = self._breed(parents, step * box, box, rng.generator)
        parameters = {
            "n_candidates": self.n_candidates,
            "n_selected": self.n_selected,
            "rounds": rounds,
            "setting": "paper" if self.in_paper else "proved",
        }
        outcome = Outcome(parents[0], n_passes=rounds, n_iter=rounds, parameters=parameters)
        return make_release(self, outcome, engine, ledger=ledger, rng=rng)

    def filled_box(self, engine: Engine) -> tuple[FloatArray, FloatArray] | None:
        """Both corners of the smallest box around the middle that holds the records, where the paper's setting asks."""
        if not self.in_paper:
            return None
        middle = engine.bounds.unit_box / 2
        half = reveal(engine.max_abs_deviation(middle[None]), why=WHY)[0]
        return middle - half, middle + half

    def _breed(self, parents: FloatArray, step: FloatArray, box: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Children of two parents that swap whole centroids, one coordinate moved by grid steps, at most `step`."""
        n, (_, k, d) = self.n_candidates, parents.shape
        mothers, fathers = parents[rng.integers(len(parents), size=(2, n))]
        swap = rng.random((n, k, 1)) < 0.5
        children = np.where(swap, mothers, fathers)
        cluster, feature = rng.integers(k, size=n), rng.integers(d, size=n)
        children[np.arange(n), cluster, feature] += np.trunc(rng.uniform(-1, 1, n) * step[feature] * GRID) / GRID
        children[: len(parents)] = parents
        return np.asarray(np.clip(children, 0.0, box))


def costs_of(engine: Engine, candidates: FloatArray, filled: tuple[FloatArray, FloatArray] | None) -> Exact[IntArray]:
    """The candidates' costs, with the sensitivity over the public box, or over the one that the records fill."""
    costs = engine.costs(candidates)
    if filled is None:
        return costs
    return costs.with_local_sensitivity(Sensitivity(gap=score_range(candidates, *filled)), why=WHY)


def select(
    candidates: FloatArray,
    costs: Exact[IntArray],
    shares: Sequence[Epsilon],
    round_number: int,
    ledger: Ledger,
    rng: Randomness,
) -> FloatArray:
    """A candidate for each share, all different, one private choice after the other, shape (shares, k, d).

    A choice depends on differences between scores only, so its noise is for the `gap` that the costs declare.
    """
    scores = costs.times(-2)
    left = np.arange(len(candidates))
    chosen: list[int] = []
    for pick, share in enumerate(shares, start=1):
        index = PermuteAndFlip(share).release(
            scores.entries(left), ledger=ledger, rng=rng, label=f"round {round_number}: choice {pick}"
        )
        chosen.append(int(left[index]))
        left = np.delete(left, index)
    return candidates[chosen]


def _on_grid(places: FloatArray) -> FloatArray:
    """The grid point at or below each place."""
    below: FloatArray = np.floor(places * GRID) / GRID
    return below


def privgene(
    *, n_records: int | None = None, n_candidates: int = 200, n_selected: int = 10, setting: str = "proved"
) -> PrivGene:
    """Genetic search with private selection; the number of records is public or bought."""
    return PrivGene(record_count(n_records), n_candidates, n_selected, is_paper_setting(setting))
