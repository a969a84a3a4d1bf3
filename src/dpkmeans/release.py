"""`Release`: everything that leaves a fit. Public content only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dpkmeans.arrays import FloatArray
from dpkmeans.bounds import Bounds
from dpkmeans.errors import FileError
from dpkmeans.files import read_json, write_json
from dpkmeans.guarantee import Guarantee
from dpkmeans.plain import (
    bounds_from_plain,
    bounds_to_plain,
    guarantee_from_plain,
    guarantee_to_plain,
    names_from_plain,
    spends_from_plain,
    spends_to_plain,
)
from dpkmeans.privacy.epsilon import Epsilon
from dpkmeans.privacy.ledger import Spend

KIND = "dpkmeans model"
VERSION = 1


@dataclass(frozen=True)
class PublishedZone:
    """One line of the paper's transcript (Algorithm 1, line 9): iteration, cluster, zone, score, budget, centroid."""

    iteration: int
    cluster: int
    center: tuple[float, ...]
    radius: float
    score: str
    step_epsilon: float
    centroid: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Release:
    """Released centroids, shape (k, d), in the units of the data, with what is guaranteed and what was spent.

    No array as long as the data can be reached from here; nothing in it is exact unless the label says so.
    """

    centroids: FloatArray
    method: str
    guarantee: Guarantee
    bounds: Bounds
    epsilon_promised: float | None
    spends: tuple[Spend, ...]
    n_passes: int
    n_iter: int
    converged: bool | None = None
    transcript: tuple[PublishedZone, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)
    feature_names: tuple[str, ...] | None = None
    sizes: tuple[float, ...] | None = None
    certificate: dict[str, Any] | None = None

    @property
    def epsilon_spent(self) -> float:
        """Realised total, out of the ledger's entries."""
        return float(sum((spend.epsilon for spend in self.spends), Epsilon(0)))

    @property
    def n_clusters(self) -> int:
        """Number of centroids."""
        return len(self.centroids)

    def summary(self) -> str:
        """The guarantee in one sentence."""
        return self.guarantee.in_words(self.epsilon_spent)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "method": self.method,
            "parameters": self.parameters,
            "centroids": self.centroids.tolist(),
            "feature_names": None if self.feature_names is None else list(self.feature_names),
            "guarantee": guarantee_to_plain(self.guarantee, self.epsilon_spent),
            "bounds": bounds_to_plain(self.bounds),
            "epsilon_promised": self.epsilon_promised,
            "epsilon_spent": self.epsilon_spent,
            "spends": spends_to_plain(self.spends),
            "n_passes": self.n_passes,
            "n_iter": self.n_iter,
            "converged": self.converged,
            "sizes": None if self.sizes is None else list(self.sizes),
            "transcript": list(self.transcript_lines()),
            "certificate": self.certificate,
        }

    def transcript_lines(self) -> Iterator[dict[str, Any]]:
        """The published transcript, one plain dictionary per iteration and cluster."""
        for zone in self.transcript:
            line: dict[str, Any] = {
                "iteration": zone.iteration,
                "cluster": zone.cluster,
                "center": list(zone.center),
                "radius": zone.radius,
                "score": zone.score,
                "step_epsilon": zone.step_epsilon,
            }
            if zone.centroid is not None:
                line["centroid"] = list(zone.centroid)
            yield line

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Release:
        """Rebuild a release; checks shapes and that every number is finite."""
        try:
            guarantee = guarantee_from_plain(content["guarantee"])
            bounds = bounds_from_plain(content["bounds"], guarantee)
            centroids = np.array(content["centroids"], dtype=np.float64)
            sizes = content["sizes"]
            promised = content["epsilon_promised"]
            release = cls(
                centroids=centroids,
                method=str(content["method"]),
                guarantee=guarantee,
                bounds=bounds,
                epsilon_promised=None if promised is None else float(Epsilon.of(promised)),
                spends=spends_from_plain(content["spends"]),
                n_passes=int(content["n_passes"]),
                n_iter=int(content["n_iter"]),
                converged=None if content["converged"] is None else bool(content["converged"]),
                transcript=tuple(_zone(line) for line in content["transcript"]),
                parameters=dict(content["parameters"]),
                feature_names=names_from_plain(content["feature_names"]),
                sizes=None if sizes is None else tuple(map(float, sizes)),
                certificate=content["certificate"],
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise FileError(
                f"The model's content is damaged ({type(error).__name__}). Fit again, or restore it."
            ) from None
        if centroids.ndim != 2 or centroids.shape[1] != bounds.n_features or not np.isfinite(centroids).all():
            raise FileError("The model's centroids are damaged: wrong shape or not finite. Fit again, or restore it.")
        release._check_lengths()
        return release

    def _check_lengths(self) -> None:
        k, d = self.centroids.shape
        fits = self.feature_names is None or len(self.feature_names) == d
        fits &= self.sizes is None or (len(self.sizes) == k and bool(np.isfinite(self.sizes).all()))
        for zone in self.transcript:
            numbers = (zone.radius, zone.step_epsilon, *zone.center, *(zone.centroid or ()))
            fits &= len(zone.center) == d and len(zone.centroid or zone.center) == d and 0 <= zone.cluster < k
            fits &= bool(np.isfinite(numbers).all())
        if not fits:
            raise FileError("The model's names, sizes or transcript are damaged. Fit again, or restore it.")

    def save(self, path: str | Path) -> None:
        """Write a model file (JSON with a checksum), replacing an old one only when the new one is complete."""
        write_json(path, KIND, VERSION, self.to_dict())

    @classmethod
    def load(cls, path: str | Path) -> Release:
        """Read a model file."""
        return cls.from_dict(read_json(path, KIND, VERSION))


def _zone(line: dict[str, Any]) -> PublishedZone:
    centroid = line.get("centroid")
    return PublishedZone(
        int(line["iteration"]),
        int(line["cluster"]),
        tuple(map(float, line["center"])),
        float(line["radius"]),
        str(line["score"]),
        float(line["step_epsilon"]),
        None if centroid is None else tuple(map(float, centroid)),
    )
