"""What a fault is, and what is seen when it is caused some number of times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

NEVER = ("hangs", "lost_spends", "lost_releases", "wrong", "untyped", "left_behind")


def _available() -> str | None:
    return None


@dataclass(frozen=True)
class Outcome:
    """What happened. The last six must be 0.

    `runs` counts how often the fault was caused; `seen` says in a few words each what happened, and how often.
    A hang is a process that did not end within the stated time; a lost spend is noise drawn without its entry in the
    ledger, or an entry too few; a lost release is one that was paid for and is nowhere to be found; `wrong` is a
    result that differs and was called right; `untyped` is a traceback, "a bug in dpkmeans", or an error without what
    to do; `left_behind` is a process, a temporary folder or a lock that outlived the run and the next one.
    """

    runs: int
    seen: Mapping[str, int]
    hangs: int = 0
    lost_spends: int = 0
    lost_releases: int = 0
    wrong: int = 0
    untyped: int = 0
    left_behind: int = 0

    def __add__(self, other: Outcome) -> Outcome:
        seen = Counter(self.seen) + Counter(other.seen)
        never = {name: getattr(self, name) + getattr(other, name) for name in NEVER}
        return Outcome(self.runs + other.runs, dict(seen), **never)

    @property
    def kept(self) -> bool:
        """Whether the promise was kept, each time."""
        return self.runs > 0 and not any(getattr(self, name) for name in NEVER)


@dataclass(frozen=True)
class Fault:
    """`run(times)` causes the fault so often and says what happened. `times` is for the long form, `short` for tests.

    A fault with `short=0` runs in the long form only. `at_once`: how often in one piece, after which a long run can be
    interrupted and taken up again; 0 for all in one. `cluster` says that it starts Dask or Spark. `unavailable` says
    why it cannot be caused here (no Java, no right to mount), or None.
    """

    name: str
    promise: str
    run: Callable[[int], Outcome]
    times: int
    short: int = 1
    cluster: bool = False
    unavailable: Callable[[], str | None] = field(default=_available)
    at_once: int = 0


class Tally:
    """Counts what is seen while a fault is caused again and again."""

    def __init__(self) -> None:
        self.runs = 0
        self.seen: Counter[str] = Counter()
        self.never: Counter[str] = Counter()

    def saw(self, what: str) -> None:
        """One more run, and what happened."""
        self.runs += 1
        self.seen[what] += 1

    def must_not(self, kind: str, *, happened: bool, why: str = "") -> None:
        """Count one of the things that must not happen, and say what it was."""
        if kind not in NEVER:
            raise ValueError(f"{kind} is none of {', '.join(NEVER)}")
        if happened:
            self.never[kind] += 1
            self.seen[f"{kind.replace('_', ' ').upper()} {why}".strip()] += 1

    def outcome(self) -> Outcome:
        return Outcome(self.runs, dict(self.seen), **self.never)
