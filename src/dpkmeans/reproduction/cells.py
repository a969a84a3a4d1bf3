"""The cells of the paper's protocol. A cell is one run of one method on one data set at one ε.

Every random number of a cell is derived from the cell and the seed, never from the process or the order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

PROTOCOL = 3
"""Raise it when a cell's numbers change, so that old cells are not mixed with new ones."""

STRATEGIES = ("posterior", "prior")
PAPER_BASELINES = ("su", "privgene", "gupt", "dwork", "blum")
SYNOPSES = ("synopsis", "synopsis-posterior", "synopsis-prior")
QUALITY: dict[str, tuple[str, ...]] = {
    "paper": PAPER_BASELINES,
    "proved": (*SYNOPSES, "su", "su-hybrid", "lei", "dp-em", "privgene", "gupt", "dwork", "blum"),
    "total": ("synopsis", "su", "su-hybrid"),
}
"""Settings and their methods. `paper`: local sensitivity. `proved`: noise scaled to the box. Both get the total that
posterior realised in the same run; `dp-em` has a delta beside it. `total`: proved, and ε itself is the total."""

READINGS = {
    "uniform start": ("lloyd", "posterior", "prior"),
    "partition start": ("lloyd", "posterior", "prior"),
    "fixed-point stop": ("posterior", "prior"),
    "zones kept inside": ("prior",),
    "a record of the cluster": ("posterior", "prior"),
    "noise in two steps only": ("posterior", "prior"),
    "truncated Laplace": ("posterior",),
    "final centroid as controller": ("prior",),
}
"""Other readings of the paper. Starts: points of the box, or means of a random partition, instead of records. Stop:
only if the exact means repeat the assignment too. Zones: X moved back to the border of the convergent zone. The last
four are in `variants`: a reading of Lemma 1's proof, a diagnostic, and two ablations that the text discusses."""


class Cell(NamedTuple):
    """What is computed at once. `epsilon` is 0 if a method has none."""

    kind: str
    dataset: str
    run: int
    setting: str
    method: str
    epsilon: float

    @property
    def key(self) -> str:
        """Its name in the store."""
        return "|".join(map(str, self))


Row = dict[str, Any]


class Task(NamedTuple):
    """Cells that are computed one after the other, in one process."""

    cells: tuple[Cell, ...]
    seed: int
    k: int | None = None


def seed_of(seed: int, *parts: object) -> int:
    """A seed derived from these parts alone."""
    text = "|".join(map(str, (seed, *parts)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def path_cells(datasets: Sequence[str], runs: int, epsilons: Sequence[float], strategies: Sequence[str]) -> list[Cell]:
    """Lloyd once per run, each strategy once per run and ε; run by run, so that an unfinished batch covers all sets."""
    cells = []
    for run in range(runs):
        for name in datasets:
            cells.append(Cell("path", name, run, "none", "lloyd", 0.0))
            cells += [Cell("path", name, run, "paper", s, epsilon) for epsilon in epsilons for s in strategies]
    return cells


def quality_cells(
    datasets: Sequence[str], runs: int, epsilons: Sequence[float], methods: Sequence[str], settings: Sequence[str]
) -> list[Cell]:
    """The baselines and the proved methods, setting by setting; posterior and prior are path cells."""
    return [
        Cell("quality", name, run, setting, method, epsilon)
        for run in range(runs)
        for name in datasets
        for epsilon in epsilons
        for setting, known in QUALITY.items()
        for method in known
        if method in methods and setting in settings
    ]


def reading_cells(datasets: Sequence[str], runs: int) -> list[Cell]:
    """Passes under other readings, at one ε."""
    return [
        Cell("reading", name, run, reading, method, 0.0 if method == "lloyd" else 0.5)
        for run in range(runs)
        for name in datasets
        for reading, methods in READINGS.items()
        for method in methods
    ]


def tasks_of(cells: Iterable[Cell], seed: int, k: int | None = None) -> list[Task]:
    """Neighbouring cells of one run and data set together, slow ones apart."""
    tasks: list[list[Cell]] = []
    for cell in cells:
        last = tasks[-1][0] if tasks else None
        if last is not None and cell[:3] == last[:3] and (cell.kind != "quality" or cell.epsilon == last.epsilon):
            tasks[-1].append(cell)
        else:
            tasks.append([cell])
    return [Task(tuple(group), seed, k) for group in tasks]
