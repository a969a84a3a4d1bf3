"""The command `dpkmeans audit`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpkmeans.cli import output
from dpkmeans.cli.inputs import check_outputs
from dpkmeans.cli.options import Jobs, Json, Whole, WholeOrNone, all_cores
from dpkmeans.cli.outcomes import DONE, FAULT, VIOLATION
from dpkmeans.core.epsilon import format_epsilon
from dpkmeans.storage.outputs import is_stdout

if TYPE_CHECKING:
    from dpkmeans.audit.auditor import AuditReport, Finding

KIND = "dpkmeans audit"
VERSION = 1
REPLAY_KIND = "dpkmeans replay"
REPLAY_HEADER = ["method", "pairs", "calls", "broken", "largest loss of a run", "closest call", "changed, of declared"]
REPLAYED = (
    "Losses are exact for these pairs and outputs, without statistics. Other pairs and outputs are not covered; the "
    "proofs cover all."
)
HEADER = ["target", "label", "pair", "event", "runs", "p", "p'", "epsilon at least", "claimed", "verdict"]


def audit(
    method: str,
    /,
    *,
    epsilon: float = 1.0,
    runs: WholeOrNone = None,
    quick: bool = False,
    replay: bool = False,
    pairs: Whole = 100,
    confidence: float = 0.95,
    jobs: Jobs = None,
    out: Path | None = None,
    json: Json = False,
) -> int:
    """Attack a method on synthetic neighbouring data sets, and report a lower bound on its epsilon.

    Exit code 5 if a violation is found, 1 if a broken mutant is missed. Finding no violation proves nothing.

    Example: dpkmeans audit posterior --epsilon 0.1

    Parameters
    ----------
    method:
        A method (see: dpkmeans methods), a mechanism, or a group: mechanisms, methods, persons, attacks,
        mutants, power, all.
    epsilon:
        The total epsilon that is claimed. Methods with a budget per step get steps that add up to about this total.
    runs:
        Runs on each data set of a pair. By default 100000 for a mechanism, 2000 for a method, 10000 for the paper's,
        and 10000 to 100000 for power.
    quick:
        Use a tenth of the default runs, or fewer.
    replay:
        Instead, compute exact losses: run on one side of a pair, then on the other with the same outputs. For a method,
        persons, bounds, or all that are proved.
    pairs:
        Number of hard pairs to replay. With `all`, each method takes one process of `jobs`.
    confidence:
        Probability with which all bounds in the report hold together.
    out:
        Write all findings here (JSON).
    """
    check_outputs(out)
    if replay:
        return _replay(method, epsilon, pairs, all_cores() if jobs is None else jobs, out, json)
    with output.status("Preparing the audit"):
        from dpkmeans.audit import QUICK, Runs
        from dpkmeans.audit import audit as run_audit
        from dpkmeans.audit.targets import targets_of
        from dpkmeans.storage.json_files import write_json

        targets = targets_of(method, epsilon)
    with output.progress("runs") as report:
        findings = run_audit(
            targets,
            runs=runs if runs is not None else QUICK if quick else Runs(),
            confidence=confidence,
            jobs=all_cores() if jobs is None else jobs,
            progress=lambda what, done, total: report(done, total, what),
        )
    if out is not None:
        write_json(out, KIND, VERSION, findings.to_dict())
    if out is None or not is_stdout(out):
        output.print_json(findings.to_dict()) if json else _print(findings)
    if findings.missed:
        return FAULT
    return VIOLATION if any(not finding.mutant for finding in findings.violations) else DONE


def _replay(method: str, epsilon: float, pairs: int, jobs: int, out: Path | None, json: bool) -> int:
    """Replay hard pairs of one method, or of all that are proved."""
    from dpkmeans.audit.replay_summary import summary_of
    from dpkmeans.audit.replay_targets import labelled_proved, names, replay_each
    from dpkmeans.storage.json_files import write_json

    chosen = names() if method == "all" else (method,)
    with output.progress("pairs") as report:
        found = replay_each(
            chosen, pairs, epsilon, jobs=jobs, progress=lambda what, done, total: report(done, total, what)
        )
    rows = [summary_of(row) for row in found]
    content = {"epsilon": epsilon, "pairs": pairs, "note": REPLAYED, "methods": rows}
    if out is not None:
        write_json(out, REPLAY_KIND, VERSION, content)
    if out is not None and is_stdout(out):
        pass  # it holds all of it
    elif json:
        output.print_json(content)
    else:
        output.print_table(REPLAY_HEADER, [replay_row(row) for row in rows], right=False)
        output.print_lines([REPLAYED, *(f"{row.name}: {row.broken[0]}." for row in found if row.broken)])
    return VIOLATION if any(row.broken and labelled_proved(row.name) for row in found) else DONE


def replay_row(row: dict[str, Any]) -> list[str]:
    """One line of the table, as text."""
    return [
        row["method"],
        str(row["pairs"]),
        str(row["calls"]),
        str(len(row["broken"])),
        f"{row['largest_loss']:.3g} of {row['spent']:.3g}" + " rho" * (row["currency"] == "rho"),
        f"{row['closest_share']:.3f} of its share: {row['closest_call']}",
        f"{row['closest_occurred']} of {row['closest_declared']}",
    ]


def _print(report: AuditReport) -> None:
    """The strongest finding of every target and pair, and what it means."""
    from dpkmeans.audit.auditor import NOTHING_PROVED

    output.print_table(HEADER, [table_row(finding) for finding in report.best()], right=False)
    output.print_lines(
        [
            f"The strongest of each pair's events. All {report.n_events} bounds hold together with probability "
            f"{report.confidence:g} (Clopper-Pearson, Bonferroni).",
            f"Violations shown: {sum(not f.mutant for f in report.violations)}. {NOTHING_PROVED}",
        ]
    )
    if report.missed:
        output.note(f"error: the audit missed {', '.join(report.missed)}.")


def table_row(finding: Finding) -> list[str]:
    """One line of the table, as text."""
    return [
        finding.target,
        finding.label,
        finding.pair,
        finding.event,
        str(finding.runs),
        f"{finding.p:.4f}",
        f"{finding.p_with:.4f}",
        f"{math.floor(100 * finding.bound) / 100:.2f}",
        "-" if finding.claimed is None else format_epsilon(finding.claimed) + _beside(finding.delta),
        finding.verdict,
    ]


def _beside(delta: float) -> str:
    """The delta that is claimed beside an epsilon, if there is one."""
    return f" at delta {delta:.3g}" if delta else ""
