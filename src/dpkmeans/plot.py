"""Plots of releases with matplotlib: each draws on the given Axes and returns it.

They read releases only, so a plot has the guarantee of what it shows. Without `ax` they draw on pyplot's current
Axes. `features` chooses the two features to show, by name or number; by default those in which centroids differ most.
Needs matplotlib: pip install 'dpkmeans[all]'.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dpkmeans.core.readable import intervals_of
from dpkmeans.core.release import Release
from dpkmeans.errors import FileError, MethodError
from dpkmeans.report.animation import widest_pair
from dpkmeans.report.derived import named
from dpkmeans.report.figures import areas_of, box_outline, ellipses, show_ticks
from dpkmeans.report.trajectory import Balls, frames_of
from dpkmeans.synopsis.kmeans import Explored

MAX_NAMES = 20  # in a hint
Features = tuple[int | str, int | str]

__all__ = ["budget", "centroids", "explore", "quality", "trajectory", "zones"]


def centroids(
    release: Release, ax: Any = None, *, features: Features | None = None, level: float | None = 0.95, **options: Any
) -> Any:
    """Released centroids in two features, inside the public box; areas grow with noisy sizes. More options: scatter.

    Ellipses reach as far as the intervals of `level` do, where the method has intervals; None leaves them out.
    Guarantee: that of `release`, whose centroids have shape (k, d).

    >>> from matplotlib.figure import Figure
    >>> from dpkmeans import DPKMeans
    >>> X = np.random.default_rng(0).random((3000, 2))
    >>> release = DPKMeans(3, epsilon=1.0, bounds=(0, 1)).fit(X).release_
    >>> centroids(release, Figure().subplots()).get_xlabel() in ("feature 0", "feature 1")
    True
    """
    ax, (x, y) = _axes(ax), _pair(release, features)
    ax.scatter(*_flat(release.centroids, x, y), **{"s": areas_of(release), "zorder": 3, **options})
    found = None if level is None else intervals_of(release, level)
    if found is not None and y is not None:
        for ellipse in ellipses(found, x, y, fill=False, edgecolor="black", linewidth=1, zorder=4):
            ax.add_patch(ellipse)
    _frame(release, ax, x, y)
    return ax


def trajectory(release: Release, ax: Any = None, *, features: Features | None = None, **options: Any) -> Any:
    """The trajectory of each centroid in two features, from its start to its release (black). More options: plot.

    Guarantee: that of `release`; these are the steps of Lloyd's algorithm on the synopsis, or the published transcript.

    >>> from matplotlib.figure import Figure
    >>> from dpkmeans import DPKMeans
    >>> X = np.random.default_rng(0).random((3000, 2))
    >>> release = DPKMeans(3, epsilon=1.0, bounds=(0, 1)).fit(X).release_
    >>> ax = trajectory(release, Figure().subplots())
    >>> len(ax.lines)
    4
    """
    ax, (x, y) = _axes(ax), _pair(release, features)
    steps = [frame.centroids for frame in frames_of(release) if frame.centroids is not None]
    if len(steps) < 2:
        raise MethodError(
            f"this release of {release.method} records no steps. Use a synopsis method, or "
            "posterior(publish_centroids=True)."
        )
    for i in range(release.n_clusters):
        path = np.array([step[i] for step in steps])
        ax.plot(*_flat(path, x, y), **{"marker": "o", "markersize": 2, "linewidth": 1, **options})
    ax.scatter(*_flat(release.centroids, x, y), s=30, color="black", zorder=3)
    _frame(release, ax, x, y)
    return ax


def zones(release: Release, ax: Any = None, *, iteration: int = 1, features: Features | None = None) -> Any:
    """Sampling zones of one iteration (filled), with convergent zones (dashed) and centroids if they are known.

    Guarantee: that of `release`; the zones are those of its transcript. Source: the paper, Algorithms 1 and 2.

    >>> from matplotlib.figure import Figure
    >>> from dpkmeans import DPKMeans
    >>> X = np.random.default_rng(0).random((3000, 2))
    >>> release = DPKMeans(3, epsilon=1.0, bounds=(0, 1), method="synopsis-posterior").fit(X).release_
    >>> len(zones(release, Figure().subplots()).patches) >= 3
    True
    """
    from matplotlib.patches import Ellipse

    ax, (x, y) = _axes(ax), _pair(release, features)
    steps = [frame for frame in frames_of(release) if frame.zones is not None]
    if not 1 <= iteration <= len(steps):
        raise MethodError(f"iteration must be from 1 to {len(steps)}, the number of published ones; got {iteration}.")
    frame = steps[iteration - 1]

    def circles(balls: Balls | None, **style: Any) -> None:
        if balls is not None:
            for center, radii in zip(np.stack(_flat(balls.center, x, y), axis=1), balls.radii, strict=True):
                ax.add_patch(Ellipse(tuple(center), 2 * radii[x], 2 * radii[x if y is None else y], **style))

    circles(frame.convergent, fill=False, linestyle="--", edgecolor="tab:green")
    circles(frame.zones, alpha=0.35, facecolor="tab:orange", edgecolor="tab:orange")
    if frame.centroids is not None:
        ax.scatter(*_flat(frame.centroids, x, y), s=20, zorder=3)
    _frame(release, ax, x, y)
    unit = release.bounds.unit
    ax.set_aspect("equal" if y is None else unit[x] / unit[y])
    return ax


def budget(release: Release, ax: Any = None, **options: Any) -> Any:
    """What was spent on what, as bars from top to bottom in the order of the ledger. More options: barh.

    Guarantee: spends are public; they are decided by public and released quantities.

    >>> from matplotlib.figure import Figure
    >>> from dpkmeans import DPKMeans
    >>> X = np.random.default_rng(0).random((3000, 2))
    >>> release = DPKMeans(3, epsilon=1.0, bounds=(0, 1)).fit(X).release_
    >>> budget(release, Figure().subplots()).get_xlabel()
    'epsilon (1 in all)'
    """
    ax = _axes(ax)
    labels = [f"{i}. {spend.label}" for i, spend in enumerate(release.spends, start=1)]
    spent = [float(spend.epsilon if spend.rho is None else spend.rho) for spend in release.spends]
    ax.barh(range(len(labels)), spent, **options)
    ax.set_yticks(range(len(labels)), labels, parse_math=False)
    ax.invert_yaxis()
    currency = "rho" if release.cost.in_rho else "epsilon"
    ax.set_xlabel(f"{currency} ({release.cost.spent_in_words()} in all)")
    return ax


def explore(rows: Sequence[Explored], ax: Any = None, *, value: str = "cost", **options: Any) -> Any:
    """`value` ("cost" or "silhouette") against the number of clusters, from `Synopsis.explore`. More options: plot.

    Guarantee: that of the synopsis; looking at any number of k is post-processing.

    >>> from matplotlib.figure import Figure
    >>> from dpkmeans import make_synopsis
    >>> X = np.random.default_rng(0).random((3000, 2))
    >>> rows = make_synopsis(X, epsilon=1.0, bounds=(0, 1)).explore([2, 3, 4])
    >>> explore(rows, Figure().subplots()).get_ylabel()
    'cost on the synopsis'
    """
    if value not in ("cost", "silhouette"):
        raise MethodError(f"value must be 'cost' or 'silhouette'; got {value!r}.")
    ax = _axes(ax)
    ax.plot([row.k for row in rows], [getattr(row, value) for row in rows], **{"marker": "o", **options})
    ax.set_xlabel("clusters")
    ax.set_ylabel(f"{value} on the synopsis")
    return ax


def quality(ratios: Mapping[str, Iterable[tuple[float, float]]], ax: Any = None, **options: Any) -> Any:
    """Cost over the best non-private cost against epsilon, one line per method, both axes logarithmic.

    `ratios` maps a method to pairs (epsilon, ratio). Drawn is ratio - 1, the loss. More options: plot.
    Guarantee: none of its own; a ratio measured on records is not private.

    >>> from matplotlib.figure import Figure
    >>> ax = quality({"synopsis": [(0.1, 1.2), (1.0, 1.01)], "su": [(0.1, 3.0), (1.0, 1.4)]}, Figure().subplots())
    >>> [line.get_label() for line in ax.lines]
    ['synopsis', 'su']
    """
    ax = _axes(ax)
    for method, pairs in ratios.items():
        epsilons, values = np.array(sorted(pairs), dtype=np.float64).reshape(-1, 2).T
        ax.plot(epsilons, np.maximum(values - 1, 1e-6), **{"marker": "o", "label": method, **options})
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("epsilon")
    ax.set_ylabel("cost / best cost - 1")
    if ratios:
        ax.legend(frameon=False)
    return ax


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise FileError("A plot needs matplotlib: pip install 'dpkmeans[all]'") from None
    return pyplot.gca()


def _pair(release: Release, features: Features | None) -> tuple[int, int | None]:
    if features is None:
        return widest_pair(release)
    names, found = release.names, []
    for feature in features:
        if isinstance(feature, str) and names.count(feature) != 1:
            raise MethodError(f"there is no feature {feature!r}.", hint=f"There are: {', '.join(names[:MAX_NAMES])}.")
        found.append(names.index(feature) if isinstance(feature, str) else feature)
    if len(found) != 2 or not 0 <= min(found) <= max(found) < len(names):
        raise MethodError(f"features must be two names, or two numbers below {len(names)}; got {features}.")
    return found[0], found[1]


def _flat(points: Any, x: int, y: int | None) -> tuple[Any, Any]:
    return points[:, x], np.zeros(len(points)) if y is None else points[:, y]


def _frame(release: Release, ax: Any, x: int, y: int | None) -> None:
    """The public box as a dashed line, and the names of the features."""
    names, lower, upper = named(release), release.bounds.lower, release.bounds.upper
    ax.set_xlabel(names[x], parse_math=False)
    show_ticks(ax.xaxis, release, x)
    style = {"color": "gray", "linestyle": "--", "linewidth": 0.8}
    if y is None:
        ax.plot([lower[x], upper[x]], [0, 0], **style)
        ax.set_yticks([])
        return
    ax.set_ylabel(names[y], parse_math=False)
    show_ticks(ax.yaxis, release, y)
    ax.plot(*box_outline(release, x, y), **style)
