"""What users of scikit-learn's `KMeans` bring along and cannot have here: refused with the reason and a way out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from dpkmeans.errors import UnsupportedError

_REASONS = {
    "sample_weight": "is not supported: with a weight, one record could add more to a sum than the noise covers. Leave "
    "it out. Where a record stands for several, repeat it; its privacy loss grows with the number of copies.",
    "n_init": "is not needed: restarts run on the private synopsis, where they cost no further budget. Leave it out.",
    "tol": "is not needed: the iteration ends where an assignment repeats. Leave it out.",
    "algorithm": "is not needed: the way to cluster is chosen with method. Leave it out.",
    "copy_x": "is not needed: the records are never changed. Leave it out.",
}


def refuse_arguments(where: str, given: Mapping[str, Any]) -> None:
    """Raise for the first argument that is not None, with the reason if it is one of scikit-learn's `KMeans`."""
    for name, value in given.items():
        if value is not None and name in _REASONS:
            raise UnsupportedError(_REASONS[name], parameter=name)
        if value is not None or name not in _REASONS:
            raise TypeError(f"{where} got an unexpected keyword argument {name!r}")


class RefusesArguments:
    """For an estimator: its constructor explains what it does not take, and `inertia_` why it is not there."""

    def __new__(cls, *args: Any, **given: Any) -> Self:  # not in __init__, whose arguments scikit-learn inspects
        refuse_arguments(f"{cls.__name__}()", {name: value for name, value in given.items() if name in _REASONS})
        return super().__new__(cls)

    @property
    def inertia_(self) -> float:
        """Not there: the exact cost of the records is not private."""
        raise AttributeError(
            f"{type(self).__name__} has no inertia_: the exact cost of the records is not private, so a model does not "
            "carry it. For yourself, the data holder, compute -model.score(X). To compare numbers of clusters at no "
            "further budget: make_synopsis(...).explore(range(2, 20))."
        )
