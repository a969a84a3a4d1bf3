"""Persons on workers: each row travels once, to the worker that holds its person, and becomes a record there.

Partition i holds the persons whose hashes come i-th, so that the records of all partitions, one after the other, are
those of any other engine in the same order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from dpkmeans._typing import IntArray
from dpkmeans.core.bounds import GRID, Bounds
from dpkmeans.core.schema import Schema
from dpkmeans.data.source import Batch, Nulls, Piece, arrow_batch
from dpkmeans.engines.block_tasks import Block, block_of_points
from dpkmeans.engines.here import on_worker
from dpkmeans.engines.persons import Door, PersonRows, empty_histogram, histogram_of
from dpkmeans.engines.same_code import same_code
from dpkmeans.errors import DataError, DPKMeansError
from dpkmeans.kernels.persons import Grouped

A = TypeVar("A")

MAX_PARTS = 256
_ROWS = 2**16


@dataclass(frozen=True)
class Failed:
    """Why a partition could not be read; it travels in place of what it holds, since Spark would bury an error."""

    error: DPKMeansError


@dataclass(frozen=True, eq=False, repr=False)
class Shuffle:
    """How rows become blocks on workers: a small value that goes there."""

    door: Door
    bounds: Bounds
    nulls: Nulls
    n_parts: int

    @classmethod
    def of(cls, door: Door, bounds: Bounds, nulls: Nulls, n_pieces: int) -> Shuffle:
        """As many partitions as there are pieces, up to a number. The choice of `at_most` stays here."""
        return cls(replace(door, choose=None), bounds, nulls, max(1, min(n_pieces, MAX_PARTS)))

    def rows_of(self, batches: Iterable[Batch]) -> dict[int, PersonRows]:
        """The rows of these batches by partition."""
        parts = (self.door.rows(batch, self.bounds, self.nulls) for batch in batches)
        return self.door.split(PersonRows.joined(parts, self.bounds.n_features), self.n_parts)

    def rows_of_piece(self, piece: Piece) -> dict[int, PersonRows]:
        """The same of a piece, which is read here."""
        return self.rows_of(on_worker(piece.batches(_ROWS)))

    def grouped(self, pieces: Iterable[PersonRows | None]) -> Grouped:
        """The rows of one partition by person."""
        there = (piece for piece in pieces if piece is not None)
        return self.door.group(PersonRows.joined(there, self.bounds.n_features))

    def blocks(self, grouped: Grouped, at_most: int | None, part: int) -> list[Block]:
        """The records that count of one partition."""
        if not len(grouped.ids):
            return []
        kept = self.door.kept([grouped], at_most, self.bounds)
        return [replace(block_of_points(kept / GRID), part=part)]


# --- Dask -------------------------------------------------------------------------------------------


def dask_blocks(
    submit: Callable[..., Any], rows: Sequence[Any], shuffle: Shuffle, door: Door, result: Callable[[Any], IntArray]
) -> list[Any]:
    """Futures of lists of blocks from futures of rows by partition. `submit` and `result` are the client's."""
    held = submit(_hold, shuffle)
    grouped = []
    for number in range(shuffle.n_parts):
        pieces = [submit(_part_of, one, number) for one in rows]
        grouped.append(submit(_grouped, held, pieces))
    histogram = None
    if door.asks:
        histogram = result(submit(_add, [submit(histogram_of, [one]) for one in grouped]))
    most = door.at_most(histogram)
    return [submit(_blocks, held, one, most, part) for part, one in enumerate(grouped)]


def _hold(shuffle: Shuffle) -> Shuffle:
    return shuffle


def _part_of(rows: dict[int, PersonRows], number: int) -> PersonRows | None:
    return rows.get(number)


def _grouped(shuffle: Shuffle, pieces: Sequence[PersonRows | None]) -> Grouped:
    return shuffle.grouped(pieces)


def _add(histograms: Sequence[IntArray]) -> IntArray:
    total: IntArray = np.sum([empty_histogram(), *histograms], axis=0)
    return total


def _blocks(shuffle: Shuffle, grouped: Grouped, at_most: int | None, part: int) -> list[Block]:
    return shuffle.blocks(grouped, at_most, part)


# --- Spark ------------------------------------------------------------------------------------------


def spark_pieces(context: Any, pieces: Sequence[Piece], shuffle: Shuffle) -> Any:
    """An RDD of rows by partition, of pieces that executors read."""

    def read(piece: Piece) -> list[tuple[int, PersonRows | Failed]]:
        try:
            return list(shuffle.rows_of_piece(piece).items())
        except DPKMeansError as error:
            return [(0, Failed(error))]

    return context.parallelize(list(pieces), len(pieces)).flatMap(same_code(read))


def spark_frame(frame: Any, schema: Schema, shuffle: Shuffle) -> Any:
    """An RDD of rows by partition, of a Spark frame: they cross from Java to Python once, as Arrow batches."""
    d = shuffle.bounds.n_features

    def split(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        layout = pa.schema([("part", "int32"), ("ids", "binary"), ("steps", "binary"), ("failed", "string")])
        for batch in batches:
            if batch.num_rows:
                try:
                    parts = shuffle.rows_of([arrow_batch(batch, schema, "the Spark frame")])
                    rows: list[dict[str, Any]] = [
                        {"part": part, "ids": rows.ids.tobytes(), "steps": rows.steps.tobytes(), "failed": None}
                        for part, rows in parts.items()
                    ]
                except DataError as error:
                    rows = [{"part": 0, "ids": None, "steps": None, "failed": json.dumps([error.message, error.hint])}]
                yield pa.RecordBatch.from_pylist(rows, schema=layout)

    def unpack(row: Any) -> tuple[int, PersonRows | Failed]:
        if row.failed is not None:
            message, hint = json.loads(row.failed)
            return 0, Failed(DataError(message, hint=hint))
        ids, steps = np.frombuffer(row.ids, np.uint64), np.frombuffer(row.steps, np.int32)
        return row.part, PersonRows(ids.reshape(-1, 2), steps.reshape(-1, d))

    columns = "part int, ids binary, steps binary, failed string"
    return frame.mapInArrow(same_code(split), columns).rdd.map(same_code(unpack))


def spark_blocks(rows: Any, shuffle: Shuffle, door: Door, job: Callable[[Callable[[], Any]], Any]) -> Any:
    """An RDD of blocks from one of rows by partition; `job` runs a job there."""

    def group(_: int, items: Iterable[tuple[int, Iterable[PersonRows | Failed]]]) -> Iterator[Grouped | Failed]:
        pieces = [piece for _, found in items for piece in found]
        failed = next((piece for piece in pieces if isinstance(piece, Failed)), None)
        yield failed or shuffle.grouped(piece for piece in pieces if isinstance(piece, PersonRows))

    def count(grouped: Grouped | Failed) -> IntArray:
        return empty_histogram() if isinstance(grouped, Failed) else histogram_of([grouped])

    grouped = rows.groupByKey(shuffle.n_parts, lambda part: part).mapPartitionsWithIndex(same_code(group))
    histogram = None
    if door.asks:
        failures = grouped.filter(lambda one: isinstance(one, Failed))
        for failed in job(lambda: failures.take(1)):
            raise failed.error
        histogram = job(lambda: grouped.map(same_code(count)).treeReduce(np.add))
    most = door.at_most(histogram)

    def blocks(part: int, items: Iterable[Grouped | Failed]) -> Iterator[Block | Failed]:
        for one in items:
            yield from [one] if isinstance(one, Failed) else shuffle.blocks(one, most, part)

    return grouped.mapPartitionsWithIndex(same_code(blocks))
