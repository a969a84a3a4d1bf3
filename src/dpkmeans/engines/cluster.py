"""What Dask and Spark share: a connection that is opened once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Connects(Protocol):
    """`Dask` or `Spark`."""

    @property
    def worker_timeout(self) -> float:
        """Seconds to wait for a worker where there is none."""

    def connect(self) -> tuple[Any, Callable[[], None]]:
        """A client or a session, and a function that closes what was opened here."""

    def check(self, opened: Any) -> None:
        """Wait until one worker answers, or refuse."""


class Connection:
    """A client or a session: opened when it is first needed, and closed once. It can be opened again."""

    def __init__(self, place: Connects) -> None:
        self._place = place
        self.worker_timeout = place.worker_timeout
        self._opened: tuple[Any, Callable[[], None]] | None = None

    def open(self) -> Any:
        """The client or the session, once a worker of it answers."""
        if self._opened is None:
            self._opened = self._place.connect()
            try:
                self._place.check(self._opened[0])
            except BaseException:
                self.close()
                raise
        return self._opened[0]

    def reach(self) -> None:
        """Open it now."""
        self.open()

    def close(self) -> None:
        """Close what was opened for it."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened[1]()
