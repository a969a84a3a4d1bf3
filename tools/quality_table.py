"""Writes the table of docs/quality.md anew from a run of the benchmark:

python benchmarks/quality.py --json quality.json && python -m tools.quality_table quality.json

More files may follow, of a part with more runs a cell. Prints the cells that miss their target, and those in which a
baseline is ahead.
"""

from __future__ import annotations

import json
import math
import re
import runpy
import sys
from pathlib import Path
from typing import Any

from tools.markdown import as_table

ROOT = Path(__file__).resolve().parents[1]
BENCHMARK = runpy.run_path(str(ROOT / "benchmarks" / "quality.py"))  # by its path: other packages have this name too
METHOD, BASELINES, TARGETS = (BENCHMARK[name] for name in ("METHOD", "BASELINES", "TARGETS"))
PAGE = ROOT / "docs" / "quality.md"
TABLE = re.compile(r"^\| set \|.*\n(?:\|.*\n)+", flags=re.MULTILINE)
TITLES = {
    "iris": "Iris k=3",
    "house": "House k=3",
    "s1": "S1 k=15",
    "birch2": "Birch2 k=5",
    "image": "Image k=3",
    "lifesci": "Lifesci k=3",
    "adult6": "Adult k=5",
    "a2": "A2 k=35",
    "blobs10": "10 blobs, 100k×10",
    "blobs64": "20 blobs, 100k×64",
    "cube16": "16 blobs in a cube, 20k×16",
}
Cell = dict[str, Any]


def shown(value: float) -> str:
    """More digits near 1; a dash for what was left out."""
    if math.isnan(value):
        return "–"
    for above, form in ((100, ".1f"), (10, ".3g"), (2, ".2f"), (1.1, ".3f")):
        if value >= above:
            return f"{value:{form}}"
    return f"{value:.4f}"


def target_of(cell: Cell) -> str:
    """What is wanted of a cell, if anything."""
    return TARGETS[cell["set"]].get(cell["epsilon"], "")


def misses(cell: Cell) -> bool:
    """Whether the median, rounded to the digits of the target, is above it."""
    target = target_of(cell)
    return target != "" and round(cell[METHOD], len(target.partition(".")[2])) > float(target)


def ahead(cell: Cell) -> list[str]:
    """The baselines that do better."""
    return [name for name in BASELINES if cell[name] < cell[METHOD]]


def line(cell: Cell) -> list[str]:
    """One line of the table."""
    notes = (["target missed"] if misses(cell) else []) + [f"`{name}` is better" for name in ahead(cell)]
    own, others = f"**{shown(cell[METHOD])}**", [shown(cell[name]) for name in (*BASELINES, "lloyd")]
    return [TITLES[cell["set"]], f"{cell['epsilon']:g}", target_of(cell), own, *others, ", ".join(notes)]


def table(cells: list[Cell]) -> str:
    """The whole table as Markdown."""
    names = ["no data" if name == "no data" else f"`{name}`" for name in (METHOD, *BASELINES)]
    header = ["set", "ε", "target", *names, "Lloyd", "note"]
    return as_table(header, map(line, cells))


def merged(runs: list[list[Cell]]) -> list[Cell]:
    """The cells of several runs; where two have the same method, the later one counts."""
    found: dict[tuple[str, float], Cell] = {}
    for cell in (cell for run in runs for cell in run):
        found.setdefault((cell["set"], cell["epsilon"]), {}).update(cell)
    return list(found.values())


if __name__ == "__main__":
    found = merged([json.loads(Path(path).read_text("utf-8")) for path in sys.argv[1:]])
    page = PAGE.read_text("utf-8")
    PAGE.write_text(TABLE.sub(lambda _: table(found), page, count=1), "utf-8")
    for cell in found:
        if misses(cell) or ahead(cell):
            values = {name: round(cell[name], 4) for name in (METHOD, *ahead(cell))}
            print(TITLES[cell["set"]], cell["epsilon"], "target", target_of(cell), values)
