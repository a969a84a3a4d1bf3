"""Stop rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from dpkmeans.core.checks import check_integer
from dpkmeans.core.engine import CellStatistics
from dpkmeans.core.exact import Exact, reveal
from dpkmeans.core.guarantee import Claim

MAX_ITERATIONS = 2**31


class StopRule(Protocol):
    """Decides whether an iteration ends before its plan does."""

    @property
    def until_repeat(self) -> bool:
        """Whether it ends exactly when an assignment repeats. Then a run can say whether it converged."""

    def ends(self, exact: Exact[CellStatistics]) -> bool:
        """Whether this assignment is the last one."""


@dataclass(frozen=True)
class Repeats:
    """Ends when an assignment repeats the one before it. Not private: it looks at the records."""

    until_repeat: ClassVar[bool] = True
    claim: ClassVar[Claim] = Claim("paper", ("The number of steps depends on the records, and is charged nothing.",))

    def ends(self, exact: Exact[CellStatistics]) -> bool:
        return reveal(exact, why="the paper's stop rule; charged nothing").n_changed == 0


@dataclass(frozen=True)
class AfterPlan:
    """Ends when the planned steps are done, whatever the records say."""

    until_repeat: ClassVar[bool] = False
    claim: ClassVar[Claim] = Claim.PROVED

    def ends(self, exact: Exact[CellStatistics]) -> bool:
        return False


def check_max_iter(max_iter: int) -> int:
    """A whole number of at least 1."""
    return check_integer(max_iter, "max_iter", most=MAX_ITERATIONS)
