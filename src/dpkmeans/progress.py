"""How far long work has come, for whoever watches: the command shows it as a bar.

Like a request to stop (`interrupts`), it concerns the process as a whole, and where nobody watches nothing happens. How
many records have been read is a secret: what is reported here is for the data holder and enters no release.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Protocol, TypeVar

T = TypeVar("T")

PASSES = "passes over the records"
READING = "reading the records"


class Watcher(Protocol):
    """Shows how much is done of a total, which may not be known, and what it is."""

    def __call__(self, done: float, total: float | None, what: str) -> None:
        """Show it. Called by any thread, one at a time."""


class _Work:
    watcher: Watcher | None = None
    what: str = ""
    done: float = 0.0
    total: float | None = None
    passes: float = 0.0  # that were made, with what is done of the present one
    expected: float | None = None  # passes, those made included


_work = _Work()
_lock = RLock()


@contextmanager
def watch(watcher: Watcher) -> Iterator[None]:
    """Let `watcher` show all work of this process for a while."""
    _work.watcher, _work.passes, _work.expected = watcher, 0.0, None
    try:
        yield
    finally:
        _work.watcher = None


def stage(what: str, total: float | None = None) -> None:
    """Something else is being done now: so many units of it, where that is known."""
    _set(what, 0.0, total)


def advance(by: float = 1.0) -> None:
    """So much more of it is done."""
    if _work.watcher is not None:
        with _lock:
            _set(_work.what, _work.done + by, _work.total)


def expect(passes: int | None) -> None:
    """So many passes over the records follow, where a method knows; from public and released values, as all it does."""
    _work.expected = None if passes is None else _work.passes + passes
    _set(PASSES, _work.passes, _work.expected)


@contextmanager
def one_pass() -> Iterator[None]:
    """A pass over the records, of which parts may be reported within."""
    before = _work.passes
    _set(PASSES, before, _work.expected)
    yield
    _work.passes = before + 1
    _set(PASSES, _work.passes, _work.expected)


def part_of_pass(share: float) -> None:
    """So much more of the present pass is done; all of it is 1."""
    if _work.watcher is not None:
        with _lock:
            _work.passes += share
            _set(PASSES, _work.passes, _work.expected)


def over(items: Iterable[T], what: str, total: float | None = None) -> Iterator[T]:
    """The items, each one unit of the work."""
    stage(what, total)
    for item in items:
        yield item
        advance()


def _set(what: str, done: float, total: float | None) -> None:
    if _work.watcher is None:
        return
    with _lock:
        known = total is not None and done <= total
        _work.what, _work.done, _work.total = what, done, total if known else None
        _work.watcher(_work.done, _work.total, what)
