"""Records that do not fit in memory: each answer is one pass over a source, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock
from typing import TypeVar

from dpkmeans.arrays import AnyArray, FloatArray
from dpkmeans.bounds import Bounds
from dpkmeans.engines.blocks import BlockEngine, Watch
from dpkmeans.engines.packing import Batch, pack_batch
from dpkmeans.engines.tasks import Block, Task
from dpkmeans.sources import Source

A = TypeVar("A")

BATCH_NUMBERS = 2**20  # per batch: about 8 MB as read, 4 MB packed


class StreamEngine(BlockEngine):
    """Engine over a source that is read again for each pass.

    A few threads take turns at reading and compute at the same time; each holds one batch. Answers are the same to the
    bit for any batch size, any split into files and any number of threads.
    """

    def __init__(
        self,
        source: Source,
        bounds: Bounds,
        *,
        batch_rows: int | None = None,
        n_threads: int | None = None,
        watch: Watch | None = None,
    ) -> None:
        super().__init__(bounds, watch)
        self._source = source
        self._batch_rows = batch_rows or max(BATCH_NUMBERS // source.n_features, 1024)
        self._n_threads = n_threads or max(2, len(os.sched_getaffinity(0)))  # two: one reads while one computes
        known = [piece.n_rows for piece in source.pieces]
        if all(n is not None for n in known):
            self._set_sizes({0: sum(n or 0 for n in known)})

    def label_batches(self, centroids: FloatArray) -> Iterator[AnyArray]:
        """Nearest centroid of each record, batch after batch. Not private; for the data holder's eyes."""
        for batch in self._batches():
            yield pack_batch(batch, self.bounds, self._source.nulls).labels(centroids)

    def _run(self, task: Task[A]) -> A:
        batches, lock, position, ended = self._batches(), Lock(), 0, Event()

        def next_batch() -> tuple[Batch | None, int]:
            nonlocal position
            with lock:
                batch, first = None if ended.is_set() else next(batches, None), position
                position += batch.n if batch is not None else 0
                return batch, first

        def work() -> A:
            total = task.zero()
            while (found := next_batch())[0] is not None:
                batch, first = found
                assert batch is not None
                total = task.take(total, self._pack(batch, first))
            return total

        with ThreadPoolExecutor(self._n_threads) as pool:
            parts = [pool.submit(work) for _ in range(self._n_threads)]
            total = task.zero()
            try:
                for part in parts:
                    total = task.add(total, part.result())
            finally:  # after an error or an interrupt, the other threads need not read to the end
                ended.set()
        return total

    def _pack(self, batch: Batch, first: int) -> Block:
        return pack_batch(batch, self.bounds, self._source.nulls, first=first)

    def _batches(self) -> Iterator[Batch]:
        for piece in self._source.pieces:
            yield from piece.batches(self._batch_rows)
