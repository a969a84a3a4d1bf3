"""The tables of small worlds: `python -m tools.small_worlds docs/audit.md` puts them into the page. Takes minutes."""

from __future__ import annotations

import sys
from fractions import Fraction

from tools.markdown import as_table, put

from dpkmeans.audit.small_samplers import enumerated_samplers
from dpkmeans.audit.small_worlds import enumerated

WORLDS = ["mechanism", "pairs of data sets", "outputs", "largest loss at 1"]
SAMPLERS = ["sampler", "pairs of data sets", "ways that draws came out", "a probability is off by", "largest loss at 1"]


def world_rows() -> list[list[str]]:
    """The laws of mechanisms, in all worlds."""
    return [
        [f"`{row.mechanism}`", str(row.worlds), str(row.outputs), f"{row.largest:.30f}"]
        for row in enumerated(Fraction(1))
    ]


def sampler_rows(pairs: int | None = None) -> list[list[str]]:
    """The samplers by all of their draws: in all worlds, or in the first so many pairs."""
    return [
        [row.sampler, str(row.worlds), str(row.ways), f"{float(row.off):.0e}", f"{row.largest:.30f}"]
        for row in enumerated_samplers(pairs)
    ]


def world_table(rows: list[list[str]]) -> str:
    """As Markdown."""
    return as_table(WORLDS, rows)


def sampler_table(rows: list[list[str]]) -> str:
    """As Markdown."""
    return as_table(SAMPLERS, rows)


def main(page: str, pairs: str | None = None) -> None:
    """Both tables into a page."""
    put(page, "worlds", world_table(world_rows()))
    put(page, "samplers", sampler_table(sampler_rows(None if pairs is None else int(pairs))))


if __name__ == "__main__":
    main(*sys.argv[1:])
