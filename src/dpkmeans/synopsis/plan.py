"""Which synopsis, and how much of ε for what: decided from public and released quantities alone.

`signal` = N·ε/k is how many records stand behind one cluster for one unit of budget. Every rule below is a function
of it and of the number of features; docs/decisions/0001-synopsis.md has the trials behind the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpkmeans.core.epsilon import Epsilon
from dpkmeans.synopsis.grid import Grid
from dpkmeans.synopsis.hyperplanes import Hyperplanes
from dpkmeans.synopsis.recentre import FOLLOW
from dpkmeans.synopsis.tree import Tree

Builder = Grid | Tree | Hyperplanes

COUNT_SHARE = 0.05
WEAK_SIGNAL = 10.0
GRID_FEATURES = 3  # up to here a grid always serves
TREE_FEATURES = 5  # from here on a tree always serves
TREE_SIGNAL = 80.0  # between them, from here on
SIGNS_FEATURES = 11  # from here on hyperplanes serve
WEAK_MEANS = 6.0  # below it, per feature, one budget for means serves better than two
GRID_RECENTRE_SIGNAL = 160.0  # from here on, divided by the number of features, a grid is re-centred
MIN_RECENTRE_SIGNAL = 55.0  # but not below this
TREE_RECENTRE_SIGNAL = 150.0  # from here on a tree is re-centred
COARSE_UNIT = 7.0  # of a grid that is re-centred: larger cells serve, as they only have to find the clusters
WIDE_SIGNAL = 500.0  # below it, noise outweighs what clipping does to a mean
CLIPPED = 1.75  # deviations


@dataclass(frozen=True)
class Plan:
    """A synopsis with its budget, and the budget and reach of the re-centring step, if there is one."""

    builder: Builder
    synopsis_epsilon: Epsilon
    recentre_epsilon: Epsilon | None
    radius_epsilon: Epsilon | None = None  # where the radius is learned from the records
    reach: float = 0.5  # where it follows from the synopsis
    deviations: float = 2.5  # of the synopsis, which limit it as well
    follow: float = FOLLOW  # share of the step after it


def make_plan(epsilon: Epsilon, n_records: float, k: int, n_features: int, *, recentre: bool = True) -> Plan:
    """The plan for `epsilon`, which is what is left after the number of records was paid for."""
    signal = n_records * float(epsilon) / k
    if n_features >= SIGNS_FEATURES:
        weak = signal / n_features < WEAK_MEANS
        builder = Hyperplanes(sides_share=0.28) if weak else Hyperplanes()
        if not recentre or weak:
            return Plan(builder, epsilon, None)
        last, radius = epsilon.share(0.27), epsilon.share(0.03)
        return Plan(builder, epsilon - last - radius, last, radius)
    as_grid = n_features <= GRID_FEATURES or (n_features < TREE_FEATURES and signal < TREE_SIGNAL)
    reach = 1.0 if signal >= WIDE_SIGNAL else 0.5
    enough = max(GRID_RECENTRE_SIGNAL / max(n_features, 1), MIN_RECENTRE_SIGNAL) if as_grid else TREE_RECENTRE_SIGNAL
    if not recentre or signal < enough:
        return Plan(Grid() if as_grid else Tree(), epsilon, None, reach=reach)
    last = epsilon.share(0.5 if as_grid else 0.4)
    if not as_grid:
        return Plan(Tree(), epsilon - last, last, reach=reach)
    deviations = CLIPPED if signal < WIDE_SIGNAL else Plan.deviations
    return Plan(Grid(unit=COARSE_UNIT), epsilon - last, last, reach=reach, deviations=deviations)
