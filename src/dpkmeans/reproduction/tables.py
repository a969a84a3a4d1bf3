"""From rows of cells to tables that can be compared with the paper's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from dpkmeans._typing import AnyArray
from dpkmeans.reproduction.cells import STRATEGIES, Row
from dpkmeans.reproduction.claims import Measured, statements
from dpkmeans.reproduction.datasets import Dataset
from dpkmeans.reproduction.estimators import mean_and_error, ratio_and_error
from dpkmeans.reproduction.paper_results import PASSES, SHAPES

Columns = dict[str, dict[str, AnyArray]]
Z = 1.96  # a 95 % band


def columns(rows: Iterable[Row], dataset: str) -> Columns:
    """Method -> field -> values, shape (runs, ε), in the order of the cells."""
    grouped: dict[str, dict[int, list[Row]]] = {}
    for row in rows:
        if row["dataset"] == dataset:
            grouped.setdefault(row["method"], {}).setdefault(row["run"], []).append(row)
    out: Columns = {}
    for method, runs in grouped.items():
        first = next(iter(runs.values()))[0]
        out[method] = {
            name: np.array([[row[name] for row in runs[run]] for run in sorted(runs)])
            for name in first
            if name not in ("kind", "dataset", "setting", "method")
        }
    return out


def _lines(
    rows: Sequence[Row], datasets: Sequence[Dataset], methods: Sequence[str] = STRATEGIES
) -> Iterator[tuple[Row, Columns]]:
    """The first fields of a line for each data set and each method that was run, and the columns of the data set."""
    for data in datasets:
        found = columns(rows, data.name)
        for method in methods:
            if method in found:
                yield {"dataset": data.name, "title": data.label, "method": method}, found


def iteration_table(rows: Sequence[Row], datasets: Sequence[Dataset]) -> list[Row]:
    """One line per data set and method: passes, ratio to Lloyd's, the paper's figures, and the differences."""
    table = []
    for line, found in _lines(rows, datasets, ("lloyd", *STRATEGIES)):
        method, paper = line["method"], PASSES.get(line["dataset"])
        here = found[method]
        passes, error = mean_and_error(here["passes"])
        line |= {"runs": len(here["passes"]), "passes": passes, "passes_error": error}
        line["paper_passes"] = getattr(paper, method, None)
        if method == "lloyd":
            line["paper_passes_beside_prior"] = getattr(paper, "lloyd_beside_prior", None)
        line["passes_difference"] = _minus(passes, line["paper_passes"])
        if method != "lloyd":
            ratio, error = ratio_and_error(here["passes"], found["lloyd"]["passes"])
            line |= {"ratio": ratio, "ratio_error": error, "paper_ratio": getattr(paper, f"{method}_ratio", None)}
            line["ratio_difference"] = _minus(ratio, line["paper_ratio"])
        line["stopped"] = float(here["stopped"].mean())
        table.append(line)
    return table


def convergence_table(rows: Sequence[Row], datasets: Sequence[Dataset]) -> list[Row]:
    """One line per data set and strategy: the convergence degree, and other readings of it."""
    readings = {
        "share_of_centroids": "matched_share",
        "share_within_0_1_percent": "closely_matched_share",
        "cost_within_1_percent": "cost_match",
        "same_optimum": "same_optimum",
        "ends_at_local_optimum": "fixed_point",
    }
    table = []
    for line, found in _lines(rows, datasets):
        here = found[line["method"]]
        degree, error = mean_and_error(here["match"])
        line |= {"runs": len(here["match"]), "degree": degree, "degree_error": error}
        table.append(line | {name: mean_and_error(here[field])[0] for name, field in readings.items()})
    return table


def per_epsilon_table(rows: Sequence[Row], datasets: Sequence[Dataset]) -> list[Row]:
    """Iteration ratio and convergence degree by ε."""
    table = []
    for line, found in _lines(rows, datasets):
        here = found[line["method"]]
        for place, epsilon in enumerate(here["epsilon"][0].tolist()):
            ratio, error = ratio_and_error(here["passes"][:, place], found["lloyd"]["passes"])
            part = {"epsilon": epsilon, "ratio": ratio, "ratio_error": error}
            degree, error = mean_and_error(here["match"][:, place])
            table.append(line | part | {"degree": degree, "degree_error": error})
    return table


def reading_table(rows: Sequence[Row], paths: Sequence[Row], datasets: Sequence[Dataset]) -> list[Row]:
    """Passes and ratios under other readings of the paper."""
    table = []
    for data in datasets:
        found = columns(paths, data.name)
        lloyd = found["lloyd"]["passes"]
        for reading, extra in (("as in the tables", 0), ("confirming pass counted", 1)):
            table.append(_reading(data, reading, found, lloyd, extra))
        for reading in dict.fromkeys(row["setting"] for row in rows):
            other = columns((row for row in rows if row["setting"] == reading), data.name)
            base = other["lloyd"]["passes"] if "lloyd" in other else lloyd
            table.append(_reading(data, reading, other, base))
    return table


def _reading(data: Dataset, reading: str, found: Columns, lloyd: AnyArray, extra: int = 0) -> Row:
    """One line; `extra` passes are counted in every run."""
    passes, error = mean_and_error(lloyd + extra)
    line = {"dataset": data.name, "title": data.label, "reading": reading, "lloyd": passes, "lloyd_error": error}
    for method in STRATEGIES:
        if method in found:
            here = found[method]
            ratio, error = ratio_and_error(here["passes"] + extra, lloyd[: len(here["passes"])] + extra)
            line |= {f"{method}_ratio": ratio, f"{method}_ratio_error": error}
            line[f"{method}_degree"] = mean_and_error(here["match"])[0]
    return line


def quality_table(paths: Sequence[Row], baselines: Sequence[Row], datasets: Sequence[Dataset]) -> list[Row]:
    """Mean cost gap by data set, setting, method and ε, with a 95 % band and the mean total that was spent."""
    groups: dict[tuple[str, str, str, float], list[Row]] = {}
    for row in (*(row for row in paths if row["method"] != "lloyd"), *baselines):
        groups.setdefault((row["dataset"], row["setting"], row["method"], row["epsilon"]), []).append(row)
    titles = {data.name: data.label for data in datasets}
    table = []
    for (name, setting, method, epsilon), members in groups.items():
        gap, error = mean_and_error(np.array([row["gap"] for row in members]))
        line = {"dataset": name, "title": titles[name], "setting": setting, "method": method, "epsilon": epsilon}
        line |= {"runs": len(members), "gap": gap, "gap_low": gap - Z * error, "gap_high": gap + Z * error}
        line["gap_median"] = float(np.median([row["gap"] for row in members]))
        line["epsilon_total"] = float(np.mean([row["epsilon_total"] for row in members]))
        table.append(line)
    return table


def dataset_table(datasets: Sequence[Dataset]) -> list[Row]:
    """The paper's table of data sets, and what was loaded."""
    table = []
    for data in datasets:
        n, d = data.records.shape
        paper = SHAPES.get(data.name)
        line = {"dataset": data.name, "title": data.label, "records": n, "features": d, "clusters": data.k}
        table.append(
            line | {f"paper_{name}": getattr(paper, name, None) for name in ("records", "features", "clusters")}
        )
    return table


def lead_table(quality: Sequence[Row]) -> list[Row]:
    """By how much the best baseline's gap exceeds the better of posterior and prior, in the paper's setting, by ε."""
    table = []
    for name in dict.fromkeys(row["dataset"] for row in quality):
        here = [row for row in quality if row["dataset"] == name and row["setting"] == "paper"]
        for epsilon in dict.fromkeys(row["epsilon"] for row in here):
            at = {row["method"]: row["gap"] for row in here if row["epsilon"] == epsilon}
            ours = [at[method] for method in STRATEGIES if method in at]
            others = {method: gap for method, gap in at.items() if method not in STRATEGIES}
            if ours and others:
                best = min(others, key=lambda method: others[method])
                line = {"dataset": name, "title": here[0]["title"], "epsilon": epsilon, "ours": min(ours)}
                table.append(line | {"rival": best, "rival_gap": others[best], "lead": others[best] - min(ours)})
    return table


def order_table(quality: Sequence[Row]) -> list[Row]:
    """Methods of one setting from best to worst by their mean gap over all ε, the paper's strategies included."""
    table = []
    for name in dict.fromkeys(row["dataset"] for row in quality):
        for setting in ("paper", "proved", "total"):
            here = [row for row in quality if row["dataset"] == name and row["setting"] == setting]
            gaps = {
                method: float(np.mean([row["gap"] for row in here if row["method"] == method]))
                for method in dict.fromkeys(row["method"] for row in here)
            }
            if gaps:
                order = sorted(gaps, key=lambda method: gaps[method])
                title = next(row["title"] for row in here)
                text = ", ".join(f"{method} {gaps[method]:.3g}" for method in order)
                table.append({"dataset": name, "title": title, "setting": setting, "order": text})
    return table


def theorem_table(paths: Sequence[Row], theorems: Sequence[Row], datasets: Sequence[Dataset]) -> list[Row]:
    """All claims on all data sets."""
    table = []
    for data in datasets:
        n, d = data.records.shape
        found = Measured(data.name, n, d, columns(paths, data.name), columns(theorems, data.name))
        table += [{**asdict(line), "title": data.label} for line in statements(found)]
    return table


def plain(value: Any) -> Any:
    """Values that JSON can hold: no NaN, no NumPy."""
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _minus(measured: float, paper: float | None) -> float | None:
    return None if paper is None else measured - paper
