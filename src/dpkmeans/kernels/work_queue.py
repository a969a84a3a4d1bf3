"""Work shared by several threads: an idle thread takes the next item, so that none waits for a delayed one.

The result must not depend on which thread takes which item. All threads end before the next item on a request to stop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from threading import Lock
from typing import Generic, TypeVar

import numpy as np

from dpkmeans.interrupts import check

T = TypeVar("T")
A = TypeVar("A")


def split_evenly(n_items: int, n_parts: int) -> list[slice]:
    """At most `n_parts` slices of about the same length over `n_items`.

    >>> split_evenly(5, 2)
    [slice(0, 2, None), slice(2, 5, None)]
    """
    edges = np.linspace(0, n_items, min(n_parts, max(n_items, 1)) + 1).astype(int).tolist()
    return [slice(a, b) for a, b in pairwise(edges) if b > a]


def interleave(items: Sequence[T], n_threads: int) -> deque[T]:
    """All items in an order in which neighbours are not taken at the same time, so that threads share no memory page.

    >>> list(interleave("abcdef", 2))
    ['a', 'd', 'b', 'e', 'c', 'f']
    """
    stride = max(-(-len(items) // n_threads), 1)
    return deque(item for first in range(stride) for item in items[first::stride])


def drain(left: deque[T], do: Callable[[T], A]) -> list[A]:
    """Pop and process items until the shared deque is empty; return this thread's results."""
    results: list[A] = []
    while True:
        check()
        try:
            item = left.popleft()
        except IndexError:
            return results
        results.append(do(item))


class SharedIterator(Generic[T]):
    """An iterator that several threads use: each item goes to one of them."""

    def __init__(self, items: Iterable[T]) -> None:
        self._items = iter(items)
        self._lock = Lock()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        check()
        with self._lock:
            return next(self._items)
