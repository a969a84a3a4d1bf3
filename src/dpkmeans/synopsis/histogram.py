"""Lei's perturbed histogram: equal cells whose width follows from the number of records alone. Proof: proofs/lei.md.

Source: Lei, Differentially private M-estimators (2011). Here the k-means cost is minimised on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpkmeans._typing import IntArray
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.guarantee import Claim
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Laplace
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis import settings
from dpkmeans.synopsis.grid import pieces
from dpkmeans.synopsis.grid_cells import GridCells
from dpkmeans.synopsis.view import View
from dpkmeans.synopsis.weighted_points import Built, NoisyTotal, WeightedPoints


@dataclass(frozen=True)
class Histogram:
    """Noisy counts of equal cells of the unit cube; one point in the middle of each whose noisy count is positive.

    Guarantee: what the call of `Laplace` spends; all else is post-processing.
    """

    claim: ClassVar[Claim] = Claim.PROVED
    passes: ClassVar[int] = 1

    def build(
        self, view: View, k: int, epsilon: Epsilon, total: NoisyTotal, *, ledger: Ledger, rng: Randomness
    ) -> Built:
        """Weighted points in unit coordinates, one for each cell with a positive noisy count."""
        box = view.bounds.unit_box
        cells = GridCells(box, np.ones(len(box), np.int64), parts_of(total.value, box > 0)[None, :])
        exact = view.engine.answer(cells)
        counts = Laplace(epsilon).release(exact, ledger=ledger, rng=rng, label="histogram: counts")[:, 0]
        return Built(WeightedPoints.of(cells.centers(), np.maximum(counts, 0).astype(np.float64)), k)


def parts_of(n_records: float, wide: np.ndarray) -> IntArray:
    """Into how many parts each feature with a width (d,) is cut: 1/h with h = (√(ln n)/n)^(2/(2+d)), to the nearest.

    Lei's theorem 3; d counts the features with a width. At most `settings.MAX_UNIFORM_CELLS` cells are aimed at.

    >>> parts_of(5000.0, np.array([True, True])).tolist()
    [41, 41]
    """
    n, d = max(n_records, settings.MIN_HISTOGRAM_RECORDS), int(np.count_nonzero(wide))
    wanted = (n / math.sqrt(math.log(n))) ** (2 * d / (2 + d))
    return pieces(wide.astype(np.float64), min(wanted, float(settings.MAX_UNIFORM_CELLS)))
