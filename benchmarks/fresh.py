"""Random problems that no choice has seen: the default against every proved rival, and against one private mean.

Run with `python benchmarks/quality.py --fresh 200 --json fresh.json`: a new secret seed, kept in the file, which is
written after every problem; the same command goes on where it ended. `--summary` reads the file, or several. Two
processes share the work with one `--seed`, `--part 0/2` and `--part 1/2`, and a file each.

Runs are spent where they decide something: every method runs once, a cell in which the default costs less than half of
what each rival does is left at that, and of the others a rival that cost more than three times what the best one did.
Where noise is most of a cost, medians of three runs of equals differ by a half; so a cell of few records that is not
far off after these runs gets five times as many, and fifteen times if it is close then.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.exact import reveal
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.methods.registry import make_method
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import LInfLaplace
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis.residual_queries import UNIT, Residuals
from problems import Workload, random_problem

RIVALS = ("eugkm", "su-hybrid", "su", "mean")
MEAN = "mean"
METHOD = "synopsis"
CHANCE = 0.05  # that equals differ so much: then a cell is clearly worse
TOLERANCE = 1.02  # times the loss of the best rival: what counts as equally good
DECIDED = 0.5  # of the cost of every rival in one run: more runs would not change who is better
HOPELESS = 3.0  # times the cost of the best rival in one run: such a rival is left at that
CLOSE = ((3.0, 5), (1.2, 15))  # times the cost of the best rival, either way, and how many times the runs within it,
SMALL = 200_000  # numbers: for problems of up to so many
REFERENCE_PASSES = 30  # of one run of Lloyd's algorithm, to state costs; who is better does not depend on it
MIN_COST = 1e-9  # of the cost of one cluster; below it a ratio of costs says nothing


@dataclass(frozen=True)
class Cell:
    """One problem at one ε: medians of cost over that of a Lloyd run, by method, and the cost of one mean."""

    problem: str
    shape: str
    epsilon: float
    ratios: dict[str, float]
    one_mean: float  # exact, without noise
    numbers: int  # records times features
    chance: float = 0.0  # that equals differ so much, by the ranks of all runs of the default and of the best rival

    @property
    def rival(self) -> str:
        return min((name for name in self.ratios if name in RIVALS), key=self.ratios.__getitem__)

    @property
    def against_rival(self) -> float:
        """Cost of the default over that of the best rival."""
        return self.ratios[METHOD] / self.ratios[self.rival]

    @property
    def is_as_good(self) -> bool:
        """Within 2 % of the best rival."""
        return self.against_rival <= TOLERANCE

    @property
    def is_clearly_worse(self) -> bool:
        """More than 2 % worse, which equals would be in one case of twenty."""
        return not self.is_as_good and self.chance <= CHANCE


def private_mean(engine: MemoryEngine, epsilon: float) -> np.ndarray:
    """All of ε for one noisy mean, in unit coordinates, shape (1, d)."""
    half = engine.bounds.unit_box / 2
    one = Residuals(half[None, :], np.maximum(half, 2.0**-20)[None, :])
    ledger = Ledger(epsilon)
    noisy = LInfLaplace(Epsilon.of(epsilon)).release(
        engine.answer(one), ledger=ledger, rng=Randomness.secure(), label="mean"
    )
    offset = np.clip(noisy[0, 1:] / max(int(noisy[0, 0]), UNIT), -1.0, 1.0)
    return (half + offset * half)[None, :]


def cost(engine: MemoryEngine, places: np.ndarray) -> float:
    return reveal(engine.cell_statistics(places), why="a benchmark").cost


def reference(engine: MemoryEngine, w: Workload) -> float:
    """The cost after some passes of Lloyd's algorithm without noise."""
    from sklearn.cluster import kmeans_plusplus

    sample = w.X[np.random.default_rng(0).choice(len(w.X), min(len(w.X), 20_000), replace=False)]
    start = kmeans_plusplus(sample, w.k, random_state=0)[0]
    release = make_method("lloyd", init=start, max_iter=REFERENCE_PASSES).run(
        engine, w.k, ledger=Ledger(), rng=Randomness.with_seed(0)
    )
    return max(cost(engine, engine.bounds.unit_of(release.centroids)), 1e-12)


def run_one(method: str, engine: MemoryEngine, k: int, epsilon: float) -> float:
    if method == MEAN:
        return cost(engine, private_mean(engine, epsilon))
    release = make_method(method).run(engine, k, ledger=Ledger(epsilon), rng=Randomness.secure())
    return cost(engine, engine.bounds.unit_of(release.centroids))


def costs_of(
    engine: MemoryEngine, k: int, epsilon: float, runs: int, best: float, *, small: bool
) -> dict[str, list[float]]:
    """Costs over `best` by method: of one run where that decides, else of `runs`, or more where it is close."""
    costs = {m: [run_one(m, engine, k, epsilon) / best] for m in (METHOD, *RIVALS)}
    least = min(costs[m][0] for m in RIVALS)
    if costs[METHOD][0] > DECIDED * least:
        for m in costs:
            again = 0 if m != METHOD and costs[m][0] > HOPELESS * least else runs - 1
            costs[m] += [run_one(m, engine, k, epsilon) / best for _ in range(again)]
        for factor, times in CLOSE if small else ():
            middle = {m: float(np.median(found)) for m, found in costs.items()}
            least = min(middle[m] for m in RIVALS)
            if not 1 / factor < middle[METHOD] / least < factor:
                break
            for m in (m for m in costs if m == METHOD or middle[m] < factor * least):
                costs[m] += [run_one(m, engine, k, epsilon) / best for _ in range(times * runs - len(costs[m]))]
    return costs


def judged(costs: dict[str, list[float]], w: Workload, epsilon: float, one_mean: float) -> Cell:
    """Medians of all runs, and the chance of so large a difference between equals."""
    from scipy.stats import mannwhitneyu

    shape = f"{len(w.X)} x {w.X.shape[1]}, k = {w.k}"
    cell = Cell(w.name, shape, epsilon, {m: float(np.median(v)) for m, v in costs.items()}, one_mean, w.X.size)
    worse = mannwhitneyu(costs[METHOD], costs[cell.rival], alternative="greater").pvalue
    return replace(cell, chance=float(worse))


def judge_one(w: Workload, epsilons: list[float], runs: int, report: Callable[[str], None]) -> list[Cell]:
    began = time.process_time()
    engine = MemoryEngine.of_records(w.X, w.box)
    best = reference(engine, w)
    one = cost(engine, engine.bounds.unit_of(w.X.mean(axis=0))[None, :])
    if best < MIN_COST * one:
        report(f"  {w.name}: left out, it has hardly more different records than clusters")
        return []
    cells = []
    for epsilon in epsilons:
        costs = costs_of(engine, w.k, epsilon, runs, best, small=w.X.size <= SMALL)
        cell = judged(costs, w, epsilon, one / best)
        cells.append(cell)
        shown = " ".join(f"{m} {ratio:.4g}" for m, ratio in cell.ratios.items())
        report(f"  {w.name}: {cell.shape}, {epsilon:g}: {shown}; over the best rival {cell.against_rival:.3f}")
    report(f"  {w.name}: {time.process_time() - began:.0f} CPU seconds")
    return cells


@dataclass
class Judgement:
    """Cells of the problems of a seed that are done: every `step`-th from `first` on. Kept in a file, if any."""

    seed: int
    cells: list[Cell]
    first: int = 0
    step: int = 1
    done: int = 0  # of these problems

    @classmethod
    def begin(cls, path: Path | None, seed: int | None, part: str = "0/1") -> Judgement:
        """What the file holds, or a new one; of two parts, "0/2" has the problems 0, 2, 4, ..."""
        if path is not None and path.exists():
            kept = json.loads(path.read_text())
            return cls(**{**kept, "cells": [Cell(**cell) for cell in kept["cells"]]})
        first, step = map(int, part.split("/"))
        return cls(secrets.randbits(32) if seed is None else seed, [], first, step)

    def go_on(
        self, problems: int, epsilons: list[float], runs: int, report: Callable[[str], None], path: Path | None
    ) -> None:
        """Judge one problem after another up to so many, of which other parts do theirs."""
        for number in range(self.first + self.step * self.done, problems, self.step):
            self.cells += judge_one(random_problem(self.seed, number), epsilons, runs, report)
            self.done += 1
            if path is not None:
                path.write_text(json.dumps(asdict(self), indent=1))


def summary(cells: list[Cell]) -> str:
    """Shares, quantiles, and the ten worst."""
    against = np.array([cell.against_rival for cell in cells])
    lines = [f"{len(cells)} cells; cost over that of the best rival:"]
    quantiles = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.97, 0.99, 1.0)
    lines.append("  " + ", ".join(f"{q:.0%}: {np.quantile(against, q):.3f}" for q in quantiles))
    for epsilon in sorted({cell.epsilon for cell in cells}):
        here = np.array([cell.against_rival for cell in cells if cell.epsilon == epsilon])
        lines.append(f"  epsilon {epsilon:g}: at least as good (within 2 %) in {np.mean(here <= TOLERANCE):.1%}")
    for what, some in (
        (f"up to {SMALL} numbers", [c for c in cells if c.numbers <= SMALL]),
        ("more", [c for c in cells if c.numbers > SMALL]),
        ("all", cells),
    ):
        if some:
            good, worse = np.mean([c.is_as_good for c in some]), np.mean([c.is_clearly_worse for c in some])
            as_mean = np.mean([c.ratios[METHOD] <= TOLERANCE * c.ratios[MEAN] for c in some])
            shares = f"at least as good (within 2 %) in {good:.1%}, as the mean in {as_mean:.1%}"
            lines.append(f"  {what} ({len(some)} cells): {shares}; clearly worse in {worse:.1%}")
    lines.append("the ten worst:")
    for cell in sorted(cells, key=lambda c: -c.against_rival)[:10]:
        lines.append(
            f"  {cell.problem}: {cell.shape}, epsilon {cell.epsilon:g}: {cell.ratios[METHOD]:.3g} "
            f"against {cell.ratios[cell.rival]:.3g} ({cell.rival})"
        )
    return "\n".join(lines)
