"""A search by hypothesis that climbs towards the largest loss: how tight each proof is.

`python -m tools.climb docs/audit.md` puts the table into the page. A case that breaks its budget ends the search with
an error that shows it, made as small as possible.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings, target
from hypothesis import strategies as st
from tools.markdown import as_table, put

from dpkmeans.audit.hard_pairs import LOWER, UPPER, HardPair, replay_pair
from dpkmeans.audit.replay import Outcome, Replayed, Run, replay
from dpkmeans.audit.replay_targets import request_for
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import Exact
from dpkmeans.core.query import Sensitivity
from dpkmeans.core.rho import Rho
from dpkmeans.methods.registry import registry
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Gaussian, Laplace, LInfLaplace, PermuteAndFlip, PrivTreeSplits
from dpkmeans.privacy.randomness import Randomness

EXAMPLES = 400
ONE = Epsilon.of(1.0)
STEP = 8  # what a record may add to an entry
SEEDS = st.integers(0, 2**20)

Search = tuple[st.SearchStrategy[Any], Callable[[Any], Replayed]]
"""Cases, and the replay of one."""


@dataclass(frozen=True)
class Climbed:
    """What was searched, in how many cases, and the largest share of a budget that a run used."""

    name: str
    cases: int
    share: Fraction


def climb(name: str, search: Search, examples: int = EXAMPLES) -> Climbed:
    """Look for the case with the largest loss. Raises where one is above its budget."""
    cases, replayed_of = search
    shares = [Fraction(0)]

    @seed(0)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.target, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases)
    def upwards(case: Any) -> None:
        replayed = replayed_of(case)
        assert replayed.holds, f"{name}: {replayed.why_not}"
        shares.append(share_of(replayed))
        target(float(shares[-1]))

    upwards()
    return Climbed(name, len(shares) - 1, max(shares))


def share_of(replayed: Replayed) -> Fraction:
    """The part of what a run spent that it lost; of rho where it spent any."""
    used, spent = (replayed.rho, replayed.spent_rho) if replayed.spent_rho else (replayed.loss, replayed.spent)
    return abs(used) / spent if spent else Fraction(0)


def searches() -> dict[str, Search]:
    """Every mechanism, and every method of the registry that is proved."""
    entries = st.lists(st.integers(-STEP, STEP), min_size=2, max_size=4)
    flat = Sensitivity(l1=STEP)
    found: dict[str, Search] = {
        "Laplace": (st.tuples(entries, SEEDS), lambda c: noise(Laplace(ONE), _within(c[0]), flat, c[1])),
        "LInfLaplace": (
            st.tuples(entries, SEEDS),
            lambda c: noise(LInfLaplace(ONE), c[0], Sensitivity.of_row((STEP,) * len(c[0])), c[1]),
        ),
        "Gaussian": (
            st.tuples(entries, SEEDS),
            lambda c: noise(Gaussian(Rho.of(0.5)), c[0], Sensitivity(l2_squared=STEP**2 * len(c[0])), c[1]),
        ),
        "PermuteAndFlip": (
            st.tuples(st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=2, max_size=6), SEEDS),
            lambda c: _choice(np.array(c[0], dtype=np.int64), c[1]),
        ),
        "PrivTreeSplits": (
            st.tuples(st.lists(st.integers(0, 40), min_size=8, max_size=8), st.integers(0, 7), SEEDS),
            lambda c: _tree(np.array(c[0], dtype=np.int64), c[1], c[2]),
        ),
    }
    proved = [entry for entry in registry().values() if entry.guarantee == "proved"]
    return found | {entry.name: (_pairs(), _fit(request_for(entry, 1.0))) for entry in proved}


def _within(changes: list[int]) -> list[int]:
    """Changes whose sizes add up to at most a step."""
    left, kept = STEP, []
    for change in changes:
        kept.append(max(-left, min(left, change)))
        left -= abs(kept[-1])
    return kept


def _run(mechanism: Any, values: Any, sensitivity: Sensitivity) -> Run:
    def run(rng: Randomness) -> Outcome:
        ledger = Ledger()
        shown = mechanism.release(Exact(values, sensitivity), ledger=ledger, rng=rng, label="search")
        return Outcome(shown, ledger.loss.pure.fraction, ledger.loss.rho.fraction)

    return run


def noise(mechanism: Any, changes: list[int], sensitivity: Sensitivity, seed: int) -> Replayed:
    """Noise on a row of zeros, which a record changes by `changes`."""
    after = np.array([changes], dtype=np.int64)
    return replay(_run(mechanism, 0 * after, sensitivity), _run(mechanism, after, sensitivity), seed)


def _choice(case: Any, seed: int) -> Replayed:
    """Scores, and which of them the record adds 1 to."""
    mechanism, sensitivity = PermuteAndFlip(ONE), Sensitivity(gap=1)
    before, after = case[:, 0].copy(), case.sum(axis=1)
    return replay(_run(mechanism, before, sensitivity), _run(mechanism, after, sensitivity), seed)


def _tree(cells: Any, place: int, seed: int) -> Replayed:
    mechanism, sensitivity = PrivTreeSplits(ONE, 8), Sensitivity.of_row((1,))
    after = cells.copy()
    after[place] += 1
    return replay(_run(mechanism, cells[:, None], sensitivity), _run(mechanism, after[:, None], sensitivity), seed)


@st.composite
def _pairs(draw: st.DrawFn) -> tuple[HardPair, int]:
    """A few places, each with many records or one, on quarters of the box; the extra record there or far outside."""
    d = draw(st.integers(1, 3))
    quarters = st.lists(st.integers(0, 4), min_size=d, max_size=d)
    places = np.array(draw(st.lists(quarters, min_size=1, max_size=6)), dtype=np.float64)
    records = np.repeat(LOWER + (UPPER - LOWER) * places / 4, draw(st.sampled_from([1, 1, 5, 200])), axis=0)
    extra = np.array(draw(st.lists(st.sampled_from([-1e9, LOWER, 0.0, 1.0, UPPER, 1e9]), min_size=d, max_size=d)))
    pair = HardPair("searched", records, extra, len(records), draw(st.integers(1, 4)), None)
    return pair, draw(SEEDS)


def _fit(request: Any) -> Callable[[Any], Replayed]:
    return lambda case: replay_pair(case[0], request, case[1])


def table(rows: list[dict[str, Any]]) -> str:
    """What was searched, as Markdown."""
    cells = [[f"`{row['name']}`", str(row["cases"]), f"{float(row['share']):.3f}"] for row in rows]
    return as_table(["searched", "cases", "largest share of the budget"], cells)


def main(page: str, examples: str = str(EXAMPLES)) -> None:
    """Search everything, and put the table into a page."""
    rows = [asdict(climb(name, search, int(examples))) for name, search in searches().items()]
    put(page, "climb", table(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
