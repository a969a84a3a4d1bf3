"""What a data set of a durable ledger counts, from its creation on: the unit, and the kind of its cap.

The entry that creates a data set says it in its label. Without one, as before there were others, it is rows and pure
epsilon.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.privacy import Loss, Privacy, checked_delta
from dpkmeans.core.rho import Rho
from dpkmeans.errors import BudgetError, LedgerError, MethodError

UNITS = {"row": "", "person": "unit: person"}
RHO = " rho"
"""How the kind of an entry ends whose amounts are femto-rhos, in a data set whose cap is an epsilon at a delta."""


@dataclass(frozen=True)
class Terms:
    """A unit, and `in_rho` for a cap in rho, or a `delta` for a cap in epsilon at that delta."""

    unit: str = "row"
    delta: float | None = None
    in_rho: bool = False

    @classmethod
    def of(cls, unit: str, cap: Privacy) -> Terms:
        """The terms of a new data set."""
        if unit not in UNITS:
            raise MethodError(f"must be one of {', '.join(UNITS)}; got {unit!r}.", parameter="unit")
        return cls(unit, None if cap.kind == "rho" else cap.delta, cap.kind == "rho")

    @classmethod
    def read(cls, label: str, dataset: str) -> Terms:
        """Out of the label of the entry that created the data set."""
        unit, delta, in_rho = "row", None, False
        for part in filter(None, label.split("; ")):
            if part == UNITS["person"]:
                unit = "person"
            elif part == "rho":
                in_rho = True
            elif part.startswith("delta: "):
                delta = _delta(part.removeprefix("delta: "), dataset)
            else:
                raise _unknown(dataset)
        terms = cls(unit, delta, in_rho)
        if terms.label != label:
            raise _unknown(dataset)
        return terms

    @property
    def label(self) -> str:
        """How the entry that creates the data set says it."""
        kind = "rho" if self.in_rho else "" if self.delta is None else f"delta: {self.delta!r}"
        return "; ".join(filter(None, [UNITS[self.unit], kind]))

    @property
    def kind(self) -> str:
        """The kind of the cap, as `Privacy.kind` has it."""
        return "rho" if self.in_rho else "epsilon" if self.delta is None else "epsilon-delta"

    def cap(self, units: int) -> Privacy:
        """The cap, out of an entry: femto-rhos, or nano-epsilons."""
        return Privacy(rho=Rho(units)) if self.in_rho else Privacy(Epsilon(units), self.delta)

    def units(self, cap: Privacy) -> int:
        """The cap as an entry holds it."""
        if cap.kind != self.kind or cap.delta != self.delta:
            raise MethodError(
                f"the data set counts {self.in_words}, and the cap is {cap}.",
                hint="A data set has one kind of cap from its creation on.",
            )
        return cap.rho.femto if cap.rho is not None else cap.pure.nano

    def amount(self, units: int, kind: str) -> Epsilon | Rho:
        """The amount of an entry of a `kind`, in its currency."""
        return Rho(units) if self.in_rho or kind.endswith(RHO) else Epsilon(units)

    @property
    def in_words(self) -> str:
        """What is counted."""
        return "rho" if self.in_rho else "pure epsilon" if self.delta is None else f"epsilon at delta={self.delta!r}"

    def held(self, spent: int, spent_rho: int) -> Loss:
        """What is spent, out of the last entries of each currency."""
        return Loss(rho=Rho(spent)) if self.in_rho else Loss(Epsilon(spent), Rho(spent_rho))


@dataclass(frozen=True)
class DataSet:
    """A data set as the ledger knows it: its cap, and what is spent under it."""

    name: str
    privacy: Privacy
    held: Loss
    unit: str = "row"

    @property
    def kind(self) -> str:
        """The kind of the cap: `epsilon`, `epsilon-delta` or `rho`."""
        return self.privacy.kind

    @property
    def cap(self) -> Epsilon | Rho:
        """The cap: an epsilon, at `privacy.delta` where there is one, or a rho."""
        return self.privacy.pure if self.privacy.rho is None else self.privacy.rho

    @property
    def spent(self) -> Epsilon | Rho:
        """What is spent, in the currency of the cap."""
        total = self.privacy.total(self.held)
        return self.held.rho if self.kind == "rho" or total is None else total

    @property
    def remaining(self) -> Epsilon | Rho:
        """What may still be spent: in pure epsilon, or in rho where the cap is one. Never below nothing."""
        if self.kind == "rho":
            return max(self.privacy.left_rho(self.held), Rho(0))
        return max(self.privacy.left(self.held), Epsilon(0))

    @property
    def remaining_rho(self) -> Rho | None:
        """The rho that may still be spent; None under a cap in pure epsilon."""
        return None if self.kind == "epsilon" else max(self.privacy.left_rho(self.held), Rho(0))

    def refusal(self, cost: Loss) -> BudgetError:
        """The error for what the cap does not cover."""
        left: Epsilon | Rho | str = self.remaining
        if self.kind != "epsilon":
            left = f"rho={self.remaining_rho}" if cost.rho.femto or self.kind == "rho" else f"epsilon={left}"
        return BudgetError(
            f"{cost} is asked for, but data set {self.name!r} has only {left} left. Nothing was spent or drawn for it. "
            "Ask for less, or have the cap raised with: dpkmeans ledger cap."
        )


def _delta(text: str, dataset: str) -> float:
    try:
        return checked_delta(text)
    except BudgetError:
        raise _unknown(dataset) from None


def _unknown(dataset: str) -> LedgerError:
    return LedgerError(f"data set {dataset!r} has a unit or a kind of cap that this version does not know. Upgrade.")
