"""Tables as Markdown, and their places in a page."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from dpkmeans.errors import FileError
from dpkmeans.storage.json_files import write_text


def as_table(header: list[str], rows: Iterable[list[str]]) -> str:
    """A table, with a line for each row."""
    return "".join(f"| {' | '.join(cells)} |\n" for cells in [header, ["---"] * len(header), *rows])


def put(page: str, mark: str, text: str) -> None:
    """Replace what stands between the two lines of a mark, such as `<!-- table: begin -->`."""
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    whole = Path(page).read_text("utf-8")
    if begin not in whole or end not in whole:
        raise FileError(f"{page} must hold the lines {begin} and {end}; the table goes between them.")
    before, after = whole.split(begin)[0], whole.split(end)[1]
    write_text(page, f"{before}{begin}\n\n{text}\n{end}{after}")
