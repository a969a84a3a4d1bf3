"""Replays as two Markdown tables: `python -m tools.replay_table docs/audit.md replay.json ...`.

One line for each method, and one for each question that its mechanisms answered.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from tools.markdown import as_table, put

from dpkmeans.storage.json_files import read_json

KIND, VERSION = "dpkmeans replay", 1
METHODS = ["method", "pairs", "calls", "above their budget", "largest loss of a run", "of"]
QUESTIONS = [
    "method",
    "mechanism",
    "question",
    "calls",
    "largest loss of a call, as a share of its budget",
    "sensitivity declared",
    "and occurred",
]
TIGHT = 1 - 1e-9


def share(value: float) -> str:
    """Of 1, to three digits or six, rounded down, and whether that is all."""
    if value >= TIGHT:
        return "1.000: tight"
    digits = 6 if value > 0.9995 else 3
    return f"{math.floor(value * 10**digits) / 10**digits:.{digits}f}"


def methods(rows: list[dict[str, Any]]) -> str:
    """What was replayed, and the largest loss of a whole run."""
    cells = []
    for row in rows:
        loss = share(row["largest_loss"] / row["spent"])
        spent = "its ρ" if row["currency"] == "rho" else f"{row['spent']:g}"
        cells.append([f"`{row['method']}`", str(row["pairs"]), str(row["calls"]), str(len(row["broken"])), loss, spent])
    return as_table(METHODS, cells)


def questions(rows: list[dict[str, Any]]) -> str:
    """The tightest call of each method, mechanism and question; methods with the same calls share a line."""
    asked: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        for q in row["questions"]:
            line = (
                f"`{q['mechanism']}`",
                q["question"],
                str(q["calls"]),
                share(q["share"]),
                str(q["declared"]),
                str(q["occurred"]),
            )
            asked.setdefault(line, []).append(f"`{row['method']}`")
    return as_table(QUESTIONS, ([", ".join(names), *line] for line, names in asked.items()))


def main(page: str, *files: str) -> None:
    """Put both tables into a page."""
    put_rows(page, [row for file in files for row in read_json(file, KIND, VERSION)["methods"]])


def put_rows(page: str, rows: list[dict[str, Any]]) -> None:
    """Put the summaries of methods into a page."""
    put(page, "replay", methods(rows))
    put(page, "questions", questions(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
