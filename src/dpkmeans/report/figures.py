"""Figures of a release as SVG, in a light and a dark version."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.intervals import Intervals
from dpkmeans.core.readable import intervals_of, kinds_of_features, text
from dpkmeans.core.release import Release
from dpkmeans.core.rounding import at_tick, number
from dpkmeans.core.times import Date, Time
from dpkmeans.report.derived import cost_unit, costs_of, evenly_spaced
from dpkmeans.synopsis.kmeans import Explored

MAX_SCATTER_FEATURES = 4  # more features are drawn as parallel coordinates
MAX_LINES = 60  # centroids that are labelled, or drawn as lines
MAX_AXES = 40  # parallel coordinates
WIDTH = 5.6  # inches: text can still be read on a phone
MAX_MARKS = 400  # points of a plot


@dataclass(frozen=True)
class Picture:
    """Two data URLs of the same drawing, its caption, and a description for screen readers."""

    light: str
    dark: str
    title: str
    caption: str
    description: str


@dataclass(frozen=True)
class _Ink:
    text: str
    faint: str
    mark: str
    other: str


_LIGHT = _Ink("#1d2330", "#7d8696", "#2457c5", "#b4560f")
_DARK = _Ink("#e6e9ef", "#8a93a4", "#8ab0ff", "#ffb273")


def centroids_picture(release: Release, names: tuple[str, ...]) -> Picture:
    """Centroids inside the public box: one feature on a line, up to four in pairs, more as parallel coordinates."""
    d = release.bounds.n_features
    return _pairs(release, names) if d <= MAX_SCATTER_FEATURES else _parallel(release, names)


def _pairs(release: Release, names: tuple[str, ...]) -> Picture:
    centroids = release.centroids[:MAX_MARKS]
    d = centroids.shape[1]
    lower, upper = release.bounds.lower, release.bounds.upper
    found = intervals_of(release) if d > 1 and len(centroids) == release.n_clusters else None
    pairs = [(0, None)] if d == 1 else [(i, j) for i in range(d) for j in range(i + 1, d)]
    areas = areas_of(release)[: len(centroids)] / (1 if len(pairs) == 1 else 2)

    def draw(figure: Any, ink: _Ink) -> None:
        columns = min(len(pairs), 2)
        all_axes = figure.subplots(-(-len(pairs) // columns), columns, squeeze=False).ravel()
        for axes in all_axes[len(pairs) :]:
            axes.set_axis_off()
        for axes, (i, j) in zip(all_axes[: len(pairs)], pairs, strict=True):
            x, y = centroids[:, i], np.zeros(len(centroids)) if j is None else centroids[:, j]
            axes.scatter(x, y, s=areas, color=ink.mark, alpha=0.75, linewidths=0, zorder=3)
            if len(centroids) <= MAX_LINES:
                for cluster, place in enumerate(zip(x, y, strict=True)):
                    axes.annotate(
                        str(cluster), place, (5, 5), textcoords="offset points", color=ink.text, parse_math=False
                    )
            axes.set_xlabel(names[i], parse_math=False)
            show_ticks(axes.xaxis, release, i)
            if j is None:
                axes.plot([lower[0], upper[0]], [0, 0], color=ink.faint, linestyle="--")
                axes.set_yticks([])
                continue
            if found is not None:
                for ellipse in ellipses(found, i, j, fill=False, edgecolor=ink.text, linewidth=0.8, zorder=4):
                    axes.add_patch(ellipse)
            axes.set_ylabel(names[j], parse_math=False)
            show_ticks(axes.yaxis, release, j)
            axes.plot(*box_outline(release, i, j), color=ink.faint, linestyle="--", linewidth=1)

    sizes = " Areas grow with the noisy sizes." if release.sizes is not None else ""
    sizes += "" if found is None else " Ellipses: where the exact means of the cells lie, by the intervals above."
    shown = names[0] if d == 1 else f"{names[0]} and {names[1]}" if d == 2 else "all pairs of features"
    return _picture(
        draw,
        "Picture of the centroids",
        f"Released centroids in {shown}; the dashed line is the public box.{sizes}",
        f"Scatter of {len(centroids)} released centroids in {shown}; their values are in the table above.",
        height=4.2 if len(pairs) == 1 else 2.7 * -(-len(pairs) // 2),
    )


def _parallel(release: Release, names: tuple[str, ...]) -> Picture:
    sides = np.asarray(release.bounds.upper) - np.asarray(release.bounds.lower)
    shares = (release.centroids - np.asarray(release.bounds.lower)) / np.where(sides > 0, sides, 1.0)
    sizes = areas_of(release)
    order = np.argsort(-sizes, kind="stable")[:MAX_LINES]
    shown = min(len(names), MAX_AXES)

    def draw(figure: Any, ink: _Ink) -> None:
        from matplotlib import colormaps

        axes = figure.add_subplot()
        colours = colormaps["viridis"](np.linspace(0.15, 0.85, len(order)))
        for colour, i in zip(colours, order, strict=True):
            axes.plot(range(shown), shares[i, :shown], color=colour, linewidth=0.6 + sizes[i] / 120, alpha=0.85)
            if len(order) <= 20:
                axes.annotate(
                    str(i), (shown - 1, shares[i, shown - 1]), (4, -3), textcoords="offset points", color=ink.text
                )
        axes.set_xticks(range(shown))
        axes.set_xticklabels([_cut(name) for name in names[:shown]], rotation=0 if shown <= 6 else 60, parse_math=False)
        axes.set_yticks([0, 0.5, 1], ["lower bound", "middle", "upper bound"])
        axes.set_ylim(-0.03, 1.03)
        axes.grid(axis="x", color=ink.faint, alpha=0.4)

    whole = len(order) == len(sizes) and shown == len(names)
    some = "" if whole else f" Shown are {len(order)} clusters and {shown} features."
    widths = " Thicker lines are larger clusters." if release.sizes is not None else ""
    return _picture(
        draw,
        "Picture of the centroids",
        f"Each line is a released centroid; each feature runs over its side of the public box.{widths}{some}",
        f"Parallel coordinates of {len(order)} released centroids; their values are in the table above.",
    )


def _cut(name: str) -> str:
    return name if len(name) <= 18 else name[:17] + "…"


def costs_picture(release: Release) -> Picture:
    """The cost of every pass on the synopsis."""
    zones, lloyd = costs_of(release)
    every = zones + lloyd

    def draw(figure: Any, ink: _Ink) -> None:
        axes = figure.add_subplot()
        if zones:
            _line(axes, range(1, len(zones) + 1), zones, color=ink.other, label="zones")
        _line(axes, range(len(zones) + 1, len(every) + 1), lloyd, color=ink.mark, label="Lloyd's algorithm")
        axes.set_xlabel("pass over the synopsis")
        axes.set_ylabel(f"cost ({cost_unit(release)})")
        axes.yaxis.set_major_formatter(lambda value, _: at_tick(value))
        axes.xaxis.get_major_locator().set_params(integer=True)
        if zones:
            axes.legend(frameon=False, labelcolor=ink.text)

    ends = f", from {number(every[0])} to {number(every[-1])}" if every else ""
    return _picture(
        draw,
        "Picture of the costs",
        "Cost of each pass on the released synopsis. It never rises, and the last pass changes nothing.",
        f"Line chart of the cost over {len(every)} passes{ends}.",
        height=3.4,
    )


def explored_picture(rows: list[Explored], chosen: int) -> Picture:
    """Cost and silhouette for each number of clusters."""
    ks = [row.k for row in rows]

    def draw(figure: Any, ink: _Ink) -> None:
        costs, silhouettes = figure.subplots(1, 2)
        costs.plot(ks, [row.cost for row in rows], color=ink.mark, marker="o", markersize=4)
        costs.set_ylabel("cost on the synopsis")
        costs.set_ylim(bottom=0)
        costs.yaxis.set_major_formatter(lambda value, _: at_tick(value))
        silhouettes.plot(ks, [row.silhouette for row in rows], color=ink.other, marker="o", markersize=4)
        silhouettes.set_ylabel("simplified silhouette")
        for axes in (costs, silhouettes):
            axes.axvline(chosen, color=ink.faint, linestyle="--", linewidth=1)
            axes.set_xlabel("clusters")
            axes.xaxis.get_major_locator().set_params(integer=True)

    return _picture(
        draw,
        "Picture of quality by number of clusters",
        f"Cost (left) and silhouette (right) by number of clusters; the dashed line is the chosen {chosen}.",
        f"Two line charts for {ks[0]} to {ks[-1]} clusters; the numbers are in the table below.",
        height=3.2,
    )


def radii_picture(release: Release) -> Picture:
    """The largest and the median radius of the sampling zones, by iteration."""
    by_iteration: dict[int, list[float]] = {}
    for zone in release.transcript:
        by_iteration.setdefault(zone.iteration, []).append(zone.radius)
    iterations = sorted(by_iteration)
    largest = [max(by_iteration[i]) for i in iterations]
    middle = [float(np.median(by_iteration[i])) for i in iterations]

    def draw(figure: Any, ink: _Ink) -> None:
        axes = figure.add_subplot()
        _line(axes, iterations, largest, color=ink.mark, label="largest")
        _line(axes, iterations, middle, color=ink.other, label="median")
        axes.set_xlabel("iteration")
        axes.set_ylabel("radius of the sampling zones")
        axes.set_ylim(bottom=0)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.legend(frameon=False, labelcolor=ink.text)

    return _picture(
        draw,
        "Picture of the radii",
        "Radius of the sampling zones by iteration: the smaller they are, the less the centroids still move.",
        f"Line chart of zone radii over {len(iterations)} iterations, ending at {number(largest[-1])}.",
        height=3.4,
    )


def _line(axes: Any, x: Sequence[int], y: Sequence[float], **style: Any) -> None:
    """A line with a mark at each value; a long one has no marks, and a very long one is thinned."""
    some = evenly_spaced(len(y), MAX_MARKS)
    marks = {"marker": "o", "markersize": 4} if len(y) <= MAX_LINES else {}
    axes.plot(np.asarray(x)[some], np.asarray(y)[some], **marks, **style)


def areas_of(release: Release) -> FloatArray:
    """Areas of the marks of the centroids, shape (k,); they grow with the noisy sizes."""
    if release.sizes is None:
        return np.full(release.n_clusters, 60.0)
    sizes = np.maximum(np.asarray(release.sizes, dtype=np.float64), 0)
    return 25 + 250 * sizes / (sizes.max() or 1)


def box_outline(release: Release, x: int, y: int) -> tuple[list[float], list[float]]:
    """The corners of the public box in two features, in order, as x and y."""
    lower, upper = release.bounds.lower, release.bounds.upper
    across = [lower[x], upper[x], upper[x], lower[x], lower[x]]
    return across, [lower[y], lower[y], upper[y], upper[y], lower[y]]


def ellipses(found: Intervals, x: int, y: int, **style: Any) -> list[Any]:
    """An ellipse per cluster with the intervals of two features as its axes, for matplotlib."""
    from matplotlib.patches import Ellipse

    middle, width = (found.lower + found.upper) / 2, found.upper - found.lower
    return [Ellipse((m[x], m[y]), w[x], w[y], **style) for m, w in zip(middle, width, strict=True)]


def show_ticks(axis: Any, release: Release, feature: int) -> None:
    """Write what a person reads at the ticks of an axis: dates, times of day, or numbers without an exponent."""
    kind = kinds_of_features(release)[feature]
    if not isinstance(kind, Date | Time):
        axis.set_major_formatter(lambda value, _: at_tick(value))
        return
    from matplotlib import dates
    from matplotlib.ticker import MaxNLocator

    if isinstance(kind, Date) and kind.unit == "day":  # days since 1970, as matplotlib counts them
        locator = dates.AutoDateLocator(minticks=2, maxticks=5)  # type: ignore[no-untyped-call]
        axis.set_major_locator(locator)
        axis.set_major_formatter(dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        return
    low, high = release.bounds.lower[feature], release.bounds.upper[feature]
    axis.set_major_locator(MaxNLocator(4))
    axis.set_major_formatter(lambda value, _: text(kind.readable([value])) if low <= value <= high else "")


def _picture(
    draw: Callable[[Any, _Ink], None], title: str, caption: str, description: str, *, height: float = 4.6
) -> Picture:
    return Picture(_svg(draw, _LIGHT, height), _svg(draw, _DARK, height), title, caption, description)


def _svg(draw: Callable[[Any, _Ink], None], ink: _Ink, height: float) -> str:
    """A data URL of the drawing; without pyplot, so that no global state changes."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    settings: dict[Any, Any] = {
        **dict.fromkeys(("axes.labelcolor", "xtick.color", "ytick.color", "text.color"), ink.text),
        "axes.edgecolor": ink.faint,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "font.family": "sans-serif",
        "svg.fonttype": "none",
        "svg.hashsalt": "dpkmeans",
    }
    with rc_context(settings):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure, ink)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    plain = re.sub(r">\s+<", "><", text.getvalue())
    return "data:image/svg+xml;base64," + base64.b64encode(plain.encode()).decode()
