"""The command `dpkmeans reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dpkmeans.cli import output
from dpkmeans.cli.options import Jobs, Json, Whole, WholeOrNone, all_cores
from dpkmeans.errors import MethodError

if TYPE_CHECKING:
    from dpkmeans.reproduction.reproduce import Result

_TABLES = {
    "iterations": (
        "data set|method|passes|paper|difference|ratio|paper|difference|stopped",
        "title method passes:±2 paper_passes:.2f passes_difference:+.2f ratio:±3 paper_ratio:.2f ratio_difference:+.3f "
        "stopped:.3f",
    ),
    "convergence": (
        "data set|method|convergence degree|share of centroids|within 0.1 percent|cost within 1 percent|same optimum|"
        "ends at local optimum",
        "title method degree:±3 share_of_centroids:.3f share_within_0_1_percent:.3f cost_within_1_percent:.3f "
        "same_optimum:.3f ends_at_local_optimum:.3f",
    ),
    "readings": (
        "data set|reading|lloyd|posterior ratio|prior ratio|posterior degree|prior degree",
        "title reading lloyd:±2 posterior_ratio:.3f prior_ratio:.3f posterior_degree:.3f prior_degree:.3f",
    ),
    "order": ("data set|setting|methods by mean gap over all epsilons, best first", "title setting order"),
    "theorems": ("claim|data set|measured|allowed|verdict|note", "claim title measured:.4g allowed:.4g verdict note"),
}
_TEXTS = ("order", "theorems")  # tables without columns of numbers to align

Part = Literal["iterations", "convergence", "quality", "theorems", "readings", "all"]


def reproduce(
    part: Part = "all",
    /,
    *,
    dataset: str | None = None,
    runs: Whole = 300,
    quality_runs: WholeOrNone = None,
    epsilons: str | None = None,
    methods: str | None = None,
    settings: str | None = None,
    k: WholeOrNone = None,
    seed: Whole = 0,
    jobs: Jobs = None,
    out: Path = Path("results"),
    json: Json = False,
) -> None:
    """Repeat the experiments of the paper, and show the results next to the paper's.

    Finished results are kept, so an interrupted run resumes where it stopped. All numbers depend on the seed alone.

    Example: dpkmeans reproduce iterations --dataset s1 --runs 100 --json

    Parameters
    ----------
    part:
        iterations, convergence, quality, theorems, readings (other readings of the paper), or all.
    dataset:
        Names separated by commas; the paper's six by default. With --k, any CSV file in the folder DPKMEANS_DATA.
    runs:
        Runs per point.
    quality_runs:
        Runs per point for the quality part, which takes nearly all of the time.
    epsilons:
        Numbers separated by commas; 0.1 to 1.0 by default.
    methods:
        Names separated by commas; all by default.
    settings:
        Of the quality part, separated by commas: paper (local sensitivity), proved, total; all by default.
    k:
        Number of clusters, for a data set that is not the paper's.
    seed:
        Seed of all random numbers.
    out:
        Folder for finished cells, tables, figures and the manifest.
    """
    with output.status("Preparing"):
        from dpkmeans.reproduction.reproduce import PARTS, Order
        from dpkmeans.reproduction.reproduce import reproduce as run

        defaults = Order()
        order = Order(
            parts=PARTS if part == "all" else (part,),
            datasets=defaults.datasets if dataset is None else _names(dataset),
            runs=runs,
            quality_runs=quality_runs,
            epsilons=defaults.epsilons if epsilons is None else _numbers(epsilons),
            methods=defaults.methods if methods is None else _names(methods),
            settings=defaults.settings if settings is None else _names(settings),
            seed=seed,
            k=k,
        )
    with output.progress("cells") as report:
        result = run(order, out, jobs=all_cores() if jobs is None else jobs, progress=report, say=output.note)
    output.print_json(result.to_dict()) if json else _print(result)
    output.note(f"Rows, tables, figures and the manifest are in {out}")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(number) for number in _names(text))
    except ValueError:
        raise MethodError(f"must be numbers separated by commas; got {text!r}.", parameter="epsilons") from None


def _print(result: Result) -> None:
    """Every table, short."""
    for name, (header, columns) in _TABLES.items():
        rows = result.tables.get(name, [])
        if name == "theorems":
            rows = sorted(rows, key=lambda row: str(row["claim"]))
        if rows:
            cells = [[_cell(row, column) for column in columns.split()] for row in rows]
            output.print_table(header.split("|"), cells, right=name not in _TEXTS)


def _cell(row: dict[str, Any], column: str) -> str:
    """A value as `name:format` says, with its error if the format is ±digits."""
    name, _, form = column.partition(":")
    value = row.get(name)
    if value is None:
        return "-"
    if form.startswith("±"):
        return f"{value:.{form[1:]}f} ± {row[f'{name}_error']:.{form[1:]}f}"
    return f"{value:{form}}"
