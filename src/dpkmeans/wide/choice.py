"""Which method the default is under (epsilon, delta) or rho: decided from public quantities alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpkmeans.core.engine import Engine
from dpkmeans.core.guarantee import Claim, claim_of
from dpkmeans.core.release import Release
from dpkmeans.methods.base import Method
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.wide.settings import MANY_FEATURES, MAX_FEATURES


@dataclass(frozen=True)
class ByFeatures:
    """`few`, a method in pure epsilon, up to 20 features; `many`, with Gaussian noise, beyond. The release names it.

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
        wide = np.count_nonzero(engine.bounds.side) >= MANY_FEATURES and engine.n_features <= MAX_FEATURES
        if wide:
            return self.many.run(engine, n_clusters, ledger=ledger, rng=rng)
        if ledger.privacy is not None and not ledger.spends:  # what is pure altogether is promised as pure
            ledger = Ledger(ledger.privacy.as_pure(), parent=ledger)
        return self.few.run(engine, n_clusters, ledger=ledger, rng=rng)
