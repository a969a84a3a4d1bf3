"""Records that do not fit in memory: each answer is one pass over a source, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from threading import Event
from typing import TypeVar

from dpkmeans._typing import AnyArray, Float32Array, FloatArray
from dpkmeans.core.bounds import Bounds
from dpkmeans.data.source import Batch, Piece, Source
from dpkmeans.engines.block_engine import BlockEngine, Watch
from dpkmeans.engines.block_tasks import Task
from dpkmeans.engines.packing import new_buffer, pack_batch
from dpkmeans.kernels.work_queue import SharedIterator
from dpkmeans.progress import part_of_pass

A = TypeVar("A")

BATCH_NUMBERS = 2**20  # per batch: about 8 MB as read, 4 MB packed
PIECE_NUMBERS = 2**23  # pieces of files that are read side by side hold about so many
READERS = 2  # pieces that are open at once; more would hold more


class StreamEngine(BlockEngine):
    """Engine over a source that is read again for each pass.

    Two pieces are read at once. The threads take turns at reading and compute at the same time; each holds one batch.
    Answers are the same to the bit for any batch size, any split into files and any number of threads.
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
        self._pieces = source.split(-(-PIECE_NUMBERS // source.n_features))
        self._batch_rows = batch_rows or max(BATCH_NUMBERS // source.n_features, 1024)
        self._n_threads = n_threads or max(2, len(os.sched_getaffinity(0)))  # two: one reads while one computes
        known = [piece.n_rows for piece in self._pieces]
        if all(n is not None for n in known):
            self._set_sizes({part: n or 0 for part, n in enumerate(known)})

    def label_batches(self, centroids: FloatArray) -> Iterator[AnyArray]:
        """Nearest centroid of each record, batch after batch. Not private; for the data holder's eyes."""
        for batch in self._source.batches(self._batch_rows):
            yield pack_batch(batch, self.bounds, self._source.nulls).labels(centroids)

    def _run(self, task: Task[A]) -> A:
        pieces, ended = SharedIterator(enumerate(self._pieces)), Event()
        n_readers = min(READERS, self._n_threads, len(self._pieces))
        readers = [SharedIterator(self._batches(pieces, ended)) for _ in range(n_readers)]
        # The first batch is worked on before there are threads, so that what it needs is imported and compiled here: a
        # thread that imports while another is interrupted can wait for ever.
        first = next(readers[0], None)
        if first is None:
            return task.zero()
        total = self._take(task, task.zero(), first, new_buffer(self._batch_rows, self.n_features))

        def work(i: int) -> A:
            buffer, total = new_buffer(self._batch_rows, self.n_features), task.zero()
            try:  # one reader to itself while there is one, then what is left of the others
                for placed in chain(*readers[i:], *readers[:i]):
                    total = self._take(task, total, placed, buffer)
            except BaseException:
                ended.set()
                raise
            return total

        with ThreadPoolExecutor(self._n_threads) as pool:
            parts = [pool.submit(work, i % n_readers) for i in range(self._n_threads)]
            try:
                for part in parts:
                    total = task.add(total, part.result())
            finally:  # after an error or an interrupt, the threads need not read to the end
                ended.set()
        return total

    def _take(self, task: Task[A], total: A, placed: tuple[int, int, Batch], buffer: Float32Array) -> A:
        """`total` with a batch added, which comes with the number of its piece and of its first row."""
        part, first, batch = placed
        block = pack_batch(batch, self.bounds, self._source.nulls, part=part, first=first, buffer=buffer)
        total = task.take(total, block)
        if self._part_sizes is not None:  # how many records there are is known, so how much of the pass is done is too
            part_of_pass(batch.n / sum(self._part_sizes.values()))
        return total

    def _batches(self, pieces: Iterable[tuple[int, Piece]], ended: Event) -> Iterator[tuple[int, int, Batch]]:
        """Batches with the number of their piece and of their first row in it."""
        for part, piece in pieces:
            first = 0
            for batch in piece.batches(self._batch_rows):
                if ended.is_set():
                    return
                yield part, first, batch
                first += batch.n
