"""One call that repeats the paper's measurements: cells, tables, figures and a manifest in a folder."""

from __future__ import annotations

import csv
import io
import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

from dpkmeans import __version__
from dpkmeans.core.checks import check_integer
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.errors import FileError, MethodError
from dpkmeans.reproduction import figures, tables
from dpkmeans.reproduction.baselines import problem_of
from dpkmeans.reproduction.catalog import PAPER_SETS
from dpkmeans.reproduction.cell_store import CellStore
from dpkmeans.reproduction.cells import (
    PROTOCOL,
    QUALITY,
    READINGS,
    STRATEGIES,
    Cell,
    Row,
    path_cells,
    quality_cells,
    reading_cells,
)
from dpkmeans.reproduction.datasets import Dataset
from dpkmeans.reproduction.lemma_runs import theorem_cells
from dpkmeans.reproduction.paper_results import EPSILONS, RUNS
from dpkmeans.reproduction.runner import Progress, run_cells
from dpkmeans.storage.json_files import write_text

PARTS = ("iterations", "convergence", "quality", "theorems", "readings")
ALL_METHODS = tuple(dict.fromkeys((*STRATEGIES, *(method for methods in QUALITY.values() for method in methods))))
CORE = ("numpy", "scipy", "numba", "opendp")


@dataclass(frozen=True)
class Order:
    """What to reproduce. `quality_runs` may be smaller than `runs`: the quality part takes nearly all the time."""

    parts: tuple[str, ...] = PARTS
    datasets: tuple[str, ...] = PAPER_SETS
    runs: int = RUNS
    quality_runs: int | None = None
    epsilons: tuple[float, ...] = EPSILONS
    methods: tuple[str, ...] = ALL_METHODS
    settings: tuple[str, ...] = tuple(QUALITY)
    seed: int = 0
    k: int | None = None

    def __post_init__(self) -> None:
        _known("part", self.parts, PARTS)
        _known("method", self.methods, ALL_METHODS)
        _known("setting", self.settings, tuple(QUALITY))
        for name, value in (("runs", self.runs), ("quality_runs", self.n_quality)):
            check_integer(value, name)
        if self.n_quality > self.runs:
            raise MethodError(f"quality_runs must be at most runs={self.runs}; got {self.quality_runs}.")
        if not self.epsilons or not self.datasets or not self.methods or not self.settings:
            raise MethodError("at least one data set, one epsilon, one method and one setting are needed.")
        for epsilon in self.epsilons:
            Epsilon.of(epsilon)
        for names in (self.datasets, self.epsilons, self.methods, self.settings):
            if len(set(names)) < len(names):
                raise MethodError("a data set, epsilon, method or setting is given twice.")

    @property
    def n_quality(self) -> int:
        """Runs of the quality part."""
        return self.runs if self.quality_runs is None else self.quality_runs

    @property
    def strategies(self) -> tuple[str, ...]:
        """Which of posterior and prior to run; the theorems and the readings need both."""
        if {"theorems", "readings"} & set(self.parts):
            return STRATEGIES
        return tuple(name for name in STRATEGIES if name in self.methods)

    def cells(self) -> dict[str, list[Cell]]:
        """The cells of each kind."""
        runs = self.n_quality if self.parts == ("quality",) else self.runs
        out = {"path": path_cells(self.datasets, runs, self.epsilons, self.strategies)}
        if "theorems" in self.parts:
            out["theorem"] = theorem_cells(self.datasets, self.runs)
        if "readings" in self.parts:
            out["reading"] = reading_cells(self.datasets, self.runs)
        if "quality" in self.parts:
            out["quality"] = quality_cells(self.datasets, self.n_quality, self.epsilons, self.methods, self.settings)
        return out


@dataclass(frozen=True)
class Result:
    """Tables by name, and the data sets they are about."""

    order: Order
    datasets: tuple[Dataset, ...]
    tables: dict[str, list[Row]]

    def to_dict(self) -> dict[str, Any]:
        return {"manifest": manifest(self.order, self.datasets), **{k: tables.plain(v) for k, v in self.tables.items()}}


def reproduce(
    order: Order,
    out: Path,
    *,
    jobs: int = 1,
    progress: Progress = lambda done, total: None,
    say: Callable[[str], None] = lambda text: None,
) -> Result:
    """Run what is missing, then write rows, tables, figures and the manifest to `out`.

    The files depend on the order and the data alone, not on `jobs` or on interruptions.
    """
    if jobs < 1:
        raise MethodError(f"jobs must be at least 1; got {jobs}.")
    figures.require_matplotlib()
    say("Loading the data sets")
    datasets = tuple(problem_of(name, order.k).data for name in order.datasets)
    terms = {"protocol": PROTOCOL, "version": __version__, "seed": order.seed}
    terms |= {f"data {data.name}": [data.sha256, data.k] for data in datasets}
    store = CellStore(out, terms)
    try:
        cells = order.cells()
        everything = [cell for group in cells.values() for cell in group]
        in_order = iter(run_cells(everything, store, seed=order.seed, k=order.k, jobs=jobs, progress=progress))
    finally:
        store.close()
    rows = {kind: list(islice(in_order, len(group))) for kind, group in cells.items()}
    say("Writing tables and figures")
    result = Result(order, datasets, make_tables(order, rows, datasets))
    _write(result, rows, out)
    return result


def make_tables(order: Order, rows: dict[str, list[Row]], datasets: Sequence[Dataset]) -> dict[str, list[Row]]:
    """The tables of the parts that were ordered."""
    paths, out = rows["path"], {"datasets": tables.dataset_table(datasets)}
    if "iterations" in order.parts or "convergence" in order.parts:
        out["iterations"] = tables.iteration_table(paths, datasets)
        out["convergence"] = tables.convergence_table(paths, datasets)
        out["per_epsilon"] = tables.per_epsilon_table(paths, datasets)
    if "readings" in order.parts:
        out["readings"] = tables.reading_table(rows["reading"], paths, datasets)
    if "quality" in order.parts:
        wanted = [row for row in paths if row["run"] < order.n_quality and row["method"] in order.methods]
        out["quality"] = tables.quality_table(wanted, rows["quality"], datasets)
        out["order"] = tables.order_table(out["quality"])
        out["lead"] = tables.lead_table(out["quality"])
    if "theorems" in order.parts:
        out["theorems"] = tables.theorem_table(paths, rows["theorem"], datasets)
    return out


def manifest(order: Order, datasets: Sequence[Dataset]) -> dict[str, Any]:
    """What the numbers depend on. No time and no path, so that equal runs write equal files."""
    return {
        "protocol": PROTOCOL,
        "versions": {"dpkmeans": __version__, "python": platform.python_version()} | {p: version(p) for p in CORE},
        "seed": order.seed,
        "parts": list(order.parts),
        "runs": order.runs,
        "quality_runs": order.n_quality if "quality" in order.parts else None,
        "epsilons": list(order.epsilons),
        "methods": list(order.methods),
        "settings": {name: [m for m in QUALITY[name] if m in order.methods] for name in order.settings},
        "readings": list(READINGS) if "readings" in order.parts else [],
        "datasets": {
            data.name: {
                "rows": data.records.shape[0],
                "features": data.records.shape[1],
                "k": data.k,
                "sha256": data.sha256,
                "status": data.status,
            }
            for data in datasets
        },
    }


def _write(result: Result, rows: dict[str, list[Row]], out: Path) -> None:
    try:
        for folder in (out, out / "tables", out / "figures"):
            folder.mkdir(parents=True, exist_ok=True)
        for kind, found in rows.items():
            _write_csv(out / f"{kind}.csv", found)
        for name, table in result.tables.items():
            _write_csv(out / "tables" / f"{name}.csv", table)
        for name, figure in _figures(result):
            figures.save(figure, out / "figures", name)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"cannot write to {out}: {error.strerror}. Give another folder with --out.") from None
    write_text(out / "manifest.json", json.dumps(manifest(result.order, result.datasets), indent=1) + "\n")


def _figures(result: Result) -> list[tuple[str, Any]]:
    made: list[tuple[str, Any]] = []
    found, order = result.tables, result.order
    if "iterations" in order.parts:
        made.append(("iteration_tables", figures.iteration_tables_figure(found["iterations"])))
        made.append(("iteration_ratio", figures.over_epsilon_figure(found["per_epsilon"], "ratio", "passes / Lloyd's")))
        flat = [data for data in result.datasets if data.records.shape[1] == 2]
        if flat:
            made.append(("zones", figures.zones_figure(problem_of(flat[0].name, order.k), order.seed)))
    if "convergence" in order.parts:
        made.append(("convergence", figures.over_epsilon_figure(found["per_epsilon"], "degree", "convergence degree")))
    if "quality" in order.parts:
        for name, setting, title in (
            ("quality", "paper", "The paper's setting: local sensitivity, posterior's total for the baselines"),
            ("quality_proved", "proved", "The proved setting with posterior's total"),
            ("quality_total", "total", "The proved setting with ε as the total"),
        ):
            here = [row for row in found["quality"] if row["setting"] == setting]
            if here:
                made.append((name, figures.quality_figure(here, setting, title)))
    return made


def _write_csv(path: Path, rows: Sequence[Row]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


def _known(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    unknown = [name for name in given if name not in known]
    if unknown:
        raise MethodError(f"unknown {what} {unknown[0]!r}. Known: {', '.join(known)}.")
