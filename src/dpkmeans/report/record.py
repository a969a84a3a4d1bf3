"""The fields that public registries of deployments ask for, out of a release alone."""

from __future__ import annotations

from typing import Any

from dpkmeans.core.release import Release
from dpkmeans.methods.registry import registry

TO_FILL_IN = "?"
"""What a release does not know and a person has to say."""


def deployment_record(release: Release, *, contact: str | None = None, purpose: str | None = None) -> dict[str, Any]:
    """What was deployed and what it guarantees. Guarantee: that of `release`; nothing else is read.

    An epsilon is the one promised; where the label is `paper` it is a claim, and `none` has no epsilon.

    >>> import numpy as np
    >>> from dpkmeans import DPKMeans
    >>> X = np.random.default_rng(0).random((2000, 2))
    >>> record = deployment_record(DPKMeans(3, epsilon=1.0, bounds=(0, 1)).fit(X).release_)
    >>> record["privacy_unit"], record["epsilon"], record["contact"]
    ('row', 1.0, '?')
    """
    entry, private = registry().get(release.method), release.guarantee.label != "none"
    cost, identity = release.cost, release.identity
    totals = {
        "epsilon": release.epsilon_promised if release.epsilon_promised is not None else release.epsilon_spent,
        "delta": (release.delta or 0.0) if cost.in_rho else 0.0,
        "rho": release.rho_promised,
    }
    return {
        "data_product": f"{release.n_clusters} k-means centroids over {release.bounds.n_features} features",
        "purpose": purpose or TO_FILL_IN,
        "contact": contact or TO_FILL_IN,
        "model": "central",
        "mechanism": release.method if entry is None else f"{release.method}: {entry.summary}",
        "guarantee": release.guarantee.label,
        "statement": release.summary(),
        "proof": None if entry is None or entry.proof is None else f"{entry.proof} ({entry.package})",
        "privacy_unit": release.guarantee.unit.name,
        "neighbours": release.guarantee.neighbours,
        **(totals if private else dict.fromkeys(totals)),
        "epsilon_spent": release.epsilon_spent if private else None,
        "accounting": _accounting(release),
        "bounds": release.guarantee.bounds,
        "arithmetic": release.guarantee.arithmetic,
        "software": "dpkmeans" if identity is None else f"dpkmeans {identity.version}",
        "date": None if identity is None else identity.time,
        "dataset": None if identity is None else identity.dataset,
        "digest": None if identity is None else identity.digest,
        "signed_by": None if identity is None or identity.signature is None else identity.signature.key,
    }


def _accounting(release: Release) -> str:
    if release.guarantee.label == "none":
        return "none"
    if release.cost.in_rho:
        return "zero-concentrated differential privacy, converted to (epsilon, delta) where there is a delta"
    return "sequential composition of pure epsilon; parallel over disjoint cells"
