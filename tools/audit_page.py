"""All that docs/audit.md shows of runs: `python -m tools.audit_page docs/audit.md`. Hours in all, minutes a piece.

Every piece is one target of one table. Its result is kept in a folder, so that a run that was stopped goes on where it
ended; remove the folder, or a file of it, to run that again. A table is written when all of its pieces are there. What
was run with earlier code than the present one is named on the page. `--minutes 15` starts no piece after that time,
`--only replay` takes the pieces with that word. Exit code 1 as long as a piece is missing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tools import audit_table, climb, replay_table, small_worlds
from tools.markdown import put

from dpkmeans.audit import Runs, audit
from dpkmeans.audit.auditor import events_of
from dpkmeans.audit.protocols import Target
from dpkmeans.audit.replay_summary import summary_of
from dpkmeans.audit.replay_targets import names, summarise
from dpkmeans.audit.targets import targets_of
from dpkmeans.cli import output
from dpkmeans.engines.same_code import code_here
from dpkmeans.storage.json_files import read_json, write_json

KIND, VERSION = "dpkmeans audit piece", 1
EPSILON = 1.0
EXAMPLES = 60  # cases of a search
RUNS = Runs(method=500, paper=2_000)
"""A quarter of the defaults for methods, and a fifth for the paper's: replay says more of them."""

Content = dict[str, Any]


@dataclass(frozen=True)
class Piece:
    """One target of one table, and what measures it."""

    table: str
    name: str
    run: Callable[[], Content]

    @property
    def file(self) -> str:
        """The name of the file that keeps its result."""
        plain = "".join(c if c.isalnum() else "-" for c in self.name)
        return f"{self.table}-{plain}.json"


def pieces(pairs: int) -> list[Piece]:
    """Everything that the page shows, the shorter tables first."""
    return [
        Piece("worlds", "all", lambda: {"rows": small_worlds.world_rows()}),
        Piece("samplers", "all", lambda: {"rows": small_worlds.sampler_rows()}),
        *_statistics("power", targets_of("power", EPSILON), Runs()),
        *(Piece("replay", name, partial(_replayed, name, pairs)) for name in names()),
        *(Piece("climb", name, partial(_climbed, name)) for name in climb.searches()),
        *_statistics("gaussian", targets_of("gaussian", EPSILON), Runs(method=200)),
        *_statistics("table", targets_of("all", EPSILON), RUNS),
    ]


def _climbed(name: str) -> Content:
    found = climb.climb(name, climb.searches()[name], EXAMPLES)
    return {**asdict(found), "share": float(found.share)}


def _statistics(table: str, targets: tuple[Target, ...], runs: Runs) -> list[Piece]:
    """A piece for each target; all bounds of the table hold together."""
    events = events_of(targets)

    def run(target: Target) -> Content:
        with output.progress("runs") as report:
            return audit(
                [target], runs=runs, events=events, progress=lambda what, done, total: report(done, total, what)
            ).to_dict()

    return [Piece(table, target.name, partial(run, target)) for target in targets]


def _replayed(name: str, pairs: int) -> Content:
    with output.progress("pairs") as report:
        return summary_of(summarise(name, pairs, EPSILON, lambda done: report(done, pairs, name)))


def joined(contents: list[Content]) -> Content:
    """The parts of one statistical table as one report."""
    return {
        "confidence": contents[0]["confidence"],
        "events": sum(content["events"] for content in contents),
        "jobs": 1,
        "seconds": sum(content["seconds"] for content in contents),
        "missed_mutants": [name for content in contents for name in content["missed_mutants"]],
        "findings": [finding for content in contents for finding in content["findings"]],
    }


def write(page: str, table: str, contents: list[Content]) -> None:
    """One table of the page, from the results of all of its pieces."""
    if table == "replay":
        replay_table.put_rows(page, contents)
    elif table == "climb":
        put(page, table, climb.table(contents))
    elif table == "worlds":
        put(page, table, small_worlds.world_table(contents[0]["rows"]))
    elif table == "samplers":
        put(page, table, small_worlds.sampler_table(contents[0]["rows"]))
    else:
        put(page, table, audit_table.markdown(joined(contents)))


TITLES = {"table": "results", "replay": "replay", "climb": "the search", "power": "events with power"}


def versions(kept: dict[Piece, Content], missing: list[Piece]) -> str:
    """Which tables and rows are of earlier code than the present one, in words."""
    now = code_here().digest
    unfinished = dict.fromkeys(piece.table for piece in missing)
    told = [f"the whole table of {TITLES.get(table, table)}" for table in unfinished]
    for table in dict.fromkeys(piece.table for piece in kept if piece.table not in unfinished):
        codes = {piece.name: content["code"] for piece, content in kept.items() if piece.table == table}
        rows = [f"`{name}`" for name, code in codes.items() if code != now]
        if len(rows) == len(codes):
            told.append(f"the whole table of {TITLES.get(table, table)}")
        elif rows:
            told.append(f"in {TITLES.get(table, table)}: {', '.join(rows)}")
    if not told:
        return "All tables were made by one version of the code.\n"
    return f"When the tables were last written, these were of earlier versions of the code: {'; '.join(told)}.\n"


def run(page: str, keep: Path, *, pairs: int, minutes: float, only: list[str]) -> list[Piece]:
    """Run what is not kept yet, write the tables that are complete, and return the pieces that are missing."""
    keep.mkdir(parents=True, exist_ok=True)
    everything = pieces(pairs)
    began = time.monotonic()
    for i, piece in enumerate(everything, start=1):
        wanted = not only or any(word in f"{piece.table}: {piece.name}" for word in only)
        if (keep / piece.file).exists() or not wanted or time.monotonic() - began > 60 * minutes:
            continue
        output.note(f"piece {i} of {len(everything)}, {piece.table}: {piece.name}")
        started = time.process_time()
        content = piece.run()
        seconds = round(time.process_time() - started, 1)
        write_json(
            keep / piece.file, KIND, VERSION, {"code": code_here().digest, "cpu_seconds": seconds, "found": content}
        )
    kept = {piece: read_json(keep / piece.file, KIND, VERSION) for piece in everything if (keep / piece.file).exists()}
    missing = [piece for piece in everything if piece not in kept]
    for table in dict.fromkeys(piece.table for piece in everything):
        if table not in {piece.table for piece in missing}:
            write(page, table, [content["found"] for piece, content in kept.items() if piece.table == table])
    put(page, "versions", versions(kept, missing))
    return missing


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("page")
    parser.add_argument("--keep", type=Path, default=Path("build/audit"))
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--only", nargs="+", default=[])
    asked = parser.parse_args()
    missing = run(asked.page, asked.keep, pairs=asked.pairs, minutes=asked.minutes, only=asked.only)
    if missing:
        named = ", ".join(f"{piece.table}: {piece.name}" for piece in missing)
        output.note(f"{len(missing)} pieces are missing; run this again to go on. {named}")
    return 1 if missing else 0


if __name__ == "__main__":
    raise SystemExit(main())
