"""What can be checked of a release (certificate, digest, signature, entry in a ledger), and what is only claimed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dpkmeans.core.epsilon import Epsilon
from dpkmeans.core.identity import Identity
from dpkmeans.core.privacy import Loss
from dpkmeans.core.release import Release
from dpkmeans.core.rho import Rho
from dpkmeans.privacy.durable.hash_chain import Verification
from dpkmeans.privacy.durable.ledger import DurableLedger
from dpkmeans.storage.identity import digest_of
from dpkmeans.storage.keys import RELEASE, is_signed_by
from dpkmeans.synopsis.synopsis import Synopsis
from dpkmeans.synopsis.verify import Verdict, verify


@dataclass(frozen=True)
class Checks:
    """Statements with their verdicts, and in a few words what was `checked` and what is only `claimed`."""

    verdicts: tuple[Verdict, ...]
    checked: tuple[str, ...]
    claimed: tuple[str, ...]

    @property
    def hold(self) -> bool:
        """Whether all statements hold."""
        return all(verdict.holds for verdict in self.verdicts)

    def in_words(self) -> str:
        """One line: what was checked, and what is only claimed."""
        checked = ", ".join(self.checked) or "nothing"
        return f"Checked: {checked}. Only claimed: {'; '.join(self.claimed)}."


def check_release(
    release: Release, *, key: str | None = None, ledger: DurableLedger | str | Path | None = None
) -> Checks:
    """Check a release: with a public `key` who signed it, with a `ledger` that it is the one of its entry there.

    Reads no records, and spends nothing. That it was computed from the records as it says cannot be checked: whoever
    holds the key, or the records, must be trusted with that.

    >>> import numpy as np
    >>> from dpkmeans import DPKMeans
    >>> X = np.random.default_rng(0).random((2000, 2))
    >>> checks = check_release(DPKMeans(3, epsilon=1.0, bounds=(0, 1)).fit(X).release_)
    >>> checks.hold, checks.checked
    (True, ('the certificate of convergence', 'the digest'))
    """
    found = _Found()
    if release.certificate is not None or (key is None and ledger is None):
        found.verdicts += verify(release)
        found.checked.append("the certificate of convergence")
    else:
        found.claimed.append("that it converged (it carries no certificate)")
    return found.with_identity(release, key, ledger)


def check_synopsis(
    synopsis: Synopsis, *, key: str | None = None, ledger: DurableLedger | str | Path | None = None
) -> Checks:
    """Check a synopsis as `check_release` does a release: its digest, who signed it, its entry in a ledger."""
    return _Found().with_identity(synopsis, key, ledger)


class _Found:
    """What is found, statement by statement."""

    def __init__(self) -> None:
        self.verdicts: list[Verdict] = []
        self.checked: list[str] = []
        self.claimed: list[str] = []

    def with_identity(
        self, made: Release | Synopsis, key: str | None, ledger: DurableLedger | str | Path | None
    ) -> Checks:
        """All of it, with what the identity of a release or a synopsis says."""
        identity = made.identity
        if identity is None:
            self.claimed.append("which release this is (it carries no identity: a file of an older version)")
            asked = {"it is signed by the key given": key, "the ledger has an entry of it": ledger}
            self.verdicts += [Verdict(statement, False) for statement, given in asked.items() if given is not None]
        else:
            same = digest_of(made.to_dict()) == identity.digest
            self.verdicts.append(Verdict("its digest is that of its content", same))
            self.checked.append("the digest")
            _check_signature(identity, key, self.verdicts, self.checked, self.claimed)
            self._with_ledger(made, identity, key, ledger)
            if identity.made_from is not None:
                self.claimed.append(f"that it was computed from the synopsis {identity.made_from}")
            self.claimed.append("when it was made and by which version")
        self.claimed.append("that it was computed from the records as it says")
        return Checks(tuple(self.verdicts), tuple(self.checked), tuple(self.claimed))

    def _with_ledger(
        self, made: Release | Synopsis, identity: Identity, key: str | None, ledger: DurableLedger | str | Path | None
    ) -> None:
        if ledger is None:
            entry = "its entry in a ledger" + ", and the cap there" * (identity.cap is not None)
            unknown = entry if identity.fit else "what else was released (it names no ledger)"
            self.claimed.append(unknown)
            return
        store = ledger if isinstance(ledger, DurableLedger) else DurableLedger(ledger)
        chain = store.verify(identity.head)
        self.verdicts += reconcile(made, identity, store, chain, key)
        self.checked.append(f"its entry in {store.path.name}")
        if key is None or chain.signer is None:
            why = "it is not signed" if chain.signer is None else "no key"
            self.claimed.append(f"who wrote {store.path.name} ({why})")


def reconcile(
    release: Release | Synopsis, identity: Identity, store: DurableLedger, chain: Verification, key: str | None = None
) -> list[Verdict]:
    """Whether a ledger says the same of a release: its fit, what it spent, its digest, in a `chain` that is intact.

    With a `key`, the ledger must be signed by it. Of what was computed from a synopsis, it has the synopsis.
    """
    found = [Verdict("the chain of the ledger is intact and has the head that the release names", chain.intact)]
    if key is not None:
        found.append(Verdict("the ledger is signed by the key given", chain.signer == key))
    known, unit = {d.name: d for d in store.datasets()}, release.guarantee.unit.name
    dataset = known.get(identity.dataset or "")
    history = None if dataset is None else store.history(dataset.name)
    entries = [] if history is None else [entry for entry in history.entries if entry.fit == identity.fit]
    digests = [entry.label for entry in entries if entry.kind == "release"]
    taken = [] if history is None else [r.amount for r in history.releases if r.fit == identity.fit]
    kept_whole = dataset is not None and dataset.held.rho.femto > 0
    whose = "its" if identity.made_from is None else "its synopsis'"
    charged = len(taken) == 1 and _same(release, taken[0], kept_whole)
    if identity.cap is not None:
        after = [entry.number for entry in store.entries() if entry.hash == identity.head]
        known_cap = history.cap_after(after[0]) if history is not None and after else None
        found.append(Verdict("the ledger had the cap that the release names", identity.cap == known_cap))
    return [
        *found,
        Verdict("the ledger has its data set, per the same unit", dataset is not None and unit == dataset.unit),
        Verdict("the ledger has its fit", bool(entries)),
        Verdict("the ledger charged what the release says it spent", charged),
        Verdict(f"the ledger keeps {whose} digest", digests == [identity.made_from or identity.digest]),
    ]


def _check_signature(
    identity: Identity, key: str | None, verdicts: list[Verdict], checked: list[str], claimed: list[str]
) -> None:
    signature = identity.signature
    if key is not None:
        by = signature is not None and signature.key == key
        holds = by and signature is not None and is_signed_by(key, RELEASE, identity.digest, signature.value)
        verdicts.append(Verdict("it is signed by the key given", holds))
        checked.append("the signature")
    elif signature is not None:
        claimed.append(f"who signed it (key {signature.key}, not compared with one that you trust)")
    else:
        claimed.append("who made it (it is not signed)")


def _same(release: Release | Synopsis, taken: Epsilon | Rho, kept_whole: bool) -> bool:
    """Whether the ledger took what the spends of a release add up to.

    `kept_whole`: the data set may have kept all of a pure promise, as it does once rho is spent under a delta.
    """
    cost = release.cost
    if isinstance(taken, Rho):
        return taken == sum((Loss.of(spend).in_rho().rho for spend in cost.spends), Rho(0))
    total = sum((spend.epsilon for spend in cost.spends), Epsilon(0))
    whole = kept_whole and cost.privacy is not None and total < taken == cost.privacy.pure
    return not cost.in_rho and (taken == total or whole)
