"""Persons under audit: D, and D' with all rows of one person more; and mutants of the door that the audit has to find.

The guarantee holds for every key, so both sides use the same one: an attack that knows it is the strongest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from dpkmeans._typing import AnyArray, FloatArray, IntArray
from dpkmeans.audit.method_targets import MethodCase, synopsis_scores
from dpkmeans.audit.neighbours import Pair
from dpkmeans.audit.protocols import Sample, Target
from dpkmeans.audit.scores import Score, column, laplace_ratio
from dpkmeans.core.bounds import GRID, Bounds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import Exact
from dpkmeans.core.query import Sensitivity
from dpkmeans.core.unit import Person
from dpkmeans.data.ids import ids_of_integers
from dpkmeans.engines.block_tasks import block_of_points
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.engines.persons import Door, PersonRows
from dpkmeans.methods.base import Method
from dpkmeans.methods.registry import make_method
from dpkmeans.privacy.ledger import Ledger, ledger_of_records
from dpkmeans.privacy.mechanisms import Laplace
from dpkmeans.privacy.randomness import Randomness

KEY = bytes(range(16))
AT_MOST = 3
UNITS = (Person("id", at_most=AT_MOST), Person("id", keep="mean"), Person("id", keep="one"))
BOX = Bounds.of((0, 1), 2)

Keeper = Callable[[PersonRows, Person], AnyArray]


def persons(with_person: bool) -> PersonRows:
    """Twenty persons, whose rows lie left and right in turn; the one more stands first, with seven rows on the left."""
    numbers = np.repeat(np.arange(20), 6)
    places = np.column_stack([np.where(np.arange(120) % 2, 0.8, 0.3), np.linspace(0.2, 0.8, 120)])
    if with_person:
        numbers, places = np.r_[np.full(7, 99), numbers], np.vstack([np.full((7, 2), 0.01), places])
    return PersonRows(ids_of_integers(numbers), np.rint(places * GRID).astype(np.int32))


def through_door(rows: PersonRows, unit: Person) -> AnyArray:
    """What counts, shape (n, 2), int32."""
    door = Door(unit, KEY)
    return door.kept([door.group(rows)], door.at_most(), BOX)


@dataclass(frozen=True)
class PersonCountCase:
    """A noisy number of records on the left, by a mechanism that sees records and gets its share of epsilon."""

    pair: str
    unit: Person
    epsilon: float
    keeper: Keeper = through_door
    divides: bool = True

    def draw(self, with_record: bool, runs: int, rng: Randomness) -> Sample:
        units = Ledger(self.epsilon)
        records = ledger_of_records(units, self.unit.records) if self.divides else units
        table: IntArray = np.full((runs, 1), self._count(with_record), np.int64)
        exact = Exact(table, Sensitivity.of_row((1,)))
        noisy = Laplace(records.remaining).release(exact, ledger=records, rng=rng, label="records on the left")
        return Sample(noisy.astype(np.float64), np.array([float(units.spent)]))

    def scores(self) -> tuple[Score, ...]:
        """The likelihood ratio and the count itself."""
        sides = (float(self._count(False)),), (float(self._count(True)),)
        return laplace_ratio(*sides, (self.unit.records / self.epsilon,)), column(0, "count")

    def _count(self, with_person: bool) -> int:
        return int((self.keeper(persons(with_person), self.unit)[:, 0] < GRID // 2).sum())


@dataclass(frozen=True, eq=False)
class PersonPair(Pair):
    """A pair whose engine holds what passes the door; `extra` is a row of the person."""

    unit: Person

    def side(self, with_record: bool) -> FloatArray:
        return np.asarray(persons(with_record).steps / GRID)

    def engine(self, with_record: bool) -> MemoryEngine:
        block = block_of_points(through_door(persons(with_record), self.unit) / GRID)
        return MemoryEngine.of_block(block, self.bounds, n_threads=1)


@dataclass(frozen=True)
class PersonMethodCase:
    """Fits of a method that sees records, with its share of epsilon; the ledger books what a person loses."""

    method: Method
    unit: Person
    epsilon: float

    @property
    def pair(self) -> str:
        return f"a person, {self.unit.keep}"

    @property
    def _case(self) -> MethodCase:
        places = persons(False).steps / GRID
        pair = PersonPair(self.pair, places, np.full(2, 0.01), 2, BOX, self.unit)
        share = Epsilon.of(self.epsilon).per(self.unit.records)
        return MethodCase(self.method, pair, float(share), synopsis_scores)

    def draw(self, with_record: bool, runs: int, rng: Randomness) -> Sample:
        sample = self._case.draw(with_record, runs, rng)
        return Sample(sample.outputs, self.unit.records * sample.spent)

    def scores(self) -> tuple[Score, ...]:
        return self._case.scores()


def person_targets(epsilon: float) -> tuple[Target, ...]:
    """The door with a sound mechanism, and whole fits behind it, for each way to keep rows of a person."""
    counts = tuple(PersonCountCase(f"a person, {unit.keep}", unit, epsilon) for unit in UNITS)
    fits = tuple(PersonMethodCase(make_method("synopsis"), unit, epsilon) for unit in UNITS)
    return Target("persons", "mechanism", "proved", counts), Target("synopsis of persons", "method", "proved", fits)


def keeps_one_more(rows: PersonRows, unit: Person) -> AnyArray:
    """Up to m + 1 rows of a person."""
    return through_door(rows, unit.with_at_most(unit.records + 1))


def picks_by_position(rows: PersonRows, unit: Person) -> AnyArray:
    """Up to m rows of a person, those with an even row number first: a person more moves the rows behind it."""
    number = np.arange(len(rows.ids))
    order = np.lexsort((number, number % 2, rows.ids[:, 1]))
    ids = rows.ids[order, 1]
    first = np.searchsorted(ids, ids)
    kept: AnyArray = rows.steps[order[number - first < unit.records]]
    return kept


def mutant_doors(epsilon: float) -> dict[str, PersonCountCase]:
    """Faults of the door, and of the budget behind it."""
    mutant = partial(PersonCountCase, "a person", UNITS[0], epsilon)
    return {
        "keeps m + 1 rows of a person": mutant(keeper=keeps_one_more),
        "picks rows by position": mutant(keeper=picks_by_position),
        "epsilon not divided by m": mutant(divides=False),
    }


def person_mutants(epsilon: float) -> tuple[Target, ...]:
    """The mutants, to be found by statistics."""
    cases = mutant_doors(epsilon)
    return tuple(Target(f"mutant: {name}", "mechanism", "none", (case,), mutant=True) for name, case in cases.items())
