"""The paper's protocol, cell by cell. A cell is one run of one method on one data set at one ε.

All cells of one run share their start: k different records. Costs are divided by Lloyd's cost from that start. Every
random number of a cell follows from the cell itself and the seed, never from who computes it or when.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dpkmeans.arrays import AnyArray, FloatArray
from dpkmeans.bounds import Bounds
from dpkmeans.engines.base import CellStatistics, LloydEnd
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.errors import NotConvergedWarning, WeakSignalWarning
from dpkmeans.experiments.datasets import Dataset, load_dataset
from dpkmeans.iteration.controllers import PosteriorController, PriorController
from dpkmeans.iteration.finals import NoisyCountMean
from dpkmeans.iteration.loop import Move, Step, Trajectory, Update, iterate
from dpkmeans.iteration.stopping import Repeats
from dpkmeans.iteration.updates import ZoneSampling
from dpkmeans.methods import make_method
from dpkmeans.privacy.epsilon import Epsilon
from dpkmeans.privacy.exact import Exact, reveal
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.privacy.schedules import StepBudget

PROTOCOL = 2
"""Raise it when a cell's numbers change, so that old cells are not mixed with new ones."""

MOST_STEPS = 3000
MATCH = 0.01  # the paper's [0.99, 1.01]
ROUNDING = 1e-9
WHY = "an experiment on public data"

STRATEGIES = ("posterior", "prior")
PAPER_RIVALS = ("su", "privgene", "gupt", "dwork", "blum")
SYNOPSES = ("synopsis", "synopsis-posterior", "synopsis-prior")
QUALITY: dict[str, tuple[str, ...]] = {
    "paper": PAPER_RIVALS,
    "proved": (*SYNOPSES, "su", "su-hybrid", "privgene", "gupt", "dwork", "blum"),
    "total": ("synopsis", "su", "su-hybrid"),
}
"""Settings and their methods. `paper`: local sensitivity. `proved`: noise scaled to the box. Both get the total that
posterior realised in the same run. `total`: proved, and ε itself is the total."""

_TOTALS: dict[tuple[str, int, int, str], float] = {}
"""The last total only: the cells of a task ask for the same one."""

_BASELINES: dict[tuple[str, int, int, int, str], Baseline] = {}
"""The last one only."""

READINGS = {
    "uniform start": ("lloyd", "posterior", "prior"),
    "partition start": ("lloyd", "posterior", "prior"),
    "fixed-point stop": ("posterior", "prior"),
    "zones kept inside": ("prior",),
}
"""Other readings of the paper. Starts: points of the box, or means of a random partition, instead of records. Stop:
only where the exact means repeat the assignment too. Zones: X pulled back to the border of the convergent zone."""


class Cell(NamedTuple):
    """What is computed at once. `epsilon` is 0 where a method has none."""

    kind: str
    dataset: str
    run: int
    setting: str
    method: str
    epsilon: float

    @property
    def key(self) -> str:
        """Its name in the store."""
        return "|".join(map(str, self))


Row = dict[str, Any]


class Task(NamedTuple):
    """Cells that are computed one after the other, in one place."""

    cells: tuple[Cell, ...]
    seed: int
    k: int | None = None


@dataclass(frozen=True)
class Problem:
    """A data set, loaded and packed."""

    data: Dataset
    engine: MemoryEngine

    @property
    def k(self) -> int:
        """Number of clusters."""
        return self.data.k


@dataclass(frozen=True)
class Baseline:
    """One run's start, shape (k, d), and where Lloyd's algorithm ends from it. Unit coordinates."""

    start: FloatArray
    lloyd: LloydEnd
    cost: float


@dataclass
class Watch:
    """What the theorems need to know of a run: zones, draws, and how often the cost rose."""

    costs: list[float] = field(default_factory=list)
    zones: int = 0
    outside: int = 0
    ratios: float = 0.0
    angles: float = 0.0

    @property
    def rises(self) -> int:
        """Steps after which the cost was higher than before, rounding apart."""
        before, after = np.array(self.costs[:-1]), np.array(self.costs[1:])
        return int(np.sum(after > before * (1 + 1e-9)))


@dataclass(frozen=True)
class Watched:
    """An update that is looked at: δ, α and zones follow from the exact means. Not private."""

    update: Update
    watch: Watch

    def move(self, step: Step, *, ledger: Ledger, rng: Randomness) -> Move:
        """The same move."""
        move = self.update.move(step, ledger=ledger, rng=rng)
        stats = reveal(step.exact, why=WHY)
        self.watch.costs.append(stats.cost)
        if move.zones is None:
            return move
        means = stats.means(empty=step.previous)
        reach = np.linalg.norm(move.zones.center - means, axis=1) + move.zones.radius
        real = reach > 0
        radius = np.linalg.norm(step.previous - means, axis=1)
        drawn, axis = move.centroids - means, move.zones.center - means
        lengths = np.linalg.norm(drawn, axis=1) * np.linalg.norm(axis, axis=1)
        cosine = np.divide(np.sum(drawn * axis, axis=1), lengths, out=np.ones_like(lengths), where=lengths > 0)
        self.watch.zones += int(real.sum())
        self.watch.outside += int(np.sum(reach[real] > radius[real] * (1 + 1e-6) + ROUNDING))
        self.watch.ratios += float(np.sum(np.linalg.norm(drawn[real], axis=1) / reach[real]))
        self.watch.angles += float(np.sum(np.arccos(np.clip(cosine[real], -1, 1))))
        return move


def seed_of(seed: int, *parts: object) -> int:
    """A seed that belongs to these parts alone."""
    text = "|".join(map(str, (seed, *parts)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def path_cells(datasets: Sequence[str], runs: int, epsilons: Sequence[float], strategies: Sequence[str]) -> list[Cell]:
    """Lloyd once a run, each strategy once a run and ε. Run by run over all sets, so that a part is a fair sample."""
    cells = []
    for run in range(runs):
        for name in datasets:
            cells.append(Cell("path", name, run, "none", "lloyd", 0.0))
            cells += [Cell("path", name, run, "paper", s, epsilon) for epsilon in epsilons for s in strategies]
    return cells


def quality_cells(datasets: Sequence[str], runs: int, epsilons: Sequence[float], methods: Sequence[str]) -> list[Cell]:
    """The rivals and the proved methods; posterior and prior are path cells."""
    return [
        Cell("quality", name, run, setting, method, epsilon)
        for run in range(runs)
        for name in datasets
        for epsilon in epsilons
        for setting, known in QUALITY.items()
        for method in known
        if method in methods
    ]


def reading_cells(datasets: Sequence[str], runs: int) -> list[Cell]:
    """Passes under other readings, at one ε."""
    return [
        Cell("reading", name, run, reading, method, 0.0 if method == "lloyd" else 0.5)
        for run in range(runs)
        for name in datasets
        for reading, methods in READINGS.items()
        for method in methods
    ]


def tasks_of(cells: Iterable[Cell], seed: int, k: int | None = None) -> list[Task]:
    """Neighbouring cells of one run and data set together, slow ones apart."""
    tasks: list[list[Cell]] = []
    for cell in cells:
        last = tasks[-1][0] if tasks else None
        if last is not None and cell[:3] == last[:3] and (cell.kind != "quality" or cell.epsilon == last.epsilon):
            tasks[-1].append(cell)
        else:
            tasks.append([cell])
    return [Task(tuple(group), seed, k) for group in tasks]


def compute(task: Task) -> list[tuple[str, Row]]:
    """The rows of a task's cells, by key."""
    from dpkmeans.experiments.theorems import theorem_row

    makers = {"path": path_row, "quality": quality_row, "reading": reading_row, "theorem": theorem_row}
    done = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)  # recorded as `stopped`
        warnings.simplefilter("ignore", WeakSignalWarning)  # the paper's smallest sets are weak, and that is shown
        for cell in task.cells:
            problem = problem_of(cell.dataset, task.k)
            done.append((cell.key, {**cell._asdict(), **makers[cell.kind](problem, cell, task.seed)}))
    return done


@lru_cache(maxsize=8)
def problem_of(name: str, k: int | None = None) -> Problem:
    """Scaled to [0, 1] and packed; kept, since many cells ask for it."""
    data = load_dataset(name, k=k)
    unit = data.unit_records()
    return Problem(data, MemoryEngine.of_records(unit, Bounds.of((0, 1), unit.shape[1]), n_threads=1))


def baseline(problem: Problem, run: int, seed: int, start: str = "rows") -> Baseline:
    """The run's start and Lloyd's end. Cheap, so it is made anew where no cell of the same run was the last to ask."""
    place = (problem.data.sha256, problem.k, run, seed, start)
    if place not in _BASELINES:
        _BASELINES.clear()
        _BASELINES[place] = _baseline(problem, run, seed, start)
    return _BASELINES[place]


def _baseline(problem: Problem, run: int, seed: int, start: str) -> Baseline:
    rng = np.random.default_rng(seed_of(seed, problem.data.name, run, "start", start))
    first = _start(problem, start, rng)
    end = reveal(problem.engine.lloyd(first, MOST_STEPS), why=WHY)
    return Baseline(first, end, cost(problem, end.centroids))


def _start(problem: Problem, start: str, rng: np.random.Generator) -> FloatArray:
    if start == "uniform start":
        return rng.random((problem.k, problem.engine.n_features))
    if start == "partition start":
        records = problem.data.unit_records()
        part = rng.integers(problem.k, size=len(records))
        counts = np.maximum(np.bincount(part, minlength=problem.k), 1)
        sums = [np.bincount(part, weights=column, minlength=problem.k) for column in records.T]
        means: FloatArray = np.stack(sums, axis=1) / counts[:, None]
        return means
    return reveal(problem.engine.sample_rows(problem.k, rng), why=WHY)


def cost(problem: Problem, centroids: FloatArray) -> float:
    """k-means cost of centroids in unit coordinates, shape (k, d)."""
    return reveal(problem.engine.cell_statistics(centroids), why=WHY).cost


@dataclass(frozen=True)
class ZoneRun:
    """A run of posterior or prior: its trajectory, what was seen, its exact last means and what it released."""

    trajectory: Trajectory
    watch: Watch
    means: FloatArray
    released: FloatArray
    epsilon_total: float
    nano_total: int


@dataclass(frozen=True)
class AtFixedPoint:
    """Ends when an assignment repeats and the exact means would repeat it once more. Not the paper's rule."""

    engine: MemoryEngine

    def ends(self, exact: Exact[CellStatistics]) -> bool:
        """Whether the means are a fixed point of Lloyd's algorithm; an occupied cell's sums tell."""
        stats = reveal(exact, why=WHY)
        if stats.n_changed > 0:
            return False
        again = reveal(self.engine.cell_statistics(stats.means(empty=np.full_like(stats.sums, 9.0))), why=WHY)
        return bool(np.array_equal(stats.counts, again.counts) and np.array_equal(stats.sums, again.sums))


def zone_run(
    problem: Problem, strategy: str, epsilon: float, start: FloatArray, seed: int, reading: str = ""
) -> ZoneRun:
    """Algorithm 1 with the same ε for every step and for the release."""
    inside = reading == "zones kept inside"
    controller = PosteriorController() if strategy == "posterior" else PriorController(clip=inside)
    step = Epsilon.of(epsilon)
    rng, ledger, watch = Randomness.with_seed(seed), Ledger(), Watch()
    end = iterate(
        problem.engine,
        start,
        (StepBudget(zone=step) for _ in range(MOST_STEPS)),
        update=Watched(ZoneSampling(controller), watch),
        stop=AtFixedPoint(problem.engine) if reading == "fixed-point stop" else Repeats(),
        ledger=ledger,
        rng=rng,
    )
    means = last_means(problem, end)
    released = NoisyCountMean(step).centroids(problem.engine, end, ledger=ledger, rng=rng)
    return ZoneRun(end, watch, means, released, float(ledger.spent), ledger.spent.nano)


def last_means(problem: Problem, end: Trajectory) -> FloatArray:
    """The exact means of the repeated assignment: the result before the last noise."""
    exact = end.exact if end.exact is not None else problem.engine.cell_statistics(end.centroids)
    return reveal(exact, why=WHY).means(empty=end.centroids)


def is_fixed_point(problem: Problem, done: ZoneRun) -> bool:
    """Whether Lloyd's algorithm would stay where the run ended."""
    again = problem.engine.cell_statistics(done.means, compare_with=done.trajectory.centroids)
    return reveal(again, why=WHY).n_changed == 0


def path_row(problem: Problem, cell: Cell, seed: int) -> Row:
    """Passes, convergence and costs of Lloyd, posterior or prior."""
    base = baseline(problem, cell.run, seed)
    if cell.method == "lloyd":
        return {
            "passes": base.lloyd.moves,
            "iterations": base.lloyd.moves,
            "stopped": bool(base.lloyd.stopped),
            "cost": base.cost,
            "optimum": name_of(base.lloyd.centroids),
        }
    done = zone_run(problem, cell.method, cell.epsilon, base.start, _cell_seed(seed, cell))
    end, watch = done.trajectory, done.watch
    near = is_near(done.means, base.lloyd.centroids)
    exact_cost = cost(problem, done.means)
    return {
        "passes": end.passes,
        "iterations": len(end.moves),
        "stopped": end.stopped,
        "cost": exact_cost,
        "optimum": name_of(done.means),
        "match": bool(near.all()),
        "matched_share": float(near.all(axis=1).mean()),
        "cost_match": bool(abs(exact_cost / base.cost - 1) <= MATCH),
        "same_optimum": name_of(done.means) == name_of(base.lloyd.centroids),
        "fixed_point": is_fixed_point(problem, done),
        "epsilon_total": done.epsilon_total,
        "budgets_add_up": done.nano_total == Epsilon.of(cell.epsilon).nano * (1 + len(end.moves)),
        "gap": cost(problem, done.released) / base.cost - 1,
        "zones": watch.zones,
        "zones_outside": watch.outside,
        "sum_ratio": watch.ratios,
        "sum_angle": watch.angles,
        "cost_rises": watch.rises,
    }


def quality_row(problem: Problem, cell: Cell, seed: int) -> Row:
    """Cost gap of a rival or a proved method."""
    base = baseline(problem, cell.run, seed)
    n = len(problem.data.records)
    options: dict[str, Any] = {}
    ledger = Ledger(cell.epsilon if cell.setting == "total" else _posterior_total(problem, cell, base, seed))
    if cell.setting == "paper":
        options["setting"] = "paper"
        if cell.method in ("su", "privgene", "gupt"):
            options["n_records"] = n  # taken as known, as in their papers
        if cell.method in ("su", "dwork", "blum"):
            options["init"] = problem.engine.bounds.from_unit(base.start)
        if cell.method == "gupt":
            options["step_epsilon"], ledger = cell.epsilon, Ledger()
    method = make_method(cell.method, **options)
    release = method.run(problem.engine, problem.k, ledger=ledger, rng=Randomness.with_seed(_cell_seed(seed, cell)))
    unit = problem.engine.bounds.unit_of(release.centroids)
    return {"gap": cost(problem, unit) / base.cost - 1, "epsilon_total": release.epsilon_spent}


def _posterior_total(problem: Problem, cell: Cell, base: Baseline, seed: int) -> float:
    """What posterior spends in the same run at the same ε: the run is made again, so that no cell needs another."""
    twin = Cell("path", cell.dataset, cell.run, "paper", "posterior", cell.epsilon)
    place = (problem.data.sha256, problem.k, seed, twin.key)
    if place not in _TOTALS:
        _TOTALS.clear()
        done = zone_run(problem, "posterior", cell.epsilon, base.start, _cell_seed(seed, twin))
        _TOTALS[place] = done.epsilon_total
    return _TOTALS[place]


def reading_row(problem: Problem, cell: Cell, seed: int) -> Row:
    """Passes under another reading."""
    base = baseline(problem, cell.run, seed, start=cell.setting if cell.setting.endswith("start") else "rows")
    if cell.method == "lloyd":
        return {"passes": base.lloyd.moves, "stopped": bool(base.lloyd.stopped)}
    done = zone_run(problem, cell.method, cell.epsilon, base.start, _cell_seed(seed, cell), cell.setting)
    match = bool(is_near(done.means, base.lloyd.centroids).all())
    return {"passes": done.trajectory.passes, "stopped": done.trajectory.stopped, "match": match}


def is_near(centroids: FloatArray, reference: FloatArray) -> AnyArray:
    """The paper's match, coordinate by coordinate: within [0.99, 1.01] of Lloyd's, shape (k, d)."""
    near: AnyArray = np.abs(centroids - reference) <= MATCH * np.abs(reference)
    return near


def name_of(centroids: FloatArray) -> str:
    """A short name for a set of centroids, whatever their order: equal sets have equal names."""
    rounded = np.round(centroids, 9) + 0.0
    return hashlib.sha256(rounded[np.lexsort(rounded.T[::-1])].tobytes()).hexdigest()[:12]


def _cell_seed(seed: int, cell: Cell) -> int:
    return seed_of(seed, *cell)
