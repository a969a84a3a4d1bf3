"""An audit file as a Markdown table: `python -m tools.audit_table audit.json docs/audit.md`.

Replaces the text between the two marks of the page: those of `table`, or of a mark that is named behind it.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from tools.markdown import as_table, put

from dpkmeans.core.epsilon import format_epsilon
from dpkmeans.storage.json_files import read_json

KIND, VERSION = "dpkmeans audit", 1
MARK = "table"
BEGIN, END = f"<!-- {MARK}: begin -->", f"<!-- {MARK}: end -->"
HEADER = [
    "target",
    "label",
    "pair",
    "strongest event",
    "runs per side",
    "p",
    "p′",
    "ε at least",
    "claimed ε",
    "verdict",
]


def markdown(content: dict[str, Any]) -> str:
    """The strongest event of each target and pair, and what the run was."""
    best: dict[tuple[str, str], dict[str, Any]] = {}
    for finding in content["findings"]:
        key = finding["target"], finding["pair"]
        if key not in best or finding["bound"] > best[key]["bound"]:
            best[key] = finding
    violations = sum(f["verdict"] == "violation" and not f["mutant"] for f in content["findings"])
    missed = ", ".join(content["missed_mutants"]) or "none"
    return (
        f"{content['events']} events were measured. All bounds hold together with probability "
        f"{content['confidence']:g}. {violations} events show a violation. Mutants missed: {missed}. "
        f"The run took {content['seconds'] / 60:.0f} minutes with {content['jobs']} processes.\n\n"
        + as_table(HEADER, [_cells(finding) for finding in best.values()])
    )


def _cells(finding: dict[str, Any]) -> list[str]:
    claimed, delta = finding["claimed"], finding.get("delta", 0.0)
    nothing = finding["bound"] == 0
    return [
        finding["target"],
        "mutant" if finding["mutant"] else finding["label"],
        finding["pair"],
        "none" if nothing else finding["event"],
        f"{finding['runs']}",
        "" if nothing else f"{finding['p']:.4f}",
        "" if nothing else f"{finding['p_with']:.4f}",
        f"{math.floor(100 * finding['bound']) / 100:.2f}",
        "" if claimed is None else format_epsilon(claimed) + (f" at δ = {delta:.3g}" if delta else ""),
        finding["verdict"],
    ]


def main(audit: str, page: str, mark: str = MARK) -> None:
    """Put the table of an audit file into a page."""
    put(page, mark, markdown(read_json(audit, KIND, VERSION)))


if __name__ == "__main__":
    main(*sys.argv[1:])
