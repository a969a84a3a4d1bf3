"""How long a fit waits where nobody works: it says so after a while, and gives up after a stated time."""

from __future__ import annotations

import sys
import time

from dpkmeans.errors import EngineError

WORKER_TIMEOUT = 60.0  # seconds to wait for a worker where there is none
SAY_AFTER = 15.0  # seconds of waiting after which stderr says what is waited for
LOOK_EVERY = 1.0  # seconds between two looks at whether there are workers
SPENT = "What a fit has spent stays spent."


class Waiting:
    """Looks at the cluster, one after the other; `limit` is in seconds."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._since: float | None = None
        self._said = False

    def is_over(self, missing: str | None) -> bool:
        """Whether something has been missing all through `limit`; None where nothing is missing now."""
        now = time.monotonic()
        if missing is None:
            self._since, self._said = None, False
            return False
        if self._since is None:
            self._since = now
        waited = now - self._since
        if waited >= SAY_AFTER and not self._said:
            self._said = True
            sys.stderr.write(f"dpkmeans: {missing}; giving up after {self._limit:g} seconds of waiting.\n")
        return waited >= self._limit


def no_worker(seconds: float) -> EngineError:
    """No worker is left, and none came for so long."""
    return EngineError(
        f"there is no worker, and none came for {seconds:g} seconds. {SPENT}",
        hint="Start workers again, or wait longer with {worker_timeout}.",
    )
