"""The paper's protocol: what is computed in a cell.

All cells of one run share their start: k distinct records. Costs are divided by Lloyd's cost from that start.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any

from dpkmeans.core.epsilon import Epsilon
from dpkmeans.errors import NotConvergedWarning, WeakSignalWarning
from dpkmeans.methods.registry import make_method, registry
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.reproduction.baselines import (
    CLOSE_MATCH,
    MATCH,
    Problem,
    baseline,
    cost,
    fingerprint,
    is_near,
    problem_of,
)
from dpkmeans.reproduction.cells import Cell, Row, Task, seed_of
from dpkmeans.reproduction.lemma_runs import theorem_row
from dpkmeans.reproduction.zone_runs import is_fixed_point, zone_run

DELTA = 1e-6  # beside epsilon, for methods with Gaussian noise


def compute(task: Task) -> list[tuple[str, Row]]:
    """The rows of a task's cells, by key."""
    makers = {"path": path_row, "quality": quality_row, "reading": reading_row, "theorem": theorem_row}
    done = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)  # recorded as `stopped`
        warnings.simplefilter("ignore", WeakSignalWarning)  # the paper's smallest sets are weak, as results show
        for cell in task.cells:
            problem = problem_of(cell.dataset, task.k)
            done.append((cell.key, {**cell._asdict(), **makers[cell.kind](problem, cell, task.seed)}))
    return done


def path_row(problem: Problem, cell: Cell, seed: int) -> Row:
    """Passes, convergence and costs of Lloyd, posterior or prior."""
    base = baseline(problem, cell.run, seed)
    if cell.method == "lloyd":
        return {
            "passes": base.lloyd.moves,
            "iterations": base.lloyd.moves,
            "stopped": bool(base.lloyd.stopped),
            "cost": base.cost,
            "optimum": fingerprint(base.lloyd.centroids),
        }
    done = zone_run(problem, cell.method, cell.epsilon, base.start, seed_of(seed, *cell))
    end, watch = done.trajectory, done.watch
    near = is_near(done.means, base.lloyd.centroids)
    exact_cost = cost(problem, done.means)
    return {
        "passes": end.passes,
        "iterations": len(end.moves),
        "stopped": end.stopped,
        "cost": exact_cost,
        "optimum": fingerprint(done.means),
        "match": bool(near.all()),
        "matched_share": float(near.all(axis=1).mean()),
        "closely_matched_share": float(is_near(done.means, base.lloyd.centroids, CLOSE_MATCH).all(axis=1).mean()),
        "cost_match": bool(abs(exact_cost / base.cost - 1) <= MATCH),
        "same_optimum": fingerprint(done.means) == fingerprint(base.lloyd.centroids),
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
    """Cost gap of a baseline or a proved method."""
    base = baseline(problem, cell.run, seed)
    n = len(problem.data.records)
    options: dict[str, Any] = {}
    twin = Cell("path", cell.dataset, cell.run, "paper", "posterior", cell.epsilon)
    total = cell.epsilon if cell.setting == "total" else _posterior_total(problem, twin, seed)
    ledger = Ledger(total, delta=DELTA if registry()[cell.method].spends_rho else None)
    if cell.setting == "paper":
        options["setting"] = "paper"
        if cell.method in ("su", "privgene", "gupt"):
            options["n_records"] = n  # taken as known, as in their papers
        if cell.method in ("su", "dwork", "blum"):
            options["init"] = problem.engine.bounds.from_unit(base.start)
        if cell.method == "gupt":
            options["step_epsilon"], ledger = cell.epsilon, Ledger()
    method = make_method(cell.method, **options)
    release = method.run(problem.engine, problem.data.k, ledger=ledger, rng=Randomness.with_seed(seed_of(seed, *cell)))
    unit = problem.engine.bounds.unit_of(release.centroids)
    return {"gap": cost(problem, unit) / base.cost - 1, "epsilon_total": release.epsilon_spent}


@lru_cache(maxsize=1)
def _posterior_total(problem: Problem, twin: Cell, seed: int) -> float:
    """What posterior spends in the path cell `twin`; recomputed, so that no cell depends on another."""
    start = baseline(problem, twin.run, seed).start
    return zone_run(problem, twin.method, twin.epsilon, start, seed_of(seed, *twin)).epsilon_total


def reading_row(problem: Problem, cell: Cell, seed: int) -> Row:
    """Passes under another reading."""
    base = baseline(problem, cell.run, seed, start=cell.setting if cell.setting.endswith("start") else "rows")
    if cell.method == "lloyd":
        return {"passes": base.lloyd.moves, "stopped": bool(base.lloyd.stopped)}
    done = zone_run(problem, cell.method, cell.epsilon, base.start, seed_of(seed, *cell), cell.setting)
    match = bool(is_near(done.means, base.lloyd.centroids).all())
    return {"passes": done.trajectory.passes, "stopped": done.trajectory.stopped, "match": match}
