"""Many replays in a few numbers: how many did not hold, and which call and which run came closest to its budget."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpkmeans.audit.replay import Call, Replayed


@dataclass(frozen=True)
class Asked:
    """All calls of a mechanism for one question: how many, the largest share of its budget that one of them used."""

    mechanism: str
    question: str
    calls: int
    share: Fraction


@dataclass(frozen=True)
class Tightest:
    """Over many pairs: how many were replayed, how many did not hold, and the call and the run that came closest.

    With Gaussian noise, the run's loss and what it spent are in rho.
    """

    name: str
    pairs: int
    calls: int
    broken: tuple[str, ...]
    call: Call | None
    run: Fraction
    promised: Fraction
    in_rho: bool = False
    asked: tuple[Asked, ...] = ()


def tightest(name: str, replays: Sequence[Replayed]) -> Tightest:
    """The summary of one method's replays."""
    calls = [call for replayed in replays for call in replayed.calls]
    closest = max(calls, key=lambda call: call.tightness, default=None)
    in_rho = any(replayed.spent_rho for replayed in replays)
    run = max((replayed.rho if in_rho else abs(replayed.loss) for replayed in replays), default=Fraction(0))
    spent = (replayed.spent_rho if in_rho else replayed.spent for replayed in replays)
    promised = max(spent, default=Fraction(0))
    broken = tuple(replayed.why_not for replayed in replays if not replayed.holds)
    return Tightest(name, len(replays), len(calls), broken, closest, run, promised, in_rho, _asked(calls))


def _asked(calls: Sequence[Call]) -> tuple[Asked, ...]:
    """The calls by mechanism and question, in order; steps, rounds and places of the same kind are one question."""
    shares: dict[tuple[str, str], list[Fraction]] = {}
    for call in calls:
        question = re.sub(r" \d+( of \d+)?", "", call.label)
        shares.setdefault((call.mechanism, question), []).append(abs(call.loss) / call.budget)
    return tuple(Asked(*key, len(found), max(found)) for key, found in sorted(shares.items()))


def summary_of(found: Tightest) -> dict[str, Any]:
    """A summary as plain values. Losses are rounded up."""
    call = found.call
    return {
        "method": found.name,
        "pairs": found.pairs,
        "calls": found.calls,
        "broken": list(found.broken),
        "largest_loss": float(found.run),
        "spent": float(found.promised),
        "currency": "rho" if found.in_rho else "epsilon",
        "closest_call": "-" if call is None else call.label,
        "closest_mechanism": "-" if call is None else call.mechanism,
        "closest_share": 0.0 if call is None else call.tightness,
        "questions": [
            {"mechanism": a.mechanism, "question": a.question, "calls": a.calls, "share": float(a.share)}
            for a in found.asked
        ],
    }
