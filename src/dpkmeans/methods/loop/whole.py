"""The loop in a few compiled calls where that is the same to the bit, and step by step where it is not.

Many small fits spend their time between the steps, not in them. What is compiled is the paper's own loop: zones drawn
by a plain generator, until an assignment repeats, with a ledger that has no reason to refuse a step.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.engine import Engine
from dpkmeans.core.exact import reveal
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.kernels.zones import CLIPPED_PRIOR, POSTERIOR, PRIOR, ROOM, ZoneFit, ZoneHistory
from dpkmeans.methods.loop.budgets import StepBudget
from dpkmeans.methods.loop.solver import Move, Trajectory, Update, iterate
from dpkmeans.methods.loop.stopping import Repeats, Stop
from dpkmeans.methods.loop.updates import ZoneSampling
from dpkmeans.methods.lu_shen.controllers import Controller, PosteriorController, PriorController
from dpkmeans.methods.lu_shen.zones import Zones
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness


def iterate_whole(
    engine: Engine,
    start: FloatArray,
    plan: Iterable[StepBudget],
    *,
    update: Update,
    stop: Stop,
    ledger: Ledger,
    rng: Randomness,
) -> Trajectory:
    """`iterate`, faster where it can be."""
    if type(update) is ZoneSampling and type(stop) is Repeats and ledger.refuses_nothing:
        fit = zone_fit(engine, start, update.controller)
        if fit is not None:
            return walk(fit, start, plan, ledger=ledger, rng=rng)[0]
    return iterate(engine, start, plan, update=update, stop=stop, ledger=ledger, rng=rng)


def zone_fit(engine: Engine, start: FloatArray, controller: Controller) -> ZoneFit | None:
    """A compiled fit, for the paper's own controllers on records in memory."""
    if type(engine) is not MemoryEngine:
        return None
    if type(controller) is PosteriorController:
        return engine.zone_fit(start, POSTERIOR)
    if type(controller) is PriorController:
        return engine.zone_fit(start, CLIPPED_PRIOR if controller.clip else PRIOR)
    return None


def walk(
    fit: ZoneFit, start: FloatArray, plan: Iterable[StepBudget], *, ledger: Ledger, rng: Randomness
) -> tuple[Trajectory, list[ZoneHistory]]:
    """The way of a compiled fit to the end of the plan, or until an assignment repeats, and its exact history."""
    way, histories, budgets = Trajectory(start), [], iter(plan)
    passes = 1 if fit.strategy == POSTERIOR else 2
    while not way.stopped and (ahead := list(islice(budgets, ROOM))):
        epsilons = np.array([float(budget.zone) for budget in ahead])
        history = reveal(fit.go(epsilons, rng.generator), why="the paper builds its zones from exact means")
        for i, budget in enumerate(ahead[: history.n_steps]):
            ledger.spend_parallel((budget.zone,) * len(start), f"step {len(way.moves) + 1}: zones")
            zones = Zones(history.center[i], history.radius[i])
            way.moves.append((budget, Move(history.drawn[i], passes, zones)))
        way.passes += passes * history.n_steps
        way.stopped = history.stopped
        histories.append(history)
    if way.moves:
        way.centroids = way.moves[-1][1].centroids
    if way.stopped:
        way.exact = fit.statistics()
    return way, histories
