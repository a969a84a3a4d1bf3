"""Writes the quality and speed tables of the README anew from the pages they come from: python tools/readme_tables.py

A table of the README names columns and rows of a page's table. Its cells are taken from there, so they cannot drift; a
test fails where they differ.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = {"`synopsis`": ("docs/quality.md", 2), "e 1M×10 k10": ("docs/performance.md", 1)}
"""A column by which a table is known: the page that has the full one, and how many first columns name a row."""

TABLE = re.compile(r"(?:^\|.*\n)+", flags=re.MULTILINE)


def cells(line: str) -> list[str]:
    """The cells of one line of a table."""
    return [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]


def table_with(text: str, column: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the first table that has this column."""
    for block in TABLE.findall(text):
        header, _, *rows = map(cells, block.splitlines())
        if column in header:
            return header, rows
    raise ValueError(f"there is no table with a column {column!r}. Change SOURCES, or the page.")


def refreshed(readme: str) -> str:
    """The README with its tables taken from the pages."""
    for column, (page, n_names) in SOURCES.items():
        header, rows = table_with(readme, column)
        full_header, full_rows = table_with((ROOT / page).read_text("utf-8"), column)
        known = {tuple(row[:n_names]): dict(zip(full_header, row, strict=False)) for row in full_rows}
        for row in rows:
            if tuple(row[:n_names]) not in known or not set(header) <= set(full_header):
                raise ValueError(f"{page} has no row {row[:n_names]} with the columns {header}. Change the README.")
            new = [known[tuple(row[:n_names])][name] for name in header]
            readme = readme.replace(f"| {' | '.join(row)} |", f"| {' | '.join(new)} |")
    return readme


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(refreshed(path.read_text("utf-8")), "utf-8")
