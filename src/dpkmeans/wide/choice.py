"""Which method the default is under (epsilon, delta) or rho: decided from public quantities alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpkmeans.core.bounds import Bounds
from dpkmeans.core.engine import Engine
from dpkmeans.core.guarantee import Claim, claim_of
from dpkmeans.core.release import Release
from dpkmeans.core.schema import Schema
from dpkmeans.data.open import column_names
from dpkmeans.errors import DPKMeansError
from dpkmeans.methods.base import Method
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.wide.settings import MANY_FEATURES, MAX_FEATURES


@dataclass(frozen=True)
class ByFeatures:
    """`few`, a method in pure epsilon, up to 10 features; `many`, with Gaussian noise, beyond. The release names it.

    With few features a single histogram tells most, and Laplace noise on it is smaller than Gaussian noise.
    """

    few: Method
    many: Method
    needs_epsilon: ClassVar[bool] = True
    spends_rho: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """That of the method for few features: which one runs is not known before the records are opened."""
        return self.few.name

    @property
    def claim(self) -> Claim:
        """What both support."""
        return claim_of(self.few, self.many)

    def run(self, engine: Engine, n_clusters: int, *, ledger: Ledger, rng: Randomness) -> Release:
        """The method for as many features as have a width."""
        if are_many(int(np.count_nonzero(engine.bounds.side)), engine.n_features):
            return self.many.run(engine, n_clusters, ledger=ledger, rng=rng)
        if ledger.privacy is not None and not ledger.spends:  # what is pure altogether is promised as pure
            ledger = Ledger(ledger.privacy.as_pure(), parent=ledger)
        return self.few.run(engine, n_clusters, ledger=ledger, rng=rng)


def are_many(wide: int, n_features: int | None = None) -> bool:
    """Whether Gaussian noise is expected to do better: for so many features with a width, of so many in all."""
    return wide >= MANY_FEATURES and (wide if n_features is None else n_features) <= MAX_FEATURES


def known_features(X: Any, schema: Schema | None, bounds: Any, ids: int) -> int:
    """How many features records `X` are known to have before they are opened; 0 where that is not known.

    From the schema, the bounds, the names of columns, of which `ids` hold no feature, or the shape: public all of them.
    """
    if schema is not None:
        return len(schema.sides)
    if isinstance(bounds, Bounds):
        return bounds.n_features
    try:
        names = column_names(X)
    except DPKMeansError:
        names = ()
    if names:
        return len(names) - ids
    shape: tuple[Any, ...] = getattr(X, "shape", ())
    return shape[1] if len(shape) == 2 and isinstance(shape[1], int) else 0
