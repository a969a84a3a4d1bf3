"""Records on the workers of a Dask cluster. Blocks stay there; partial answers are reduced there, in a tree.

Only centroids and queries go out, and only counts, sums and costs come back. Every block has a recipe (read this row
group, take that chunk), so that a lost worker costs time and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, cast
from uuid import uuid4

import numpy as np

from dpkmeans._typing import AnyArray, FloatArray, IntArray
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.engine import Engine, LloydEnd
from dpkmeans.core.exact import Exact
from dpkmeans.core.schema import Schema
from dpkmeans.data.encode import places_of
from dpkmeans.data.numbers import plain_array, real_numbers
from dpkmeans.data.open import Collection
from dpkmeans.data.source import Batch, Nulls, Piece, Source, array_batch
from dpkmeans.data.validate import frame_columns, frame_records, is_frame
from dpkmeans.engines.block_engine import BlockEngine, Watch
from dpkmeans.engines.block_tasks import (
    Adds,
    Block,
    RandomPartition,
    Sizes,
    Task,
    block_of_points,
    over_blocks,
    sorted_block,
)
from dpkmeans.engines.dask_results import cluster_errors, result_of
from dpkmeans.engines.here import on_worker
from dpkmeans.engines.packing import pack_batch
from dpkmeans.engines.person_shuffle import Shuffle, dask_blocks
from dpkmeans.engines.persons import Door, PersonRows
from dpkmeans.engines.same_code import same_code
from dpkmeans.engines.waiting import WORKER_TIMEOUT
from dpkmeans.errors import DataError

A = TypeVar("A")

FAN_IN = 8
BLOCK_ROWS = 2**16
PART_NUMBERS = 2**22  # a part holds at least so many, 16 MB packed, unless its file has fewer
_LOTS = 64  # blocks of a partition that are made at once


class DaskEngine(BlockEngine):
    """Engine over parts that Dask workers hold: `parts` are futures of lists of blocks, in the order of the rows."""

    def __init__(
        self,
        client: Any,
        parts: Sequence[Any],
        bounds: Bounds,
        *,
        watch: Watch | None = None,
        on_close: Callable[[], None] | None = None,
        worker_timeout: float = WORKER_TIMEOUT,
    ) -> None:
        super().__init__(bounds, watch)
        self._client = client
        self._worker_timeout = worker_timeout
        self._parts = list(parts)
        self._on_close = on_close

    @classmethod
    def of_source(
        cls, client: Any, source: Source, bounds: Bounds, door: Door | None = None, **options: Any
    ) -> DaskEngine:
        """Files that every worker can read: each reads its own row groups and holds them packed. Arrays are sent."""
        import dask

        pieces = source.split(max(PART_NUMBERS // source.n_features, 1))
        if door is not None:
            shuffle = Shuffle.of(door, bounds, source.nulls, len(pieces))
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):
                rows = [submit(client, shuffle.rows_of_piece, piece) for piece in pieces]
            return cls._of_persons(client, rows, shuffle, door, **options)
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):  # an array is large
            parts = [submit(client, read_piece, piece, bounds, source.nulls, i) for i, piece in enumerate(pieces)]
        return cls(client, parts, bounds, **options)

    @classmethod
    def of_collection(
        cls, client: Any, found: Collection, bounds: Bounds, door: Door | None = None, **options: Any
    ) -> DaskEngine:
        """A Dask array (n, d) or frame: its chunks are packed where they are."""
        from dask import delayed

        chunks = chunks_of(found.records)
        if door is not None:
            shuffle = Shuffle.of(door, bounds, found.nulls, len(chunks))
            rows_of = delayed(same_code(rows_of_chunk), pure=False)
            rows = compute(client, [rows_of(chunk, shuffle, i, found.schema) for i, chunk in enumerate(chunks)])
            return cls._of_persons(client, rows, shuffle, door, **options)
        pack = delayed(same_code(pack_chunk), pure=False)
        lazy = [pack(chunk, bounds, found.nulls, i, found.schema) for i, chunk in enumerate(chunks)]
        return cls(client, compute(client, lazy), bounds, **options)

    @classmethod
    def _of_persons(cls, client: Any, rows: list[Any], shuffle: Shuffle, door: Door, **options: Any) -> DaskEngine:
        timeout = options.get("worker_timeout", WORKER_TIMEOUT)
        parts = dask_blocks(
            lambda function, *arguments: submit(client, function, *arguments),
            rows,
            shuffle,
            door,
            lambda future: result_of(client, future, timeout),
        )
        return cls(client, parts, shuffle.bounds, **options)

    def lloyd(self, start: FloatArray, max_iter: int) -> Exact[LloydEnd]:
        """Lloyd's algorithm: on the worker in one go where one worker holds all, else pass by pass."""
        if len(self._parts) > 1:
            return super().lloyd(start, max_iter)
        end = self._submit(lloyd_there, self._parts[0], self.bounds, start, max_iter)
        return Exact(cast(LloydEnd, result_of(self._client, end, self._worker_timeout)))

    def partition(self, n_blocks: int, key: bytes) -> Iterator[Engine]:
        """The records in disjoint blocks, which stay on the workers; see `RandomPartition`."""
        lots = -(-n_blocks // _LOTS)
        for lot in np.array_split(np.arange(n_blocks), lots):
            task = RandomPartition(key, n_blocks, int(lot[0]), int(lot[-1]) + 1)
            pieces = [self._submit(over_blocks, task, part) for part in self._parts]
            for number in lot.tolist():
                whole = self._submit(gather_block, number, self.n_features, pieces)
                yield DaskEngine(self._client, [whole], self.bounds, worker_timeout=self._worker_timeout)

    def label_batches(self, centroids: FloatArray) -> Iterator[AnyArray]:
        """Nearest centroid of each record, part after part. Not private; for the data holder's eyes."""
        futures = [self._submit(labels_of, part, centroids) for part in self._parts]
        while futures:
            yield result_of(self._client, futures.pop(0), self._worker_timeout)

    def close(self) -> None:
        """Let the blocks go, and the cluster if it was started for them."""
        self._parts = []
        if self._on_close is not None:
            self._on_close()
            self._on_close = None

    def _sizes(self) -> dict[int, int]:
        if self._part_sizes is None:
            sizes = self._run(Sizes())
            if not sum(sizes.values()) and len(self._parts) > 1:
                raise DataError("the collection has no records. Give at least one.")
            self._set_sizes(sizes)
        return super()._sizes()

    def _run(self, task: Task[A]) -> A:
        held = self._submit(_hold, task)  # a task of its own: sent once, and made again if its worker is lost
        name = f"dpkmeans-pass-{uuid4().hex}"  # one message for all parts: the scheduler's work counts
        over = same_code(over_blocks)
        with cluster_errors():
            partial = self._client.map(over, [held] * len(self._parts), self._parts, key=name, pure=False)
        return add_up_all(self._client, held, partial, self._worker_timeout) if partial else task.zero()

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return submit(self._client, function, *arguments)


def read_piece(piece: Piece, bounds: Bounds, nulls: Nulls, part: int, rows: int = BLOCK_ROWS) -> list[Block]:
    """Read and pack one piece, on a worker."""
    blocks, first = [], 0
    for batch in on_worker(piece.batches(rows)):
        blocks.append(pack_batch(batch, bounds, nulls, part=part, first=first))
        first += batch.n
    return blocks


def pack_chunk(chunk: Any, bounds: Bounds, nulls: Nulls, part: int, schema: Schema | None) -> list[Block]:
    """Pack a chunk of an array or a frame, on a worker."""
    batch = chunk_batch(chunk, f"partition {part}", schema)
    return [pack_batch(batch, bounds, nulls, part=part)] if batch.n else []


def rows_of_chunk(chunk: Any, shuffle: Shuffle, part: int, schema: Schema | None) -> dict[int, PersonRows]:
    """The rows of a chunk of a frame by partition of persons, on a worker."""
    batch = chunk_batch(chunk, f"partition {part}", schema)
    return shuffle.rows_of([batch] if batch.n else [])


def chunk_batch(chunk: Any, whole: str, schema: Schema | None = None) -> Batch:
    """The records of a chunk of an array or a frame; `whole` is what errors call it."""
    if not is_frame(chunk):
        return array_batch(real_numbers(plain_array(chunk)))
    schema = schema or Schema.of_numbers(str(name) for name, _ in frame_columns(chunk))
    places = places_of(schema, whole)
    return Batch(frame_records(chunk, whole, schema).T, lambda _, j: places[j])


def labels_of(blocks: Iterable[Block], centroids: FloatArray) -> AnyArray:
    """Nearest centroid of each record of these blocks, on a worker."""
    labels = [block.labels(centroids).astype(np.int32) for block in blocks]
    return np.concatenate([np.empty(0, np.int32), *labels])


def lloyd_there(blocks: Sequence[Block], bounds: Bounds, start: FloatArray, max_iter: int) -> LloydEnd:
    """Lloyd's algorithm over records that are all here."""
    from dpkmeans.core.exact import reveal
    from dpkmeans.engines.memory import MemoryEngine

    if len(blocks) == 1:
        engine = MemoryEngine.of_block(blocks[0], bounds, n_threads=1)
    else:
        rows = [block.rows(_all(block)) for block in blocks]
        points = np.concatenate([np.empty((0, bounds.n_features), np.float32), *rows])
        engine = MemoryEngine.of_block(block_of_points(points), bounds, n_threads=1)
    return reveal(engine.lloyd(start, max_iter), why="stays inside the engine's own answer")


def _all(block: Block) -> IntArray:
    return np.arange(block.n)


def gather_block(number: int, n_features: int, parts: Sequence[Any]) -> list[Block]:
    """One block of a partition from what each part gave to it, on a worker."""
    return [sorted_block([piece for part in parts for piece in part.get(number, ())], n_features)]


def add_up(task: Adds[A], partial: Sequence[A]) -> A:
    """Partial answers as one. They may be used again if a worker is lost, so none is changed."""
    total = task.zero()
    for one in partial:
        total = task.add(total, one)
    return total


def add_up_all(client: Any, task: Adds[A] | Any, partial: Sequence[Any], worker_timeout: float) -> A:
    """Futures of partial answers as one answer, added up on the workers in a tree. `task` may be a future too."""
    while len(partial) > 1:
        partial = [submit(client, add_up, task, partial[i : i + FAN_IN]) for i in range(0, len(partial), FAN_IN)]
    return cast(A, result_of(client, partial[0], worker_timeout))


def chunks_of(collection: Any) -> list[Any]:
    """The chunks of a Dask array (n, d) or frame, each with all features, as delayed objects."""
    if hasattr(collection, "rechunk"):
        return [row[0] for row in collection.rechunk({1: -1}).to_delayed()]
    return list(collection.to_delayed())


def submit(client: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """A future of a function on a worker that runs the same code. It is done again if its worker is lost."""
    name = getattr(function, "__name__", "task").strip("_")
    with cluster_errors():
        return client.submit(same_code(function), *arguments, key=f"dpkmeans-{name}-{uuid4().hex}", pure=False)


def compute(client: Any, lazy: Sequence[Any]) -> list[Any]:
    """Futures of delayed objects."""
    with cluster_errors():
        return list(client.compute(lazy))


def _hold(task: Task[A]) -> Task[A]:
    return task
