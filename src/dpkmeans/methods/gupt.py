"""GUPT: Lloyd in many random blocks, centroids averaged with noise. Proved: proofs/gupt.md.

Source: Mohan, Thakurta, Shi, Song and Culler, GUPT: privacy preserving data analysis made easy (2012).
`setting="paper"` is for reproducing the paper only: noise scaled to the range of the blocks' answers. With
`noise="gaussian"`, for (epsilon, delta) or rho, all sums are released in one call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from dpkmeans._typing import FloatArray, IntArray
from dpkmeans.core.bounds import GRID, Bounds
from dpkmeans.core.engine import Engine
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import Exact, reveal
from dpkmeans.core.guarantee import Claim, claim_of
from dpkmeans.core.query import Sensitivity
from dpkmeans.core.release import Release
from dpkmeans.errors import MethodError
from dpkmeans.methods.base import Outcome, make_release
from dpkmeans.methods.loop.initializers import SampledRows
from dpkmeans.methods.loop.stopping import check_max_iter
from dpkmeans.methods.noisy_lloyd import is_gaussian, is_paper_setting
from dpkmeans.methods.record_count import RecordCount, record_count
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Gaussian, Laplace
from dpkmeans.privacy.randomness import Randomness


@dataclass(frozen=True)
class Gupt:
    """n^0.4 blocks of about n^0.6 records each; one record changes one block, hence each sum by at most a side.

    `each` is the budget of one coordinate of one centroid; by default the promised total is split evenly.
    """

    record_count: RecordCount
    each: Epsilon | None = None
    max_iter: int = 100
    in_paper: bool = False
    spends_rho: bool = False
    name: str = "gupt"

    @property
    def claim(self) -> Claim:
        """Proved with noise scaled to the box: no block's answer leaves without it."""
        return claim_of(Claim.PAPER_SETTING if self.in_paper else Claim.PROVED, self.record_count)

    @property
    def needs_epsilon(self) -> bool:
        """Whether it divides a promised total."""
        return self.each is None or self.record_count.needs_epsilon

    def run(self, engine: Engine, n_clusters: int, *, ledger: Ledger, rng: Randomness) -> Release:
        """Sum the blocks' ordered centroids, add noise, divide by the number of blocks."""
        n_records = self.record_count.get(engine, n_clusters, ledger=ledger, rng=rng)
        n_blocks = max(1, round(n_records**0.4))
        box = engine.bounds
        released = self._gaussian_sums if self.spends_rho else self._laplace_sums
        noisy = released(partial(self._answers, engine, n_clusters, n_blocks, rng), n_clusters, box, ledger, rng)
        centroids = box.clip_unit(noisy / GRID / n_blocks)
        parameters = {
            "n_blocks": n_blocks,
            "max_iter": self.max_iter,
            "setting": "paper" if self.in_paper else "proved",
            **({"noise": "gaussian"} if self.spends_rho else {}),
        }
        outcome = Outcome(centroids, n_passes=1, n_iter=1, parameters=parameters)
        return make_release(self, outcome, engine, ledger=ledger, rng=rng)

    def _gaussian_sums(
        self, answers: Callable[[], IntArray], k: int, box: Bounds, ledger: Ledger, rng: Randomness
    ) -> IntArray:
        """Noisy sums over the blocks, all in one call for what is left of rho, shape (k, d)."""
        wide = np.flatnonzero(box.side)
        noisy: IntArray = np.zeros((k, box.n_features), dtype=np.int64)
        if len(wide):
            mechanism = Gaussian(ledger.remaining_rho)
            most = Sensitivity(l2_squared=block_sum_sensitivity(k, box).l2_squared)
            sums = Exact(np.ascontiguousarray(answers().sum(axis=0)[:, wide]), most)
            noisy[:, wide] = mechanism.release(sums, ledger=ledger, rng=rng, label="centroids")
        return noisy

    def _laplace_sums(
        self, answers: Callable[[], IntArray], k: int, box: Bounds, ledger: Ledger, rng: Randomness
    ) -> IntArray:
        """Noisy sums over the blocks, each coordinate of each centroid on its own, shape (k, d)."""
        places = np.argwhere(np.tile(box.side > 0, (k, 1))).tolist()
        shares = self._shares(len(places), ledger)
        noisy: IntArray = np.zeros((k, box.n_features), dtype=np.int64)
        with ledger.account(sum(shares, Epsilon(0)) if shares else None) as account:  # all of it, or a refusal
            blocks = answers()
            sums = Exact(blocks.sum(axis=0), block_sum_sensitivity(k, box))
            for (i, j), share in zip(places, shares, strict=True):
                exact = sums.entry(i, j)
                if self.in_paper:
                    observed = Sensitivity.of_row((max(int(np.ptp(blocks[:, i, j])), 1),))
                    exact = exact.with_local_sensitivity(observed, why="the paper's experiments use local sensitivity")
                label = f"centroid {i}, feature {j}"
                noisy[i, j] = Laplace(share).release(exact, ledger=Ledger(parent=account), rng=rng, label=label)[0]
        return noisy

    def _shares(self, n: int, ledger: Ledger) -> tuple[Epsilon, ...]:
        if self.each is not None:
            return (self.each,) * n
        return ledger.remaining.over(n) if n else ()

    def _answers(self, engine: Engine, k: int, n_blocks: int, rng: Randomness) -> IntArray:
        """Every block's centroids in whole grid steps, shape (n_blocks, k, d). Exact.

        Each block has a generator of its own, seeded before any record is seen: what one block does with it, and how
        many records there are, changes nothing in another. A secret key says which block a record belongs to, by the
        record alone; equal records share a block.
        """
        seeds = rng.generator.integers(2**63, size=n_blocks).tolist()
        blocks = engine.partition(n_blocks, rng.key())
        return np.stack([self._answer(block, k, seed, rng) for block, seed in zip(blocks, seeds, strict=True)])

    def _answer(self, block: Engine, k: int, seed: int, rng: Randomness) -> IntArray:
        own = Randomness(np.random.default_rng(seed), rng.noise)
        steps: IntArray = np.rint(self._block_centroids(block, k, own) * GRID).astype(np.int64)
        return steps

    def _block_centroids(self, block: Engine, k: int, rng: Randomness) -> FloatArray:
        """Lloyd's centroids of one block in an order that looks at this block alone: along the first feature.

        A block with fewer than k records answers with the middle of the box. Clamped to the box, which bounds what a
        record can do to the sum whatever Lloyd makes of it.
        """
        if reveal(block.count(), why="inside a block; its answer is noised") < k:
            return np.tile(block.bounds.unit_box / 2, (k, 1))
        start = SampledRows().centroids(block, k, rng.generator)
        end = reveal(block.lloyd(start, self.max_iter), why="inside a block; its answer is noised")
        centroids = block.bounds.clip_unit(end.centroids)
        return centroids[np.lexsort(centroids.T[::-1])]


def block_sum_sensitivity(n_clusters: int, box: Bounds) -> Sensitivity:
    """One record changes the answer of one block, k centroids inside the box, and with it all k x d sums."""
    return Sensitivity.of_table(n_clusters, box.side.tolist())


def gupt(
    *,
    n_records: int | None = None,
    step_epsilon: float | None = None,
    max_iter: int = 100,
    setting: str = "proved",
    noise: str = "laplace",
) -> Gupt:
    """Sample and aggregate. `step_epsilon` is one coordinate's budget where the total is to come out bottom-up.

    With `noise="gaussian"` a total is promised in (epsilon, delta) or rho.
    """
    each = None if step_epsilon is None else Epsilon.of(step_epsilon, "step_epsilon")
    in_paper, spends_rho = is_paper_setting(setting), is_gaussian(noise)
    if spends_rho and (in_paper or each is not None):
        raise MethodError("the paper's setting and step_epsilon support only Laplace noise.")
    return Gupt(record_count(n_records), each, check_max_iter(max_iter), in_paper, spends_rho)
