"""`Release`: everything that leaves a fit. Public content only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon, Spend
from dpkmeans.core.guarantee import Guarantee
from dpkmeans.errors import FileError
from dpkmeans.storage.codec import (
    bounds_from_plain,
    bounds_to_plain,
    guarantee_from_plain,
    guarantee_to_plain,
    names_from_plain,
    number,
    spends_from_plain,
    spends_to_plain,
    text,
    truth,
    whole,
)
from dpkmeans.storage.json_files import read_json, read_lines, write_json, write_lines, write_text

KIND = "dpkmeans model"
TRANSCRIPT_KIND = "dpkmeans transcript"
VERSION = 1
DAMAGED = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
"""What reading plain values raises where they are not what they should be."""


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

    No array as long as the data can be reached from here; nothing in it is exact unless the label says so. `sizes` are
    noisy, shape (k,); `spends` tell what was spent on what; `transcript` and `certificate` tell how it got there.

    Guarantee: `guarantee` says it; `summary()` says it in words. Everything computed from a release is post-processing.

    >>> from dpkmeans import DPKMeans
    >>> X = np.random.default_rng(0).random((2000, 2))
    >>> release = DPKMeans(3, epsilon=1.0, bounds=(0, 1)).fit(X).release_
    >>> release.centroids.shape, release.epsilon_spent, release.guarantee.label
    ((3, 2), 1.0, 'proved')
    >>> Release.from_dict(release.to_dict()).summary() == release.summary()
    True
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

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each feature: its own, or `feature 0` and so on where it has none."""
        return self.feature_names or tuple(f"feature {j}" for j in range(self.bounds.n_features))

    def summary(self) -> str:
        """The guarantee in one sentence."""
        return self.guarantee.in_words(self.epsilon_spent)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from dpkmeans.report.notebook import fragment

        return fragment(self)

    def report(self, path: str | Path | None = None) -> str:
        """One self-contained HTML page about this release, as text; also written to `path` where one is given."""
        from dpkmeans.report import render_report

        page = render_report(self)
        if path is not None:
            write_text(path, page)
        return page

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
            centroids = _matrix(content["centroids"])
            sizes = content["sizes"]
            promised = content["epsilon_promised"]
            release = cls(
                centroids=centroids,
                method=text(content["method"]),
                guarantee=guarantee,
                bounds=bounds,
                epsilon_promised=None if promised is None else float(Epsilon.of(number(promised))),
                spends=spends_from_plain(content["spends"]),
                n_passes=whole(content["n_passes"]),
                n_iter=whole(content["n_iter"]),
                converged=None if content["converged"] is None else truth(content["converged"]),
                transcript=tuple(_zone(line) for line in content["transcript"]),
                parameters=dict(content["parameters"]),
                feature_names=names_from_plain(content["feature_names"]),
                sizes=None if sizes is None else tuple(map(number, sizes)),
                certificate=content["certificate"],
            )
        except DAMAGED as error:
            raise FileError(
                f"The model's content is damaged ({type(error).__name__}). Fit again, or restore it."
            ) from None
        if centroids.ndim != 2 or centroids.shape[1] != bounds.n_features or not np.isfinite(centroids).all():
            raise FileError("The model's centroids are damaged: wrong shape or not finite. Fit again, or restore it.")
        release._check_lengths()
        release._check_claims()
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

    def _check_claims(self) -> None:
        """Refuse what no run of a proved method gives. A checksum does not tell: anyone can make one that matches."""
        if self.guarantee.label != "proved":
            return
        lower, upper, slack = np.array(self.bounds.lower), np.array(self.bounds.upper), self.bounds.longest_side * 1e-6
        inside = bool(((lower - slack <= self.centroids) & (self.centroids <= upper + slack)).all())
        exact = not self.guarantee.seeded and self.guarantee.bounds != "from data"
        within = self.epsilon_promised is None or self.epsilon_spent <= self.epsilon_promised
        if not (inside and exact and within and self.guarantee.arithmetic == "exact integers"):
            raise FileError("The model says 'proved', and its content contradicts that. Do not trust this file.")

    def save(self, path: str | Path) -> None:
        """Write a model file (JSON with a checksum), replacing an old one only when the new one is complete."""
        write_json(path, KIND, VERSION, self.to_dict())

    def save_transcript(self, path: str | Path) -> None:
        """Write the published transcript: a line that says what the file is, then one JSON object per zone."""
        write_lines(path, TRANSCRIPT_KIND, VERSION, self.transcript_lines())

    @classmethod
    def load(cls, path: str | Path) -> Release:
        """Read a model file."""
        return cls.from_dict(read_json(path, KIND, VERSION))


def read_transcript(path: str | Path) -> tuple[PublishedZone, ...]:
    """Read a transcript file; checks that its lines fit together and every number is finite."""
    try:
        zones = tuple(_zone(line) for line in read_lines(path, TRANSCRIPT_KIND, VERSION))
    except FileError:
        raise
    except DAMAGED:
        raise FileError("The transcript's content is damaged. Fit again, or restore it.") from None
    if any(len(zone.center) != len(zones[0].center) or zone.radius < 0 for zone in zones):
        raise FileError("The transcript's zones do not fit together. Fit again, or restore it.")
    return zones


def _zone(line: dict[str, Any]) -> PublishedZone:
    centroid = line.get("centroid")
    return PublishedZone(
        whole(line["iteration"]),
        whole(line["cluster"]),
        tuple(map(number, line["center"])),
        number(line["radius"]),
        text(line["score"]),
        number(line["step_epsilon"]),
        None if centroid is None else tuple(map(number, centroid)),
    )


def _matrix(rows: Any) -> FloatArray:
    return np.array([[number(value) for value in row] for row in rows], dtype=np.float64)
