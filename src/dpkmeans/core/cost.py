"""`Cost`: what a release was promised to cost and what it did, in numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from dpkmeans.core.epsilon import Epsilon, Spend, format_epsilon
from dpkmeans.core.privacy import Loss, Privacy, checked_delta
from dpkmeans.core.rho import Rho

if TYPE_CHECKING:
    from dpkmeans.core.guarantee import Guarantee


class Promised(TypedDict):
    """The fields of a release that say what was promised."""

    epsilon_promised: float | None
    delta: float | None
    rho_promised: float | None


def promised_fields(privacy: Privacy | None) -> Promised:
    """What a release keeps of a promise."""
    if privacy is None:
        return {"epsilon_promised": None, "delta": None, "rho_promised": None}
    return {
        "epsilon_promised": None if privacy.epsilon is None else float(privacy.epsilon),
        "delta": privacy.delta,
        "rho_promised": None if privacy.rho is None else float(privacy.rho),
    }


def in_words(privacy: Privacy) -> str:
    """A promise or a cap as people read it.

    >>> in_words(Privacy(Epsilon.of(2.0), 1e-6)), in_words(Privacy(rho=Rho.of(0.5)))
    ('epsilon 2 at delta 1e-06', 'rho 0.5')
    """
    if privacy.epsilon is None:
        return f"rho {privacy.rho}"
    at = "" if privacy.delta is None else f" at delta {privacy.delta!r}"
    return f"epsilon {format_epsilon(privacy.epsilon)}{at}"


@dataclass(frozen=True)
class Cost:
    """A promise, and the spends under it."""

    privacy: Privacy | None
    spends: tuple[Spend, ...]

    @classmethod
    def of(cls, spends: tuple[Spend, ...], epsilon: float | None, delta: float | None, rho: float | None) -> Cost:
        """Out of the fields of a release."""
        if epsilon is None and rho is None:
            return cls(None, spends)
        return cls(
            Privacy(
                None if epsilon is None else Epsilon.of(epsilon),
                None if delta is None else checked_delta(delta),
                None if rho is None else Rho.of(rho),
            ),
            spends,
        )

    @property
    def in_rho(self) -> bool:
        """Whether anything was spent in rho: otherwise the spends are pure, whatever was promised."""
        return any(spend.rho is not None for spend in self.spends)

    @property
    def loss(self) -> Loss:
        """What the spends come to."""
        if self.privacy is None or not self.in_rho:
            return sum((Loss.of(spend) for spend in self.spends), Loss())
        return self.privacy.held_after(self.spends)

    @property
    def epsilon(self) -> float | None:
        """The epsilon that was spent, at the promised delta; None where there is none, in rho without a delta."""
        loss = self.loss
        if not loss.rho.femto:
            return float(loss.pure)
        total = None if self.privacy is None else self.privacy.total(loss)
        return None if total is None else float(total)

    @property
    def rho(self) -> float | None:
        """The rho that was spent, with pure spends as what they cost in it; None where all spends are pure."""
        return float(self.loss.in_rho().rho) if self.in_rho else None

    @property
    def within(self) -> bool:
        """Whether the spends stay within the promise, where there is one."""
        if self.privacy is None:
            return not self.in_rho
        if not self.in_rho:
            return self.loss.pure <= (self.privacy.epsilon or self.privacy.pure)
        return self.privacy.kind != "epsilon" and self.privacy.covers(self.loss)

    def statement(self, guarantee: Guarantee) -> str:
        """The guarantee in one sentence.

        Pure spends are named as they add up. With Gaussian noise it is the promise that holds whatever the run did:
        what is spent at a delta is a total of many draws, and their number may follow from released values.
        """
        if not self.in_rho or self.privacy is None:
            return guarantee.in_words(self.epsilon or 0.0)
        if self.privacy.delta is not None and self.privacy.epsilon is not None:
            return guarantee.in_words(float(self.privacy.epsilon), delta=self.privacy.delta)
        return guarantee.in_words(0.0, rho=self.privacy.rho)

    def spent_in_words(self) -> str:
        """What was spent, in the currencies of the spends."""
        loss = self.loss
        if not self.in_rho:
            return format_epsilon(loss.pure)
        rho = f"rho {loss.in_rho().rho}"
        if self.epsilon is None or self.privacy is None or self.privacy.delta is None:
            return rho
        return f"{format_epsilon(self.epsilon)} at delta {self.privacy.delta!r} ({rho})"

    def promised_in_words(self) -> str:
        """What was promised."""
        if self.privacy is None:
            return "no total was promised"
        return in_words(self.privacy).removeprefix("epsilon ")
