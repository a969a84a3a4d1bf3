"""An adaptive tree: cells are halved where records are, and each leaf says how many and where. Proof: proofs/tree.md.

Two passes over the records: one counts the smallest cells that a tree may reach, so that its shape is decided without
looking again; one sums counts and offsets over the leaves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpkmeans.core.engine import Engine
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.guarantee import Claim
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import LInfLaplace, PrivTreeSplits
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis import settings
from dpkmeans.synopsis.consistency import blend, project
from dpkmeans.synopsis.residual_queries import UNIT
from dpkmeans.synopsis.tree_cells import Halvings, Leaves
from dpkmeans.synopsis.weighted_points import NoisyTotal, WeightedPoints


@dataclass(frozen=True)
class Tree:
    """Settings of the tree."""

    claim: ClassVar[Claim] = Claim.PROVED

    shape_share: float = settings.TREE_SHAPE_SHARE
    min_leaf_limit: int = settings.MIN_LEAF_LIMIT
    leaves_per_cluster: int = settings.TREE_LEAVES_PER_CLUSTER
    max_depth: int = settings.MAX_TREE_DEPTH
    offset_variance: float = settings.OFFSET_VARIANCE

    passes = 2

    def build(
        self, engine: Engine, k: int, epsilon: Epsilon, total: NoisyTotal, *, ledger: Ledger, rng: Randomness
    ) -> WeightedPoints:
        shape_epsilon = epsilon.share(self.shape_share)
        leaf_epsilon = epsilon - shape_epsilon
        depth = math.ceil(math.log2(total.value * float(epsilon) + 1)) + settings.EXTRA_TREE_DEPTH
        depth = min(max(depth, settings.MIN_TREE_DEPTH), self.max_depth)
        cells = Halvings(engine.bounds.unit_box, depth)
        depths, prefixes = PrivTreeSplits(shape_epsilon, max(self.min_leaf_limit, self.leaves_per_cluster * k)).release(
            engine.answer(cells), ledger=ledger, rng=rng, label="tree: shape"
        )
        center, half = cells.boxes(depths, prefixes)
        leaf_of = np.empty(2**depth, dtype=np.int32)
        for leaf, (h, prefix) in enumerate(zip(depths.tolist(), prefixes.tolist(), strict=True)):
            leaf_of[prefix << (depth - h) : (prefix + 1) << (depth - h)] = leaf

        noisy = LInfLaplace(leaf_epsilon).release(
            engine.answer(Leaves(cells, leaf_of, center, half)), ledger=ledger, rng=rng, label="tree: leaves"
        )
        counts, offsets = noisy[:, 0] / UNIT, noisy[:, 1:] / UNIT
        variance = cube_variance(engine.n_features) / float(leaf_epsilon) ** 2
        owner = np.zeros(len(counts), np.int64)
        weights = project(blend(counts, np.array([total.value]), owner, variance, total.variance))
        n = np.maximum(weights, 1e-9)[:, None]
        trust = self.offset_variance / (self.offset_variance + variance / n**2)
        points = center + np.clip(offsets / n, -1.0, 1.0) * trust * half
        return WeightedPoints.of(points, weights)


def cube_variance(n_features: int) -> float:
    """Variance of one of the 1 + d entries of cube noise at ε = 1 and sensitivity 1: (D + 1)(D + 2)/3, D = 1 + d."""
    return (n_features + 2) * (n_features + 3) / 3
