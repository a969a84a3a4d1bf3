"""One pass over records as they come, before there is a box to put them in: in this process, on Dask or on Spark.

Partial answers are added up where the records are, as in `block_tasks`, and only these travel. They are whole numbers
or extremes, so the answer is the same to the bit however the records are split.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.schema import Schema
from dpkmeans.data.open import Collection
from dpkmeans.data.source import Batch, Nulls, Piece, Source, arrow_batch
from dpkmeans.engines.block_tasks import Adds
from dpkmeans.engines.dask import PART_NUMBERS, add_up_all, chunk_batch, chunks_of, compute, submit
from dpkmeans.engines.here import on_worker
from dpkmeans.engines.same_code import same_code
from dpkmeans.engines.spark_jobs import run_job
from dpkmeans.errors import DataError, DPKMeansError

A = TypeVar("A")

ROWS = 2**16


class BatchTask(Adds[A], Protocol[A]):
    """A question to all batches. A small value that can be sent to other processes; so can its partial answers."""

    def take(self, total: A, batch: Batch) -> A:
        """`total` with the batch added; it may be changed in place. Missing values are NaN."""


class Survey(Protocol):
    """Asks all records that were opened, wherever they are."""

    def __call__(self, task: BatchTask[A]) -> A:
        """The answer over all records. Missing values are refused unless the records say otherwise."""


def over_batches(task: BatchTask[A], batches: Iterable[Batch], nulls: Nulls) -> A:
    """The answer over these batches."""
    total = task.zero()
    for batch in batches:
        if nulls == "refuse":
            batch.refuse_missing()
        total = task.take(total, batch)
    return total


@dataclass(frozen=True)
class Extremes:
    """The smallest and the largest value of each of `n_features`, shape (2, d). Missing values are passed over."""

    n_features: int

    def zero(self) -> FloatArray:
        return np.repeat([[np.inf], [-np.inf]], self.n_features, axis=1)

    def take(self, total: FloatArray, batch: Batch) -> FloatArray:
        records = batch.rows()
        return self.add(total, np.stack([np.fmin.reduce(records), np.fmax.reduce(records)]))

    def add(self, a: FloatArray, b: FloatArray) -> FloatArray:
        return np.stack([np.fmin(a[0], b[0]), np.fmax(a[1], b[1])])


def bounds_around(survey: Survey, n_features: int) -> Bounds:
    """The smallest box around the records. Not private."""
    return Bounds.read_from(survey(Extremes(n_features)))


def over_source(task: BatchTask[A], source: Source) -> A:
    """The answer over a source, read here."""
    return over_batches(task, source.batches(ROWS), source.nulls)


def over_dask_source(task: BatchTask[A], client: Any, source: Source, worker_timeout: float) -> A:
    """The answer over a source that Dask workers read."""
    pieces = source.split(max(PART_NUMBERS // source.n_features, 1))
    partial = [submit(client, _over_piece, task, piece, source.nulls) for piece in pieces]
    return add_up_all(client, task, partial, worker_timeout)


def over_dask_collection(task: BatchTask[A], client: Any, found: Collection, worker_timeout: float) -> A:
    """The answer over the chunks of a Dask array or frame."""
    from dask import delayed

    over, chunks = delayed(same_code(_over_chunk), pure=False), chunks_of(found.records)
    partial = compute(client, [over(task, chunk, found.nulls, i, found.schema) for i, chunk in enumerate(chunks)])
    return add_up_all(client, task, partial, worker_timeout)


def over_spark_source(task: BatchTask[A], session: Any, source: Source, worker_timeout: float) -> A:
    """The answer over a source that Spark executors read."""
    pieces, nulls = source.split(max(PART_NUMBERS // source.n_features, 1)), source.nulls
    partial = session.sparkContext.parallelize(pieces, len(pieces)).map(
        same_code(lambda piece: _or_error(lambda: _over_piece(task, piece, nulls)))
    )
    return _reduced(session, task, partial, worker_timeout)


def over_spark_frame(task: BatchTask[A], session: Any, found: Collection, worker_timeout: float) -> A:
    """The answer over the rows of a Spark frame, which cross from Java to Python as Arrow batches."""
    schema, nulls = found.schema, found.nulls
    assert schema is not None

    def over(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        records = (arrow_batch(batch, schema, "the Spark frame") for batch in batches if batch.num_rows)
        answer, failed = _or_error(lambda: over_batches(task, records, nulls)), None
        array = io.BytesIO()
        if isinstance(answer, DPKMeansError):
            failed = json.dumps([answer.message, answer.hint])
        else:
            np.save(array, np.asarray(answer), allow_pickle=False)
        layout = pa.schema([("answer", "binary"), ("failed", "string")])
        yield pa.RecordBatch.from_pylist([{"answer": array.getvalue(), "failed": failed}], schema=layout)

    answers = found.records.select(*found.columns).mapInArrow(same_code(over), "answer binary, failed string").rdd
    return _reduced(session, task, answers.map(same_code(_of_row)), worker_timeout)


def _of_row(row: Any) -> Any:
    """An answer, which is an array, or the error in its place."""
    if row.failed is not None:
        message, hint = json.loads(row.failed)
        return DataError(message, hint=hint)
    return np.load(io.BytesIO(row.answer), allow_pickle=False)


def _over_piece(task: BatchTask[A], piece: Piece, nulls: Nulls) -> A:
    return over_batches(task, on_worker(piece.batches(ROWS)), nulls)


def _over_chunk(task: BatchTask[A], chunk: Any, nulls: Nulls, part: int, schema: Schema | None) -> A:
    batch = chunk_batch(chunk, f"partition {part}", schema)
    return over_batches(task, [batch] if batch.n else [], nulls)


def _or_error(answer: Callable[[], A]) -> A | DPKMeansError:
    """An answer, or why there is none: Spark would bury an error."""
    try:
        return answer()
    except DPKMeansError as error:
        return error


def _reduced(session: Any, task: BatchTask[A], partial: Any, worker_timeout: float) -> A:
    def add(a: A | DPKMeansError, b: A | DPKMeansError) -> A | DPKMeansError:
        if isinstance(a, DPKMeansError) or isinstance(b, DPKMeansError):
            return a if isinstance(a, DPKMeansError) else b
        return task.add(a, b)

    answer: A | DPKMeansError = run_job(session, lambda: partial.treeReduce(same_code(add)), worker_timeout)
    if isinstance(answer, DPKMeansError):
        raise answer
    return answer
