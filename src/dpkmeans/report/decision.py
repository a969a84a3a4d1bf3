"""What a privacy officer asks first of a release, and what the release itself says to it."""

from __future__ import annotations

from dataclasses import dataclass

from dpkmeans.core.cost import in_words
from dpkmeans.core.readable import SHORT, column_names, when
from dpkmeans.core.release import Release
from dpkmeans.core.unit import Person, Row
from dpkmeans.synopsis.verify import Verdict

_SHOW_LEDGER = "dpkmeans ledger show ledger.db"


@dataclass(frozen=True)
class Answer:
    """A question, its answer, and a command that checks it, where there is one."""

    question: str
    answer: str
    command: str = ""


def decision(release: Release, checked: list[Verdict]) -> list[Answer]:
    """Questions and answers, in the order in which they decide."""
    return [
        Answer("What is released", _released(release)),
        Answer("About whom", _about(release)),
        Answer("At which privacy loss, of which cap", *_loss(release)),
        Answer("Recorded where", *_recorded(release)),
        Answer("Signed by whom", *_signed(release)),
        Answer("Verified how", *_verified(checked)),
    ]


def _released(release: Release) -> str:
    k, d = release.n_clusters, len(column_names(release))
    parts = [f"{k} centroid{'s' * (k > 1)} with {d} {'value' if d == 1 else 'values'} each"]
    if release.sizes is not None:
        parts.append("a noisy size for each")
    if release.certificate is not None:
        parts.append(f"a synopsis of {len(release.certificate.weights):,} weighted points")
    if release.transcript:
        parts.append(f"a transcript of {len(release.transcript):,} lines")
    listed = ", ".join(parts[:-1]) + " and " * (len(parts) > 1) + parts[-1]
    return f"{listed}. " + ("No record." if release.guarantee.label == "proved" else "They may reveal records.")


def _about(release: Release) -> str:
    unit = release.guarantee.unit
    if unit == Row():
        return "Single records. Whoever has several records in the data is protected less, record by record."
    if isinstance(unit, Person):
        return f"Persons, told apart by {unit.column}: all rows of a person together."
    return f"Persons with at most {unit.records} rows each, which is the data holder's word."


def _loss(release: Release) -> tuple[str, str]:
    spent, identity = release.cost.spent_in_words(), release.identity
    of = "" if release.cost.privacy is None else f", of {release.cost.promised_in_words()} promised for this fit"
    loss = f"Rho {spent[4:]}{of}" if spent.startswith("rho ") else f"Epsilon {spent}{of}"
    if identity is None:
        return f"{loss}. Whether there is a cap, this release does not say.", ""
    if identity.dataset is None:
        return f"{loss}. Under no cap: the loss was counted in memory only, and other releases are not known.", ""
    if identity.cap is None:
        return f"{loss}. The cap of the data set {identity.dataset}, and what is left of it:", _SHOW_LEDGER
    return (
        f"{loss}. The cap of the data set {identity.dataset} was {in_words(identity.cap)} for all releases together. "
        "What is left of it:",
        _SHOW_LEDGER,
    )


def _recorded(release: Release) -> tuple[str, str]:
    identity = release.identity
    if identity is None:
        return "Nowhere that this release knows of.", ""
    made = f"Made {when(identity.time)} by dpkmeans {identity.version}."
    if identity.fit is None:
        return f"{made} Not in a durable ledger.", ""
    return f"{made} In the ledger as fit {identity.fit}; to compare both:", (
        "dpkmeans show model.json --verify --ledger ledger.db"
    )


def _signed(release: Release) -> tuple[str, str]:
    signature = None if release.identity is None else release.identity.signature
    if signature is None:
        return "By nobody: whoever can write the file could have changed it.", ""
    return f"By the holder of the key {signature.key[:SHORT]}…; this page has not checked the signature:", (
        "dpkmeans show model.json --verify --key curator.pub"
    )


def _verified(checked: list[Verdict]) -> tuple[str, str]:
    if not checked:
        return "Nothing can be recomputed from this release: it carries no certificate.", ""
    wrong = sum(not verdict.holds for verdict in checked)
    found = f"all {len(checked)} hold" if not wrong else f"{wrong} of {len(checked)} DO NOT HOLD"
    return (
        f"The statements of its certificate were recomputed for this page: {found}. "
        "That noise was drawn is claimed, and cannot be recomputed.",
        "dpkmeans show model.json --verify",
    )
