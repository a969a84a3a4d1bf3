"""The tables of small worlds: `python -m tools.small_worlds docs/audit.md` puts them into the page. Takes minutes."""

from __future__ import annotations

import sys
from fractions import Fraction

from tools.markdown import as_table, put

from dpkmeans.audit.small_samplers import enumerated_samplers
from dpkmeans.audit.small_worlds import enumerated


def main(page: str, pairs: str | None = None) -> None:
    """The laws of mechanisms, and of the samplers by all of their draws: in all worlds, or in the first so many."""
    worlds = [
        [f"`{row.mechanism}`", str(row.worlds), str(row.outputs), f"{row.largest:.30f}"]
        for row in enumerated(Fraction(1))
    ]
    put(page, "worlds", as_table(["mechanism", "pairs of data sets", "outputs", "largest loss at 1"], worlds))
    samplers = [
        [row.sampler, str(row.worlds), str(row.ways), f"{float(row.off):.0e}", f"{row.largest:.30f}"]
        for row in enumerated_samplers(None if pairs is None else int(pairs))
    ]
    header = [
        "sampler",
        "pairs of data sets",
        "ways that draws came out",
        "a probability is off by",
        "largest loss at 1",
    ]
    put(page, "samplers", as_table(header, samplers))


if __name__ == "__main__":
    main(*sys.argv[1:])
