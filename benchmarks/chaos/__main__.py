"""Cause all faults, or those whose group or name holds a word, and print the table."""

from __future__ import annotations

import argparse
import signal
import sys
import time

from benchmarks.chaos.fault import NEVER, Fault, Outcome
from benchmarks.chaos.registry import groups


def row(fault: Fault, outcome: Outcome) -> str:
    happened = "; ".join(f"{what} ({n})" for what, n in sorted(outcome.seen.items(), key=lambda item: -item[1]))
    return f"| {fault.name} | {fault.promise} | {happened} | {outcome.runs} |"


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m benchmarks.chaos")
    options.add_argument("--short", action="store_true", help="as often as in the tests")
    options.add_argument("--minutes", type=float, default=60.0, help="start no further fault after so long")
    options.add_argument("--times", type=int, help="each fault so often")
    options.add_argument("words", nargs="*", help="groups, or parts of names of faults")
    given = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that clusters are stopped
    chosen = [
        fault
        for group, faults in groups().items()
        for fault in faults
        if not given.words or any(word in (group, *fault.name.split()) or word in fault.name for word in given.words)
    ]
    print("| fault | promise | what happened | runs |\n| --- | --- | --- | --- |", flush=True)
    start, total, broken, left_out = time.monotonic(), dict.fromkeys(NEVER, 0), [], []
    runs = 0
    for fault in chosen:
        times = given.times or (fault.short if given.short else fault.times)
        why = fault.unavailable() if times else "not in the short form"
        if why is None and time.monotonic() - start > 60 * given.minutes:
            why = "out of time"
        if why is not None:
            left_out.append(f"{fault.name}: {why}")
            continue
        since = time.monotonic()
        outcome = fault.run(times)
        print(row(fault, outcome), flush=True)
        print(f"{fault.name}: {time.monotonic() - since:.0f} s", file=sys.stderr, flush=True)
        runs += outcome.runs
        for name in NEVER:
            total[name] += getattr(outcome, name)
        if not outcome.kept:
            broken.append(fault.name)
    print(f"\n{runs} runs of {len(chosen) - len(left_out)} faults in {(time.monotonic() - start) / 60:.0f} minutes: ")
    print(", ".join(f"{n} {name.replace('_', ' ')}" for name, n in total.items()) + ".")
    for line in left_out:
        print(f"Left out: {line}.")
    for name in broken:
        print(f"BROKEN: {name}.")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
