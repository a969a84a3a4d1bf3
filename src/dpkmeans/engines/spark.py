"""Records on Spark executors, as packed blocks in files of theirs; see `spark_files`. Partial answers come back.

Only centroids and queries go out, and only counts, sums and costs come back. A lost executor's blocks are made again
from the lineage of the RDD that names the files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import reduce
from typing import Any, TypeVar, cast

import numpy as np

from dpkmeans import interrupts
from dpkmeans._typing import AnyArray, FloatArray
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.engine import Engine, LloydEnd
from dpkmeans.core.exact import Exact
from dpkmeans.core.schema import Schema
from dpkmeans.data.open import Collection
from dpkmeans.data.source import Nulls, Source, arrow_batch
from dpkmeans.engines import spark_files
from dpkmeans.engines.block_engine import BlockEngine, Watch
from dpkmeans.engines.block_tasks import Block, RandomPartition, Task, over_blocks, sorted_block
from dpkmeans.engines.dask import PART_NUMBERS, labels_of, lloyd_there, read_piece
from dpkmeans.engines.odd_bounds import warn_holder
from dpkmeans.engines.packing import pack_batch
from dpkmeans.engines.person_shuffle import Failed, Shuffle, spark_blocks, spark_frame, spark_pieces
from dpkmeans.engines.persons import Door
from dpkmeans.engines.same_code import same_code
from dpkmeans.engines.spark_files import KeptBlocks, opened
from dpkmeans.engines.spark_jobs import BlocksGoneError, run_job
from dpkmeans.engines.waiting import WORKER_TIMEOUT
from dpkmeans.errors import DataError, DPKMeansError, EngineError, LeftBehindWarning

A = TypeVar("A")

_LABELLED = 16  # partitions whose labels come back at once
_FEW = 32  # partial answers that the driver adds up by itself
_TRIES_TO_REMOVE = 5  # files of executors that are busy
_LEFT = (
    "some Spark executors were too busy to remove packed records, which may remain in their folders dpkmeans-blocks-*. "
    "Only the executor's user can read them. Stop the Spark session to remove them."
)
_TRIES = 2  # to go on with files of which one was gone; from then on Spark holds the blocks


class SparkEngine(BlockEngine):
    """Engine over an RDD of blocks, in the order of the rows, which executors keep in files."""

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
        self._name = spark_files.new_name()
        self._blocks = blocks
        self._rdd = blocks.mapPartitionsWithIndex(same_code(spark_files.keep(self._name, bounds.n_features)))
        self._rdd.persist(StorageLevel.MEMORY_AND_DISK)
        self._gone = 0
        self._kept = False  # whether there may be files on the executors
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
        self._sizes()
        task = RandomPartition(key, n_blocks, 0, n_blocks)
        d = self.n_features
        parts = min(n_blocks, self._rdd.getNumPartitions())
        blocks = (
            self._rdd.mapPartitions(same_code(lambda kept: over_blocks(task, opened(kept)).items()))
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
        partitions = range(self._rdd.getNumPartitions())
        for start in partitions[::_LABELLED]:
            lot = list(partitions[start : start + _LABELLED])

            def of_lot(labels: Any, lot: list[int] = lot) -> Iterator[AnyArray]:
                return cast("Iterator[AnyArray]", labels.context.runJob(labels, list, lot))

            yield from self._over(lambda blocks: [labels_of(blocks, centroids)], of_lot, len(partitions))

    def close(self) -> None:
        """Let the blocks go, and the session if it was started for them."""
        if interrupts.requested() is None and not self._remove_files():
            warn_holder([LeftBehindWarning(_LEFT)])
        self._part_sizes = None
        if self._on_close is None:
            self._rdd.unpersist()
            self._blocks.unpersist()
        else:
            self._on_close()
            self._on_close = None

    def _remove_files(self) -> bool:
        """Remove the files on the executors. False if some may be left."""
        remove = same_code(spark_files.remove(self._name))
        elsewhere = self._kept
        self._kept = False
        with suppress(EngineError):  # of an executor that is lost the files are gone as well
            for _ in range(_TRIES_TO_REMOVE):
                elsewhere = elsewhere and any(self._job(self._rdd.mapPartitions(remove).collect, 1.0))
            return not elsewhere
        return True

    def _sizes(self) -> dict[int, int]:
        if self._part_sizes is None:
            sizes: dict[int, int] = {}
            self._kept = True
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
        context, n_tasks = self._session.sparkContext, self._rdd.getNumPartitions()
        if context.master.startswith("local["):  # one task for each processor finds all files
            n_tasks = min(n_tasks, context.defaultParallelism)

        def added_up(partial: Any) -> A:
            if n_tasks > _FEW:
                return cast(A, partial.treeReduce(same_code(task.add)))
            return reduce(task.add, partial.collect(), task.zero())

        return self._over(lambda blocks: [over_blocks(task, blocks)], added_up, n_tasks)

    def _over(self, function: Callable[[Iterable[Block]], Any], job: Callable[[Any], A], n_tasks: int) -> A:
        """What a job finds in an RDD of the function's results, one for each task. Blocks that are gone are made again.

        A task that Spark sends to another machine than the one with its file finds none. Where that happens again,
        Spark holds the blocks itself and moves them to where they are needed.
        """
        from pyspark import StorageLevel

        while self._gone < _TRIES:
            held = self._rdd if n_tasks == self._rdd.getNumPartitions() else self._rdd.coalesce(n_tasks)
            found = held.mapPartitions(same_code(lambda kept: function(opened(kept))))
            try:
                return self._job(lambda found=found: job(found))  # type: ignore[misc]
            except BlocksGoneError:
                self._gone += 1
                self._remove_files()  # of the other partitions, before Spark forgets where they are
                self._rdd.unpersist()
                self._kept = self._gone < _TRIES
                (self._rdd if self._gone < _TRIES else self._blocks).persist(StorageLevel.MEMORY_AND_DISK)
        return self._job(lambda: job(self._blocks.mapPartitions(same_code(function))))

    def _job(self, job: Callable[[], A], worker_timeout: float | None = None) -> A:
        try:
            return run_job(self._session, job, worker_timeout or self._worker_timeout)
        except BlocksGoneError:
            raise
        except EngineError:
            self._kept, self._part_sizes = False, None  # nothing can be asked any more, nor removed
            raise


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


def _measure(kept: Iterable[KeptBlocks | Failed]) -> Iterator[tuple[int, int, DPKMeansError | None]]:
    part, n = -1, 0
    for one in kept:
        if isinstance(one, Failed):
            yield part, 0, one.error
            return
        for rows, of_part, _ in one.blocks:
            part, n = of_part, n + rows
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
