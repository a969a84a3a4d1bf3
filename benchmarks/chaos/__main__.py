"""Cause all faults, or those whose group or name holds a word, and print the table."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path

from benchmarks.chaos.fault import NEVER, Fault, Outcome
from benchmarks.chaos.registry import groups

HEAD = "| fault | promise | what happened | runs |\n| --- | --- | --- | --- |\n"
MARKED = re.compile(r"(<!-- table: make chaos -->\n\n)(?:\|.*\n)*(?:\n[0-9].*\.\n)?")


def row(fault: Fault, outcome: Outcome) -> str:
    happened = "; ".join(f"{what} ({n})" for what, n in sorted(outcome.seen.items(), key=lambda item: -item[1]))
    return f"| {fault.name} | {fault.promise} | {happened} | {outcome.runs} |\n"


def totals(outcomes: list[Outcome]) -> str:
    """The last line under the table."""
    never = ", ".join(f"{sum(getattr(o, name) for o in outcomes)} {name.replace('_', ' ')}" for name in NEVER)
    return f"{sum(o.runs for o in outcomes)} runs of {len(outcomes)} faults: {never}.\n"


class Log:
    """What was seen so far, a line for each piece of work, so that a long run can be taken up again."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        self._seen: dict[str, Outcome] = {}
        for line in map(json.loads, lines):
            self._add(line["fault"], Outcome(**line["outcome"]))

    def __getitem__(self, name: str) -> Outcome:
        return self._seen.get(name, Outcome(0, {}))

    def _add(self, name: str, outcome: Outcome) -> None:
        self._seen[name] = self[name] + outcome

    def note(self, fault: Fault, outcome: Outcome, seconds: float) -> None:
        """Take in a piece, and put it in the file."""
        self._add(fault.name, outcome)
        load = os.getloadavg()[1]
        sys.stderr.write(f"{fault.name}: {outcome.runs} in {seconds:.0f} s, load {load:.0f}: {dict(outcome.seen)}\n")
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                line = {"fault": fault.name, "outcome": asdict(outcome), "seconds": round(seconds, 1), "load": load}
                file.write(json.dumps(line) + "\n")


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m benchmarks.chaos")
    options.add_argument("--short", action="store_true", help="as often as in the tests")
    options.add_argument("--minutes", type=float, default=240.0, help="begin no further piece of work after so long")
    options.add_argument("--times", type=int, help="each fault so often")
    options.add_argument("--resume", type=Path, help="note what is done in this file, and go on from there")
    options.add_argument("--page", type=Path, help="write the table into this page, where it is marked")
    options.add_argument("words", nargs="*", help="groups, or parts of names of faults")
    given = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that clusters are stopped
    chosen = [
        fault
        for group, faults in groups().items()
        for fault in faults
        if not given.words or any(word in (group, *fault.name.split()) or word in fault.name for word in given.words)
    ]
    log, start, left_out = Log(given.resume), time.monotonic(), []
    for fault in chosen:
        times = given.times or (fault.short if given.short else fault.times)
        why = fault.unavailable() if times else "not in the short form"
        while why is None and log[fault.name].runs < times:
            if time.monotonic() - start > 60 * given.minutes:
                why = f"out of time after {log[fault.name].runs} of {times}"
                break
            since, left = time.monotonic(), times - log[fault.name].runs
            log.note(fault, fault.run(min(left, fault.at_once or left)), time.monotonic() - since)
        if why is not None:
            left_out.append(f"{fault.name}: {why}")
    caused = [(fault, log[fault.name]) for fault in chosen if log[fault.name].runs]
    table = HEAD + "".join(row(*each) for each in caused) + "\n" + totals([outcome for _, outcome in caused])
    print(table)
    if given.page is not None:
        page, found = MARKED.subn(lambda match: match[1] + table, given.page.read_text("utf-8"))
        assert found == 1, f"{given.page} has no mark for the table"
        given.page.write_text(page, "utf-8")
    for line in left_out:
        print(f"Left out: {line}.")
    broken = [fault.name for fault, outcome in caused if not outcome.kept]
    for name in broken:
        print(f"BROKEN: {name}.")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
