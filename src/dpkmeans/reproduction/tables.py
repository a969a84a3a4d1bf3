"""From rows of cells to tables that can be compared with the paper's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from dpkmeans._typing import AnyArray
from dpkmeans.reproduction.cells import STRATEGIES, Row
from dpkmeans.reproduction.claims import Measured, statements
from dpkmeans.reproduction.datasets import Dataset
from dpkmeans.reproduction.estimators import mean_and_error, ratio_and_error
from dpkmeans.reproduction.paper_results import PASSES

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


def iteration_table(rows: Sequence[Row], datasets: Sequence[Dataset]) -> list[Row]:
    """One line per data set and method: passes, ratio to Lloyd's, the paper's figures, and the differences."""
    table = []
    for data in datasets:
        found, paper = columns(rows, data.name), PASSES.get(data.name)
        for method in ("lloyd", *STRATEGIES):
            if method not in found:
                continue
            passes, error = mean_and_error(found[method]["passes"])
            line: Row = {
                "dataset": data.name,
                "title": data.label,
                "method": method,
                "runs": len(found[method]["passes"]),
                "passes": passes,
                "passes_error": error,
                "paper_passes": getattr(paper, method, None),
            }
            if method == "lloyd":
                line["paper_passes_beside_prior"] = getattr(paper, "lloyd_beside_prior", None)
            line["passes_difference"] = _minus(passes, line["paper_passes"])
            if method != "lloyd":
                ratio, error = ratio_and_error(found[method]["passes"], found["lloyd"]["passes"])
                line |= {"ratio": ratio, "ratio_error": error, "paper_ratio": getattr(paper, f"{method}_ratio", None)}
                line["ratio_difference"] = _minus(ratio, line["paper_ratio"])
            line["stopped"] = float(found[method]["stopped"].mean())
            table.append(line)
    return table


def _by_strategy(
    rows: Sequence[Row], datasets: Sequence[Dataset]
) -> Iterator[tuple[Row, Columns, dict[str, AnyArray]]]:
    """For each data set and strategy the first cells of a line, all columns, and those of the strategy."""
    for data in datasets:
        found = columns(rows, data.name)
        for method in STRATEGIES:
            if method in found:
                yield {"dataset": data.name, "title": data.label, "method": method}, found, found[method]


def convergence_table(rows: Sequence[Row], datasets: Sequence[Dataset]) -> list[Row]:
    """One line per data set and strategy: the convergence degree, and other readings of it."""
    table = []
    others = {
        "share_of_centroids": "matched_share",
        "cost_within_1_percent": "cost_match",
        "same_optimum": "same_optimum",
        "ends_at_local_optimum": "fixed_point",
    }
    for line, _, own in _by_strategy(rows, datasets):
        degree, error = mean_and_error(own["match"])
        line |= {"runs": len(own["match"]), "degree": degree, "degree_error": error}
        table.append(line | {name: mean_and_error(own[column])[0] for name, column in others.items()})
    return table


def per_epsilon_table(rows: Sequence[Row], datasets: Sequence[Dataset]) -> list[Row]:
    """Iteration ratio and convergence degree by ε."""
    table = []
    for line, found, own in _by_strategy(rows, datasets):
        for place, epsilon in enumerate(own["epsilon"][0].tolist()):
            ratio, ratio_error = ratio_and_error(own["passes"][:, place], found["lloyd"]["passes"])
            degree, degree_error = mean_and_error(own["match"][:, place])
            values = {"ratio": ratio, "ratio_error": ratio_error, "degree": degree, "degree_error": degree_error}
            table.append({**line, "epsilon": epsilon, **values})
    return table


def reading_table(rows: Sequence[Row], paths: Sequence[Row], datasets: Sequence[Dataset]) -> list[Row]:
    """Passes and ratios under other readings of the paper."""
    table = []
    for data in datasets:
        found = columns(paths, data.name)
        lloyd = found["lloyd"]["passes"]
        for extra in (0, 1):
            reading = "as in the notes" if not extra else "confirming pass counted"
            line = _reading(data, reading, lloyd + extra)
            for method in STRATEGIES:
                line |= _reading_part(method, found[method]["passes"] + extra, lloyd + extra, found[method]["match"])
            table.append(line)
        for reading in dict.fromkeys(row["setting"] for row in rows):
            other = columns((row for row in rows if row["setting"] == reading), data.name)
            base = other["lloyd"]["passes"] if "lloyd" in other else lloyd
            line = _reading(data, reading, base)
            for method in STRATEGIES:
                if method in other:
                    passes = other[method]["passes"]
                    line |= _reading_part(method, passes, base[: len(passes)], other[method]["match"])
            table.append(line)
    return table


def _reading(data: Dataset, reading: str, lloyd: AnyArray) -> Row:
    passes, error = mean_and_error(lloyd)
    return {"dataset": data.name, "title": data.label, "reading": reading, "lloyd": passes, "lloyd_error": error}


def _reading_part(method: str, passes: AnyArray, lloyd: AnyArray, match: AnyArray) -> Row:
    ratio, error = ratio_and_error(passes, lloyd)
    return {f"{method}_ratio": ratio, f"{method}_ratio_error": error, f"{method}_degree": mean_and_error(match)[0]}


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
        table += [{**line.to_dict(), "title": data.label} for line in statements(found)]
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


def _minus(ours: float, theirs: float | None) -> float | None:
    return None if theirs is None else ours - theirs
