"""What is audited: something that can be run with and without one record, and how its runs are scored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from dpkmeans._typing import FloatArray
from dpkmeans.audit.scores import Score
from dpkmeans.core.guarantee import Label
from dpkmeans.privacy.randomness import Randomness

Level = Literal["mechanism", "method"]


@dataclass(frozen=True)
class Sample:
    """Runs on one side: what they released, shape (runs, columns), and what each run's ledger recorded, shape (runs,).

    `spent` may hold one number for all runs.
    """

    outputs: FloatArray
    spent: FloatArray


class Case(Protocol):
    """One pair of neighbouring data sets under one mechanism or method. Cases are sent to worker processes."""

    @property
    def pair(self) -> str:
        """Name of the pair."""

    def draw(self, with_record: bool, runs: int, rng: Randomness) -> Sample:
        """`runs` independent runs on D or, with the extra record, on D'."""

    def scores(self) -> tuple[Score, ...]:
        """The scores to try."""


@dataclass(frozen=True)
class Target:
    """A mechanism, a method or a mutant with all its pairs.

    `claims` is False for what claims no privacy: a loss is then reported, and is no violation. `runs` is the number of
    runs per side that it is worth, where its level does not decide.
    """

    name: str
    level: Level
    label: Label
    cases: tuple[Case, ...]
    claims: bool = True
    mutant: bool = False
    runs: int | None = None
