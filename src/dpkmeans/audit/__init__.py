"""Audit: attack releases, and report what the attacks show about epsilon. Finding no violation proves nothing.

>>> from dpkmeans.audit import audit, mechanism_targets
>>> report = audit(mechanism_targets(1.0)[:1], runs=400)
>>> report.violations
()
"""

from __future__ import annotations

from dpkmeans.audit.attacks import attack_targets
from dpkmeans.audit.auditor import QUICK, AuditReport, Finding, Runs, audit
from dpkmeans.audit.mechanism_targets import mechanism_targets
from dpkmeans.audit.method_targets import method_target, method_targets, registered_target
from dpkmeans.audit.mutants import mutant_targets
from dpkmeans.audit.neighbours import Pair, worst_pairs
from dpkmeans.audit.protocols import Case, Sample, Target
from dpkmeans.audit.replay import Call, Outcome, Replayed, replay
from dpkmeans.audit.replay_targets import replays_of
from dpkmeans.audit.targets import targets_of

__all__ = [
    "QUICK",
    "AuditReport",
    "Call",
    "Case",
    "Finding",
    "Outcome",
    "Pair",
    "Replayed",
    "Runs",
    "Sample",
    "Target",
    "attack_targets",
    "audit",
    "mechanism_targets",
    "method_target",
    "method_targets",
    "mutant_targets",
    "registered_target",
    "replay",
    "replays_of",
    "targets_of",
    "worst_pairs",
]
