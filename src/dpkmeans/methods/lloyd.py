"""Lloyd's algorithm: the yardstick."""

from __future__ import annotations

from typing import Any

from dpkmeans.methods.loop.budgets import Free
from dpkmeans.methods.loop.final_steps import AsIs
from dpkmeans.methods.loop.initializers import as_initializer
from dpkmeans.methods.loop.solver import IterativeMethod
from dpkmeans.methods.loop.stopping import Repeats, check_max_iter
from dpkmeans.methods.loop.updates import ExactMean


def lloyd(*, init: Any = "rows", max_iter: int = 300) -> IterativeMethod:
    """Lloyd's k-means, not private: exact means until an assignment repeats."""
    return IterativeMethod(
        name="lloyd",
        init=as_initializer(init),
        schedule=Free(check_max_iter(max_iter)),
        update=ExactMean(),
        stop=Repeats(),
        final=AsIs(),
        parameters={"max_iter": max_iter},
    )
