"""The picture of the demo in the README: the towns, and the released centroids next to them."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from dpkmeans.core.release import Release
from dpkmeans.demo.towns import BOX_KM, TOWNS
from dpkmeans.report.derived import synopsis_of
from dpkmeans.storage.json_files import write_bytes


def write_demo_picture(release: Release, path: str | Path) -> None:
    """Write a PNG: the released synopsis in grey, towns as circles of one spread, released centroids as crosses."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Circle

    with rc_context({"font.family": "sans-serif", "font.size": 10}):
        figure = Figure(figsize=(6.4, 5.4), layout="constrained")
        FigureCanvasAgg(figure)
        ax = figure.add_subplot()
        points = synopsis_of(release)
        if points is not None:
            places = release.bounds.from_unit(points.points)
            areas = 60 * points.weights / points.weights.max()
            ax.scatter(places[:, 0], places[:, 1], s=areas, color="#9aa3b2", alpha=0.35, linewidths=0)
        for town in TOWNS:
            circle = Circle((town.east, town.north), town.spread, fill=False, edgecolor="#b4560f", linewidth=1.5)
            ax.add_patch(circle)
            ax.annotate(town.name, (town.east, town.north + town.spread + 1), ha="center", color="#b4560f")
        crosses = np.asarray(release.centroids)
        ax.scatter(crosses[:, 0], crosses[:, 1], marker="x", s=70, color="#2457c5", linewidths=2.2, zorder=3)
        ax.set(xlim=(0, BOX_KM), ylim=(0, BOX_KM), xlabel="east (km)", ylabel="north (km)", aspect="equal")
        ax.set_title(
            f"Fictitious towns (circles) and the {release.cost.spent_in_words()}-differentially private "
            "centroids\nof 50 000 visits (crosses); grey: the released synopsis",
            fontsize=10,
        )
        data = io.BytesIO()
        figure.savefig(data, format="png", dpi=84, metadata={"Software": None})
    write_bytes(path, data.getvalue())
