"""`Quality` and `Profile`: private answers about records and a release, with how far the noise may have moved them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpkmeans._typing import FloatArray, IntArray
from dpkmeans.core.cost import Cost
from dpkmeans.core.guarantee import Guarantee
from dpkmeans.core.identity import Identity
from dpkmeans.core.rounding import number, with_margin
from dpkmeans.storage.codec import encode_guarantee
from dpkmeans.storage.identity import encode_identity

VERSION = 1
LEVEL = 0.95
"""Of all intervals here. They follow from the law of the noise alone, so they hold at least so often."""


@dataclass(frozen=True)
class Basis:
    """What an answer rests on: the digest of the release that it is `about`, None where that has no identity, what is
    guaranteed for the answer alone, and what it has cost beside the release.
    """

    about: str | None
    guarantee: Guarantee
    cost: Cost

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "about": self.about,
            "guarantee": encode_guarantee(self.guarantee, self.cost),
            "epsilon_spent": self.cost.epsilon,
            "spends": [{"label": spend.label, "epsilon": float(spend.epsilon)} for spend in self.cost.spends],
        }


@dataclass(frozen=True)
class Estimate:
    """A noisy value, and the ends of an interval that holds the exact one with 95 % confidence."""

    value: float
    lower: float
    upper: float

    def __str__(self) -> str:
        """The value with the digits that the noise leaves, as in `82.0 ± 0.2`."""
        return with_margin(self.value, max(self.upper - self.value, self.value - self.lower))

    def to_dict(self) -> dict[str, float]:
        """Plain values for JSON."""
        return {"value": self.value, "lower": self.lower, "upper": self.upper}


class Answer:
    """What every answer says of its `basis`."""

    basis: Basis

    @property
    def guarantee(self) -> Guarantee:
        """What is guaranteed for the answer alone."""
        return self.basis.guarantee

    @property
    def file_version(self) -> int:
        """The version of the format of `to_dict`."""
        return VERSION

    @property
    def epsilon_spent(self) -> float | None:
        """What the answer has cost."""
        return self.basis.cost.epsilon

    def summary(self) -> str:
        """The guarantee in one sentence."""
        return self.basis.cost.statement(self.guarantee)


@dataclass(frozen=True, repr=False)
class Quality(Answer):
    """How well released centroids fit the records: noisy `cost`, simplified `silhouette`, and number of `records`.

    The cost is in squared units of the data, or of its scale; a distance of more than `radius` counts as `radius`, and
    `beyond` says how many records have one. The silhouette is the mean over records of 1 - (distance to the nearest
    centroid)/(distance to the next), from 0 to 1. With persons as the unit, records are those that count.

    Guarantee: `guarantee`, for the answer alone; the release has its own, and both add up.
    Source: proofs/evaluation.md.
    """

    cost: Estimate
    silhouette: Estimate
    records: Estimate
    beyond: Estimate
    radius: float
    basis: Basis
    identity: Identity | None = None
    level: float = LEVEL

    def rows(self) -> list[tuple[str, str]]:
        """What is answered, as texts: name and value."""
        return [
            ("cost", str(self.cost)),
            ("simplified silhouette", str(self.silhouette)),
            ("records", str(self.records)),
            (f"farther than {number(self.radius)}", str(self.beyond)),
        ]

    def __repr__(self) -> str:
        """A few lines."""
        return "\n".join(["<Quality>", self.summary(), *(f"{name}: {value}" for name, value in self.rows())])

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        found = {name: getattr(self, name).to_dict() for name in ("cost", "silhouette", "records", "beyond")}
        return {
            "format": "dpkmeans quality",
            **found,
            "radius": self.radius,
            "level": self.level,
            **self.basis.to_dict(),
            "identity": encode_identity(self.identity),
        }


@dataclass(frozen=True, eq=False)
class Histogram:
    """Noisy numbers of records of each cluster in each bin of a column, (k, bins), as whole numbers, negative ones too.

    `margin` is how far the exact number may be from a noisy one with 95 % confidence. Of bins with a range, the lower
    end belongs to it and the upper one does not, but for the last.
    """

    bins: tuple[str, ...]
    counts: IntArray
    margin: int

    @property
    def lower(self) -> IntArray:
        """Lower ends of intervals for the exact numbers, (k, bins)."""
        return np.maximum(self.counts - self.margin, 0)

    @property
    def upper(self) -> IntArray:
        """Upper ends, (k, bins)."""
        return np.maximum(self.counts + self.margin, 0)

    @property
    def shares(self) -> FloatArray:
        """The share of each bin in its cluster, (k, bins), with noisy numbers below 0 as 0; 0 where nothing is left."""
        held = np.maximum(self.counts, 0).astype(np.float64)
        total = held.sum(axis=1, keepdims=True)
        return np.asarray(np.divide(held, total, out=np.zeros_like(held), where=total > 0))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"bins": list(self.bins), "counts": self.counts.tolist(), "margin": self.margin}


@dataclass(frozen=True, repr=False, eq=False)
class Profile(Answer):
    """Noisy histograms of columns within the clusters of a release, by the name of the column.

    Guarantee: `guarantee`, for the answer alone; the release has its own, and both add up.
    Source: proofs/evaluation.md.
    """

    columns: Mapping[str, Histogram]
    basis: Basis
    identity: Identity | None = None
    level: float = LEVEL

    def __getitem__(self, column: str) -> Histogram:
        return self.columns[column]

    def to_frame(self, column: str) -> Any:
        """The noisy numbers of one column as a pandas frame, with a row per cluster and a column per bin."""
        import pandas as pd

        found = self.columns[column]
        return pd.DataFrame(
            found.counts, columns=list(found.bins), index=pd.RangeIndex(len(found.counts), name="cluster")
        )

    def __repr__(self) -> str:
        """A few lines."""
        lines = [f"{name}: {len(found.bins)} bins, each ± {found.margin:,}" for name, found in self.columns.items()]
        return "\n".join(["<Profile>", self.summary(), *lines])

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "format": "dpkmeans profile",
            "columns": {name: found.to_dict() for name, found in self.columns.items()},
            "level": self.level,
            **self.basis.to_dict(),
            "identity": encode_identity(self.identity),
        }
