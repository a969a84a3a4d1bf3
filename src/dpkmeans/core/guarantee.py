"""`Guarantee`: what a result promises, in one of three honest labels. `Claim`: what a method can promise at best."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol, get_args

from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import format_epsilon
from dpkmeans.core.rho import Rho
from dpkmeans.core.unit import Row, Unit
from dpkmeans.errors import GuaranteeError

Label = Literal["none", "paper", "proved"]
Arithmetic = Literal["exact integers", "floating point"]
OWN = "dpkmeans"
WHOSE = "The proof of {} is that of the package {}, not of dpkmeans."
LABELS: tuple[Label, ...] = get_args(Label)  # from weak to strong

MEANING: dict[Label, str] = {
    "proved": "differential privacy for a record or a person added or removed, with proof and exact arithmetic",
    "paper": "the algorithm as published; its epsilon is the paper's claim, not a guarantee",
    "none": "not private",
}


@dataclass(frozen=True)
class Guarantee:
    """What holds for a release, and why it is no more than that.

    `label` is `"proved"`, `"paper"` or `"none"`; `reasons` say what made it weaker than it could be, or whose proof it
    is where that is another package's. It holds for
    neighbours that differ by one `unit` added or removed: a record, or a person. Source: docs/guarantees.md,
    proofs/README.md, proofs/persons.md.

    >>> Guarantee("none", seeded=True, reasons=("A seed makes the noise predictable.",)).in_words(1.0)
    'Not private. A seed makes the noise predictable.'
    """

    label: Label
    bounds: Literal["given", "from data", "estimated"] = "given"
    arithmetic: Arithmetic = "exact integers"
    seeded: bool = False
    reasons: tuple[str, ...] = ()
    unit: Unit = Row()

    @property
    def neighbours(self) -> str:
        """Which tables are neighbours."""
        return self.unit.neighbours

    def in_words(self, epsilon: float, *, delta: float | None = None, rho: Rho | None = None) -> str:
        """One sentence for a person: of pure epsilon, of epsilon and `delta`, or of `rho` alone."""
        if self.label == "proved":
            what, replaced = f"{format_epsilon(epsilon)}-differential privacy", format_epsilon(2 * epsilon)
            if delta is not None:
                twice = min((1 + math.exp(min(epsilon, 700.0))) * delta, 1.0)  # group privacy of two
                what = f"({format_epsilon(epsilon)}, {delta!r})-differential privacy"
                replaced = f"({format_epsilon(2 * epsilon)}, {format_up(twice)})"
            if rho is not None:
                what, replaced = f"{rho}-zero-concentrated differential privacy", str(Rho(4 * rho.femto))
            said = f"Proved: {what} for neighbours that differ by {self.unit.difference} ({replaced} for one replaced)."
            return " ".join([said, *self.reasons])
        why = " ".join(self.reasons)
        if self.label == "paper":
            claim = f"the paper claims epsilon = {format_epsilon(epsilon)}, and its proof has holes."
            return f"Not proved: {claim} {why}".strip()
        return f"Not private. {why}".strip()


def format_up(value: float) -> str:
    """A small number to three digits, rounded up.

    >>> format_up(3.7182818e-06)
    '3.72e-06'
    """
    near = f"{value:.2e}"
    if float(near) < value:
        near = f"{value * 1.005:.2e}"
    return f"{float(near):g}"


@dataclass(frozen=True)
class Claim:
    """What a method, or one part of it, supports: a label, and why it is no stronger."""

    label: Label
    reasons: tuple[str, ...] = ()
    arithmetic: Arithmetic = "exact integers"

    PROVED: ClassVar[Claim]
    PAPER: ClassVar[Claim]
    PAPER_SETTING: ClassVar[Claim]
    NONE: ClassVar[Claim]


Claim.PROVED = Claim("proved")
Claim.PAPER = Claim(
    "paper", ("The method follows the paper, whose privacy proof does not hold.",), arithmetic="floating point"
)
Claim.PAPER_SETTING = Claim(
    "paper", ("Noise is scaled to the records at hand, as in the paper's experiments.",), arithmetic="floating point"
)
Claim.NONE = Claim("none", ("The method adds no noise.",), arithmetic="floating point")


def claim_of(*parts: object) -> Claim:
    """What parts support together: the weakest of their claims, with the reasons of all that are as weak.

    A part says it in the attribute `claim` of its own class. One that says nothing supports nothing, and neither does
    a subclass that leaves it to its base: it may do something else. A `Claim` stands for itself. Where a part of
    another package says that it is proved, a reason says whose proof that is.

    >>> claim_of(Claim.PROVED, object()).reasons
    ('object has no claim of its own, so nothing is known about its privacy.',)
    """
    claims = [_own_claim(part) for part in parts]
    label = weakest(*(claim.label for claim in claims))
    reasons = dict.fromkeys(reason for claim in claims if claim.label == label for reason in claim.reasons)
    exact = all(claim.arithmetic == "exact integers" for claim in claims)
    return Claim(label, tuple(reasons), "exact integers" if exact else "floating point")


def _own_claim(part: object) -> Claim:
    if isinstance(part, Claim):
        return part
    claim = getattr(part, "claim", None) if "claim" in vars(type(part)) else None
    name, package = type(part).__name__, type(part).__module__.split(".")[0]
    if isinstance(claim, Claim):
        theirs = package != OWN and claim.label == "proved"
        return replace(claim, reasons=(*claim.reasons, WHOSE.format(name, package))) if theirs else claim
    return Claim("none", (f"{name} has no claim of its own, so nothing is known about its privacy.",), "floating point")


class RandomSource(Protocol):
    """See `privacy.randomness.Randomness`."""

    @property
    def seeded(self) -> bool:
        """Whether anything about its numbers can be repeated."""


def guarantee_of(claim: Claim, bounds: Bounds, rng: RandomSource) -> Guarantee:
    """A method's claim, weakened by a seed or by bounds that were read from the data."""
    label, reasons = claim.label, list(claim.reasons)
    if rng.seeded:
        label = "none"
        reasons.append("A seed (random_state) makes the noise predictable.")
    if bounds.from_data:
        label = "none"
        reasons.append("The bounds were read from the data; give public ones.")
    return Guarantee(
        label,
        bounds="from data" if bounds.from_data else "given",
        arithmetic=claim.arithmetic,
        seeded=rng.seeded,
        reasons=tuple(reasons),
    )


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
        means, enough = MEANING[offered.label], " or ".join(map(repr, LABELS[LABELS.index(accepted) :]))
        would = f"the result would be labelled {offered.label!r} ({means}), but you accept only {enough}."
        hint = f"{_remedy(offered)}, or accept it by writing {{guarantee={offered.label!r}}}."
        raise GuaranteeError(" ".join([would, *offered.reasons]), hint=hint)


def check_accountable(offered: Guarantee) -> None:
    """Refuse to charge a durable ledger for a result that is not private: no budget covers it."""
    if offered.label == "none":
        why = " ".join(offered.reasons)
        raise GuaranteeError(
            f"This result would not be private, so no budget of the ledger covers it. {why}",
            hint=f"{_remedy(offered)}, or leave the ledger out and keep the result with the records.",
        )


def _remedy(offered: Guarantee) -> str:
    if offered.seeded:
        return "Leave {random_state} out"
    return "Give public {bounds}" if offered.bounds == "from data" else "Choose another {method}"
