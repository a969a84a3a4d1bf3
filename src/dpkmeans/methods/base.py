"""What a method is, and how its result becomes a release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.engine import Engine
from dpkmeans.core.guarantee import Guarantee, Label, weakest
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

    def offers(self) -> Claim:
        """What a run of this method promises at best."""
        ...

    def run(self, engine: Engine, n_clusters: int, *, ledger: Ledger, rng: Randomness) -> Release:
        """Spend from the ledger and release centroids."""
        ...


@dataclass(frozen=True)
class Claim:
    """A method's own part of the guarantee: its label, and why it is no stronger."""

    label: Label
    reasons: tuple[str, ...] = ()
    arithmetic: Literal["exact integers", "floating point"] = "exact integers"

    PROVED: ClassVar[Claim]
    PAPER: ClassVar[Claim]
    NONE: ClassVar[Claim]
    PAPER_SETTING: ClassVar[Claim]
    START_FROM_RECORDS: ClassVar[Claim]


Claim.PROVED = Claim("proved")
Claim.PAPER = Claim(
    "paper",
    ("The method follows the paper, whose privacy proof does not hold.",),
    arithmetic="floating point",
)
Claim.PAPER_SETTING = Claim(
    "paper",
    ("Noise is scaled to the records at hand, as in the paper's experiments.",),
    arithmetic="floating point",
)
Claim.START_FROM_RECORDS = Claim("paper", ("The start is drawn from the records; give a public init.",))
Claim.NONE = Claim("none", ("The method adds no noise.",), arithmetic="floating point")


def guarantee_of(claim: Claim, bounds: Bounds, rng: Randomness) -> Guarantee:
    """The method's claim, weakened by a seed or by bounds that were read from the data."""
    label, reasons = claim.label, list(claim.reasons)
    if rng.seeded:
        label = weakest(label, "none")
        reasons.append("A seed (random_state) makes the noise predictable.")
    if bounds.from_data:
        label = weakest(label, "none")
        reasons.append("The bounds were read from the data; give public ones.")
    return Guarantee(
        label,
        bounds="from data" if bounds.from_data else "given",
        arithmetic=claim.arithmetic,
        seeded=rng.seeded,
        reasons=tuple(reasons),
    )


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
    guarantee = guarantee_of(method.offers(), engine.bounds, rng)
    promised = None if ledger.promised is None else float(ledger.promised)
    spends, names = ledger.spends, None
    if isinstance(engine, Synopsis):
        guarantee, promised, spends = engine.guarantee, engine.epsilon_promised, engine.spends
        n_passes, names = 0, engine.feature_names
    places = engine.bounds.from_unit(np.array(centroids, dtype=np.float64))
    if "proved" in (method.offers().label, guarantee.label):
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
