"""Zoom in on where the records are, before anything else is asked. Proof: proofs/zoom.md.

A public box is mostly much wider than the data. A private choice among boxes, by the records that each holds less a
price for its size, finds one that is not. With few features the candidates are rectangles anywhere in the box; with
more they are nested around a noisy mean. Where sides are loose by very different factors, each is cut first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import pstdev

import numpy as np

from dpkmeans._typing import FloatArray, IntArray
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import Exact, reveal
from dpkmeans.core.query import Sensitivity
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Laplace, LInfLaplace, PermuteAndFlip
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis import settings
from dpkmeans.synopsis.grid_cells import GridCells, positions
from dpkmeans.synopsis.residual_queries import UNIT, Residuals
from dpkmeans.synopsis.tree import cube_variance
from dpkmeans.synopsis.view import NoisyMean, View
from dpkmeans.synopsis.zoom_cells import Parts, Shells

SIDE = "zoom: side"  # one choice for each side, all from one answer


@dataclass(frozen=True)
class Budget:
    """What a fit has for everything, and about how many records there are; a zoom spends a part of it."""

    epsilon: Epsilon
    n: float
    deviation: float = 0.0  # of that number
    means: bool = False  # whether the mean that a zoom releases is of use later on: then it may cost more

    @property
    def sure(self) -> float:
        """So many records there are, most probably, at least."""
        return max(self.n - settings.COUNT_DOUBT * self.deviation, 0.0)

    def share(self, needed: float, least: float, most: float) -> float:
        """The part of ε for which N·ε times it is what is `needed`, between two limits."""
        return min(max(needed / (self.n * float(self.epsilon)), least), most)

    def noise(self, share: float, candidates: int) -> float:
        """About how many records a choice among so many boxes with this share may be off by, as a part of all."""
        return math.log(candidates) / (share * float(self.epsilon) * self.n)


@dataclass(frozen=True)
class Allowed:
    """The part of the records that a box may leave outside, and what finding out may cost.

    `signal` is N·ε times the share of ε for that, and `max_share` its limit.
    """

    outside: float
    signal: float
    max_share: float


def usual_passes(budget: Budget, n_wide: int) -> int:
    """Passes that a zoom usually makes over the records, for so many sides with a width; it may take fewer or more."""
    return 1 if n_wide in settings.RECTANGLES else 3 + asks_sides(budget, n_wide)


def zoom(view: View, budget: Budget, *, ledger: Ledger, rng: Randomness) -> View:
    """The part of the view that holds nearly all records, or the view itself. A few rounds, each a smaller box."""
    wide = int(np.count_nonzero(view.bounds.unit_box))
    if wide == 0:
        return view
    look = _among_rectangles if wide in settings.RECTANGLES else _around_mean
    before = ledger.remaining
    if look is _around_mean and asks_sides(budget, wide):
        view = _evened(view, budget, ledger=ledger, rng=rng)
    limit = settings.MAX_MIDDLE_SHARE if budget.means else settings.MAX_ZOOM_SHARE
    for _ in range(settings.MAX_ZOOMS):
        view, again = look(view, budget, ledger=ledger, rng=rng)
        spent = (before - ledger.remaining).nano / budget.epsilon.nano
        if not again or spent > limit:
            break
    if view.whole:
        return view
    few = Allowed(settings.MAX_OUTSIDE, settings.WIDEN_SIGNAL, settings.MAX_WIDEN_SHARE)
    return _widened(view, budget, few, ledger=ledger, rng=rng)


def _widened(view: View, budget: Budget, allowed: Allowed, *, ledger: Ledger, rng: Randomness) -> View:
    """The view, or a wider one around the same place if many records lie outside it.

    A choice by records less a price gives up small clusters for a dense one. Noisy counts of the boxes around the view
    say how many records each leaves outside; the smallest is taken that leaves no more than is allowed, or one
    deviation of the noise more.
    """
    share = budget.share(allowed.signal, settings.MIN_WIDEN_SHARE, allowed.max_share)
    epsilon = budget.epsilon.share(share)
    deviation = math.sqrt(2) / (float(epsilon) * budget.n)  # of one count, as a part of all
    if deviation > settings.MAX_WIDEN_DEVIATION:
        return view
    box, center, half = view.engine.bounds.unit_box, view.center, view.half
    wide = half > 0
    reach = float((np.maximum(center, box - center)[wide] / half[wide]).max())
    steps = max(math.ceil(math.log2(reach)), 1)
    scales = np.ldexp(1.0, np.arange(steps, -1, -1))
    noisy = Laplace(epsilon).release(
        view.engine.answer(Shells(center, scales[:, None] * half)), ledger=ledger, rng=rng, label="zoom: outside"
    )[:, 0]
    for step in range(steps, -1, -1):
        outer, inner = noisy[:step].sum() / budget.n, 1 - noisy[step:].sum() / budget.n
        by_outer, by_inner = step * deviation**2, (steps + 1 - step) * deviation**2 + (budget.deviation / budget.n) ** 2
        outside = (outer * by_inner + inner * by_outer) / (by_outer + by_inner)
        doubt = math.sqrt(by_outer * by_inner / (by_outer + by_inner))
        if outside <= allowed.outside + settings.OUTSIDE_DOUBT * doubt:
            break
    if step == steps:
        return view
    if step == 0:
        return replace(View.of(view.engine), mean=view.mean)
    lower, upper = np.clip(center - scales[step] * half, 0.0, box), np.clip(center + scales[step] * half, 0.0, box)
    return view.part(lower, upper)


def log2(values: FloatArray) -> FloatArray:
    """Logarithms, same shape, from the C library: those of NumPy differ between processors in the last place."""
    return np.array([math.log2(value) for value in values.ravel().tolist()]).reshape(values.shape)


def _choose(
    held: Exact[IntArray], prices: FloatArray, epsilon: Epsilon, label: str, *, ledger: Ledger, rng: Randomness
) -> int:
    """The index of a box that holds many records for its price, from how many each holds; (m,) both."""
    whole: IntArray = np.rint(prices).astype(np.int64)
    whole[1:] += math.ceil(settings.ZOOM_INERTIA / float(epsilon))
    scores = Exact(reveal(held, why="stays exact") - whole, held.sensitivity)
    return PermuteAndFlip(epsilon).release(scores, ledger=ledger, rng=rng, label=label)


# -- few features: rectangles -------------------------------------------------------------------------------------


def _among_rectangles(view: View, budget: Budget, *, ledger: Ledger, rng: Randomness) -> tuple[View, bool]:
    box = view.bounds.unit_box
    wide = np.flatnonzero(box)
    price = price_of_halving(budget, len(wide))
    if price <= 0.0:
        return view, False
    begin, end = rectangles(len(wide))
    parts = np.ones(len(box), np.int64)
    grid = cells_a_side(len(wide))
    parts[wide] = grid
    halvings = log2(grid / (end - begin)).mean(axis=1)
    share = budget.share(settings.ZOOM_SIGNAL, settings.MIN_RECTANGLE_SHARE, settings.MAX_RECTANGLE_SHARE)
    epsilon = budget.epsilon.share(share)
    cells = GridCells(box, np.ones_like(parts), parts[None, :])
    everything = Shells(view.center, view.half[None, :])
    table = view.engine.answer(cells) if view.whole else view.answer_split(cells, everything)
    held = records_in(table, begin, end)
    chosen = _choose(held, price * (halvings.max() - halvings), epsilon, "zoom: box", ledger=ledger, rng=rng)
    if chosen == 0:
        return view, False
    lower, upper = np.zeros(len(box)), box.copy()
    lower[wide] = begin[chosen] / grid * box[wide]
    upper[wide] = end[chosen] / grid * box[wide]
    again = bool((end - begin == (end - begin).min())[chosen].any())
    return view.part(view.place(lower), view.place(upper)), again


def price_of_halving(budget: Budget, n_wide: int) -> float:
    """In records, for all sides of a rectangle; 0 where a choice would be noise, or could not favour a smaller box."""
    begin, end = intervals(*settings.RECTANGLES[n_wide])
    share = budget.share(settings.ZOOM_SIGNAL, settings.MIN_RECTANGLE_SHARE, settings.MAX_RECTANGLE_SHARE)
    noise = budget.noise(share, math.prod([len(begin)] * n_wide))
    if noise * budget.n > settings.MAX_ZOOM_NOISE * (budget.n + settings.ZOOM_DOUBT * budget.deviation):
        return 0.0
    most = math.log2(cells_a_side(n_wide) / int((end - begin).min()))
    price = min(
        (settings.RECTANGLE_PRICE * noise + settings.ZOOM_LOSS) * budget.n,
        (settings.MAX_PRICE * budget.sure - noise * budget.n) / most,
    )
    return max(price, 0.0)


def cells_a_side(n_features: int) -> int:
    """Of the grid that rectangles in so many features are made of."""
    return settings.RECTANGLES[n_features][0]


def rectangles(n_features: int) -> tuple[IntArray, IntArray]:
    """First and one past the last cell of every candidate in each feature, (m, d) each; the first is the whole."""
    first, last = intervals(*settings.RECTANGLES[n_features])
    both = np.stack([first, last], 1)[positions(np.full(n_features, len(first)))]
    return both[..., 0], both[..., 1]


def intervals(grid: int, lengths: tuple[int, ...], overlap: int) -> tuple[IntArray, IntArray]:
    """First and one past the last cell of intervals of a side, (m,) each; `overlap` of each length cover a cell."""
    found: list[tuple[int, int]] = []
    for length in lengths:
        steps = max(round(overlap * (grid - length) / length), 1 if length < grid else 0)
        starts = np.unique(np.rint(np.linspace(0, grid - length, steps + 1)).astype(np.int64))
        found.extend((start, start + length) for start in starts.tolist())
    both = np.array(found)
    return both[:, 0], both[:, 1]


def records_in(table: Exact[IntArray], begin: IntArray, end: IntArray) -> Exact[IntArray]:
    """How many records each rectangle holds, (m,), from the counts of the cells, whose first rows are a cube of cells.

    A record is in one cell, hence adds 0 or 1 to each rectangle: no score is moved by more than 1, in one direction.
    """
    d, grid = begin.shape[1], cells_a_side(begin.shape[1])
    cells = reveal(table, why="stays exact")[: grid**d, 0].reshape((grid,) * d)
    below = np.zeros((grid + 1,) * d, np.int64)
    below[(slice(1, None),) * d] = cells
    for axis in range(d):
        below = np.cumsum(below, axis=axis)
    held = np.zeros(len(begin), np.int64)
    for corner in range(2**d):
        at = tuple(np.where((corner >> j) & 1, begin[:, j], end[:, j]) for j in range(d))
        held += (-1) ** corner.bit_count() * below[at]
    return Exact(held, Sensitivity(linf=1, gap=1))


# -- more features: uneven sides, then nested boxes around the mean ----------------------------------------------


def asks_sides(budget: Budget, n_wide: int) -> bool:
    """Whether the signal is strong enough for a choice in every one of so many sides."""
    return settings.SIDE_SIGNAL * n_wide <= settings.MAX_SIDE_SHARE * budget.n * float(budget.epsilon)


def _evened(view: View, budget: Budget, *, ledger: Ledger, rng: Randomness) -> View:
    """All of the box, or its sides cut if they are loose by very different factors: nested boxes shrink them alike.

    In every side, a private choice among intervals finds one that holds nearly all records. Where their lengths differ
    much, sides are cut to twice their intervals. The choices are noisy, so the cuts are then widened, all sides alike,
    until they leave hardly any record outside.
    """
    box = view.engine.bounds.unit_box
    wide = np.flatnonzero(box)
    share = budget.share(settings.SIDE_SIGNAL * len(wide), settings.MIN_SIDE_SHARE, settings.MAX_SIDE_SHARE)
    epsilon = budget.epsilon.share(share / len(wide))
    begin, end = intervals(settings.SIDE_PARTS, settings.SIDE_LENGTHS, settings.SIDE_OVERLAP)
    halvings = log2(settings.SIDE_PARTS / (end - begin))
    price = min(
        settings.SIDE_PRICE / float(epsilon) + settings.ZOOM_LOSS * budget.n,
        settings.MAX_PRICE * budget.sure / float(halvings.max()),
    )
    prices = price * (halvings.max() - halvings)
    table = view.engine.answer(Parts(box, settings.SIDE_PARTS))
    sides = [records_along(table, j, begin, end) for j in wide.tolist()]
    chosen = [_choose(held, prices, epsilon, SIDE, ledger=ledger, rng=rng) for held in sides]
    if pstdev(halvings[chosen].tolist()) < settings.UNEVEN:
        return view
    middle, half = (begin + end)[chosen] / 2, settings.SIDE_SLACK * (end - begin)[chosen] / 2
    lower, upper = np.zeros(len(box)), np.zeros(len(box))
    lower[wide] = np.maximum(middle - half, 0.0) / settings.SIDE_PARTS * box[wide]
    upper[wide] = np.minimum(middle + half, settings.SIDE_PARTS) / settings.SIDE_PARTS * box[wide]
    hardly_any = Allowed(settings.MAX_CUT_OUTSIDE, settings.CUT_SIGNAL, settings.MAX_CUT_SHARE)
    return _widened(view.part(lower, upper), budget, hardly_any, ledger=ledger, rng=rng)


def records_along(table: Exact[IntArray], j: int, begin: IntArray, end: IntArray) -> Exact[IntArray]:
    """How many records each interval of parts of side j holds, (m,), from the counts of the parts of all sides.

    A record is in one part of the side, hence adds 0 or 1 to each interval.
    """
    below = np.concatenate([[0], np.cumsum(reveal(table, why="stays exact")[j])])
    return Exact(below[end] - below[begin], Sensitivity(linf=1, gap=1))


def _around_mean(view: View, budget: Budget, *, ledger: Ledger, rng: Randomness) -> tuple[View, bool]:
    d = int(np.count_nonzero(view.half))
    entry = math.sqrt(cube_variance(d))
    most = min(settings.MAX_MIDDLE_SHARE, ledger.remaining.nano / budget.epsilon.nano / 2)
    mean_share = budget.share(
        entry / (settings.MIDDLE_DEVIATION if budget.means else settings.MEAN_DEVIATION),
        settings.MIN_MEAN_SHARE,
        most if budget.means else settings.MAX_MEAN_SHARE,
    )
    share = budget.share(settings.ZOOM_SIGNAL, settings.MIN_NESTED_SHARE, settings.MAX_NESTED_SHARE)
    deviation = entry / (mean_share * float(budget.epsilon) * budget.n)  # of the mean, in half sides
    noise = budget.noise(share, settings.NESTED_BOXES)
    useless = settings.MAX_MIDDLE_DEVIATION if budget.means else settings.MAX_MEAN_DEVIATION
    if budget.means and budget.n * float(budget.epsilon) < settings.MIN_MEANS_ZOOM * d:
        return view, False
    if deviation > useless or noise > settings.MAX_NESTED_NOISE:
        return view, False
    mean_epsilon, epsilon = budget.epsilon.share(mean_share), budget.epsilon.share(share)
    halvings: FloatArray = np.arange(settings.NESTED_BOXES) / 2
    scales = np.sqrt(np.ldexp(4.0, -np.arange(settings.NESTED_BOXES)))  # in half sides; the first box holds all
    half = view.half
    one = Residuals(view.center[None, :], np.maximum(half, settings.MIN_HALF_SIDE)[None, :])
    noisy = LInfLaplace(mean_epsilon).release(view.engine.answer(one), ledger=ledger, rng=rng, label="zoom: mean")[0]
    offset = np.clip(noisy[1:] / UNIT / budget.n, -1.0, 1.0)
    trust = max(0.0, 1 - deviation**2 / max(float(np.mean(offset[half > 0] ** 2)), 1e-300))
    center = view.center + trust * offset * half
    view = replace(view, mean=NoisyMean(center, deviation * half, mean_epsilon))
    held = records_within(view.engine.answer(Shells(center, scales[:, None] * half)))
    price = min(
        settings.NESTED_PRICE / float(epsilon) + settings.ZOOM_LOSS * budget.n,
        settings.MAX_PRICE * budget.sure / float(halvings.max()),
    )
    chosen = _choose(held, price * (halvings.max() - halvings), epsilon, "zoom: box", ledger=ledger, rng=rng)
    if chosen == 0:
        return view, False
    box = view.engine.bounds
    low, high = np.asarray(view.bounds.lower), np.asarray(view.bounds.upper)
    lower = np.clip(center - scales[chosen] * half, low, high)
    upper = np.clip(center + scales[chosen] * half, low, high)
    wide = half > 0
    if np.mean(log2(2 * half[wide] / np.maximum(upper - lower, 1e-12)[wide])) < settings.MIN_HALVINGS:
        return view, False
    part = view.part(box.clip_unit(lower), box.clip_unit(upper))
    return part, deviation > settings.ZOOM_AGAIN_DEVIATION * float(scales[chosen])


def records_within(table: Exact[IntArray]) -> Exact[IntArray]:
    """How many records each of nested boxes holds, (m,), from the counts of their shells; the first counts all.

    A record in one shell adds 1 to the boxes around it: no score is moved by more than 1, in one direction.
    """
    shells = reveal(table, why="stays exact")[:, 0]
    return Exact(np.cumsum(shells[::-1])[::-1].copy(), Sensitivity(linf=1, gap=1))
