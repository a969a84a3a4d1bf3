"""Mechanisms and single steps under audit. Noise on different cells is independent, so one call on a table with as
many equal cells as there are runs gives that many independent runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from dpkmeans._typing import FloatArray, IntArray
from dpkmeans.audit.gaussian_targets import gaussian_cases
from dpkmeans.audit.noise_sources import InBlocks, Recorder
from dpkmeans.audit.protocols import Case, Sample, Target
from dpkmeans.audit.scores import Score, choice_ratio, column, cube_ratio, exact_answer, laplace_ratio, low_bits
from dpkmeans.core.bounds import GRID, Bounds
from dpkmeans.core.conversion import pure_as_rho
from dpkmeans.core.engine import CellStatistics, cell_sensitivity
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import Exact, reveal
from dpkmeans.core.query import Sensitivity
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.methods.loop.budgets import noisy_mean_budget
from dpkmeans.methods.loop.solver import Step, Update
from dpkmeans.methods.loop.updates import NoisyMean
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Gaussian, Laplace, LInfLaplace, PermuteAndFlip, PrivTreeSplits
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis.residual_queries import Residuals

SENSITIVITY = 64


class Releases(Protocol):
    """A mechanism or a mutant."""

    @property
    def epsilon(self) -> Epsilon:
        """What it claims."""

    def release(self, exact: Exact[IntArray], *, ledger: Ledger, rng: Randomness, label: str) -> Any:
        """The released values."""


@dataclass(frozen=True)
class TableCase:
    """A mechanism on rows of integers; `answer` is the row of D and `answer_with` that of D'.

    `sensitivity` is what the rows declare; `ratio` makes the likelihood ratio of the two rows.
    """

    pair: str
    mechanism: Releases
    sensitivity: Sensitivity
    answer: tuple[int, ...]
    answer_with: tuple[int, ...]
    ratio: Callable[[tuple[int, ...], tuple[int, ...]], Score]

    def draw(self, with_record: bool, runs: int, rng: Randomness) -> Sample:
        row = self.answer_with if with_record else self.answer
        ledger = Ledger()
        table: IntArray = np.tile(np.array(row, dtype=np.int64), (runs, 1))
        released = self.mechanism.release(Exact(table, self.sensitivity), ledger=ledger, rng=rng, label="audit")
        return Sample(np.asarray(released, dtype=np.float64), np.array([float(ledger.spent)]))

    def scores(self) -> tuple[Score, ...]:
        """The likelihood ratio, the first entry, exact values and low bits."""
        ratio = self.ratio(self.answer, self.answer_with)
        return ratio, column(0, "first entry"), exact_answer(self.answer), low_bits()


def _one_by_one(
    mechanism: Releases, exact: Exact[IntArray], runs: int, rng: Randomness
) -> tuple[list[Any], FloatArray]:
    """`runs` releases of the same answer, and what one of them spends."""
    rng = Randomness(rng.generator, InBlocks(rng.noise))
    ledgers = [Ledger() for _ in range(runs)]
    released = [mechanism.release(exact, ledger=ledger, rng=rng, label="audit") for ledger in ledgers]
    return released, np.array([float(ledgers[0].spent)])


@dataclass(frozen=True)
class ChoiceCase:
    """A private choice among candidates with integer scores."""

    pair: str
    mechanism: Releases
    answer: tuple[int, ...]
    answer_with: tuple[int, ...]

    def draw(self, with_record: bool, runs: int, rng: Randomness) -> Sample:
        scores = np.array(self.answer_with if with_record else self.answer, dtype=np.int64)
        chosen, spent = _one_by_one(self.mechanism, Exact(scores, Sensitivity(gap=2 * SENSITIVITY)), runs, rng)
        return Sample(np.array(chosen, dtype=np.float64)[:, None], spent)

    def scores(self) -> tuple[Score, ...]:
        """The likelihood ratio and the index itself."""
        scale = 2 * SENSITIVITY / float(self.mechanism.epsilon)
        return choice_ratio(self.answer, self.answer_with, scale), column(0, "index")


@dataclass(frozen=True)
class TreeCase:
    """The shape of a tree over 2^4 cells; all records lie in the first cell, so the record changes its path."""

    pair: str
    mechanism: PrivTreeSplits
    count: int

    def draw(self, with_record: bool, runs: int, rng: Randomness) -> Sample:
        """One shape after the other: the depth of the path's leaf, and the number of leaves."""
        cells: IntArray = np.zeros((16, 1), dtype=np.int64)
        cells[0] = self.count + with_record
        shapes, spent = _one_by_one(self.mechanism, Exact(cells, Sensitivity.of_row((1,))), runs, rng)
        rows = [(depths[prefixes == 0].max(), len(depths)) for depths, prefixes in shapes]
        return Sample(np.array(rows, dtype=np.float64), spent)

    def scores(self) -> tuple[Score, ...]:
        """Both numbers; the proof's worst case is looser than any single path, so no bound comes near epsilon."""
        return column(0, "depth of the path"), column(1, "number of leaves")


@dataclass(frozen=True)
class StepCase:
    """One step of an update over cells that all hold the same count and sums. Released: what mechanisms returned.

    `cell` and `cell_with` are (count, sums in grid steps). What the ledger records is what the step claims.
    """

    pair: str
    update: Update
    epsilon: Epsilon
    cell: tuple[int, ...]
    cell_with: tuple[int, ...]

    def draw(self, with_record: bool, runs: int, rng: Randomness) -> Sample:
        """One step over `runs` cells: the released counts and sums, shape (runs, 1 + d)."""
        cell = np.array(self.cell_with if with_record else self.cell, dtype=np.float64)
        d = len(cell) - 1
        stats = CellStatistics(np.full(runs, cell[0]), np.tile(cell[1:] / GRID, (runs, 1)), 0.0, 0.0)
        engine = MemoryEngine.of_records(np.zeros((1, d)), Bounds.of((0, 1), d), n_threads=1)
        noise, ledger = Recorder(rng.noise), Ledger()
        budget = noisy_mean_budget(self.epsilon, d, 1.0)
        step = Step(1, engine, np.full((runs, d), 0.5), Exact(stats, cell_sensitivity(engine.bounds)), budget)
        self.update.move(step, ledger=ledger, rng=Randomness(rng.generator, noise))
        return Sample(np.column_stack(noise.released).astype(np.float64), np.array([float(ledger.spent)]))

    def scores(self) -> tuple[Score, ...]:
        """The likelihood ratio over count and sums together, the count, and exact values."""
        d = len(self.cell) - 1
        budget = noisy_mean_budget(self.epsilon, d, 1.0)
        half = GRID // 2
        scales = (1 / float(budget.counts), *(d * half / float(budget.sums),) * d)
        answer, answer_with = ((c[0], *(s - c[0] * half for s in c[1:])) for c in (self.cell, self.cell_with))
        return laplace_ratio(answer, answer_with, scales), column(0, "noisy count"), exact_answer(answer)


def laplace_cases(mechanism: Releases) -> tuple[TableCase, ...]:
    """The sensitivity spent on one entry, and shared by two."""
    step, declared = SENSITIVITY, Sensitivity(l1=SENSITIVITY)
    ratio = partial(laplace_ratio, scales=(step / float(mechanism.epsilon),) * 2)
    return (
        TableCase("one entry", mechanism, declared, (0, 0), (step, 0), ratio),
        TableCase("two entries", mechanism, declared, (0, 0), (step // 2, step - step // 2), ratio),
    )


def cube_cases(mechanism: Releases) -> tuple[TableCase, ...]:
    """All entries move, up or in both directions (corners of the cube, the largest loss), or one of them."""
    step = SENSITIVITY
    moves = {"all entries": (step, step, step), "both signs": (step, -step, step), "one entry": (step, 0, 0)}
    declared = Sensitivity.of_row((step,) * 3)
    return tuple(TableCase(pair, mechanism, declared, (0, 0, 0), y, cube_ratio) for pair, y in moves.items())


def choice_cases(mechanism: Releases) -> tuple[ChoiceCase, ...]:
    """Scores that move towards each other, which is the tight case of the proof, and one that falls."""
    step = SENSITIVITY
    return (
        ChoiceCase("two scores meet", mechanism, (0, 2 * step), (step, step)),
        ChoiceCase("the best falls", mechanism, (0, step, step), (0, step, 0)),
    )


def tree_cases(mechanism: PrivTreeSplits) -> tuple[TreeCase, ...]:
    """The first record of all, and one more on a path whose counts lie about the bias."""
    bias = math.ceil(3 / float(mechanism.epsilon) * math.log(2))
    return TreeCase("first record", mechanism, 0), TreeCase("busy path", mechanism, bias)


def recentring_cases(epsilon: Epsilon) -> tuple[TableCase, ...]:
    """The synopsis' re-centring: a cell's count and residuals with cube noise, the record at a corner of the cell."""
    mechanism = LInfLaplace(epsilon)
    cells = Residuals(np.array([[0.5, 0.5]]), np.array([[0.25, 0.25]]))
    others = np.array([[0.5, 0.5], [0.55, 0.45]])

    def row(records: FloatArray) -> tuple[int, ...]:
        engine = MemoryEngine.of_records(records, Bounds.of((0, 1), 2), n_threads=1)
        table = reveal(engine.answer(cells), why="an audit knows both data sets")
        return tuple(int(entry) for entry in table[0])

    # At a corner the residuals are as large as they are clipped to; in the centre the count alone moves.
    places = {"corner": (1.0, 1.0), "centre": (0.5, 0.5)}
    return tuple(
        TableCase(pair, mechanism, cells.sensitivity, row(others), row(np.vstack([others, [place]])), cube_ratio)
        for pair, place in places.items()
    )


def step_cases(update: Update, epsilon: Epsilon, n_features: int = 1) -> tuple[StepCase, ...]:
    """A noisy-mean step: the record at a corner of the box, in a cell with others and alone in its cell."""
    corner = (1, *(GRID,) * n_features)
    crowd = (5, *(2 * GRID,) * n_features)
    crowd_with = tuple(a + b for a, b in zip(crowd, corner, strict=True))
    empty = (0, *(0,) * n_features)
    return (
        StepCase("corner", update, epsilon, crowd, crowd_with),
        StepCase("empty cell", update, epsilon, empty, corner),
    )


def mechanism_targets(epsilon: float) -> tuple[Target, ...]:
    """All mechanisms, and one step of each kind that uses them."""
    budget = Epsilon.of(epsilon)
    made: dict[str, tuple[Case, ...]] = {
        "Laplace": laplace_cases(Laplace(budget)),
        "LInfLaplace": cube_cases(LInfLaplace(budget)),
        "PermuteAndFlip": choice_cases(PermuteAndFlip(budget)),
        "PrivTreeSplits": tree_cases(PrivTreeSplits(budget, 64)),
        "noisy-mean step": step_cases(NoisyMean(), budget),
        "re-centring step": recentring_cases(budget),
        "Gaussian": gaussian_cases(Gaussian(pure_as_rho(budget))),
    }
    return tuple(Target(name, "mechanism", "proved", cases) for name, cases in made.items())
