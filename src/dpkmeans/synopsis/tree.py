"""An adaptive tree: cells are halved where records are, and each leaf says how many and where. Proof: proofs/tree.md.

Two passes over the records: one counts the smallest cells that a tree may reach, so that its shape is decided without
looking again; one sums counts and offsets over the leaves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpkmeans._typing import FloatArray, IntArray
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.guarantee import Claim
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Laplace, LInfLaplace, PrivTreeSplits
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis import settings
from dpkmeans.synopsis.consistency import blend, project
from dpkmeans.synopsis.kmeans import condense, with_mean
from dpkmeans.synopsis.posterior import posterior_means
from dpkmeans.synopsis.residual_queries import UNIT
from dpkmeans.synopsis.tree_cells import Halvings, Leaves, leaf_counts
from dpkmeans.synopsis.view import SqueezedView, View
from dpkmeans.synopsis.weighted_points import Built, Near, NoisyTotal, WeightedPoints


@dataclass(frozen=True)
class Tree:
    """Settings of the tree."""

    claim: ClassVar[Claim] = Claim.PROVED

    shape_share: float = settings.TREE_SHAPE_SHARE
    min_leaf_limit: int = settings.MIN_LEAF_LIMIT
    leaves_per_cluster: int = settings.TREE_LEAVES_PER_CLUSTER
    max_depth: int = settings.MAX_TREE_DEPTH
    offset_variance: float = settings.OFFSET_VARIANCE
    offsets: bool = True  # whether leaves say where in them the records lie; if not, they are counted with less noise
    spare: int = 0  # places among the k that are left for the mean of all

    passes = 2

    def build(
        self, view: View, k: int, epsilon: Epsilon, total: NoisyTotal, *, ledger: Ledger, rng: Randomness
    ) -> Built:
        """The means of the leaves, or their middles, in the engine's unit coordinates."""
        seen = view.squeezed()
        shape_epsilon = epsilon.share(self.shape_share)
        leaf_epsilon = epsilon - shape_epsilon
        depth = math.ceil(math.log2(total.value * float(epsilon) + 1)) + settings.EXTRA_TREE_DEPTH
        depth = min(max(depth, settings.MIN_TREE_DEPTH), self.max_depth)
        cells = Halvings(seen.bounds.unit_box, depth)
        depths, prefixes = PrivTreeSplits(shape_epsilon, max(self.min_leaf_limit, self.leaves_per_cluster * k)).release(
            seen.answer(cells), ledger=ledger, rng=rng, label="tree: shape"
        )
        leaves = leaves_of(cells, depths, prefixes)
        ask = self._means if self.offsets else self._counts
        found, deviation = ask(seen, leaves, leaf_epsilon, total, ledger=ledger, rng=rng)
        near = Near(np.average(deviation, axis=0, weights=found.weights + settings.MIN_WEIGHT), view.half)
        found = WeightedPoints.of(found.points, found.weights)
        if self.spare and k > self.spare:
            found = with_mean(condense(found, k - self.spare, rng.generator))
        signal = k if self.offsets else 1  # where means are noise, no more than one cluster is claimed
        return Built(found, signal=signal, near=near)

    def _means(
        self,
        seen: SqueezedView,
        leaves: Leaves,
        epsilon: Epsilon,
        total: NoisyTotal,
        *,
        ledger: Ledger,
        rng: Randomness,
    ) -> tuple[WeightedPoints, FloatArray]:
        """The mean of each leaf with its weight, and how far the records' mean may be from it, (leaves, d)."""
        noisy = LInfLaplace(epsilon).release(seen.answer(leaves), ledger=ledger, rng=rng, label="tree: leaves")
        counts, offsets = noisy[:, 0] / UNIT, noisy[:, 1:] / UNIT
        variance = cube_variance(seen.n_features) / float(epsilon) ** 2
        blended = _blended(counts, total, variance)
        weights = posterior_means(blended, 1 / float(epsilon), total.value, 1 + seen.n_features)
        n = np.maximum(weights, settings.MIN_WEIGHT)[:, None]
        trust = self.offset_variance / (self.offset_variance + variance / n**2)
        moved = leaves.center + np.clip(offsets / n, -1.0, 1.0) * trust * leaves.half
        points = seen.place(moved, settings.BORDER_DOUBT * np.sqrt(variance) / n * leaves.half)
        return WeightedPoints(points, weights), np.sqrt((1 - trust) * self.offset_variance) * leaves.half

    def _counts(
        self,
        seen: SqueezedView,
        leaves: Leaves,
        epsilon: Epsilon,
        total: NoisyTotal,
        *,
        ledger: Ledger,
        rng: Randomness,
    ) -> tuple[WeightedPoints, FloatArray]:
        """The middle of each leaf with its weight, and how far records may be from it, (leaves, d)."""
        exact = leaf_counts(seen.answer(leaves.cells), leaves)
        noisy = Laplace(epsilon).release(exact, ledger=ledger, rng=rng, label="tree: counts")[:, 0]
        weights = project(_blended(noisy.astype(np.float64), total, 2 / float(epsilon) ** 2))
        return WeightedPoints(seen.place(leaves.center), weights), leaves.half / math.sqrt(3)


def _blended(counts: FloatArray, total: NoisyTotal, variance: float) -> FloatArray:
    """Noisy counts of leaves (m,) moved towards the released number of all records."""
    return blend(counts, np.array([total.value]), np.zeros(len(counts), np.int64), variance, total.variance)


def leaves_of(cells: Halvings, depths: IntArray, prefixes: IntArray) -> Leaves:
    """The question about the leaves with these depths and prefixes, shape (leaves,) each."""
    leaf_of = np.empty(2**cells.depth, dtype=np.int32)
    for leaf, (h, prefix) in enumerate(zip(depths.tolist(), prefixes.tolist(), strict=True)):
        leaf_of[prefix << (cells.depth - h) : (prefix + 1) << (cells.depth - h)] = leaf
    return Leaves(cells, leaf_of, *cells.boxes(depths, prefixes))


def cube_variance(n_features: int) -> float:
    """Variance of one of the 1 + d entries of cube noise at ε = 1 and sensitivity 1: (D + 1)(D + 2)/3, D = 1 + d."""
    return (n_features + 2) * (n_features + 3) / 3


def mean_deviation(paid: float, n_features: int) -> float:
    """Of the mean of all records, in half sides, if N·ε is `paid` for it: the noise of one of 1 + d entries over N."""
    return math.sqrt(cube_variance(n_features)) / max(paid, 1e-9)
