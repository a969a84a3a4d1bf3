"""`Release`: everything that leaves a fit. Public content only.

Values know no files. A release is shown and saved by methods all the same, for its user's sake; these import what they
need when they are called.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpkmeans._typing import FloatArray
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.certificate import Certificate
from dpkmeans.core.epsilon import Epsilon, Spend
from dpkmeans.core.guarantee import Guarantee


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

    >>> import numpy as np
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
    certificate: Certificate | None = None

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
        from dpkmeans.storage.json_files import write_text

        page = render_report(self)
        if path is not None:
            write_text(path, page)
        return page

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        from dpkmeans.storage.models import encode_release

        return encode_release(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Release:
        """Rebuild a release; checks shapes, that every number is finite, and what it claims."""
        from dpkmeans.storage.models import decode_release

        return decode_release(content)

    def save(self, path: str | Path) -> None:
        """Write a model file (JSON with a checksum), replacing an old one only when the new one is complete."""
        from dpkmeans.storage.json_files import write_json
        from dpkmeans.storage.models import KIND, VERSION

        write_json(path, KIND, VERSION, self.to_dict())

    def save_transcript(self, path: str | Path) -> None:
        """Write the published transcript: a line that says what the file is, then one JSON object per zone."""
        from dpkmeans.storage.models import save_transcript

        save_transcript(path, self.transcript)

    @classmethod
    def load(cls, path: str | Path) -> Release:
        """Read a model file."""
        from dpkmeans.storage.json_files import read_json
        from dpkmeans.storage.models import KIND, VERSION

        return cls.from_dict(read_json(path, KIND, VERSION))
