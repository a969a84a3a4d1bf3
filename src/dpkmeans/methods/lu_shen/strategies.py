"""The two strategies of Lu and Shen, as values."""

from __future__ import annotations

from typing import Any

from dpkmeans.core.epsilon import Epsilon
from dpkmeans.methods.loop.budgets import PerStep
from dpkmeans.methods.loop.final_steps import NoisyCountMean
from dpkmeans.methods.loop.initializers import as_initializer
from dpkmeans.methods.loop.solver import IterativeMethod
from dpkmeans.methods.loop.stopping import Repeats, check_max_iter
from dpkmeans.methods.lu_shen.zone_sampling import Controller, ZoneSampling


def posterior(
    *,
    step_epsilon: float = 0.1,
    release_epsilon: float = 0.1,
    init: Any = "rows",
    max_iter: int = 300,
    publish_centroids: bool = False,
) -> IterativeMethod:
    """Lu and Shen with past knowledge: zones point to the turned far point. Label `paper`."""
    return _lu_shen(
        "posterior", Controller.POSTERIOR, step_epsilon, release_epsilon, init, max_iter, publish_centroids, {}
    )


def prior(
    *,
    step_epsilon: float = 0.1,
    release_epsilon: float = 0.1,
    init: Any = "rows",
    max_iter: int = 300,
    publish_centroids: bool = False,
    clip: bool = False,
) -> IterativeMethod:
    """Lu and Shen with past and future knowledge: zones point to the mean one pass ahead. Label `paper`.

    `clip=True` keeps each sampling zone inside its convergent zone, which the paper's own zone may leave.
    """
    controller = Controller.CLIPPED_PRIOR if clip else Controller.PRIOR
    return _lu_shen(
        "prior", controller, step_epsilon, release_epsilon, init, max_iter, publish_centroids, {"clip": clip}
    )


def _lu_shen(
    name: str,
    controller: Controller,
    step_epsilon: float,
    release_epsilon: float,
    init: Any,
    max_iter: int,
    publish_centroids: bool,
    more: dict[str, Any],
) -> IterativeMethod:
    step = Epsilon.of(step_epsilon, "step_epsilon")
    final = Epsilon.of(release_epsilon, "release_epsilon")
    return IterativeMethod(
        name=name,
        init=as_initializer(init),
        schedule=PerStep(step, check_max_iter(max_iter)),
        update=ZoneSampling(controller),
        stop=Repeats(),
        final=NoisyCountMean(final),
        publish_centroids=publish_centroids,
        parameters={"step_epsilon": float(step), "release_epsilon": float(final), "max_iter": max_iter, **more},
    )
