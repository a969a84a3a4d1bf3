"""What a method is, and how its result becomes a release."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.engine import Engine
from dpkmeans.core.guarantee import Claim, claim_of, guarantee_of
from dpkmeans.core.release import PublishedZone, Release
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis.synopsis import Synopsis


class Method(Protocol):
    """A value that turns an engine into a release. Its fields are public; records and generators are arguments."""

    @property
    def name(self) -> str:
        """Its name in releases."""
        ...

    @property
    def claim(self) -> Claim:
        """What a run of this method promises at best, derived from its parts; see `claim_of`."""
        ...

    def run(self, engine: Engine, n_clusters: int, *, ledger: Ledger, rng: Randomness) -> Release:
        """Spend from the ledger and release centroids."""
        ...


def make_release(
    method: Method,
    engine: Engine,
    centroids: FloatArray,
    *,
    ledger: Ledger,
    rng: Randomness,
    n_passes: int,
    n_iter: int,
    converged: bool | None = None,
    transcript: tuple[PublishedZone, ...] = (),
    parameters: dict[str, Any] | None = None,
    sizes: FloatArray | None = None,
    certificate: dict[str, Any] | None = None,
) -> Release:
    """A release of `centroids`, shape (k, d), in unit coordinates, with the ledger as it stands.

    Those of a proved method lie in the box: a public start may not, and a grid step may reach over its edge. On a
    synopsis any method is post-processing: the guarantee and the spends are the synopsis' own, and no pass is made.
    """
    claim = claim_of(method)
    guarantee = guarantee_of(claim, engine.bounds, rng)
    promised = None if ledger.promised is None else float(ledger.promised)
    spends, names = ledger.spends, None
    if isinstance(engine, Synopsis):
        guarantee, promised, spends = engine.guarantee, engine.epsilon_promised, engine.spends
        n_passes, names = 0, engine.feature_names
    places = engine.bounds.from_unit(np.array(centroids, dtype=np.float64))
    if "proved" in (claim.label, guarantee.label):
        places = np.clip(places, engine.bounds.lower, engine.bounds.upper)
    return Release(
        centroids=places,
        method=method.name,
        guarantee=guarantee,
        bounds=engine.bounds,
        epsilon_promised=promised,
        spends=spends,
        n_passes=n_passes,
        n_iter=n_iter,
        converged=converged,
        transcript=transcript,
        parameters={name: _plain(value) for name, value in (parameters or {}).items()},
        feature_names=names,
        sizes=None if sizes is None else tuple(map(float, sizes)),
        certificate=certificate,
    )


def _plain(value: Any) -> Any:
    """NumPy scalars as Python's own, so that a release can be written as JSON."""
    return value.item() if isinstance(value, np.generic) else value
