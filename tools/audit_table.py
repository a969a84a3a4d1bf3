"""An audit file as a Markdown table: `python -m tools.audit_table audit.json docs/audit.md`.

Replaces the text between the two marks of the page.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

from tools.markdown import as_table

from dpkmeans.core.epsilon import format_epsilon
from dpkmeans.errors import FileError
from dpkmeans.storage.json_files import read_json, write_text

KIND, VERSION = "dpkmeans audit", 1
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
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


def main(audit: str, page: str) -> None:
    """Put the table of an audit file into a page."""
    text = Path(page).read_text("utf-8")
    if BEGIN not in text or END not in text:
        raise FileError(f"{page} must hold the lines {BEGIN} and {END}; the table goes between them.")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    table = markdown(read_json(audit, KIND, VERSION))
    write_text(page, f"{before}{BEGIN}\n\n{table}\n{END}{after}")


if __name__ == "__main__":
    main(*sys.argv[1:])
