"""Sharing work between threads."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dpkmeans.kernels.work_queue import drain, interleave, split_evenly


@given(st.integers(0, 200), st.integers(1, 20))
def test_even_slices_cover_everything_once(n_items: int, n_parts: int) -> None:
    parts = split_evenly(n_items, n_parts)
    assert [i for part in parts for i in range(n_items)[part]] == list(range(n_items))
    sizes = [part.stop - part.start for part in parts]
    assert len(parts) == min(n_items, n_parts)
    assert not sizes or max(sizes) - min(sizes) <= 1


@given(st.integers(0, 200), st.integers(1, 20))
def test_items_far_apart_are_all_items(n_items: int, n_threads: int) -> None:
    assert sorted(interleave(range(n_items), n_threads)) == list(range(n_items))


@given(st.integers(2, 50), st.integers(2, 20))
def test_neighbours_are_not_taken_at_once(rounds: int, n_threads: int) -> None:
    order = list(interleave(range(rounds * n_threads), n_threads))
    for at in range(rounds):
        at_once = order[at * n_threads : (at + 1) * n_threads]
        assert all(b - a == rounds for a, b in pairwise(at_once))


def test_threads_do_every_item_once() -> None:
    left = deque(range(10_000))
    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(drain, left, lambda item: item * item) for _ in range(4)]
        results = sorted(result for task in done for result in task.result())
    assert results == [i * i for i in range(10_000)]


def test_an_error_in_one_thread_reaches_the_caller() -> None:
    left = deque([1, 0, 2])
    with ThreadPoolExecutor(1) as pool:
        task = pool.submit(drain, left, lambda item: 1 // item)
        assert isinstance(task.exception(), ZeroDivisionError)
