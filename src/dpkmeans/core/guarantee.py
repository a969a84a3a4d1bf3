"""`Guarantee`: what a result promises, in one of three honest labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from dpkmeans.errors import GuaranteeError

Label = Literal["none", "paper", "proved"]
LABELS: tuple[Label, ...] = get_args(Label)  # from weak to strong

MEANING: dict[Label, str] = {
    "proved": "epsilon-differential privacy for add/remove-one neighbours, with a proof page and exact arithmetic",
    "paper": "the algorithm as published; its epsilon is the paper's claim, not a guarantee",
    "none": "not private",
}


@dataclass(frozen=True)
class Guarantee:
    """What holds for a release, and why it is no more than that.

    `label` is `"proved"`, `"paper"` or `"none"`; `reasons` say what made it weaker than it could be. It holds for
    neighbours that differ by one record added or removed. Source: docs/guarantees.md, proofs/README.md.

    >>> Guarantee("none", seeded=True, reasons=("A seed makes the noise predictable.",)).in_words(1.0)
    'Not private. A seed makes the noise predictable.'
    """

    label: Label
    neighbours: str = "add or remove one record"
    bounds: Literal["given", "from data", "estimated"] = "given"
    arithmetic: Literal["exact integers", "floating point"] = "exact integers"
    seeded: bool = False
    reasons: tuple[str, ...] = ()

    def in_words(self, epsilon: float) -> str:
        """One sentence for a person."""
        if self.label == "proved":
            return (
                f"Proved: {epsilon:.6g}-differential privacy for neighbours that differ by one record "
                f"added or removed ({2 * epsilon:.6g} for one replaced)."
            )
        why = " ".join(self.reasons)
        if self.label == "paper":
            return f"Not proved: the paper claims epsilon = {epsilon:.6g}, and its proof has holes. {why}".strip()
        return f"Not private. {why}".strip()


def weakest(*labels: Label) -> Label:
    """The weakest of several labels.

    >>> weakest("proved", "paper")
    'paper'
    """
    return min(labels, key=LABELS.index)


def as_label(label: str) -> Label:
    """Check a label that a user wrote."""
    for known in LABELS:
        if label == known:
            return known
    raise GuaranteeError(f"must be one of 'proved', 'paper', 'none'; got {label!r}.", parameter="guarantee")


def check_accepted(offered: Guarantee, accepted: Label) -> None:
    """Refuse a result that is weaker than the caller accepts, and say what to write to accept it."""
    if LABELS.index(offered.label) < LABELS.index(accepted):
        why = " ".join(offered.reasons)
        raise GuaranteeError(
            f"This would give a result labelled {offered.label!r} ({MEANING[offered.label]}); the caller asks for at "
            f"least {accepted!r}. {why}",
            hint=f"{_remedy(offered)}, or accept it by writing {{guarantee={offered.label!r}}}.",
        )


def check_accountable(offered: Guarantee) -> None:
    """Refuse to charge a durable ledger for a result that is not private: no budget covers it."""
    if offered.label == "none":
        why = " ".join(offered.reasons)
        raise GuaranteeError(
            f"This result would not be private, so no budget of the ledger covers it. {why}",
            hint=f"{_remedy(offered)}, or leave the ledger out and keep the result with the records.",
        )


def _remedy(offered: Guarantee) -> str:
    return "Leave {random_state} out" if offered.seeded else "Change that"
