"""Writes the tables of docs/reproduction.md anew from the results of a run:

dpkmeans reproduce all --runs 300 --out results && python -m tools.reproduction_tables results

In the page, a comment names the table that follows it. What the results do not have stays as it is.
"""

from __future__ import annotations

import csv
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.markdown import as_table

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reproduction.md"
MARKED = re.compile(r"(<!-- table: (.+) -->\n\n)(?:\|.*\n)*")
FIGURES = ("convergence", "iteration_ratio", "quality", "quality_proved", "zones")
HERE = "reproduction_"  # what the pictures of this page begin with
Row = dict[str, str]
Lines = list[list[str]]


def number(row: Row, name: str, digits: int, error: bool = True) -> str:
    """A number, with its standard error where there is one."""
    value = f"{float(row[name]):.{digits}f}"
    return f"{value} ± {float(row[name + '_error']):.{digits}f}" if error and row.get(name + "_error") else value


def by_set(rows: list[Row]) -> Iterator[tuple[str, dict[str, Row]]]:
    """The title of each data set, and its rows by method."""
    for title in dict.fromkeys(row["title"] for row in rows):
        yield title, {row["method"]: row for row in rows if row["title"] == title}


def passes(rows: list[Row], method: str) -> Lines:
    """Passes of a strategy and of Lloyd's algorithm, with the paper's figures."""
    column = "paper_passes" if method == "posterior" else "paper_passes_beside_prior"
    names = ["Lloyd, paper", "Lloyd, measured", "difference", f"{method}, paper", f"{method}, measured"]
    lines = [["", *names, "ratio, paper", "ratio, measured", "difference"]]
    for title, found in by_set(rows):
        lloyd, own = found["lloyd"], found[method]
        more = float(lloyd["passes"]) / float(lloyd[column]) - 1
        lines.append([title, lloyd[column], number(lloyd, "passes", 2), f"{100 * more:+.1f} %", own["paper_passes"]])
        lines[-1] += [number(own, "passes", 2), f"{float(own['paper_ratio']):.2f}", number(own, "ratio", 3)]
        lines[-1].append(f"{float(own['ratio_difference']):+.3f}")
    return lines


def convergence(rows: list[Row], _: str) -> Lines:
    """Convergence degrees, and other readings of a match."""
    others = {
        "share_of_centroids": "share of centroids",
        "share_within_0_1_percent": "share within 0.1 % (found after the fact)",
        "cost_within_1_percent": "cost within 1 %",
        "same_optimum": "exactly Lloyd's end",
        "ends_at_local_optimum": "ends at a local optimum",
    }
    lines = [["", "posterior", "prior", *others.values()]]
    for title, found in by_set(rows):
        both = [found["posterior"], found["prior"]]
        pairs = [" / ".join(number(row, name, 2, error=False) for row in both) for name in others]
        lines.append([title, *(number(row, "degree", 3) for row in both), *pairs])
    return lines


def order(rows: list[Row], setting: str) -> Lines:
    """Methods from the best to the worst."""
    found = [[row["title"], row["order"]] for row in rows if row["setting"] == setting]
    return [["", "best to worst: mean gap over all ε"], *found]


def theorems(rows: list[Row], _: str) -> Lines:
    """Each claim with the range over the data sets of what was measured, and where it fails."""
    lines = [["claim", "says", "measured", "allowed", "verdict"]]
    for claim in dict.fromkeys(row["claim"] for row in rows):
        found = [row for row in rows if row["claim"] == claim]
        least, most = (edge(float(row["measured"]) for row in found) for edge in (min, max))
        limits = sorted({f"{float(row['allowed']):.3g}" for row in found}, key=float)
        lines.append([claim, found[0]["says"], span(f"{least:.3g}", f"{most:.3g}"), span(limits[0], limits[-1])])
        verdicts = {word: [row["title"] for row in found if row["verdict"] == word] for word in verdict_words(found)}
        lines[-1].append("; ".join(in_words(word, titles, len(found)) for word, titles in verdicts.items()))
    return lines


def verdict_words(rows: list[Row]) -> list[str]:
    """The verdicts that occur, in a fixed order."""
    return sorted({row["verdict"] for row in rows}, key=lambda word: (word != "fails", word))


def in_words(word: str, titles: list[str], n_all: int) -> str:
    """A verdict and where it holds."""
    strong = f"**{word}**" if word == "fails" else word
    return strong if len(titles) == n_all else f"{strong} on {', '.join(titles)}"


def span(least: str, most: str) -> str:
    """From the least to the most."""
    return least if least == most else f"{least} to {most}"


def theorem_3(rows: list[Row], _: str) -> Lines:
    """Theorem 3 set by set: its bound depends on the number of optima, which is estimated."""
    lines = [["", "prior's degree", "bound", "number of optima m", "verdict"]]
    for row in rows:
        if row["claim"] == "Theorem 3":
            note = row["note"].removeprefix("m: ")
            lines.append([row["title"], number(row | {"measured_error": row["error"]}, "measured", 3)])
            lines[-1] += [f"{float(row['allowed']):.3f}", note, in_words(row["verdict"], [], 0)]
    return lines


def readings(rows: list[Row], _: str) -> Lines:
    """Other readings of the paper."""
    ratios = ("posterior_ratio", "prior_ratio", "posterior_degree", "prior_degree")
    lines = [["", "reading", "Lloyd", *(name.replace("_ratio", " / Lloyd").replace("_", " ") for name in ratios)]]
    for row in rows:
        values = [number(row, name, 2) if row[name] else "–" for name in ratios]
        lines.append([row["title"], row["reading"], number(row, "lloyd", 1), *values])
    return lines


def datasets(rows: list[Row], _: str) -> Lines:
    """The paper's table of data sets, beside what was loaded."""
    lines = [["", "records, paper", "records, here", "features", "clusters"]]
    return [*lines, *([r["title"], r["paper_records"], r["records"], r["features"], r["clusters"]] for r in rows)]


def gaps(rows: list[Row], setting: str) -> Lines:
    """The mean cost gap of every method, by data set and ε."""
    here = [row for row in rows if row["setting"] == setting]
    epsilons = list(dict.fromkeys(row["epsilon"] for row in here))
    lines = [["", "method", *(f"{float(epsilon):g}" for epsilon in epsilons)]]
    for title in dict.fromkeys(row["title"] for row in here):
        for method in dict.fromkeys(row["method"] for row in here):
            found = {r["epsilon"]: r["gap"] for r in here if r["title"] == title and r["method"] == method}
            lines.append([title, method, *(f"{float(found[e]):.2g}" if e in found else "–" for e in epsilons)])
    return lines


def lead(rows: list[Row], _: str) -> Lines:
    """By how much the best baseline's gap exceeds ours, at the smallest and the largest ε."""
    lines = [["", "lead at the smallest ε", "best baseline", "lead at the largest ε", "best baseline", "grows with ε"]]
    for title in dict.fromkeys(row["title"] for row in rows):
        here = [row for row in rows if row["title"] == title]
        first, last = here[0], here[-1]
        ends = [part for row in (first, last) for part in (f"{float(row['lead']):.2g}", row["rival"])]
        lines.append([title, *ends, "yes" if float(last["lead"]) > float(first["lead"]) else "no"])
    return lines


MAKERS: dict[str, Callable[[list[Row], str], Lines]] = {
    "iterations": passes,
    "convergence": convergence,
    "order": order,
    "theorems": theorems,
    "theorem-3": theorem_3,
    "readings": readings,
    "datasets": datasets,
    "gaps": gaps,
    "lead": lead,
}
"""What a comment may name: how the table is made. A second word chooses a part of it."""


SOURCES = {"theorem-3": "theorems", "gaps": "quality"}
"""Which file a table is made from, where its name is another."""


def table(results: Path, name: str) -> str | None:
    """One table as Markdown, if the results have it."""
    what, _, part = name.partition(" ")
    path = results / "tables" / f"{SOURCES.get(what, what)}.csv"
    if not path.exists():
        return None
    with path.open(encoding="utf-8", newline="") as file:
        header, *lines = MAKERS[what](list(csv.DictReader(file)), part)
    return as_table(header, lines) if lines else None


def refreshed(page: str, results: Path) -> str:
    """The page with its tables taken from the results; those that the results do not have stay as they are."""
    return MARKED.sub(lambda found: found[1] + (table(results, found[2]) or found[0].removeprefix(found[1])), page)


if __name__ == "__main__":
    results = Path(sys.argv[1])
    PAGE.write_text(refreshed(PAGE.read_text("utf-8"), results), "utf-8")
    for name in FIGURES:
        if not (results / "figures" / f"{name}.png").exists():
            continue
        shutil.copy(results / "figures" / f"{name}.png", ROOT / "docs" / "figures" / f"{HERE}{name}.png")
