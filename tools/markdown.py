"""Tables as Markdown."""

from __future__ import annotations

from collections.abc import Iterable


def as_table(header: list[str], rows: Iterable[list[str]]) -> str:
    """A table, with a line for each row."""
    return "".join(f"| {' | '.join(cells)} |\n" for cells in [header, ["---"] * len(header), *rows])
