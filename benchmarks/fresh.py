"""Random problems that no choice has seen: the default against every proved rival, and against one private mean.

Run with `python benchmarks/quality.py --fresh 200`: a new secret seed each time, printed at the end, or `--seed`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

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
TOLERANCE = 1.02  # times the loss of the best rival: what counts as equally good
MIN_COST = 1e-9  # of the cost of one cluster; below it a ratio of costs says nothing


@dataclass(frozen=True)
class Cell:
    """One problem at one ε: medians of cost over the best of ten Lloyd runs, by method."""

    problem: str
    shape: str
    epsilon: float
    ratios: dict[str, float]

    @property
    def rival(self) -> str:
        return min((name for name in self.ratios if name in RIVALS), key=self.ratios.__getitem__)

    @property
    def against_rival(self) -> float:
        """Cost of the default over that of the best rival."""
        return self.ratios["synopsis"] / self.ratios[self.rival]


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


def best_of_lloyd(engine: MemoryEngine, w: Workload, runs: int) -> float:
    from sklearn.cluster import kmeans_plusplus

    rng = np.random.default_rng(0)
    sample = w.X[rng.choice(len(w.X), min(len(w.X), 20_000), replace=False)]
    costs = []
    for seed in range(runs):
        start = kmeans_plusplus(sample, w.k, random_state=seed)[0]
        release = make_method("lloyd", init=start, max_iter=300).run(
            engine, w.k, ledger=Ledger(), rng=Randomness.with_seed(seed)
        )
        costs.append(cost(engine, engine.bounds.unit_of(release.centroids)))
    return max(min(costs), 1e-12)


def run_one(method: str, engine: MemoryEngine, k: int, epsilon: float) -> float:
    if method == MEAN:
        return cost(engine, private_mean(engine, epsilon))
    release = make_method(method).run(engine, k, ledger=Ledger(epsilon), rng=Randomness.secure())
    return cost(engine, engine.bounds.unit_of(release.centroids))


def judge(seed: int, numbers: range, epsilons: list[float], runs: int, report: Callable[[str], None]) -> list[Cell]:
    cells = []
    for number in numbers:
        w = random_problem(seed, number)
        engine = MemoryEngine.of_records(w.X, w.box)
        best = best_of_lloyd(engine, w, 10)
        if best < MIN_COST * cost(engine, engine.bounds.unit_of(w.X.mean(axis=0))[None, :]):
            report(f"  {w.name}: left out, it has hardly more different records than clusters")
            continue
        shape = f"{len(w.X)} x {w.X.shape[1]}, k = {w.k}"
        for epsilon in epsilons:
            ratios = {
                m: float(np.median([run_one(m, engine, w.k, epsilon) for _ in range(runs)])) / best
                for m in ("synopsis", *RIVALS)
            }
            cell = Cell(w.name, shape, epsilon, ratios)
            cells.append(cell)
            shown = " ".join(f"{m} {ratio:.4g}" for m, ratio in ratios.items())
            report(f"  {w.name}: {shape}, {epsilon:g}: {shown}; over the best rival {cell.against_rival:.3f}")
    return cells


def summary(cells: list[Cell]) -> str:
    """Shares, quantiles, and the ten worst."""
    against = np.array([cell.against_rival for cell in cells])
    lines = [f"{len(cells)} cells; cost over that of the best rival:"]
    quantiles = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.97, 0.99, 1.0)
    lines.append("  " + ", ".join(f"{q:.0%}: {np.quantile(against, q):.3f}" for q in quantiles))
    for epsilon in sorted({cell.epsilon for cell in cells}):
        here = np.array([cell.against_rival for cell in cells if cell.epsilon == epsilon])
        lines.append(f"  epsilon {epsilon:g}: at least as good (within 2 %) in {np.mean(here <= TOLERANCE):.1%}")
    lines.append(f"  all: at least as good (within 2 %) in {np.mean(against <= TOLERANCE):.1%}")
    lines.append("the ten worst:")
    for cell in sorted(cells, key=lambda c: -c.against_rival)[:10]:
        lines.append(
            f"  {cell.problem}: {cell.shape}, epsilon {cell.epsilon:g}: {cell.ratios['synopsis']:.3g} "
            f"against {cell.ratios[cell.rival]:.3g} ({cell.rival})"
        )
    return "\n".join(lines)


def fresh_seed() -> int:
    return secrets.randbits(32)
