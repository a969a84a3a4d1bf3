"""The command `dpkmeans bench`: methods side by side on one's own records."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from dpkmeans.cli import output
from dpkmeans.cli.inputs import check_outputs, engine_for, given_box
from dpkmeans.cli.options import (
    ANY,
    LOCAL,
    UNSAID,
    BoxOptions,
    Clusters,
    Data,
    EngineOptions,
    Json,
    Reading,
    Whole,
    split_columns,
)
from dpkmeans.core.epsilon import format_epsilon

if TYPE_CHECKING:
    from dpkmeans.comparison.compare import Compared

NOT_PRIVATE = "Not private (label none): these costs come from the records. Keep them to yourself."


def bench(
    data: Data,
    /,
    *,
    k: Clusters = 8,
    epsilon: Annotated[tuple[float, ...], Parameter(consume_multiple=True)] = (0.1, 1.0),
    methods: str | None = None,
    runs: Whole = 10,
    box: BoxOptions = UNSAID,
    delta: float = 1e-6,
    reading: Reading = ANY,
    place: EngineOptions = LOCAL,
    plot: Path | None = None,
    json: Json = False,
) -> None:
    """Compare methods, including those of other packages, on your own records. Not private: for the data holder only.

    Each number is a method's cost divided by the best cost found without privacy; 1 is as good as without privacy.

    Example: dpkmeans bench visits.csv --k 5 --epsilon 0.1 1 --methods synopsis,su --bounds east=0:100,north=0:100

    Parameters
    ----------
    k:
        Number of clusters.
    epsilon:
        One or more budgets. Methods with a budget for each step get it in each step.
    methods:
        Names separated by commas, from: dpkmeans methods. By default, synopsis and four baselines.
    runs:
        Runs of each method at each budget, each with new noise.
    delta:
        For methods with Gaussian noise.
    plot:
        Draw loss against epsilon, a line for each method, into this file (PNG, SVG or PDF). Not private either.
    """
    given = given_box(box)
    check_outputs(plot, inputs=(data,))
    if plot is not None:
        from dpkmeans.report import require

        require()
    spec = place.to_spec()
    from dpkmeans.comparison.compare import DEFAULT_METHODS, compare
    from dpkmeans.session import FitRequest

    request = FitRequest(n_clusters=k, **given, delta=delta, engine=engine_for(data) if spec is None else spec)
    names = DEFAULT_METHODS if methods is None else split_columns(methods)
    with output.progress("cells") as report:
        rows = compare(request, reading.files(data), names, epsilon, runs=runs, progress=report)
    if plot is not None:
        _draw(rows, plot)
        output.note(f"The plot is in {plot}")
    if json:
        output.print_json({"guarantee": "none", "compared": [asdict(row) for row in rows]})
    else:
        header = [
            "method",
            "label",
            "from",
            "epsilon",
            "spent",
            "median",
            "9 of 10 below",
            "1 of 10 below",
            "s per fit",
        ]
        output.print_table(header, map(_cells, rows))
        for row in rows:
            if row.failure is not None:
                output.note(f"{row.method} at epsilon {format_epsilon(row.epsilon)}: {row.failure}")
    output.note(NOT_PRIVATE)


def _cells(row: Compared) -> list[str]:
    ratios = ["-" if value is None else f"{value:.4g}" for value in (row.median, row.high, row.low)]
    spent = "-" if row.spent is None else format_epsilon(row.spent)
    return [
        row.method,
        row.guarantee,
        row.package,
        format_epsilon(row.epsilon),
        spent,
        *ratios,
        "-" if row.seconds is None else f"{row.seconds:.2g}",
    ]


def _draw(rows: list[Compared], path: Path) -> None:
    """Loss against epsilon, with the label of each method."""
    import io

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from dpkmeans.plot import quality
    from dpkmeans.storage.json_files import write_bytes

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row.median is not None:
            lines.setdefault(f"{row.method} ({row.guarantee})", []).append((row.epsilon, row.median))
    ax = quality(lines, figure.add_subplot())
    ax.set_title("Not private: for the data holder alone", fontsize=10)
    content = io.BytesIO()
    figure.savefig(content, format=path.suffix.removeprefix(".").lower() or "png", dpi=110)
    write_bytes(path, content.getvalue())
