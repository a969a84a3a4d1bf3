"""`Release`: everything that leaves a fit. Public content only.

Values know no files. A release is shown and saved by methods all the same, for its user's sake; these import what they
need when they are called.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from dpkmeans._typing import FloatArray
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.certificate import Certificate
from dpkmeans.core.cost import Cost
from dpkmeans.core.epsilon import Spend
from dpkmeans.core.guarantee import Guarantee
from dpkmeans.core.identity import Identity
from dpkmeans.core.intervals import Intervals
from dpkmeans.core.schema import Schema

if TYPE_CHECKING:
    from dpkmeans.evaluation.answers import Profile, Quality
    from dpkmeans.evaluation.asking import Asking


@dataclass(frozen=True)
class PublishedZone:
    """One line of the paper's transcript (Algorithm 1, line 9): iteration, cluster, zone, score, budget, centroid.

    `mean` is where the score measures from. It is public on a synopsis; on records it gives the exact mean away, and is
    published only where that is asked for.
    """

    iteration: int
    cluster: int
    center: tuple[float, ...]
    radius: float
    score: str
    step_epsilon: float
    centroid: tuple[float, ...] | None = None
    mean: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Release:
    """Released centroids, shape (k, d), in the units of the data, with what is guaranteed and what was spent.

    No array as long as the data can be reached from here; nothing in it is exact unless the label says so. `sizes` are
    noisy, shape (k,); `spends` tell what was spent on what; `transcript` and `certificate` tell how it got there. Where
    a `schema` says what the columns mean, `describe()` shows the centroids by column. `identity` says which release it
    is: its digest, and its entry in a ledger.

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
    schema: Schema | None = None
    sizes: tuple[float, ...] | None = None
    certificate: Certificate | None = None
    delta: float | None = None
    rho_promised: float | None = None
    identity: Identity | None = None

    @property
    def cost(self) -> Cost:
        """What was promised and spent."""
        return Cost.of(self.spends, self.epsilon_promised, self.delta, self.rho_promised)

    @property
    def file_version(self) -> int:
        """The version of its file: the oldest that reads it rightly."""
        from dpkmeans.storage import codec

        return codec.file_version(self.guarantee, self.bounds, self.cost)

    @property
    def epsilon_spent(self) -> float | None:
        """Realised total, out of the ledger's entries: at `delta` with Gaussian noise; None where there is no delta."""
        return self.cost.epsilon

    @property
    def rho_spent(self) -> float | None:
        """Realised total in zero-concentrated differential privacy; None where all spends are pure."""
        return self.cost.rho

    @property
    def n_clusters(self) -> int:
        """Number of centroids."""
        return len(self.centroids)

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each feature: its own, or `feature 0` and so on where it has none."""
        return self.feature_names or tuple(f"feature {j}" for j in range(self.bounds.n_features))

    def describe(self) -> list[dict[str, Any]]:
        """The centroids as a person reads them, one entry per column: dates as dates, categories as shares.

        Shares of a category stand in the order of their size, so the first is the most likely level.

        >>> import pandas as pd
        >>> from dpkmeans import Boolean, DPKMeans, Number
        >>> visits = pd.DataFrame({"age": [30, 50] * 500, "smoker": [True, False] * 500})
        >>> schema = {"age": Number(0, 100), "smoker": Boolean()}
        >>> release = DPKMeans(2, epsilon=1.0, schema=schema, scale="box").fit(visits).release_
        >>> sorted(release.describe()[0])
        ['age', 'smoker']
        """
        if self.schema is None:
            return [dict(zip(self.names, centroid, strict=True)) for centroid in self.centroids.tolist()]
        return [self.schema.readable(centroid) for centroid in self.centroids.tolist()]

    def to_frame(self) -> Any:
        """The centroids as a pandas frame with one row per cluster, as `describe()` shows them.

        A category gives its most likely level, and a share for each level in a column such as `region=N`. Noisy sizes
        are in `size`. Guarantee: that of the release.

        >>> import pandas as pd
        >>> from dpkmeans import Category, DPKMeans, Number
        >>> visits = pd.DataFrame({"age": [30, 50] * 500, "region": ["N", "S"] * 500})
        >>> schema = {"age": Number(0, 100), "region": Category("N", "S")}
        >>> DPKMeans(2, epsilon=1.0, schema=schema, scale="box").fit(visits).release_.to_frame().columns.tolist()
        ['age', 'region', 'region=N', 'region=S', 'region=other', 'size']
        """
        from dpkmeans.core.readable import to_frame

        return to_frame(self)

    def predict(self, X: Any, *, engine: Any = None) -> Any:
        """Index of the nearest centroid of each record of `X`: a frame, array, file, Dask or Spark object, (n,).

        Columns are found by name, with the schema of the fit. Not private: it tells where each record lies. A Dask
        array gives a lazy Dask array, a Dask frame a lazy series, and a Spark frame the same frame with a column
        `cluster`.

        >>> import numpy as np
        >>> from dpkmeans import DPKMeans
        >>> X = np.random.default_rng(0).random((2000, 2))
        >>> DPKMeans(3, epsilon=1.0, bounds=(0, 1)).fit(X).release_.predict(X[:5]).shape
        (5,)
        """
        from dpkmeans.engines.labels import open_for, predict

        return predict(self, open_for(self, X, engine))

    def intervals(self, level: float = 0.95) -> Intervals:
        """For each released cell an interval for the exact mean (k, d) and the exact number (k,) of its records.

        Its records are those, clipped to the box, whose nearest released centroid it is; where there are none, there is
        no mean. The intervals follow from the known noise and the clipping, by repeating the method on the released
        synopsis. Guarantee: that of the release; nothing is spent. How often they hold: docs/uncertainty.md.

        >>> import numpy as np
        >>> from dpkmeans import DPKMeans
        >>> X = np.random.default_rng(0).random((2000, 2))
        >>> found = DPKMeans(3, epsilon=1.0, bounds=(0, 1)).fit(X).release_.intervals(0.95)
        >>> found.lower.shape, bool((found.size_lower <= found.size_upper).all())
        ((3, 2), True)
        """
        from dpkmeans.synopsis.intervals import intervals

        return intervals(self, level)

    def quality(self, X: Any, epsilon: float, **how: Unpack[Asking]) -> Quality:
        """How well the centroids fit the records `X`: a private cost and simplified silhouette, each with an interval.

        `how` takes `ledger`, `dataset`, `guarantee`, `engine` and `random_state`, as a fit does. The unit is that of
        this release. Guarantee: `proved` for `epsilon` beside what the release has cost, and never stronger than this
        release's own label. Source: proofs/evaluation.md.

        >>> import numpy as np
        >>> from dpkmeans import DPKMeans
        >>> X = np.random.default_rng(0).random((2000, 2))
        >>> found = DPKMeans(3, epsilon=1.0, bounds=(0, 1)).fit(X).release_.quality(X, epsilon=0.5)
        >>> found.epsilon_spent, 0 < found.silhouette.value < 1, found.cost.lower < found.cost.upper
        (0.5, True, True)
        """
        from dpkmeans.evaluation.quality import quality

        return quality(self, X, epsilon, how)

    def profile(self, X: Any, columns: Any, epsilon: float, *, bins: Any = 10, **how: Unpack[Asking]) -> Profile:
        """Private histograms of other columns of the table `X` within the clusters: noisy numbers, with intervals.

        `columns` maps names to kinds, as a schema does, or to `(lower, upper)`; names alone are for columns of the
        fit. Levels and bounds must be public. `bins` is how many ranges a column of numbers, dates or times has, or by
        name the edges of the ranges, as in `{"age": [0, 18, 65, 120]}`. `how` is as for `quality`. Missing values have
        a bin of their own, and so have values that are no level. Guarantee: as for `quality`.

        >>> import pandas as pd
        >>> from dpkmeans import Category, DPKMeans
        >>> visits = pd.DataFrame({"age": [30, 50] * 500, "region": ["N", "S"] * 500})
        >>> release = DPKMeans(2, epsilon=1.0, bounds={"age": (0, 100)}).fit(visits).release_
        >>> found = release.profile(visits, {"region": Category("N", "S")}, epsilon=1.0)
        >>> found["region"].bins, found["region"].counts.shape
        (('N', 'S', 'other', 'missing'), (2, 4))
        """
        from dpkmeans.evaluation.profile import profile

        return profile(self, X, columns, epsilon, bins, how)

    def summary(self) -> str:
        """The guarantee in one sentence."""
        return self.cost.statement(self.guarantee)

    def __repr__(self) -> str:
        """A few lines: method, shape, guarantee, and the first centroids with what the noise leaves of their digits."""
        from dpkmeans.core.readable import few_lines

        return few_lines(self)

    def signed(self, key: Any) -> Release:
        """The same, signed with a private key: a `SigningKey`, or the path of its file.

        Guarantee: that of the release. The signature says who vouches for it, not that it is private.
        """
        from dpkmeans.storage.identity import signed

        return signed(self, key)

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

    def save(self, path: str | PathLike[str]) -> None:
        """Write a model file (JSON with a checksum), replacing an old one only when the new one is complete."""
        from dpkmeans.storage.models import save_release

        save_release(path, self)

    def save_transcript(self, path: str | PathLike[str]) -> None:
        """Write the published transcript: a line that says what the file is, then one JSON object per zone."""
        from dpkmeans.storage.models import save_transcript

        save_transcript(path, self.transcript)

    @classmethod
    def load(cls, path: str | Path) -> Release:
        """Read a model file."""
        from dpkmeans.storage.models import load_release

        return load_release(path)
