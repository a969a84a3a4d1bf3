"""The door through which persons become records: rows are put on the grid, brought together by person, and cut down.

What a method sees of a person depends on that person's rows and a key alone, so the same records come out on every
engine, in the same order. Proof: proofs/persons.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np

from dpkmeans._typing import AnyArray, IntArray
from dpkmeans.core.bounds import GRID, Bounds
from dpkmeans.core.exact import Exact
from dpkmeans.core.query import Sensitivity
from dpkmeans.core.unit import AUTO, Person
from dpkmeans.data.grouping import GridArray, PersonFiles, file_numbers
from dpkmeans.data.ids import MISSING, WORDS, PersonId, join_words
from dpkmeans.data.source import Batch, Nulls, Piece, Source
from dpkmeans.engines.block_tasks import Block
from dpkmeans.engines.packing import pack_batch
from dpkmeans.kernels.persons import Grouped, Sums, at_most, group, more_of, person_hashes, row_hashes
from dpkmeans.progress import over

if TYPE_CHECKING:
    from dpkmeans.engines.survey import BatchTask

CANDIDATES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 75, 100)
"""Numbers of rows per person to choose from: public, and close enough that the next one is seldom twice as many."""

_NUMBERS = 2**20  # of rows that are read at once

A = TypeVar("A")
Choose = Callable[[Exact[IntArray]], int]


@dataclass(frozen=True, eq=False, repr=False)
class PersonRows:
    """Some rows: ids, shape (n, 2), uint64, and grid points in whole steps, shape (n, d), int32."""

    ids: AnyArray
    steps: AnyArray

    @classmethod
    def joined(cls, parts: Iterable[PersonRows], n_features: int) -> PersonRows:
        """All of them, in any order."""
        held = [cls(np.empty((0, 2), np.uint64), np.empty((0, n_features), np.int32)), *parts]
        return cls(np.concatenate([part.ids for part in held]), np.concatenate([part.steps for part in held]))


@dataclass(frozen=True, eq=False, repr=False)
class Door:
    """What becomes of the rows of a person: the unit, the key, and how `at_most="auto"` is chosen, on the driver.

    Batches come with the four parts of the id behind their features; see `data.ids`. `look` says what of a row passes
    where there is no box yet: whole numbers, shape (n, w), in place of grid points.
    """

    unit: Person
    key: bytes
    choose: Choose | None = None
    look: Callable[[Batch], IntArray] | None = None

    @property
    def column(self) -> PersonId:
        """The kind of the column with the ids."""
        return PersonId(self.key, refuse_missing=self.unit.missing_ids == "refuse")

    def rows(self, batch: Batch, bounds: Bounds, nulls: Nulls) -> PersonRows:
        """The rows of a batch on the grid. Whether ids may be missing was seen to when they were read."""
        ids = join_words(batch.columns[len(batch.columns) - WORDS :])
        features = without_id(batch)
        if self.look is None:
            return PersonRows(ids, steps_of(pack_batch(features, bounds, nulls)).astype(np.int32))
        if nulls == "refuse":
            features.refuse_missing()
        return PersonRows(ids, self.look(features).astype(np.int32))

    def looking(self, look: Callable[[Batch], IntArray]) -> Door:
        """The same for a look at rows before there is a box. A mean takes one, so it sees one row of a person."""
        unit = replace(self.unit, keep="one") if self.unit.keep == "mean" else self.unit
        return replace(self, unit=unit, look=look)

    def group(self, rows: PersonRows) -> Grouped:
        """The rows by person."""
        return group(rows.ids, rows.steps, self.key, MISSING)

    def split(self, rows: PersonRows, n_parts: int) -> dict[int, PersonRows]:
        """The rows of each of `n_parts` partitions, by the hash of their person."""
        numbers = file_numbers(person_hashes(rows.ids, rows.steps, self.key, MISSING), n_parts)
        order = np.argsort(numbers, kind="stable")
        cuts = np.flatnonzero(np.diff(numbers[order])) + 1
        lots = [lot for lot in np.split(order, cuts) if lot.size]
        return {int(numbers[lot[0]]): PersonRows(rows.ids[lot], rows.steps[lot]) for lot in lots}

    def kept(self, parts: Iterable[Grouped], most: int | None, bounds: Bounds) -> AnyArray:
        """The records that count, shape (n, d), int32, in canonical order."""
        if self.unit.keep == "mean":
            means = Sums.joined(part.sums() for part in parts).means()
            return means if bounds.ball is None else _into_ball(means, bounds)
        return at_most(parts, 1 if most is None else most)

    @property
    def asks(self) -> bool:
        """Whether the number of rows that count is chosen from a histogram of the rows per person."""
        return self.unit.at_most == AUTO

    def at_most(self, histogram: IntArray | None = None) -> int | None:
        """How many rows of a person count: as the caller says, or as a private look at the histogram says."""
        if self.asks and histogram is not None and self.choose is not None:
            return self.choose(quantile_scores(histogram))
        return None if self.unit.keep != "rows" else self.unit.records

    def hold(self, source: Source, bounds: Bounds) -> Source:
        """The records that count of a source that fits in memory."""
        parts = (self.rows(batch, bounds, source.nulls) for batch in source.batches(_rows(source)))
        grouped = self.group(PersonRows.joined(parts, bounds.n_features))
        most = self.at_most(histogram_of([grouped]) if self.asks else None)
        return self._source(source, bounds, GridArray(self.kept([grouped], most, bounds)), None)

    def spill(self, source: Source, bounds: Bounds) -> Source:
        """The records that count, by way of files, in bounded memory even where one person has most of the rows."""
        n = sum(piece.n_rows or 0 for piece in source.pieces)
        files = PersonFiles(PersonFiles.files_for(n, bounds.n_features), bounds.n_features)
        try:
            for batch in source.batches(_rows(source)):
                rows = self.rows(batch, bounds, source.nulls)
                files.write(rows.ids, rows.steps, person_hashes(rows.ids, rows.steps, self.key, MISSING))
            histogram = None
            if self.asks:
                histogram = sum((histogram_of(self._parts(files, path)) for path in files.files()), empty_histogram())
            most = self.at_most(histogram)
            for path in over(files.files(), "choosing rows of each person", files.n_files):
                files.keep(self.kept(self._parts(files, path), most, bounds))
        except BaseException:
            files.close()  # at once: whoever holds the error holds this object
            raise
        return self._source(source, bounds, files.piece(), files)

    def _parts(self, files: PersonFiles, path: Path) -> Iterator[Grouped]:
        """The rows of a file by person, in parts of bounded size. Equal rows are in one of them."""
        for part in files.parts(path, partial(row_hashes, key=self.key)):
            grouped = None
            for ids, steps in files.rows(part):
                grouped = more_of(grouped, ids, steps, self.key, MISSING)
            if grouped is not None:
                yield grouped

    def _source(self, source: Source, bounds: Bounds, piece: Piece, keep: object) -> Source:
        return replace(source, pieces=(piece,), names=None, n_features=bounds.n_features, keep=keep)


def _rows(source: Source) -> int:
    return max(_NUMBERS // source.n_features, 1024)


def _into_ball(steps: AnyArray, bounds: Bounds) -> AnyArray:
    """Means, which may lie outside a ball by rounding, or within its surface, as records of their own."""
    places = bounds.from_unit(steps / GRID)
    return steps_of(pack_batch(Batch(places.T, lambda _, j: f"feature {j}"), bounds, "refuse")).astype(np.int32)


def steps_of(block: Block) -> IntArray:
    """The records of a block in whole grid steps, shape (n, d)."""
    points = block.rows(np.arange(block.n)).astype(np.float64)
    return np.rint(points * GRID).astype(np.int64)


def without_id(batch: Batch) -> Batch:
    """The features of a batch, without the parts of the id behind them."""
    return Batch(batch.columns[: len(batch.columns) - WORDS], batch.place)


def empty_histogram() -> IntArray:
    """That of nobody."""
    return np.zeros(CANDIDATES[-1] + 2, np.int64)


def histogram_of(parts: Iterable[Grouped]) -> IntArray:
    """How many persons have 0, 1, 2, ... rows, and more than the largest candidate, shape (102,)."""
    return Sums.joined(part.sums() for part in parts).histogram(CANDIDATES[-1] + 1)


WITHIN, BEYOND = 1, 19
"""A person within a number of rows counts 1 for it, one beyond it 19 against: even where 95 % are within."""


def quantile_scores(histogram: IntArray) -> Exact[IntArray]:
    """How close each candidate is to the 95 % quantile of rows per person: -|#within - 19 · #beyond|, shape (17,).

    A person more or less moves what stands between the bars by 1 or by 19, so a score by at most 19, and two scores
    apart by at most 38. Proof: proofs/persons.md.
    """
    within = np.cumsum(histogram)[np.array(CANDIDATES)]
    scores = -np.abs(WITHIN * within - BEYOND * (histogram.sum() - within))
    return Exact(scores.astype(np.int64), Sensitivity(linf=BEYOND, gap=2 * BEYOND))


@dataclass(frozen=True)
class _WithoutIds(Generic[A]):
    task: BatchTask[A]

    def zero(self) -> A:
        return self.task.zero()

    def take(self, total: A, batch: Batch) -> A:
        return self.task.take(total, without_id(batch))

    def add(self, a: A, b: A) -> A:
        return self.task.add(a, b)


def ids_left_out(task: BatchTask[A]) -> BatchTask[A]:
    """The same question to batches without the ids behind their features."""
    return _WithoutIds(task)


class CellTask(Protocol[A]):
    """A question to all batches, by way of whole numbers from 0 to 2^20 that stand for what it asks of a record."""

    @property
    def n_columns(self) -> int:
        """How many there are for each record."""

    def cells(self, batch: Batch) -> IntArray:
        """Those of each record, shape (n, n_columns). Each record is looked at by itself."""

    def zero(self) -> A:
        """The answer over no records."""

    def take_cells(self, total: A, cells: IntArray) -> A:
        """`total` with these records added; it may be changed in place."""

    def add(self, a: A, b: A) -> A:
        """Two partial answers as one."""


@dataclass(frozen=True)
class OverKept(Generic[A]):
    """A question to the blocks of an engine that holds cells of what passed the door."""

    task: CellTask[A]

    @property
    def bounds(self) -> Bounds:
        """A box in which a cell is a grid step."""
        return Bounds((0.0,) * self.task.n_columns, (float(GRID),) * self.task.n_columns)

    def zero(self) -> A:
        return self.task.zero()

    def take(self, total: A, block: Block) -> A:
        return self.task.take_cells(total, steps_of(block))

    def add(self, a: A, b: A) -> A:
        return self.task.add(a, b)
