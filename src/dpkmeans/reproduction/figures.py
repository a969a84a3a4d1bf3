"""Figures as PNG and SVG, byte for byte reproducible. Drawn without pyplot, so that no global state changes."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpkmeans.errors import MethodError
from dpkmeans.reproduction.baselines import Problem, baseline
from dpkmeans.reproduction.cells import STRATEGIES, Row, seed_of
from dpkmeans.reproduction.zone_runs import zone_run
from dpkmeans.storage.json_files import write_bytes

COLOURS = {
    "posterior": "#d1495b",
    "prior": "#2457c5",
    "su": "#2e8b57",
    "su-hybrid": "#7a9e3f",
    "lei": "#3f8f9e",
    "dp-em": "#9e3f6b",
    "privgene": "#8a5a9e",
    "gupt": "#8c8c8c",
    "dwork": "#c58b24",
    "blum": "#4d3b2f",
    "synopsis": "#111111",
    "synopsis-posterior": "#e58a95",
    "synopsis-prior": "#8ab0ff",
}
SET_COLOURS = ("#2457c5", "#d1495b", "#2e8b57", "#c58b24", "#8a5a9e", "#4d3b2f", "#8c8c8c")
MIN_GAP = 1e-4
"""Smaller gaps are drawn here on the log scale: the method was about as good as Lloyd from that start."""

SETTINGS: dict[Any, Any] = {"font.family": "sans-serif", "font.size": 9, "svg.hashsalt": "dpkmeans"}


def require_matplotlib() -> None:
    """An error that says what to install, before hours of work."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        raise MethodError("figures need matplotlib. Install it with: pip install 'dpkmeans[all]'.") from None


def _figure(rows: int, cols: int, size: tuple[float, float]) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, cols, squeeze=False)
    for one in axes.ravel():
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def save(figure: Any, folder: Path, name: str) -> None:
    """Write `name`.png and `name`.svg, each completely or not at all."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    with rc_context(SETTINGS):
        for kind, canvas in (("png", FigureCanvasAgg), ("svg", FigureCanvasSVG)):
            canvas(figure)
            content = io.BytesIO()
            metadata = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
            figure.savefig(content, format=kind, dpi=110, metadata=metadata)
            write_bytes(folder / f"{name}.{kind}", content.getvalue())


def quality_figure(table: Sequence[Row], setting: str, title: str) -> Any:
    """Mean cost gap against ε in log scale, one panel per data set, with 95 % bands; all lines of one setting."""
    titles = dict.fromkeys(row["title"] for row in table)
    rows = -(-len(titles) // 3)
    figure, axes = _figure(rows, min(3, len(titles)), (min(3, len(titles)) * 4.0, rows * 3.1 + 0.7))
    total = setting == "total"
    names: dict[str, Any] = {}
    for place, (axis, name) in enumerate(zip(axes.ravel(), titles, strict=False)):
        here = [row for row in table if row["title"] == name]
        for method in dict.fromkeys(row["method"] for row in here):
            line = [row for row in here if row["method"] == method]
            label = f"{method}, ε in total" if total else method
            names[label] = _gap_line(axis, line, COLOURS.get(method, "#000000"), "--" if total else "-")
        axis.set_yscale("log")
        axis.set_title(name)
        axis.set_xlabel("ε in total" if total else "ε per step")
        if place % 3 == 0:
            axis.set_ylabel("cost / Lloyd's cost − 1")
    for axis in axes.ravel()[len(titles) :]:
        axis.set_visible(False)
    figure.legend(names.values(), names, loc="outside lower center", ncols=5, frameon=False)
    figure.suptitle(title)
    return figure


def _gap_line(axis: Any, line: Sequence[Row], colour: str, style: str) -> Any:
    x = [row["epsilon"] for row in line]
    y = np.maximum([row["gap"] for row in line], MIN_GAP)
    low, high = (np.maximum([row[name] for row in line], MIN_GAP) for name in ("gap_low", "gap_high"))
    axis.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
    at_bottom = [mark for mark, row in zip(x, line, strict=True) if row["gap"] <= MIN_GAP]
    axis.plot(at_bottom, [MIN_GAP] * len(at_bottom), "v", color=colour, markersize=4)
    return axis.plot(x, y, color=colour, linestyle=style, linewidth=1.3, marker=".", markersize=4)[0]


def over_epsilon_figure(table: Sequence[Row], value: str, label: str) -> Any:
    """`ratio` or `degree` of both strategies over ε, one line per data set, with 95 % bars."""
    figure, axes = _figure(1, 2, (9.5, 3.6))
    lines: dict[str, Any] = {}
    for axis, method in zip(axes[0], STRATEGIES, strict=True):
        here = [row for row in table if row["method"] == method]
        for colour, title in zip(SET_COLOURS, dict.fromkeys(row["title"] for row in here), strict=False):
            line = [row for row in here if row["title"] == title]
            x, y = [row["epsilon"] for row in line], [row[value] for row in line]
            error = [1.96 * row[f"{value}_error"] for row in line]
            lines[title] = axis.errorbar(x, y, error, color=colour, marker=".", linewidth=1.2, capsize=2)
        axis.set_title(method)
        axis.set_xlabel("ε per step")
        axis.set_ylabel(label)
        if value == "degree":
            axis.set_ylim(0, 1.02)
    figure.legend(lines.values(), lines, loc="outside lower center", ncols=6, frameon=False)
    return figure


def iteration_tables_figure(table: Sequence[Row]) -> Any:
    """The paper's two iteration tables: its values, the measured ones, and the difference."""
    titles = list(dict.fromkeys(row["title"] for row in table))
    figure, axes = _figure(2, 1, (2.2 + 1.5 * len(titles), 4.6))
    for axis, method in zip(axes[:, 0], STRATEGIES, strict=True):
        by = {(row["title"], row["method"]): row for row in table}
        beside = "paper_passes_beside_prior" if method == "prior" else "paper_passes"
        lloyd = [{**row, **_lloyd_beside(row, beside)} for row in table if row["method"] == "lloyd"]
        cells = [_line(lloyd, key, 2) for key in _three("passes")]
        for field, digits in (("passes", 2), ("ratio", 3)):
            cells += [_line([by.get((t, method)) for t in titles], key, digits) for key in _three(field)]
        heads = [f"{who}, {what}" for who in ("Lloyd", method, "ratio") for what in ("paper", "measured", "difference")]
        axis.set_axis_off()
        axis.set_title(f"Average passes of {method}")
        drawn = axis.table(cells, rowLabels=heads, colLabels=titles, loc="center", cellLoc="center")
        drawn.auto_set_font_size(False)
        drawn.set_fontsize(8)
    return figure


def _lloyd_beside(row: Row, paper: str) -> Row:
    """Lloyd's line of one of the two tables: the paper's averages differ slightly between them."""
    theirs = row.get(paper)
    return {"paper_passes": theirs, "passes_difference": None if theirs is None else row["passes"] - theirs}


def _three(field: str) -> tuple[str, str, str]:
    return f"paper_{field}", field, f"{field}_difference"


def _line(rows: Iterable[Row | None], key: str, digits: int) -> list[str]:
    sign = "+" if key.endswith("difference") else ""
    values = [None if row is None else row.get(key) for row in rows]
    return ["-" if value is None else f"{value:{sign}.{digits}f}" for value in values]


def zones_figure(problem: Problem, seed: int) -> Any:
    """The first iterations of one cluster of a run, as in the paper's figures: both zones, X, the mean and the draw.

    For data with two features, where circles are circles. The cluster is the one that moves farthest.
    """
    from matplotlib.patches import Circle

    figure, axes = _figure(2, 3, (10, 6.4))
    base = baseline(problem, 0, seed)
    for row, strategy in zip(axes, STRATEGIES, strict=True):
        done = zone_run(problem, strategy, 0.5, base.start, seed_of(seed, "zones figure", strategy))
        previous = base.start
        moves = [move for _, move in done.trajectory.moves]
        far = int(np.argmax(np.linalg.norm(moves[0].centroids - previous, axis=1)))
        for t, (axis, move) in enumerate(zip(row, moves, strict=False), start=1):
            assert move.zones is not None
            labels = problem.engine.labels(previous)
            points = problem.data.unit_records()[labels == far]
            mean = points.mean(axis=0)
            centre, radius = move.zones.center[far], float(move.zones.radius[far])
            reach = float(np.linalg.norm(centre - mean)) + radius
            toward = mean + (centre - mean) * (reach / max(float(np.linalg.norm(centre - mean)), 1e-12))
            a = float(np.linalg.norm(previous[far] - mean))
            axis.scatter(*points.T, s=2, color="#c9ced8", linewidths=0, rasterized=True)
            axis.add_patch(Circle(tuple(mean), a, fill=False, color="#2e8b57", linestyle="--"))
            axis.add_patch(Circle(tuple(centre), radius, fill=False, color="#d1495b"))
            marks = (("S(t−1)", previous[far], "#2457c5"), ("S(t)", mean, "#2e8b57"), ("X", toward, "#c58b24"))
            for name, place, colour in (*marks, ("Ŝ(t)", move.centroids[far], "#111111")):
                axis.plot(*place, "o", color=colour, markersize=5, label=name)
            span = 1.35 * max(a, reach)
            axis.set_xlim(mean[0] - span, mean[0] + span)
            axis.set_ylim(mean[1] - span, mean[1] + span)
            axis.set_aspect("equal")
            axis.set_title(f"{strategy}, iteration {t}")
            previous = move.centroids
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(f"{problem.data.label}: convergent zone (dashed), sampling zone (solid)")
    return figure
