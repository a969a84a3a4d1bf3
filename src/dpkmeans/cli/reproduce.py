"""The command `dpkmeans reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dpkmeans.cli import output
from dpkmeans.cli.options import Jobs, Json, all_cores
from dpkmeans.errors import MethodError

if TYPE_CHECKING:
    from dpkmeans.reproduction.reproduce import Result

Part = Literal["iterations", "convergence", "quality", "theorems", "readings", "all"]


def reproduce(
    part: Part = "all",
    /,
    *,
    dataset: str | None = None,
    runs: int = 300,
    quality_runs: int | None = None,
    epsilons: str | None = None,
    methods: str | None = None,
    k: int | None = None,
    seed: int = 0,
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
    found = result.tables
    if "iterations" in found:
        output.print_table(
            ["data set", "method", "passes", "paper", "difference", "ratio", "paper", "difference", "stopped"],
            [
                [
                    row["title"],
                    row["method"],
                    _with_error(row, "passes", 2),
                    _number(row["paper_passes"], 2),
                    _number(row["passes_difference"], 2, "+"),
                    _with_error(row, "ratio", 3),
                    _number(row.get("paper_ratio"), 2),
                    _number(row.get("ratio_difference"), 3, "+"),
                    _number(row["stopped"], 3),
                ]
                for row in found["iterations"]
            ],
        )
        names = ("share_of_centroids", "cost_within_1_percent", "same_optimum", "ends_at_local_optimum")
        output.print_table(
            ["data set", "method", "convergence degree", *(name.replace("_", " ") for name in names)],
            [
                [row["title"], row["method"], _with_error(row, "degree", 3), *(_number(row[n], 3) for n in names)]
                for row in found["convergence"]
            ],
        )
    if "readings" in found:
        parts = ("posterior_ratio", "prior_ratio", "posterior_degree", "prior_degree")
        output.print_table(
            ["data set", "reading", "lloyd", *(name.replace("_", " ") for name in parts)],
            [
                [row["title"], row["reading"], _with_error(row, "lloyd", 2), *(_number(row.get(n), 3) for n in parts)]
                for row in found["readings"]
            ],
        )
    if "order" in found:
        output.print_table(
            ["data set", "setting", "methods by mean gap over all epsilons, best first"],
            [[row["title"], row["setting"], row["order"]] for row in found["order"]],
            right=False,
        )
    if "theorems" in found:
        output.print_table(
            ["claim", "data set", "measured", "allowed", "verdict", "note"],
            [
                [
                    row["claim"],
                    row["title"],
                    f"{row['measured']:.4g}",
                    f"{row['allowed']:.4g}",
                    row["verdict"],
                    row["note"],
                ]
                for row in sorted(found["theorems"], key=lambda row: row["claim"])
            ],
            right=False,
        )


def _number(value: float | None, digits: int, sign: str = "") -> str:
    return "-" if value is None else f"{value:{sign}.{digits}f}"


def _with_error(row: dict[str, float], name: str, digits: int) -> str:
    if row.get(name) is None:
        return "-"
    return f"{row[name]:.{digits}f} ± {row[f'{name}_error']:.{digits}f}"
