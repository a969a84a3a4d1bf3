"""Lloyd's algorithm and the two strategies of Lu and Shen, as values."""

from __future__ import annotations

from typing import Any

from dpkmeans.errors import MethodError
from dpkmeans.iteration.controllers import Controller, PosteriorController, PriorController
from dpkmeans.iteration.finals import AsIs, NoisyCountMean
from dpkmeans.iteration.starts import as_start
from dpkmeans.iteration.stopping import Repeats
from dpkmeans.iteration.updates import ExactMean, ZoneSampling
from dpkmeans.methods.base import Claim
from dpkmeans.methods.iterative import IterativeMethod
from dpkmeans.privacy.epsilon import Epsilon
from dpkmeans.privacy.schedules import Free, PerStep


def lloyd(*, init: Any = "rows", max_iter: int = 300) -> IterativeMethod:
    """Lloyd's k-means, not private: the yardstick. Stops when an assignment repeats."""
    return IterativeMethod(
        name="lloyd",
        claim=Claim.NONE,
        start=as_start(init),
        schedule=Free(check_max_iter(max_iter)),
        update=ExactMean(),
        stop=Repeats(),
        final=AsIs(),
        parameters={"max_iter": max_iter},
    )


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
        "posterior",
        PosteriorController(),
        step_epsilon,
        release_epsilon,
        init,
        max_iter,
        publish_centroids,
        {},
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
    controller = PriorController(clip=clip)
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
        claim=Claim.PAPER,
        start=as_start(init),
        schedule=PerStep(step, check_max_iter(max_iter)),
        update=ZoneSampling(controller),
        stop=Repeats(),
        final=NoisyCountMean(final),
        publish_centroids=publish_centroids,
        parameters={
            "step_epsilon": float(step),
            "release_epsilon": float(final),
            "max_iter": max_iter,
            **more,
        },
    )


def check_max_iter(max_iter: int) -> int:
    """A whole number of at least 1."""
    if isinstance(max_iter, bool) or int(max_iter) != max_iter or max_iter < 1:
        raise MethodError(f"max_iter must be a whole number of at least 1; got {max_iter!r}.")
    return int(max_iter)
