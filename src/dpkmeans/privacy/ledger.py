"""The ledger: what was promised, what was spent, and on what."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dpkmeans.core.epsilon import Epsilon
from dpkmeans.errors import BudgetError

NEIGHBOURS = "add or remove one record"


@dataclass(frozen=True)
class Spend:
    """One entry: a label and the budgets of the disjoint cells it was spent on (one, if it covers all records)."""

    label: str
    parts: tuple[Epsilon, ...]

    @property
    def epsilon(self) -> Epsilon:
        """Parallel composition: a record lies in one of the disjoint cells, so the largest part counts."""
        return max(self.parts)

    @property
    def composition(self) -> str:
        """How the parts of this entry compose."""
        return "parallel" if len(self.parts) > 1 else "sequential"


class SpendListener(Protocol):
    """Sees every spend of a ledger before anything is drawn, and may refuse it: a `Ledger`, or an `Account` on disk."""

    def record(self, spend: Spend) -> None:
        """Take in an entry, or raise `BudgetError`."""
        ...


class Ledger:
    """Spends in the order they were made. Entries compose sequentially: their sum is the realised total.

    `promised` is the cap. Without one the total is known only after the run, as in the paper. A `parent`
    ledger, such as one for a whole data set, sees every spend as well, and either may refuse.

    Formal guarantee: epsilon-DP for add/remove-one neighbours by basic composition over entries and parallel
    composition over the disjoint cells within one. Replace-one neighbours are two steps apart: twice epsilon.
    Proof: proofs/ledger.md.

    >>> ledger = Ledger(promised=1.0)
    >>> ledger.spend(Epsilon.of(0.4), "counts")
    >>> float(ledger.remaining)
    0.6
    """

    def __init__(self, promised: float | Epsilon | None = None, *, parent: SpendListener | None = None) -> None:
        self.promised = None if promised is None else Epsilon.of(promised)
        self._parent = parent
        self._spends: list[Spend] = []
        self._spent = Epsilon(0)
        self._lock = threading.RLock()

    @property
    def spends(self) -> tuple[Spend, ...]:
        """All entries so far."""
        return tuple(self._spends)

    @property
    def spent(self) -> Epsilon:
        """The realised total."""
        return self._spent

    @property
    def refuses_nothing(self) -> bool:
        """Whether there is neither a promise nor a parent that could refuse a spend."""
        return self.promised is None and self._parent is None

    @property
    def remaining(self) -> Epsilon:
        """What the promise leaves; an error where nothing was promised."""
        if self.promised is None:
            raise BudgetError("This method splits a total, and none was given.", hint="Write, say, {epsilon=1.0}.")
        return self.promised - self.spent

    def spend(self, epsilon: Epsilon, label: str) -> None:
        """Record a spend on all records, or refuse it. Call before anything is drawn."""
        self.record(Spend(label, (epsilon,)))

    def spend_parallel(self, epsilons: Sequence[Epsilon], label: str) -> None:
        """Record spends on disjoint cells of the records: one part per cell."""
        self.record(Spend(label, tuple(epsilons)))

    def record(self, spend: Spend) -> None:
        """Take in an entry, or refuse it; a parent is asked first, so that nothing is drawn that it refuses."""
        with self._lock:
            self._check(spend)
            if self._parent is not None:
                self._parent.record(spend)
            self._spends.append(spend)
            self._spent += spend.epsilon

    def _check(self, spend: Spend) -> None:
        if not spend.parts or min(spend.parts).nano < 1:
            raise BudgetError(f"A spend must be positive in every part; {spend.label!r} is not.")
        if self.promised is not None and self.spent + spend.epsilon > self.promised:
            raise BudgetError(
                f"{spend.label!r} asks for epsilon={spend.epsilon}, but only {self.remaining} of the "
                f"promised {self.promised} is left. Nothing was drawn for it. Raise epsilon, or ask for less."
            )
