"""Pictures of a release as SVG, once for light and once for dark pages."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpkmeans.release import Release


@dataclass(frozen=True)
class Picture:
    """Two data addresses of the same drawing, its caption, and what it shows for those who cannot see it."""

    light: str
    dark: str
    caption: str
    description: str


@dataclass(frozen=True)
class _Ink:
    text: str
    faint: str
    mark: str


_LIGHT = _Ink("#1d2330", "#9aa3b2", "#2457c5")
_DARK = _Ink("#e6e9ef", "#6d7687", "#8ab0ff")


def centroids_picture(release: Release, names: tuple[str, ...]) -> Picture:
    """Centroids in the first two features, inside the public box."""
    centroids = release.centroids
    flat = centroids.shape[1] == 1
    x, y = centroids[:, 0], np.zeros(len(centroids)) if flat else centroids[:, 1]
    lower, upper = release.bounds.lower, release.bounds.upper

    def draw(axes: Any, ink: _Ink) -> None:
        axes.scatter(x, y, s=_areas(release), color=ink.mark, alpha=0.75, linewidths=0, zorder=3)
        for i, place in enumerate(zip(x, y, strict=True)):
            axes.annotate(str(i), place, (7, 7), textcoords="offset points", color=ink.text, parse_math=False)
        axes.set_xlabel(names[0], parse_math=False)
        if flat:
            axes.plot([lower[0], upper[0]], [0, 0], color=ink.faint, linestyle="--")
            axes.set_yticks([])
            return
        axes.set_ylabel(names[1], parse_math=False)
        corners_x = [lower[0], upper[0], upper[0], lower[0], lower[0]]
        corners_y = [lower[1], lower[1], upper[1], upper[1], lower[1]]
        axes.plot(corners_x, corners_y, color=ink.faint, linestyle="--", linewidth=1)

    shown = names[0] if flat else f"{names[0]} and {names[1]}"
    more = f" ({len(names) - 2} more features are in the table)" if len(names) > 2 else ""
    sizes = " Areas grow with the noisy sizes." if release.sizes is not None else ""
    return _picture(
        draw,
        f"Released centroids in {shown}{more}; the dashed line is the public box.{sizes}",
        f"Scatter of {len(centroids)} released centroids; their values are in the table above.",
    )


def radii_picture(release: Release) -> Picture:
    """The largest and the median radius of the sampling zones, by iteration."""
    by_iteration: dict[int, list[float]] = {}
    for zone in release.transcript:
        by_iteration.setdefault(zone.iteration, []).append(zone.radius)
    iterations = sorted(by_iteration)
    largest = [max(by_iteration[i]) for i in iterations]
    middle = [float(np.median(by_iteration[i])) for i in iterations]

    def draw(axes: Any, ink: _Ink) -> None:
        axes.plot(iterations, largest, color=ink.mark, marker="o", markersize=3, label="largest")
        axes.plot(iterations, middle, color=ink.faint, marker="o", markersize=3, label="median")
        axes.set_xlabel("iteration")
        axes.set_ylabel("radius of the sampling zones")
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, labelcolor=ink.text)

    return _picture(
        draw,
        "Radius of the sampling zones by iteration: the smaller they are, the less the centroids still move.",
        f"Line chart of zone radii over {len(iterations)} iterations, ending at {largest[-1]:.3g}.",
    )


def _areas(release: Release) -> Any:
    if release.sizes is None:
        return 60.0
    sizes = np.maximum(np.asarray(release.sizes, dtype=np.float64), 0)
    return 25 + 250 * sizes / (sizes.max() or 1)


def _picture(draw: Callable[[Any, _Ink], None], caption: str, description: str) -> Picture:
    return Picture(_svg(draw, _LIGHT), _svg(draw, _DARK), caption, description)


def _svg(draw: Callable[[Any, _Ink], None], ink: _Ink) -> str:
    """A data address of the drawing; without pyplot, so that nothing global is touched."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    settings: dict[Any, Any] = {
        **dict.fromkeys(("axes.labelcolor", "xtick.color", "ytick.color", "text.color"), ink.text),
        "axes.edgecolor": ink.faint,
        "font.family": "sans-serif",
        "svg.fonttype": "none",
        "svg.hashsalt": "dpkmeans",
    }
    with rc_context(settings):
        figure = Figure(figsize=(7.2, 4.6), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes, ink)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return "data:image/svg+xml;base64," + base64.b64encode(text.getvalue().encode()).decode()
