"""What is replayed: every method of the registry, other packages' too, persons as the unit, estimated bounds, uneven
sides, baselines with Gaussian noise, questions about a release.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np

from dpkmeans.audit.hard_pairs import (
    LOWER,
    UPPER,
    HardPair,
    hard_pairs,
    many_records,
    replay_pair,
    run_of,
    uneven_pairs,
)
from dpkmeans.audit.method_targets import SMALLER
from dpkmeans.audit.replay import Outcome, Replayed, replay
from dpkmeans.audit.replay_summary import Tightest, tightest
from dpkmeans.core.checks import check_integer
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.kinds import Category
from dpkmeans.core.release import Release
from dpkmeans.core.unit import Person
from dpkmeans.data.source import FrameSource
from dpkmeans.errors import DPKMeansError, MethodError
from dpkmeans.methods.registry import MethodSpec, make_method, registry
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.session import FitRequest
from dpkmeans.session import run as fit

PERSONS, BOUNDS, UNEVEN, EVALUATION = "persons", "bounds", "uneven", "evaluation"
AT_MOST = 3
DELTA = 1e-6  # beside epsilon, for methods with Gaussian noise
Progress = Callable[[str, int, int], None]
"""Called with a name, the number of pairs done and the number to do."""
KEEPS: tuple[Any, ...] = ("rows", "mean", "one")


def replays_of(name: str, pairs: int, epsilon: float, seed: int = 0) -> Iterator[Replayed]:
    """Replays over so many hard pairs: of a method of the registry, or of one of the others by its name.

    >>> all(replayed.holds for replayed in replays_of("dwork", 3, 1.0))
    True
    """
    epsilon = float(Epsilon.of(epsilon))
    if name in _OTHERS:
        return _OTHERS[name](pairs, epsilon, seed)
    if name not in registry():
        known = ", ".join([*registry(), *_OTHERS])
        raise MethodError(f"there is nothing called {name!r} to replay. Known: {known}.")
    request = request_for(registry()[name], epsilon)
    return (replay_pair(pair, request, seed + i) for i, pair in enumerate(hard_pairs(pairs, seed)))


def replay_each(
    chosen: Sequence[str],
    pairs: int,
    epsilon: float,
    *,
    jobs: int = 1,
    progress: Progress = lambda what, done, total: None,
) -> list[Tightest]:
    """The summary of each name's replays, in order; each name is replayed in one process, up to `jobs` at a time."""
    check_integer(pairs, "pairs")
    check_integer(jobs, "jobs")
    total = len(chosen) * pairs
    if min(jobs, len(chosen)) == 1:
        told = [_after(progress, total, name, i * pairs) for i, name in enumerate(chosen)]
        return [summarise(name, pairs, epsilon, tell) for name, tell in zip(chosen, told, strict=True)]
    with ProcessPoolExecutor(min(jobs, len(chosen)), mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting = {pool.submit(summarise, name, pairs, epsilon): name for name in chosen}
        for done, future in enumerate(as_completed(waiting), start=1):
            future.result()  # an error ends it all, as it would in one process
            progress(waiting[future], done * pairs, total)
        return [future.result() for future in waiting]


def _after(progress: Progress, total: int, name: str, before: int) -> Callable[[int], None]:
    return lambda done: progress(name, before + done, total)


def summarise(name: str, pairs: int, epsilon: float, done: Callable[[int], None] = lambda n: None) -> Tightest:
    """Replay so many pairs of one name."""
    replays = []
    for replayed in replays_of(name, pairs, epsilon):
        replays.append(replayed)
        done(len(replays))
    return tightest(name, replays)


def names() -> tuple[str, ...]:
    """What can be replayed and is labelled `proved`."""
    return (*(name for name, entry in registry().items() if entry.guarantee == "proved"), *_OTHERS)


def labelled_proved(name: str) -> bool:
    """Whether it claims to be proved, so that a replay that does not hold is a violation."""
    return name in names()


def request_for(entry: MethodSpec, epsilon: float) -> FitRequest:
    """A fit with a method of the registry at `epsilon`, with public parameters under which it is fast."""
    method: Any = entry.factory(**SMALLER[entry.name]) if entry.name in SMALLER else entry.name
    total = None if {"step_epsilon", "release_epsilon"} <= set(entry.options) else epsilon
    return FitRequest(method=method, epsilon=total, delta=DELTA if entry.spends_rho else None)


def _persons(pairs: int, epsilon: float, seed: int) -> Iterator[Replayed]:
    """D' has all rows of one person more, spread over the file; the door keeps some of them."""
    rng = np.random.default_rng(seed)
    for i, (pair, keep) in enumerate(zip(hard_pairs(pairs, seed), cycle(KEEPS), strict=False)):
        unit = Person("id", at_most=AT_MOST, keep=keep) if keep == "rows" else Person("id", keep=keep)
        request = FitRequest(
            method="synopsis", epsilon=epsilon, unit=unit, nulls="midpoint", n_clusters=pair.n_clusters
        )
        tables = [_visits(pair, more, np.random.default_rng((seed, i))) for more in (False, True)]
        bounds = {f"x{j}": (-1.0, 3.0) for j in range(pair.records.shape[1])}
        asked = replace(request, bounds=bounds, n_clusters=pair.n_clusters)
        without, with_person = (run_of(asked, table) for table in tables)
        yield replay(without, with_person, int(rng.integers(2**31)), records=unit.records)


def _visits(pair: HardPair, with_person: bool, rng: np.random.Generator) -> Any:
    """The records as visits of about a third as many persons; the one more has up to seven, near the extra record."""
    import pandas as pd

    n, d = pair.records.shape
    table = pd.DataFrame(pair.records, columns=[f"x{j}" for j in range(d)])
    table["id"] = rng.integers(0, max(n // 3, 1), n)
    if with_person:
        rows = int(rng.integers(1, 8))
        more = pd.DataFrame(pair.extra + 0.5 * rng.standard_normal((rows, d)), columns=[f"x{j}" for j in range(d)])
        more["id"] = -1
        table = pd.concat([more[: rows // 2], table, more[rows // 2 :]], ignore_index=True)
    return table


def _bounds(pairs: int, epsilon: float, seed: int) -> Iterator[Replayed]:
    """Bounds that are estimated for a share of the budget, then a fit within them."""
    share = float(Fraction(epsilon) / 2)
    request = FitRequest(method="synopsis", epsilon=epsilon, bounds_epsilon=share, scale=None, nulls="midpoint")
    for i, pair in enumerate(many_records(pairs, seed)):
        asked = replace(request, n_clusters=pair.n_clusters)
        yield replay(run_of(asked, pair.side(False)), run_of(asked, pair.side(True)), seed + i)


def _uneven(pairs: int, epsilon: float, seed: int) -> Iterator[Replayed]:
    """The default in boxes whose sides are loose by very different factors, with so many records that it cuts them."""
    request = FitRequest(method="synopsis", epsilon=epsilon)
    return (replay_pair(pair, request, seed + i) for i, pair in enumerate(uneven_pairs(pairs, seed)))


def _evaluation(pairs: int, epsilon: float, seed: int) -> Iterator[Replayed]:
    """Quality and profile, in turn, of centroids that are public."""
    rng = np.random.default_rng(seed)
    for i, pair in enumerate(hard_pairs(pairs, seed)):
        d = pair.records.shape[1]
        public = _labelled(rng.uniform(LOWER, UPPER, (20, d)))
        bounds = {f"x{j}": (LOWER, UPPER) for j in range(d)}
        request = FitRequest(n_clusters=3, bounds=bounds, method="lloyd", guarantee="none", random_state=0)
        asked = partial(_ask, fit(request, public).release, epsilon, i % 2 == 1)
        without, with_record = (partial(asked, _labelled(pair.side(more))) for more in (False, True))
        yield replay(without, with_record, seed + i)


def _ask(release: Release, epsilon: float, histograms: bool, table: Any, rng: Randomness) -> Outcome:
    ledger, levels = Ledger(), {"level": Category("a", "b")}
    try:
        asking = partial(release.profile, columns=levels) if histograms else release.quality
        found = asking(
            FrameSource(table, nulls="midpoint"), epsilon=epsilon, ledger=ledger, guarantee="none", random_state=rng
        )
        shown: Any = found.to_dict()
    except DPKMeansError as error:
        shown = f"{type(error).__name__}: {error}"
    return Outcome(shown, ledger.loss.pure.fraction)


def _labelled(records: Any) -> Any:
    """The records as a table, with a level that each has by itself."""
    import pandas as pd

    table = pd.DataFrame(records, columns=[f"x{j}" for j in range(records.shape[1])])
    table["level"] = ["abc"[int(7 * abs(x)) % 3] if np.isfinite(x) else None for x in records[:, 0].tolist()]
    return table


def _gaussian(name: str, pairs: int, epsilon: float, seed: int) -> Iterator[Replayed]:
    """A baseline with Gaussian noise. A noisy number of records is a pure spend, booked in rho."""
    request = FitRequest(method=make_method(name, noise="gaussian"), epsilon=epsilon, delta=DELTA)
    return (replay_pair(pair, request, seed + i) for i, pair in enumerate(hard_pairs(pairs, seed)))


GAUSSIAN = ("su", "blum", "gupt")
_OTHERS: dict[str, Callable[[int, float, int], Iterator[Replayed]]] = {
    PERSONS: _persons,
    BOUNDS: _bounds,
    UNEVEN: _uneven,
    **{f"{name}-gaussian": partial(_gaussian, name) for name in GAUSSIAN},
    EVALUATION: _evaluation,
}
