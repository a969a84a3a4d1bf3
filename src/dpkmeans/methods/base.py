"""What a method is, and how its result becomes a release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.certificate import Certificate
from dpkmeans.core.cost import Cost, promised_fields
from dpkmeans.core.engine import Engine
from dpkmeans.core.epsilon import Spend
from dpkmeans.core.guarantee import Claim, Guarantee, claim_of, guarantee_of
from dpkmeans.core.release import PublishedZone, Release
from dpkmeans.core.schema import Schema
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness


class Method(Protocol):
    """A value that turns an engine into a release. Its fields are public; records and generators are arguments.

    One that divides a promised total says so in an attribute `needs_epsilon`, so that a missing one is refused early.
    """

    @property
    def name(self) -> str:
        """Its name in releases."""

    @property
    def claim(self) -> Claim:
        """What a run of this method promises at best, derived from its parts; see `claim_of`."""

    def run(self, engine: Engine, n_clusters: int, *, ledger: Ledger, rng: Randomness) -> Release:
        """Spend from the ledger and release centroids."""


@dataclass(frozen=True)
class Outcome:
    """What a run ended with: `centroids`, shape (k, d), in unit coordinates, and what the release tells besides."""

    centroids: FloatArray
    n_passes: int
    n_iter: int
    converged: bool | None = None
    transcript: tuple[PublishedZone, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    sizes: FloatArray | None = None
    certificate: Certificate | None = None


@runtime_checkable
class Released(Protocol):
    """An engine of released values, such as a synopsis, which knows what they cost."""

    guarantee: Guarantee
    cost: Cost
    spends: tuple[Spend, ...]
    feature_names: tuple[str, ...] | None
    schema: Schema | None


def make_release(method: Method, outcome: Outcome, engine: Engine, *, ledger: Ledger, rng: Randomness) -> Release:
    """A release of the outcome, with the ledger as it stands.

    Centroids of a proved method lie in the box: a public start may not, and a grid step may reach over its edge. Those
    of any method lie in the ball where there is one. On released values any method is post-processing: guarantee and
    spends are those of the values, and no pass is made.
    """
    claim = claim_of(method)
    guarantee = guarantee_of(claim, engine.bounds, rng)
    cost, n_passes, names, schema = Cost(ledger.privacy, ledger.spends), outcome.n_passes, None, None
    if engine.released and isinstance(engine, Released):
        guarantee, cost = engine.guarantee, engine.cost
        n_passes, names, schema = 0, engine.feature_names, engine.schema
    centroids = engine.bounds.from_unit(np.array(outcome.centroids, dtype=np.float64))
    if "proved" in (claim.label, guarantee.label) or engine.bounds.ball is not None:
        centroids = engine.bounds.take_in(centroids)
    return Release(
        centroids=centroids,
        method=method.name,
        guarantee=guarantee,
        bounds=engine.bounds,
        spends=cost.spends,
        n_passes=n_passes,
        n_iter=outcome.n_iter,
        converged=outcome.converged,
        transcript=outcome.transcript,
        parameters={name: _plain(value) for name, value in outcome.parameters.items()},
        feature_names=names,
        schema=schema,
        sizes=None if outcome.sizes is None else tuple(map(float, outcome.sizes)),
        certificate=outcome.certificate,
        **promised_fields(cost.privacy),
    )


def _plain(value: Any) -> Any:
    """NumPy scalars as Python's own, so that a release can be written as JSON."""
    return value.item() if isinstance(value, np.generic) else value
