"""The paper's draw inside a sampling zone, with its spend. Label `paper`: its epsilon is a claim, not a guarantee."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.methods.lu_shen.zones import place, sample_pair
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness


@dataclass(frozen=True)
class ZoneMechanism:
    """Exponential mechanism over (δ, α) in each cluster's zone, `epsilons` one per cluster.

    Formal guarantee: none. The set of candidates depends on the exact mean, so the exponential mechanism's bound does
    not apply (docs/guarantees.md). The ledger records what the paper claims: the largest ε of the clusters.
    """

    epsilons: tuple[Epsilon, ...]

    def release(
        self,
        means: FloatArray,
        controller: FloatArray,
        offset: FloatArray,
        *,
        ledger: Ledger,
        rng: Randomness,
        label: str,
    ) -> FloatArray:
        """Centroids Ŝ = mean + δ b (cos α u + sin α w), shape (k, d); the mean itself where the zone is a point."""
        ledger.spend_parallel(self.epsilons, label)
        epsilon = np.array([float(e) for e in self.epsilons])
        ratio, angle = sample_pair(offset, epsilon, rng.generator, flat=means.shape[1] == 1)
        return place(means, controller, ratio, angle, rng.generator)
