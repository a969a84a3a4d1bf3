"""Functions a user calls by name: `make_synopsis`."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from dpkmeans.core.bounds import FROM_DATA, Bounds
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.guarantee import as_label, check_accepted, check_accountable
from dpkmeans.data.open import Where, open_data
from dpkmeans.errors import MethodError
from dpkmeans.methods.base import Claim, guarantee_of
from dpkmeans.privacy.durable.ledger import Account, DurableLedger
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis.method import SynopsisMethod, as_synopsis, build, counted
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
    ledger: Ledger | DurableLedger | str | PathLike[str] | None = None,
    dataset: str | None = None,
    engine: Where = None,
) -> Synopsis:
    """Spend `epsilon` once on weighted points that stand for the records `X`, shape (n, d).

    Everything computed from them afterwards is free: `fit(k)`, `explore(range(2, 20))`, any method. `n_clusters` is
    the largest k that is likely to be asked for; it decides how fine the synopsis is. `bounds`, `n_records`,
    `guarantee`, `random_state`, `ledger`, `dataset` and `engine` are as in `DPKMeans`.

    Guarantee: `proved`, ε-differential privacy for neighbours that differ by one record added or removed, unless a seed
    or bounds read from the data make it `none`. Source: proofs/synopsis.md.

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
    opened = open_data(X, engine)
    k = check_n_clusters(n_clusters)
    rng = Randomness.of(random_state)
    from_data = isinstance(bounds, str) and bounds == FROM_DATA
    box = opened.read_bounds() if from_data else Bounds.of(bounds, opened.n_features)
    offered = guarantee_of(Claim.PROVED, box, rng)
    check_accepted(offered, as_label(guarantee))
    account = _account(ledger, dataset, epsilon)
    if account is not None:
        check_accountable(offered)
    own = Ledger(Epsilon.of(epsilon), parent=ledger if isinstance(ledger, Ledger) else account)
    method = SynopsisMethod("synopsis", counted(n_records), recentre=False)
    with closing(opened.engine(box)) as held:
        points, plan = build(held, k, method, ledger=own, rng=rng)
        made = as_synopsis(points, held, own, rng, kind=type(plan.builder).__name__.lower())
    if account is not None:
        account.settle()
    return replace(made, feature_names=opened.names or _names(X))


def _account(
    ledger: Ledger | DurableLedger | str | PathLike[str] | None, dataset: str | None, epsilon: float
) -> Account | None:
    """An account in a durable ledger, if there is one. Refuses here what the cap does not allow."""
    if ledger is None or isinstance(ledger, Ledger):
        if dataset is not None:
            raise MethodError(
                "names the records in a durable ledger.",
                parameter="dataset",
                hint="Write {ledger='ledger.db'} as well.",
            )
        return None
    if dataset is None:
        raise MethodError(
            "a durable ledger needs the name of the records in it.", hint="Write, say, {dataset='visits'}."
        )
    store = ledger if isinstance(ledger, DurableLedger) else DurableLedger(Path(ledger))
    return store.account(dataset, promised=epsilon, note="synopsis")


def _names(X: Any) -> tuple[str, ...] | None:
    """The names of a frame's columns, where all are texts."""
    names = tuple(getattr(X, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None
