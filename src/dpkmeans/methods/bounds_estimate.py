"""A private estimate of the box, for those who have no public one: one noisy histogram. Proof: proofs/bounds.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpkmeans._typing import AnyArray, FloatArray, IntArray
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import Exact
from dpkmeans.core.query import Sensitivity
from dpkmeans.data.numbers import real_numbers
from dpkmeans.data.source import Batch
from dpkmeans.engines.block_engine import MAX_RECORDS
from dpkmeans.engines.survey import Survey
from dpkmeans.errors import BudgetError, LooseBoundsWarning, NoBoundsFoundError, warn
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Laplace
from dpkmeans.privacy.randomness import Randomness

MIN_POWER, MAX_POWER = -9, 19  # powers of ten; smaller values count as 0, larger ones as the largest
BORDERS = np.array([*(float(f"{step}e{p}") for p in range(MIN_POWER, MAX_POWER) for step in (1, 2, 5)), 1e19])
"""Borders of the cells of positive numbers: 1, 2 and 5 times powers of ten, so that every end is a round number."""

STEPS = len(BORDERS) - 1
CELLS = 2 * STEPS + 1
FALSE_CELL = 1e-3  # chance that some empty cell widens the box
TO_ZERO = 4.0  # a positive feature whose lower edge is below upper/4 starts at 0
MOST = 0.95  # of the noisy counts: where most of the records are
WIDE = 10.0  # times the width of that range, from which a side is called wide
LABEL = "bounds"


def cells_of(values: AnyArray) -> IntArray:
    """The cell of each value, same shape: 0 … CELLS - 1 in the order of the number line, the middle one for 0.

    A positive value in [BORDERS[i], BORDERS[i + 1]) is i + 1 cells above the middle, a negative one as many below it.
    Reads each value by itself alone.
    """
    rank = np.minimum(np.searchsorted(BORDERS, np.abs(values), side="right"), STEPS)
    cells: IntArray = STEPS + np.where(values < 0, -rank, rank)
    return cells


def edges() -> FloatArray:
    """Borders of the cells, shape (CELLS + 1,)."""
    return np.concatenate([-BORDERS[::-1], BORDERS])


@dataclass(frozen=True)
class CellCounts:
    """Records per feature and cell, shape (d, CELLS). A record adds 1 in at most one cell of each feature.

    A missing value (NaN) adds nothing: there is no box yet whose middle could take its place.
    """

    features: tuple[int, ...]

    @property
    def sensitivity(self) -> Sensitivity:
        """One record adds 1 in at most one cell of each feature, which is a row."""
        d = len(self.features)
        return Sensitivity(d, d, 1, 1, (1,) * CELLS, one_row=d == 1)

    def zero(self) -> IntArray:
        return np.zeros((len(self.features), CELLS), dtype=np.int64)

    def take(self, total: IntArray, batch: Batch) -> IntArray:
        return self.take_cells(total, self.cells(batch))

    @property
    def n_columns(self) -> int:
        """One cell for each feature."""
        return len(self.features)

    def cells(self, batch: Batch) -> IntArray:
        """The cell of each value, shape (n, d); CELLS where it is missing."""
        columns = [real_numbers(np.asarray(batch.columns[j])) for j in self.features]
        return np.stack([np.where(np.isnan(column), CELLS, cells_of(column)) for column in columns], axis=1)

    def take_cells(self, total: IntArray, cells: IntArray) -> IntArray:
        """`total` with records added whose cells are known."""
        for row, column in enumerate(cells.T):
            total[row] += np.bincount(column, minlength=CELLS + 1)[:CELLS]
        return total

    def add(self, a: IntArray, b: IntArray) -> IntArray:
        a += b
        return a


def histogram(survey: Survey, features: Sequence[int]) -> Exact[IntArray]:
    """Records per feature and cell, shape (m, CELLS), over all that `survey` asks."""
    counts = CellCounts(tuple(features))
    return Exact(survey(counts), counts.sensitivity)


@dataclass(frozen=True)
class BoundsEstimate:
    """The box, and features of which it says little, by number. All of it follows from the noisy histogram.

    `collapsed`: lower and upper are 0. `wide`: the side is more than 10 times as wide as the range of 95 % of the
    noisy counts. `one_cell`: all counts that stand out lie in one cell away from 0, such as 1000 to 2000, so how close
    together the records lie in it is not known.
    """

    bounds: Bounds
    collapsed: tuple[int, ...] = ()
    wide: tuple[int, ...] = ()
    one_cell: tuple[int, ...] = ()

    def findings(self, names: Sequence[str] | None) -> dict[str, list[str]]:
        """The features of which it says little, by name, or by number where they have none."""
        kinds = {"collapsed": self.collapsed, "wide": self.wide, "one_cell": self.one_cell}
        return {kind: [names[j] if names else str(j) for j in features] for kind, features in kinds.items()}

    def warn(self, names: Sequence[str] | None) -> None:
        """Warn about them. Before the method runs: whoever turns warnings into errors then keeps the rest."""
        found = self.findings(names)
        said = {
            "collapsed": "all but a few values are 0 in {}: leave such columns out, or give their bounds",
            "wide": "most records lie in less than a tenth of the box in {}: a narrower one would be better",
            "one_cell": "nothing finer than one cell was found in {}, such as 1000 to 2000 for years: the records may "
            "lie in a small part of it",
        }
        parts = [said[kind].format(", ".join(features)) for kind, features in found.items() if features]
        if parts:
            warn(
                LooseBoundsWarning(
                    f"the private estimate of the bounds is loose. In the noisy histogram, {'; '.join(parts)}.",
                    hint="Public {bounds} are better where there are any.",
                )
            )


def threshold(n_features: int, epsilon: Epsilon) -> float:
    """How many noisy records a cell must hold to count: an empty one gets there with probability 1/1000 over all."""
    return n_features / float(epsilon) * math.log(n_features * CELLS / FALSE_CELL)


def check_share(epsilon: Epsilon, n_features: int, n_records: int | None) -> None:
    """Refuse a share that cannot do: two cells in which all records lie would be lost in the noise.

    From public quantities alone: without a public number of records, the largest that an engine takes.
    """
    needed = 2 * threshold(n_features, epsilon)
    if (MAX_RECORDS if n_records is None else n_records) < needed:
        raise BudgetError(
            f"is too little for {n_features} feature(s): it takes at least {needed:.0f} records for a range to stand "
            "out of the noise.",
            parameter="bounds_epsilon",
            value=float(epsilon),
            hint="Give {bounds}, fewer columns, or more for {bounds_epsilon}.",
        )


def estimate_bounds(
    survey: Survey,
    features: Sequence[int],
    epsilon: Epsilon,
    *,
    ledger: Ledger,
    rng: Randomness,
    names: Sequence[str] | None = None,
    alone: bool = True,
) -> BoundsEstimate:
    """A box around most of the records that `survey` asks; cells with few records are left outside.

    `features` says which features it is for, by number, and `names` what they are called; `alone`, that there are no
    others, so that one of them must have a width.

    Each end is zero, or 1, 2 or 5 times a power of ten, so far from zero the box may be much too wide; a public box is
    better.

    Formal guarantee
    ----------------
    epsilon-DP for add/remove-one neighbours. Proof: proofs/bounds.md.
    """
    noisy = Laplace(epsilon).release(histogram(survey, features), ledger=ledger, rng=rng, label=LABEL)
    return box_of(noisy, epsilon, names, alone=alone)


def box_of(
    noisy: IntArray, epsilon: Epsilon, names: Sequence[str] | None = None, *, alone: bool = True
) -> BoundsEstimate:
    """The box from the noisy histogram, shape (d, CELLS). Post-processing."""
    least = threshold(len(noisy), epsilon)
    sides = []
    for j, counts in enumerate(noisy):
        held = np.flatnonzero(counts > least)
        if len(held) == 0:
            raise NoBoundsFoundError(
                f"the private estimate of the bounds found nothing for feature {names[j] if names else j}: "
                "there are too few records for its share of epsilon. The share is spent, and nothing after it.",
                hint="Give {bounds}, or more for {bounds_epsilon}.",
            )
        sides.append(_Side.of(held, counts[held]))
    if alone and all(side.low == side.high for side in sides):
        raise NoBoundsFoundError(
            "the private estimate of the bounds found nothing but zeros. The share is spent, and nothing after it.",
            hint="Give {bounds}, or other {columns}.",
        )

    def where(holds: Callable[[_Side], bool]) -> tuple[int, ...]:
        return tuple(j for j, side in enumerate(sides) if holds(side))

    return BoundsEstimate(
        Bounds(tuple(side.low for side in sides), tuple(side.high for side in sides)),
        collapsed=where(lambda side: side.low == side.high),
        wide=where(lambda side: side.high - side.low > WIDE * side.most),
        one_cell=where(lambda side: side.one_cell),
    )


@dataclass(frozen=True)
class _Side:
    """One side of the box; `most` is the width of the narrowest range with most of the noisy counts."""

    low: float
    high: float
    most: float
    one_cell: bool

    @classmethod
    def of(cls, held: IntArray, counts: IntArray) -> _Side:
        """From the cells that stand out and their noisy counts, which are positive."""
        lows, highs = _ends()[0][held], _ends()[1][held]
        low, high = float(lows[0]), float(highs[-1])
        one_cell = len(held) == 1 and low != high
        if 0 < low < high / TO_ZERO:
            low = 0.0
        if high < 0 and -high < -low / TO_ZERO:
            high = 0.0
        total = np.concatenate([[0], np.cumsum(counts)])
        runs: list[Any] = [
            highs[j] - lows[i]
            for i in range(len(held))
            for j in range(i, len(held))
            if total[j + 1] - total[i] >= MOST * total[-1]
        ]
        return cls(low, high, float(min(runs)), one_cell)


def _ends() -> tuple[FloatArray, FloatArray]:
    """Lower and upper end of each cell, shape (CELLS,) each. The middle one is 0 itself, as an end of a box."""
    lows, highs = edges()[:-1].copy(), edges()[1:].copy()
    lows[STEPS] = highs[STEPS] = 0.0
    return lows, highs
