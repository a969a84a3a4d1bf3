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
    """All calls of a mechanism for one question: how many, and the largest share of its budget that one of them used.

    `declared` is the sensitivity of the call in which a record changed the largest part of it, `occurred` that change.
    """

    mechanism: str
    question: str
    calls: int
    share: Fraction
    declared: int
    occurred: int


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
    groups: dict[tuple[str, str], list[Call]] = {}
    for call in calls:
        question = re.sub(r" \d+( of \d+)?", "", call.label)
        groups.setdefault((call.mechanism, question), []).append(call)
    return tuple(_question(*key, groups[key]) for key in sorted(groups))


def _question(mechanism: str, question: str, calls: Sequence[Call]) -> Asked:
    share = max(abs(call.loss) / call.budget for call in calls)
    most = max(calls, key=lambda call: Fraction(call.occurred, max(call.declared, 1)))
    return Asked(mechanism, question, len(calls), share, most.declared, most.occurred)


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
        "closest_declared": 0 if call is None else call.declared,
        "closest_occurred": 0 if call is None else call.occurred,
        "questions": [
            {
                "mechanism": asked.mechanism,
                "question": asked.question,
                "calls": asked.calls,
                "share": float(asked.share),
                "declared": asked.declared,
                "occurred": asked.occurred,
            }
            for asked in found.asked
        ],
    }
