"""Stop rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpkmeans.core.engine import CellStatistics
from dpkmeans.core.exact import Exact, reveal
from dpkmeans.errors import MethodError

MAX_ITERATIONS = 2**31


class Stop(Protocol):
    """Decides whether an iteration ends before its plan does."""

    def ends(self, exact: Exact[CellStatistics]) -> bool:
        """Whether this assignment is the last one."""
        ...


@dataclass(frozen=True)
class Repeats:
    """Ends when an assignment repeats the one before it. Not private: it looks."""

    def ends(self, exact: Exact[CellStatistics]) -> bool:
        """Whether no record changed its cell."""
        return reveal(exact, why="the paper's stop rule; charged nothing").n_changed == 0


@dataclass(frozen=True)
class AfterPlan:
    """Ends when the planned steps are done, whatever the records say."""

    def ends(self, exact: Exact[CellStatistics]) -> bool:
        """Never."""
        return False


def check_max_iter(max_iter: int) -> int:
    """A whole number of at least 1."""
    if isinstance(max_iter, bool) or not isinstance(max_iter, (int, np.integer)) or max_iter < 1:
        raise MethodError(f"must be a whole number of at least 1; got {max_iter!r}.", parameter="max_iter")
    if max_iter > MAX_ITERATIONS:
        raise MethodError(f"must be at most {MAX_ITERATIONS}; got {max_iter}.", parameter="max_iter")
    return int(max_iter)
