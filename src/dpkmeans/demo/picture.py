"""The picture of the demo in the README: what was released, and nothing else. There is no record in it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.readable import intervals_of
from dpkmeans.core.release import Release
from dpkmeans.demo.towns import BOX_KM, TOWNS
from dpkmeans.report.derived import synopsis_of
from dpkmeans.report.figures import ellipses
from dpkmeans.storage.json_files import write_bytes

PIXELS = 240  # of the density, along each side
BLUR_KM = 1.6  # the synopsis is a set of weighted points; each is drawn as wide as this
INK, QUIET = "#1d2433", "#5b6475"


def write_demo_picture(releases: Sequence[Release], path: str | Path) -> None:
    """Write a PNG with a panel for each release: its density, and its centroids with the ellipses of their intervals.

    Guarantee: that of `releases`; the names and places of the towns are public.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context({"font.family": "sans-serif", "font.size": 10, "text.color": INK, "axes.labelcolor": QUIET}):
        figure = Figure(figsize=(5.6 * len(releases), 5.5), layout="constrained", facecolor="white")
        FigureCanvasAgg(figure)
        for ax, release in zip(np.ravel(figure.subplots(1, len(releases))), releases, strict=True):
            _panel(release, ax)
        drawn = io.BytesIO()
        figure.savefig(drawn, format="png", dpi=84)
    write_bytes(path, _in_few_colours(drawn))


def _in_few_colours(picture: io.BytesIO) -> bytes:
    """The same picture in a palette, a third of the size."""
    from PIL import Image

    small = io.BytesIO()
    Image.open(picture).convert("RGB").quantize(192).save(small, format="png", optimize=True)
    return small.getvalue()


def _panel(release: Release, ax: Any) -> None:
    density = _density(release)
    if density is not None:
        extent = (0.0, BOX_KM, 0.0, BOX_KM)
        ax.imshow(density, origin="lower", extent=extent, cmap="YlGnBu", vmin=0, interpolation="bilinear")
    _centroids(release, ax)
    for town in TOWNS:
        place = town.east, town.north + town.spread + 3
        ax.annotate(town.name, place, ha="center", weight="bold", path_effects=_halo(2.5))
    ax.set(xlim=(0, BOX_KM), ylim=(0, BOX_KM), xlabel="east (km)", ylabel="north (km)")
    ax.tick_params(colors=QUIET)
    for side in ax.spines.values():
        side.set_visible(False)
    ax.set_title(f"ε = {release.cost.spent_in_words()}", fontsize=12, loc="left")


def _density(release: Release) -> FloatArray | None:
    """The released synopsis, smoothed: shape (PIXELS, PIXELS), by north and east. Post-processing."""
    from scipy.ndimage import gaussian_filter

    points = synopsis_of(release)
    if points is None:
        return None
    places = release.bounds.from_unit(points.points)
    weights = np.maximum(points.weights, 0)
    counts, _, _ = np.histogram2d(
        places[:, 1], places[:, 0], bins=PIXELS, range=[[0, BOX_KM], [0, BOX_KM]], weights=weights
    )
    return np.asarray(gaussian_filter(counts, BLUR_KM * PIXELS / BOX_KM), dtype=np.float64)


def _centroids(release: Release, ax: Any) -> None:
    found = intervals_of(release)
    if found is not None:
        for ellipse in ellipses(found, 0, 1, facecolor="#ffffff99", edgecolor=INK, linewidth=1.2, zorder=3):
            ax.add_patch(ellipse)
    places = np.asarray(release.centroids)
    cross = {"marker": "+", "s": 40, "color": INK, "linewidths": 1.6, "zorder": 4}
    ax.scatter(places[:, 0], places[:, 1], path_effects=_halo(4), **cross)


def _halo(width: float) -> list[Any]:
    """White around what is drawn, so that it can be seen where the density is dark."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=width, foreground="white")]
