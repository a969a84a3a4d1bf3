"""`Intervals`: how far noise and clipping may have moved what was released. Computed from the release alone."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.errors import MethodError

if TYPE_CHECKING:
    from dpkmeans.core.release import Release

CENTROID_DEVIATION, SIZE_DEVIATION = "centroid_deviation", "size_deviation"
"""Parameters under which a method that knows its own deviations keeps them: (k, d) in units of the data, and (k,)."""


@dataclass(frozen=True, eq=False)
class Intervals:
    """For each released cell an interval for the exact mean, (k, d) each end, and the number of its records, (k,) each.

    A released cell holds the records whose nearest released centroid it is, clipped to the public box.
    """

    level: float
    lower: FloatArray
    upper: FloatArray
    size_lower: FloatArray
    size_upper: FloatArray


def quantile(level: float) -> float:
    """Deviations of a normal law on either side of its mean that hold `level` of it; refuses what is no level."""
    if not isinstance(level, int | float) or not 0 < level < 1:
        raise MethodError(f"must be between 0 and 1; got {level!r}.", parameter="level", hint="Write {level=0.95}.")
    return NormalDist().inv_cdf((1 + level) / 2)


def around(
    release: Release, level: float, margin: FloatArray, size_margin: FloatArray, beyond: FloatArray | float = 0.0
) -> Intervals:
    """Intervals with these margins, (k, d) and (k,), cut off at the box and at no records.

    Where `beyond` (k, d) is positive, the upper end lies so much farther out; where it is negative, the lower one.
    """
    at, box, sizes = release.centroids, release.bounds, np.asarray(release.sizes, np.float64)
    return Intervals(
        float(level),
        np.maximum(at - margin + np.minimum(beyond, 0.0), np.minimum(box.lower, at)),
        np.minimum(at + margin + np.maximum(beyond, 0.0), np.maximum(box.upper, at)),
        np.maximum(sizes - size_margin, 0.0),
        np.maximum(sizes + size_margin, 0.0),
    )


def by_deviations(release: Release, level: float) -> Intervals | None:
    """Intervals from the deviations that the method itself has released; None where it has not."""
    margin, size_margin = (release.parameters.get(name) for name in (CENTROID_DEVIATION, SIZE_DEVIATION))
    if margin is None or size_margin is None or release.sizes is None:
        return None
    found = np.asarray(margin, np.float64), np.asarray(size_margin, np.float64)
    if found[0].shape != release.centroids.shape or found[1].shape != (release.n_clusters,):
        raise MethodError("The deviations in this release do not fit its centroids. Restore the file from a copy.")
    return around(release, level, quantile(level) * found[0], quantile(level) * found[1])
