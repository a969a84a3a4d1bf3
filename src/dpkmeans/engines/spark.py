"""Records on Spark executors, as an RDD of packed blocks. Partial answers are reduced there with `treeReduce`.

Only centroids and queries go out, and only counts, sums and costs come back. A lost executor's blocks are made again
from the RDD's lineage.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, cast

import numpy as np

from dpkmeans._typing import AnyArray, FloatArray
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.engine import Engine, LloydEnd
from dpkmeans.core.exact import Exact
from dpkmeans.core.schema import Schema
from dpkmeans.data.open import Collection
from dpkmeans.data.source import Nulls, Source, arrow_batch
from dpkmeans.engines.block_engine import BlockEngine, Watch
from dpkmeans.engines.block_tasks import Block, RandomPartition, Task, over_blocks, sorted_block
from dpkmeans.engines.dask import PART_NUMBERS, labels_of, lloyd_there, read_piece
from dpkmeans.engines.packing import pack_batch
from dpkmeans.engines.person_shuffle import Failed, Shuffle, spark_blocks, spark_frame, spark_pieces
from dpkmeans.engines.persons import Door
from dpkmeans.engines.same_code import same_code
from dpkmeans.engines.spark_jobs import run_job
from dpkmeans.engines.waiting import WORKER_TIMEOUT
from dpkmeans.errors import DataError, DPKMeansError

A = TypeVar("A")

_LABELLED = 16  # partitions whose labels come back at once


class SparkEngine(BlockEngine):
    """Engine over a cached RDD of blocks, in the order of the rows."""

    def __init__(
        self,
        session: Any,
        blocks: Any,
        bounds: Bounds,
        *,
        watch: Watch | None = None,
        on_close: Callable[[], None] | None = None,
        worker_timeout: float = WORKER_TIMEOUT,
    ) -> None:
        from pyspark import StorageLevel

        super().__init__(bounds, watch)
        self._session = session
        self._worker_timeout = worker_timeout
        self._rdd = blocks.persist(StorageLevel.MEMORY_AND_DISK)
        self._on_close = on_close

    @classmethod
    def of_source(
        cls, session: Any, source: Source, bounds: Bounds, door: Door | None = None, **options: Any
    ) -> SparkEngine:
        """Files that every executor can read: each reads its own row groups and holds them packed."""
        pieces = list(enumerate(source.split(max(PART_NUMBERS // source.n_features, 1))))
        if door is not None:
            shuffle = Shuffle.of(door, bounds, source.nulls, len(pieces))
            rows = spark_pieces(session.sparkContext, [piece for _, piece in pieces], shuffle)
            return cls._of_persons(session, rows, shuffle, door, **options)
        nulls = source.nulls
        rdd = session.sparkContext.parallelize(pieces, len(pieces))

        def read(piece: Any) -> Iterable[Block | Failed]:
            try:
                return read_piece(piece[1], bounds, nulls, piece[0])
            except DPKMeansError as error:
                return [Failed(error)]

        return cls(session, rdd.flatMap(same_code(read)), bounds, **options)

    @classmethod
    def of_frame(
        cls, session: Any, found: Collection, bounds: Bounds, door: Door | None = None, **options: Any
    ) -> SparkEngine:
        """A Spark frame: its rows cross from Java to Python once, as Arrow batches, and are packed there."""
        assert found.schema is not None
        if door is not None:
            chosen = found.records.select(*found.columns)
            shuffle = Shuffle.of(door, bounds, found.nulls, chosen.rdd.getNumPartitions())
            rows = spark_frame(chosen, found.schema, shuffle)
            return cls._of_persons(session, rows, shuffle, door, **options)
        pack = _packer(found.schema, bounds, found.nulls)
        packed = found.records.select(*found.columns).mapInArrow(same_code(pack), "n int, tiles binary, failed string")
        d = bounds.n_features

        def unpack(part: int, rows: Iterable[Any]) -> Iterator[Block | Failed]:
            first = 0
            for row in rows:
                if row.failed is not None:
                    message, hint = json.loads(row.failed)
                    yield Failed(DataError(message, hint=hint))
                else:
                    tiles = np.frombuffer(row.tiles, np.float32).reshape(-1, d, 16)
                    yield Block(tiles, row.n, part, first)
                    first += row.n

        return cls(session, packed.rdd.mapPartitionsWithIndex(same_code(unpack)), bounds, **options)

    @classmethod
    def _of_persons(cls, session: Any, rows: Any, shuffle: Shuffle, door: Door, **options: Any) -> SparkEngine:
        timeout = options.get("worker_timeout", WORKER_TIMEOUT)
        blocks = spark_blocks(rows, shuffle, door, lambda job: run_job(session, job, timeout))
        return cls(session, blocks, shuffle.bounds, **options)

    def partition(self, n_blocks: int, key: bytes) -> Iterator[Engine]:
        """The records in disjoint blocks, which stay on the executors; see `RandomPartition`."""
        task = RandomPartition(key, n_blocks, 0, n_blocks)
        d = self.n_features
        parts = min(n_blocks, self._rdd.getNumPartitions())
        blocks = (
            self._rdd.mapPartitions(same_code(lambda blocks: over_blocks(task, blocks).items()))
            .groupByKey(parts, lambda number: number % parts)
            .mapValues(same_code(lambda lists: sorted_block([piece for pieces in lists for piece in pieces], d)))
            .persist()
        )
        for number in range(n_blocks):
            yield _PartitionEngine(self._job, blocks, number, parts, self.bounds)
        blocks.unpersist()

    def label_batches(self, centroids: FloatArray) -> Iterator[AnyArray]:
        """Nearest centroid of each record, partition after partition. Not private; for the data holder's eyes."""
        self._sizes()
        labels = self._rdd.mapPartitions(same_code(lambda blocks: [labels_of(blocks, centroids)]))
        partitions = range(labels.getNumPartitions())
        for start in partitions[::_LABELLED]:
            lot = list(partitions[start : start + _LABELLED])
            yield from self._job(lambda lot=lot: labels.context.runJob(labels, list, lot))  # type: ignore[misc]

    def close(self) -> None:
        """Let the blocks go, and the session if it was started for them."""
        if self._on_close is None:
            self._rdd.unpersist()
        else:
            self._on_close()
            self._on_close = None

    def _sizes(self) -> dict[int, int]:
        if self._part_sizes is None:
            sizes: dict[int, int] = {}
            for part, n, failed in self._job(self._rdd.mapPartitions(same_code(_measure)).collect):
                if failed is not None:
                    raise failed
                sizes[part] = n
            if not sizes:
                raise DataError("the frame has no records. Give at least one.")
            self._set_sizes(sizes)
        return super()._sizes()

    def _run(self, task: Task[A]) -> A:
        self._sizes()
        partial = self._rdd.mapPartitions(same_code(lambda blocks: [over_blocks(task, blocks)]))
        return cast(A, self._job(lambda: partial.treeReduce(same_code(task.add))))

    def _job(self, job: Callable[[], A]) -> A:
        return run_job(self._session, job, self._worker_timeout)


class _PartitionEngine(BlockEngine):
    """One block of a partition, held by one executor."""

    def __init__(
        self, run: Callable[[Callable[[], Any]], Any], blocks: Any, number: int, n_parts: int, bounds: Bounds
    ) -> None:
        super().__init__(bounds)
        self._job, self._blocks, self._number, self._part = run, blocks, number, number % n_parts

    def lloyd(self, start: FloatArray, max_iter: int) -> Exact[LloydEnd]:
        """Lloyd's algorithm, in one go where the records are."""
        bounds = self.bounds
        return Exact(self._there(lambda blocks: lloyd_there(blocks, bounds, start, max_iter)))

    def label_batches(self, centroids: FloatArray) -> Iterator[AnyArray]:
        """The labels of the block."""
        yield self._there(lambda blocks: labels_of(blocks, centroids))

    def _run(self, task: Task[A]) -> A:
        return self._there(lambda blocks: over_blocks(task, blocks))

    def _there(self, function: Callable[[list[Block]], A]) -> A:
        number, d = self._number, self.n_features

        def answer(items: Iterable[tuple[int, Block]]) -> list[A]:
            return [function([block for key, block in items if key == number] or [sorted_block((), d)])]

        context = self._blocks.context
        return cast(A, self._job(lambda: context.runJob(self._blocks, same_code(answer), [self._part]))[0])


def _measure(blocks: Iterable[Block | Failed]) -> Iterator[tuple[int, int, DPKMeansError | None]]:
    part, n = -1, 0
    for block in blocks:
        if isinstance(block, Failed):
            yield part, 0, block.error
            return
        part, n = block.part, n + block.n
    if part >= 0:
        yield part, n, None


def _packer(schema: Schema, bounds: Bounds, nulls: Nulls) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def pack(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            if batch.num_rows:
                try:
                    block = pack_batch(arrow_batch(batch, schema, "the Spark frame"), bounds, nulls)
                    row = {"n": block.n, "tiles": block.tiles.tobytes(), "failed": None}
                except DataError as error:
                    row = {"n": 0, "tiles": None, "failed": json.dumps([error.message, error.hint])}
                layout = pa.schema([("n", "int32"), ("tiles", "binary"), ("failed", "string")])
                yield pa.RecordBatch.from_pylist([row], schema=layout)

    return pack
