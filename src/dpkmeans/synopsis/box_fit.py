"""Whether the public box fits the records: one number, asked before the plan is made. Proof: proofs/box_fit.md.

In a box that is too wide, one with half of its sides holds nearly all records. In one that fits, with more than a few
features, hardly any such box holds many. So the records outside the fullest box of half sides tell the two apart, and
one record changes their number by at most 1, however many features there are. A few sides may stay whole: a column of
0 and 1 fills its side whatever the others are like.
"""

from __future__ import annotations

from enum import Enum
from itertools import combinations

import numpy as np

from dpkmeans._typing import FloatArray, IntArray
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import Exact, reveal
from dpkmeans.core.query import Sensitivity
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Laplace
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis import settings
from dpkmeans.synopsis.grid_cells import GridCells
from dpkmeans.synopsis.view import Asked

QUARTERS = 4  # of a side; the lower, middle and upper half are two of them each


class BoxFit(Enum):
    """What is known of the public box."""

    TIGHT = "a good part of the records lies outside every box of half its sides"
    LOOSE = "nearly all records lie in a box of half its sides"
    UNKNOWN = "neither, or it was not asked"


def fit_share(paid: float, k: int, n_features: int, *, narrows: bool = False) -> float | None:
    """The part of ε for the question, if N·ε is `paid` in all; None where the answer would be noise, or change little.

    With few records it costs more, so it is only asked where the answer decides much. `narrows` says whether clusters
    would be looked for in fewer features of a box that fits.
    """
    if n_features < settings.MIN_TREE_FEATURES:
        return None  # a zoom finds out by itself
    share = min(max(settings.FIT_SIGNAL / max(paid, 1e-9), settings.MIN_FIT_SHARE), settings.MAX_FIT_SHARE)
    much = (
        narrows
        or (n_features < settings.MIN_HYPERPLANE_FEATURES and is_for_a_grid(paid, k, n_features))
        or (n_features >= settings.MIN_ALWAYS_HYPERPLANE_FEATURES and has_few_clusters(paid, k, n_features))
        or is_for_one_mean(paid, k, n_features)
    )
    if share * paid < settings.LEAST_FIT_SIGNAL or not (much or share <= settings.USUAL_FIT_SHARE):
        return None
    return share


def is_for_a_grid(paid: float, k: int, n_features: int) -> bool:
    """Whether, in a box that fits, the signal is too weak for more than counts of a few cells."""
    most = settings.COUNTS_SIGNAL
    if k < settings.MANY_CLUSTERS:
        most = min(most, settings.FEW_COUNTS_SIGNAL * n_features)
    return paid / k < most and n_features <= settings.MAX_COUNTS_FEATURES


def has_few_clusters(paid: float, k: int, n_features: int) -> bool:
    """Whether, in a box that fits, a tree tells so few clusters apart in any number of features."""
    return k <= settings.FEW_CLUSTERS and paid >= settings.FEW_CLUSTERS_SIGNAL * n_features


def is_for_one_mean(paid: float, k: int, n_features: int) -> bool:
    """Whether, in a box that is too wide, all of ε is needed to tell where the records are."""
    if n_features < settings.MIN_TREE_FEATURES:
        return False
    least, most = settings.TWO_STEPS_SIGNAL * n_features, settings.ONE_MEAN_SIGNAL * n_features
    return least <= paid < most and paid / k < settings.ONE_MEAN_CLUSTER_SIGNAL * n_features


def ask_fit(engine: Asked, records: float, k: int, epsilon: Epsilon, *, ledger: Ledger, rng: Randomness) -> BoxFit:
    """Whether the box fits so many `records` in k clusters, for `epsilon`."""
    cells = quarters_of(engine.bounds.unit_box)
    exact = outside_half_box(engine.answer(cells), cells)
    noisy = Laplace(epsilon).release(exact, ledger=ledger, rng=rng, label="box: outside half")
    outside = float(noisy[0, 0]) / records
    if outside > least_outside(k, records * float(epsilon)):
        return BoxFit.TIGHT
    return BoxFit.LOOSE if outside < settings.MAX_LOOSE_OUTSIDE else BoxFit.UNKNOWN


def least_outside(k: int, paid: float) -> float:
    """The part of the records outside the fullest box of half sides, above which the box fits, if N·ε is `paid` for it.

    One of a few clusters may hold most records, and half a box with them. Where noise is small enough, less is asked.
    """
    if k > settings.FEW_CLUSTERS:
        return settings.MIN_TIGHT_OUTSIDE
    return min(settings.MIN_TIGHT_OUTSIDE, max(settings.FEW_TIGHT_OUTSIDE, settings.TIGHT_DOUBT / max(paid, 1e-9)))


def quarters_of(box: FloatArray) -> GridCells:
    """Cells that quarter the longest sides of a box (d,), as many sides as a table may have."""
    parts = np.ones(len(box), np.int64)
    parts[longest_sides(box, min(int(np.count_nonzero(box)), settings.MAX_FIT_SIDES))] = QUARTERS
    return GridCells(box, np.ones_like(parts), parts[None, :])


def longest_sides(box: FloatArray, s: int) -> IntArray:
    """The `s` features with the longest sides of the box (d,), rising; of equal ones the first."""
    return np.sort(np.argsort(-box, kind="stable")[:s])


def outside_half_box(table: Exact[IntArray], cells: GridCells) -> Exact[IntArray]:
    """Records outside the fullest of all boxes that take a half (lower, middle, upper) of quartered sides, (1, 1).

    Some sides, whichever, stay whole. A record more adds 1 to all, and 0 or 1 to each of the boxes, hence to the
    fullest: the difference rises by 0 or 1.
    """
    counts = reveal(table, why="stays exact")[:, 0]
    sides = int(np.count_nonzero(cells.cuts[0] == QUARTERS))
    fullest = max(
        int(_halves(counts.reshape((QUARTERS,) * sides).sum(axis=whole)).max())
        for whole in combinations(range(sides), whole_sides(sides))
    )
    return Exact(np.array([[counts.sum() - fullest]]), Sensitivity.of_row((1,)))


def whole_sides(sides: int) -> int:
    """How many of the quartered sides a box may leave whole."""
    return min(max(sides // settings.SIDES_PER_WHOLE, 1), sides - 1)


def _halves(held: IntArray) -> IntArray:
    """Counts of all boxes of halves, (3, ..., 3), from those of quarters, (4, ..., 4)."""
    for axis in range(held.ndim):
        held = np.take(held, [0, 1, 2], axis) + np.take(held, [1, 2, 3], axis)
    return held
