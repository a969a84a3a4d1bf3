"""A request to stop, which long work looks for between two steps.

The command makes one when a signal comes in. An exception raised by a signal handler would come at any moment, also
while a module is imported or a lock is held, and leave both behind for ever; a request is met at a place that is safe.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


class Stopped(BaseException):
    """Work was given up because of a request to stop; `number` is that of the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Request:
    number: int | None = None
    ends_process: bool = False


_request = _Request()


def process_is_ours() -> None:
    """Say that this process is the command and nothing else: it may be ended at any moment, without unwinding."""
    _request.ends_process = True


def is_process_ours() -> bool:
    """Whether this process is the command and nothing else."""
    return _request.ends_process


def request(number: int) -> None:
    """Ask all work in this process to stop, because of the signal `number`."""
    _request.number = number


def withdraw() -> None:
    """Forget a request."""
    _request.number = None


def requested() -> int | None:
    """The number of the signal because of which work is to stop; None where nobody asked."""
    return _request.number


def check() -> None:
    """Raise `Stopped` if somebody asked for it. Nothing that needs an end may be half done here."""
    if _request.number is not None:
        raise Stopped(_request.number)


def stoppable(items: Iterable[T]) -> Iterator[T]:
    """The items, with a look for a request before each of them."""
    for item in items:
        check()
        yield item
