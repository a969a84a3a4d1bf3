"""Runs the tasks that are not done yet, in one process or several, and stores what is finished."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice

from dpkmeans.reproduction.cell_store import CellStore
from dpkmeans.reproduction.cells import Cell, Row, Task, tasks_of
from dpkmeans.reproduction.protocol import compute

Progress = Callable[[int, int], None]
"""Called with the number of cells done in this call and the number to do."""

AHEAD = 3  # tasks queued per process, so that no process waits


def run_cells(
    cells: list[Cell], store: CellStore, *, seed: int, k: int | None, jobs: int, progress: Progress
) -> list[Row]:
    """The rows of all cells, in order; those the store does not have are computed first."""
    keys = [cell.key for cell in cells]
    missing = store.missing(keys)
    tasks = tasks_of((cell for cell in cells if cell.key in missing), seed, k)
    total, done = sum(len(task.cells) for task in tasks), 0
    progress(done, total)
    for rows in _results(tasks, jobs):
        store.add(rows)
        done += len(rows)
        progress(done, total)
    return store.rows(keys)


def _results(tasks: list[Task], jobs: int) -> Iterator[list[tuple[str, Row]]]:
    """Results in order of completion: the numbers of a cell depend on the cell alone."""
    if jobs == 1 or len(tasks) < 2:
        yield from map(compute, tasks)
        return
    # Spawned: compiled kernels and OpenDP are not safe to fork.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=context, initializer=_end_with_parent)
    try:
        queue = iter(tasks)
        running: set[Future[list[tuple[str, Row]]]] = {pool.submit(compute, t) for t in islice(queue, jobs * AHEAD)}
        while running:
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                yield future.result()
            running |= {pool.submit(compute, task) for task in islice(queue, len(finished))}
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _end_with_parent() -> None:
    """End this worker when its parent is gone: a killed parent cannot stop its workers."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
