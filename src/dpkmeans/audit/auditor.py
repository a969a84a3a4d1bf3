"""The auditor: runs both sides of every pair, scores the runs, and reports a lower bound on epsilon."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.audit.protocols import Case, Sample, Target
from dpkmeans.audit.scores import LearnedScore, Score
from dpkmeans.audit.statistics import Bound, choose_event, measure
from dpkmeans.core.checks import check_integer
from dpkmeans.core.guarantee import Label
from dpkmeans.errors import MethodError
from dpkmeans.privacy.randomness import Randomness

NOTHING_PROVED = "Finding no violation proves nothing: it says that these attacks, with this many runs, found none."
VIOLATION, NOT_FOUND, NO_CLAIM = "violation", "none found", "nothing claimed"

Progress = Callable[[str, int, int], None]
"""Called with the current case, the number of runs done, and the number of all runs."""


@dataclass(frozen=True)
class Runs:
    """Runs per side: of mechanisms, of methods, and of methods labelled `paper`.

    `share` is the part of its runs that a target gets which says itself how many it is worth.
    """

    mechanism: int = 100_000
    method: int = 2_000
    paper: int = 10_000
    share: float = 1.0

    def of(self, target: Target) -> int:
        """Runs per side for this target."""
        if target.runs is not None:
            return round(target.runs * self.share)
        if target.level == "mechanism":
            return self.mechanism
        return self.method if target.label == "proved" else self.paper


QUICK = Runs(mechanism=40_000, method=100, paper=1_000, share=0.01)


@dataclass(frozen=True)
class Finding:
    """One line of the report: a pair, an event, its frequencies without (p) and with (p') the record, the bound.

    `event` says what is scored, `chosen` which event the first half of the runs chose. `claimed` is the largest total
    that any run's ledger recorded; None if nothing is claimed. `delta` is what is claimed beside it, mostly nothing.
    """

    target: str
    label: Label
    mutant: bool
    pair: str
    event: str
    chosen: str
    runs: int
    p: float
    p_with: float
    bound: float
    claimed: float | None
    claimed_mean: float | None
    verdict: str
    delta: float = 0.0


@dataclass(frozen=True)
class AuditReport:
    """All findings of one audit. Every bound in it holds at once with probability `confidence`."""

    findings: tuple[Finding, ...]
    confidence: float
    seconds: float
    jobs: int

    @property
    def n_events(self) -> int:
        """Events that were measured; alpha is divided by their number (Bonferroni)."""
        return len(self.findings)

    @property
    def violations(self) -> tuple[Finding, ...]:
        """Findings whose bound exceeds the claimed epsilon."""
        return tuple(f for f in self.findings if f.verdict == VIOLATION)

    @property
    def missed(self) -> tuple[str, ...]:
        """Mutants in which no violation was found."""
        found = {f.target for f in self.violations}
        return tuple(dict.fromkeys(f.target for f in self.findings if f.mutant and f.target not in found))

    def best(self) -> tuple[Finding, ...]:
        """The finding with the largest bound of every target and pair, in order."""
        best: dict[tuple[str, str], Finding] = {}
        for finding in self.findings:
            key = finding.target, finding.pair
            if key not in best or finding.bound > best[key].bound:
                best[key] = finding
        return tuple(best.values())

    def to_dict(self) -> dict[str, Any]:
        return {
            "confidence": self.confidence,
            "events": self.n_events,
            "correction": "Bonferroni: each bound is taken at (1 - confidence) / events, so all hold at once",
            "bound": "Clopper-Pearson, on runs that did not choose the event",
            "neighbours": "add or remove one record",
            "jobs": self.jobs,
            "seconds": round(self.seconds, 1),
            "note": NOTHING_PROVED,
            "violations": len(self.violations),
            "missed_mutants": list(self.missed),
            "findings": [asdict(finding) for finding in self.findings],
        }


def audit(
    targets: Sequence[Target],
    *,
    runs: Runs | int = Runs(),  # noqa: B008 (a frozen value)
    confidence: float = 0.95,
    jobs: int = 1,
    progress: Progress | None = None,
    rng: Randomness | None = None,
    events: int | None = None,
) -> AuditReport:
    """Audit `targets`: half of the runs choose events, the other half bound epsilon.

    Noise comes from the cryptographic source unless `rng` is given, which works with one job only. Every bound is taken
    at (1 - confidence) / (number of events), so the probability that any bound of the report is wrong is at most
    1 - confidence. `events` is that number where this is a part of a larger report.

    Finding no violation proves nothing.
    """
    if not 0 < confidence < 1:
        raise MethodError(f"confidence must lie between 0 and 1; got {confidence}.")
    started = time.monotonic()
    work = [(target, case) for target in targets for case in target.cases]
    n_events = events_of(targets)
    if n_events == 0:
        raise MethodError("there is nothing to audit. Name a method, a mechanism, or 'all'.")
    alpha = (1 - confidence) / max(n_events, events or 0)
    sizes = [check_integer(runs if isinstance(runs, int) else runs.of(target), "runs", least=8) for target, _ in work]
    findings: list[Finding] = []
    total, done = sum(2 * n for n in sizes), 0
    with _workers(jobs, rng) as submit:
        # Everything is queued at once, so that no worker waits for the scoring; results are taken in order.
        queued = [
            [_pieces(submit, case, side, n, jobs) for side in (False, True)]
            for (_, case), n in zip(work, sizes, strict=True)
        ]
        for (target, case), n, sides in zip(work, sizes, queued, strict=True):
            if progress is not None:
                progress(f"{target.name}: {case.pair}", done, total)
            without, with_record = (_joined([piece() for piece in pieces]) for pieces in sides)
            sides.clear()
            findings += _findings(target, case, without, with_record, alpha)
            done += 2 * n
    if progress is not None:
        progress("done", total, total)
    return AuditReport(tuple(findings), confidence, time.monotonic() - started, jobs)


def events_of(targets: Sequence[Target]) -> int:
    """How many events an audit of these targets measures."""
    return sum(len(case.scores()) for target in targets for case in target.cases)


def _findings(target: Target, case: Case, without: Sample, with_record: Sample, alpha: float) -> Iterator[Finding]:
    spent = np.concatenate([without.spent, with_record.spent])
    claimed = float(spent.max()) if target.claims else None
    for score in case.scores():
        delta = getattr(case, "delta", 0.0)
        bound = lower_bound(score, without.outputs, with_record.outputs, alpha, delta)
        verdict = NO_CLAIM if claimed is None else VIOLATION if bound.epsilon > claimed else NOT_FOUND
        mean = float(spent.mean()) if target.claims else None
        what = (target.name, target.label, target.mutant, case.pair, score.name, str(bound.event))
        found = (bound.frequency, bound.frequency_with, bound.epsilon)
        yield Finding(*what, len(without.outputs), *found, claimed, mean, verdict, delta)


def lower_bound(score: Score, without: FloatArray, with_record: FloatArray, alpha: float, delta: float = 0.0) -> Bound:
    """The lower bound from `score`, where `delta` is claimed beside epsilon; wrong with probability at most `alpha`.

    The first half of the runs chooses the event; a score that learns takes half of these for training. The second half
    measures the event.
    """
    half, half_with, start, start_with = len(without) // 2, len(with_record) // 2, 0, 0
    if isinstance(score, LearnedScore):
        start, start_with = half // 2, half_with // 2
        scorer = score.train(without[:start], with_record[:start_with])
    else:
        scorer = score.scorer
    event = choose_event(scorer(without[start:half]), scorer(with_record[start_with:half_with]), alpha, delta)
    return measure(event, scorer(without[half:]), scorer(with_record[half_with:]), alpha, delta)


def draw(case: Case, with_record: bool, runs: int) -> Sample:
    """Runs of one side with fresh cryptographic noise, in a worker process."""
    return case.draw(with_record, runs, Randomness.secure())


PIECES = 4
"""Pieces per side and process: small enough that all processes end at about the same time and stop quickly."""

Piece = Callable[[], Sample]
Submit = Callable[[Case, bool, int], Piece]


def _pieces(submit: Submit, case: Case, with_record: bool, runs: int, jobs: int) -> list[Piece]:
    size = -(-runs // (PIECES * jobs))
    return [submit(case, with_record, min(size, runs - start)) for start in range(0, runs, size)]


@contextmanager
def _workers(jobs: int, rng: Randomness | None) -> Iterator[Submit]:
    """How pieces are run: in this process, when their result is needed, or in worker processes."""
    check_integer(jobs, "jobs")
    if jobs == 1:
        yield lambda case, side, n: lambda: case.draw(side, n, rng if rng is not None else Randomness.secure())
        return
    if rng is not None:
        raise MethodError("rng works with jobs=1 only: all processes would draw the same numbers.")
    import multiprocessing

    # Spawned: compiled kernels and OpenDP are not safe to fork. One thread each is enough.
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))

    def submit(case: Case, with_record: bool, runs: int) -> Piece:
        future: Future[Sample] = pool.submit(draw, case, with_record, runs)
        return future.result

    try:
        yield submit
    finally:
        pool.shutdown(cancel_futures=True)
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


def _joined(samples: list[Sample]) -> Sample:
    return Sample(np.concatenate([s.outputs for s in samples]), np.concatenate([s.spent for s in samples]))
