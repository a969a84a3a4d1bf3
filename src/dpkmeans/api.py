"""Functions a user calls by name: `make_synopsis`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpkmeans.bounds import FROM_DATA, Bounds
from dpkmeans.data import as_records
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.guarantee import as_label, check_accepted
from dpkmeans.methods.base import Claim, guarantee_of
from dpkmeans.methods.synopsis import SynopsisMethod, as_synopsis, build, counted
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis.synopsis import Synopsis, check_n_clusters


def make_synopsis(
    X: Any,
    epsilon: float,
    bounds: Any,
    *,
    n_clusters: int = 8,
    n_records: int | None = None,
    guarantee: str = "proved",
    random_state: Any = None,
    ledger: Ledger | None = None,
) -> Synopsis:
    """Spend `epsilon` once on weighted points that stand for the records `X`, shape (n, d).

    Everything computed from them afterwards is free: `fit(k)`, `explore(range(2, 20))`, any method. `n_clusters` is
    the largest k that is likely to be asked for; it decides how fine the synopsis is. `bounds`, `n_records`,
    `guarantee`, `random_state` and `ledger` are as in `DPKMeans`.

    Guarantee: `proved`, epsilon-DP for add/remove-one neighbours. Proof: proofs/synopsis.md.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).random((2000, 2))
    >>> synopsis = make_synopsis(X, epsilon=1.0, bounds=(0, 1))
    >>> synopsis.fit(3).centroids.shape
    (3, 2)
    """
    records = as_records(X)
    k = check_n_clusters(n_clusters)
    rng = Randomness.of(random_state)
    from_data = isinstance(bounds, str) and bounds == FROM_DATA
    box = Bounds.read_from(records) if from_data else Bounds.of(bounds, records.shape[1])
    check_accepted(guarantee_of(Claim.PROVED, box, rng), as_label(guarantee))
    own = Ledger(epsilon, parent=ledger)
    engine = MemoryEngine.of_records(records, box)
    method = SynopsisMethod("synopsis", counted(n_records), recentre=False)
    points, plan = build(engine, k, method, ledger=own, rng=rng)
    made = as_synopsis(points, engine, own, rng, kind=type(plan.builder).__name__.lower())
    return replace(made, feature_names=_names(X))


def _names(X: Any) -> tuple[str, ...] | None:
    """The names of a frame's columns, where all are texts."""
    names = tuple(getattr(X, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None
