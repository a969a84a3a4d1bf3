"""The two strategies of Lu and Shen, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpkmeans.core.epsilon import Epsilon
from dpkmeans.methods.loop.budgets import StepEpsilon, per_step
from dpkmeans.methods.loop.final_steps import NoisyCountMean
from dpkmeans.methods.loop.initializers import as_initializer
from dpkmeans.methods.loop.solver import IterativeMethod
from dpkmeans.methods.loop.stopping import Repeats, check_max_iter
from dpkmeans.methods.lu_shen.laws import PAPER_LAWS, Laws
from dpkmeans.methods.lu_shen.zone_sampling import Controller, ZoneSampling


@dataclass(frozen=True)
class Published:
    """What a transcript holds besides zones, q and ε. Exact means give records away; see docs/guarantees.md."""

    centroids: bool = False
    means: bool = False


def posterior(
    *,
    step_epsilon: StepEpsilon = 0.1,
    release_epsilon: float = 0.1,
    init: Any = "rows",
    max_iter: int = 300,
    publish_centroids: bool = False,
    publish_means: bool = False,
    laws: Laws = PAPER_LAWS,
) -> IterativeMethod:
    """Lu and Shen with past knowledge: zones point to the turned far point. Label `paper`.

    `step_epsilon` is one ε, one for each step, or one for each step and cluster; the last step's is kept.
    """
    update = ZoneSampling(Controller.POSTERIOR, laws)
    published = Published(publish_centroids, publish_means)
    return _lu_shen("posterior", update, step_epsilon, release_epsilon, init, max_iter, published)


def prior(
    *,
    step_epsilon: StepEpsilon = 0.1,
    release_epsilon: float = 0.1,
    init: Any = "rows",
    max_iter: int = 300,
    publish_centroids: bool = False,
    publish_means: bool = False,
    laws: Laws = PAPER_LAWS,
    clip: bool = False,
) -> IterativeMethod:
    """Lu and Shen with past and future knowledge: zones point to the mean one pass ahead. Label `paper`.

    `step_epsilon` is as for `posterior`. `clip=True` keeps each sampling zone inside its convergent zone, which the
    paper's own zone may leave.
    """
    update = ZoneSampling(Controller.CLIPPED_PRIOR if clip else Controller.PRIOR, laws)
    published = Published(publish_centroids, publish_means)
    return _lu_shen("prior", update, step_epsilon, release_epsilon, init, max_iter, published, {"clip": clip})


def _lu_shen(
    name: str,
    update: ZoneSampling,
    step_epsilon: StepEpsilon,
    release_epsilon: float,
    init: Any,
    max_iter: int,
    published: Published,
    more: dict[str, Any] | None = None,
) -> IterativeMethod:
    steps, final = check_max_iter(max_iter), Epsilon.of(release_epsilon, "release_epsilon")
    schedule = per_step(step_epsilon, steps)
    shown = {"step_epsilon": schedule.as_given(), "release_epsilon": float(final), "max_iter": max_iter}
    return IterativeMethod(
        name=name,
        init=as_initializer(init),
        schedule=schedule,
        update=update,
        stop=Repeats(),
        final=NoisyCountMean(final),
        publish_centroids=published.centroids,
        publish_means=published.means,
        parameters=shown | (more or {}),
    )
