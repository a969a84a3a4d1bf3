"""`make_synopsis`: spend once, then fit and explore at no further cost. Without scikit-learn, which imports slowly."""

from __future__ import annotations

from typing import Any

from dpkmeans.core.unit import Unit
from dpkmeans.data.source import Nulls
from dpkmeans.engines.open import EngineSpec
from dpkmeans.privacy.accounts import LedgerLike
from dpkmeans.session import FitRequest, run_synopsis
from dpkmeans.synopsis.synopsis import Synopsis


def make_synopsis(
    X: Any,
    epsilon: float | None = None,
    bounds: Any = None,
    *,
    delta: float | None = None,
    rho: float | None = None,
    max_norm: float | None = None,
    normalize: bool = False,
    schema: Any = None,
    scale: Any = "auto",
    nulls: Nulls = "refuse",
    unit: Unit | None = None,
    n_clusters: int = 8,
    n_records: int | None = None,
    guarantee: str = "proved",
    random_state: Any = None,
    ledger: LedgerLike = None,
    dataset: str | None = None,
    engine: EngineSpec = None,
) -> Synopsis:
    """Spend `epsilon` once on weighted points that stand for the records `X`, shape (n, d).

    Whatever is computed from them afterwards costs no further budget: `fit(k)`, `explore(range(2, 20))`, any method.
    `n_clusters` is the largest k that is likely to be of interest; it decides how fine the synopsis is. The other
    parameters are those of `DPKMeans`.

    Guarantee: `proved`, ε-differential privacy for neighbours that differ by one record, or one person (`unit`), added
    or removed, unless a seed or bounds read from the data make it `none`. Source: proofs/synopsis.md.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).random((2000, 2))
    >>> synopsis = make_synopsis(X, epsilon=1.0, bounds=(0, 1))
    >>> synopsis.fit(3).centroids.shape
    (3, 2)
    >>> [row.k for row in synopsis.explore([2, 3, 4])]
    [2, 3, 4]
    >>> synopsis.epsilon_spent
    1.0
    """
    request = FitRequest(
        n_clusters=n_clusters,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        bounds=bounds,
        max_norm=max_norm,
        normalize=normalize,
        schema=schema,
        scale=scale,
        nulls=nulls,
        unit=unit,
        guarantee=guarantee,
        n_records=n_records,
        random_state=random_state,
        ledger=ledger,
        dataset=dataset,
        engine=engine,
    )
    return run_synopsis(request, X)
