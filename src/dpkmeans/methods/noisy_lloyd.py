"""Lloyd's iteration with noisy sums and counts: the methods of Blum, Dwork and Su, as values.

Proved: proofs/noisy_lloyd.md. `setting="paper"` is for reproducing the paper only: noise scaled to the records at hand
(local sensitivity) and, by default, a start drawn from them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpkmeans.errors import MethodError
from dpkmeans.methods.loop.budgets import EvenSplit, Halving, Schedule, SuSplit
from dpkmeans.methods.loop.final_steps import AsIs
from dpkmeans.methods.loop.initializers import as_initializer
from dpkmeans.methods.loop.solver import IterativeMethod
from dpkmeans.methods.loop.stopping import AfterPlan
from dpkmeans.methods.loop.updates import GaussianMean, LocalNoisyMean, NoisyMean
from dpkmeans.methods.record_count import NotNeeded, RecordCount, record_count


def blum(*, steps: int = 5, init: Any = None, setting: str = "proved", noise: str = "laplace") -> IterativeMethod:
    """An even split over a fixed number of steps; `noise="gaussian"` for (epsilon, delta) or rho."""
    made = _noisy_lloyd("blum", EvenSplit(steps), init, "uniform", setting, {"steps": steps})
    return _with_noise(made, noise)


def dwork(*, steps: int | None = None, init: Any = None, setting: str = "proved") -> IterativeMethod:
    """Step i spends ε/2^i, the last one what is left.

    By default 3 steps: each further one ends the run on half the budget of the one before. 7 in the paper's setting,
    which halves until the budget is used up.
    """
    planned = steps if steps is not None else 7 if is_paper_setting(setting) else 3
    return _noisy_lloyd("dwork", Halving(planned), init, "uniform", setting, {"steps": planned})


def su(
    *, n_records: int | None = None, init: Any = None, setting: str = "proved", noise: str = "laplace"
) -> IterativeMethod:
    """Steps, shares and sphere-packing start of Su et al.; the number of records is public or bought.

    With `noise="gaussian"`, for (epsilon, delta) or rho, the shares are the same, of a rho.
    """
    counted = record_count(n_records)
    made = _noisy_lloyd("su", SuSplit(), init, "packing", setting, {"n_records": n_records}, counted)
    return _with_noise(made, noise)


def _with_noise(method: IterativeMethod, noise: str) -> IterativeMethod:
    if not is_gaussian(noise):
        return method
    if not isinstance(method.update, NoisyMean):
        raise MethodError("the paper's setting supports only Laplace noise.")
    return replace(method, update=GaussianMean(), parameters={**method.parameters, "noise": noise})


def _noisy_lloyd(
    name: str,
    schedule: Schedule,
    init: Any,
    public_init: str,
    setting: str,
    parameters: dict[str, Any],
    counted: RecordCount = NotNeeded(),  # noqa: B008 (a frozen value)
) -> IterativeMethod:
    in_paper = is_paper_setting(setting)
    return IterativeMethod(
        name=name,
        init=as_initializer(init if init is not None else "rows" if in_paper else public_init),
        schedule=schedule,
        update=LocalNoisyMean() if in_paper else NoisyMean(),
        stop=AfterPlan(),
        final=AsIs(),
        record_count=counted,
        parameters={**parameters, "setting": setting},
    )


def is_paper_setting(setting: str) -> bool:
    """Whether `setting` is the paper's; an error where it is neither."""
    if setting not in ("proved", "paper"):
        raise MethodError(f"setting must be 'proved' or 'paper'; got {setting!r}.")
    return setting == "paper"


def is_gaussian(noise: str) -> bool:
    """Whether `noise` is Gaussian; an error where it is neither that nor Laplace."""
    if noise not in ("laplace", "gaussian"):
        raise MethodError(f"noise must be 'laplace' or 'gaussian'; got {noise!r}.")
    return noise == "gaussian"
