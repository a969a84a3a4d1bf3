"""A synopsis of many features: the released points of the method `gaussian`. Proof: proofs/many_features.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpkmeans.core.engine import Engine
from dpkmeans.core.guarantee import Claim
from dpkmeans.methods.record_count import PublicCount
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis.method import as_synopsis
from dpkmeans.synopsis.synopsis import Synopsis
from dpkmeans.synopsis.weighted_points import WeightedPoints
from dpkmeans.wide.method import GaussianMethod
from dpkmeans.wide.settings import SYNOPSIS_CLUSTERS


@dataclass(frozen=True)
class GaussianSynopsis:
    """The released points of a fit for more clusters than asked for, as a synopsis for any k.

    Guarantee: that of the method `gaussian`; the points are released by it.
    """

    n_records: PublicCount | None = None
    name: str = "gaussian"
    claim: ClassVar[Claim] = Claim.PROVED
    needs_epsilon: ClassVar[bool] = True
    spends_rho: ClassVar[bool] = True

    def run(self, engine: Engine, n_clusters: int, *, ledger: Ledger, rng: Randomness) -> Synopsis:
        """Spend all that the promise leaves, and release weighted points."""
        method = GaussianMethod(self.name, self.n_records)
        certificate = method.run(engine, SYNOPSIS_CLUSTERS * n_clusters, ledger=ledger, rng=rng).certificate
        assert certificate is not None
        points = WeightedPoints(certificate.points, certificate.weights)
        return as_synopsis(points, engine, ledger, rng, kind=self.name)
