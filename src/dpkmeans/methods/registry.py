"""The registry of methods. Other packages add theirs through the entry-point group `dpkmeans.methods`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from dpkmeans.core.guarantee import Label
from dpkmeans.errors import MethodError
from dpkmeans.methods.base import Method
from dpkmeans.methods.dp_em import dp_em
from dpkmeans.methods.gupt import gupt
from dpkmeans.methods.lloyd import lloyd
from dpkmeans.methods.lu_shen.strategies import posterior, prior
from dpkmeans.methods.noisy_lloyd import blum, dwork, su
from dpkmeans.methods.privgene import privgene
from dpkmeans.synopsis.method import eugkm, lei, su_hybrid, synopsis, synopsis_posterior, synopsis_prior
from dpkmeans.wide.method import gaussian

ENTRY_POINT_GROUP = "dpkmeans.methods"
OWN = "dpkmeans"


@dataclass(frozen=True)
class MethodSpec:
    """One line of the registry: how to make the method, what it is, what it promises, where it comes from.

    A method that promises `proved` names the page of its proof. Those of this package are in the folder proofs/,
    which is installed with it; another package is answerable for its own.
    """

    name: str
    factory: Callable[..., Method]
    guarantee: Label
    summary: str
    source: str
    proof: str | None = None
    spends_rho: bool = False  # it adds Gaussian noise, and needs a delta beside epsilon, or a rho
    package: str = OWN  # who registered it, with a version; filled in from what is installed

    def __post_init__(self) -> None:
        if self.guarantee == "proved" and not self.proof:
            raise MethodError(f"method {self.name!r} is registered as 'proved' without a proof page. Name it in proof.")

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the parameters that the factory takes."""
        return tuple(inspect.signature(self.factory).parameters)


LU_SHEN = "Lu and Shen 2020"
NOISY_LLOYD, GUPT, PRIVGENE = "proofs/noisy_lloyd.md", "proofs/gupt.md", "proofs/privgene.md"

SYNOPSIS = "proofs/synopsis.md"

_ENTRIES = (
    MethodSpec(
        "synopsis", synopsis, "proved", "Lloyd on a private synopsis, then one noisy step", "dpkmeans", SYNOPSIS
    ),
    MethodSpec(
        "synopsis-posterior", synopsis_posterior, "proved", "posterior on a private synopsis", LU_SHEN, SYNOPSIS
    ),
    MethodSpec("synopsis-prior", synopsis_prior, "proved", "prior on a private synopsis", LU_SHEN, SYNOPSIS),
    MethodSpec(
        "gaussian",
        gaussian,
        "proved",
        "many features: a private subspace, then noisy steps",
        "dpkmeans",
        "proofs/many_features.md",
        spends_rho=True,
    ),
    MethodSpec("lloyd", lloyd, "none", "exact means until the assignment repeats", "Lloyd 1982"),
    MethodSpec("posterior", posterior, "paper", "draws in zones that point along the last move", LU_SHEN),
    MethodSpec("prior", prior, "paper", "draws in zones that point to the mean one pass ahead", LU_SHEN),
    MethodSpec("eugkm", eugkm, "proved", "Lloyd on a noisy uniform grid", "Su et al. 2016", SYNOPSIS),
    MethodSpec(
        "su-hybrid", su_hybrid, "proved", "a noisy uniform grid, then one noisy step", "Su et al. 2017", SYNOPSIS
    ),
    MethodSpec("lei", lei, "proved", "k-means on a perturbed histogram", "Lei 2011", "proofs/lei.md"),
    MethodSpec("su", su, "proved", "noisy Lloyd, planned steps and a packed start", "Su et al. 2016", NOISY_LLOYD),
    MethodSpec("blum", blum, "proved", "noisy Lloyd, an even split over fixed steps", "Blum et al. 2005", NOISY_LLOYD),
    MethodSpec("dwork", dwork, "proved", "noisy Lloyd, each step half of the one before", "Dwork 2011", NOISY_LLOYD),
    MethodSpec(
        "dp-em",
        dp_em,
        "proved",
        "a mixture of Gaussians by EM with noisy moments",
        "Park et al. 2017",
        "proofs/dp_em.md",
        spends_rho=True,
    ),
    MethodSpec("gupt", gupt, "proved", "Lloyd in random blocks, averaged with noise", "Mohan et al. 2012", GUPT),
    MethodSpec("privgene", privgene, "proved", "genetic search with private selection", "Zhang et al. 2013", PRIVGENE),
)


@cache
def registry() -> dict[str, MethodSpec]:
    """All methods by name: the built-in ones, then those of installed packages, which cannot replace them."""
    entries = {entry.name: entry for entry in _ENTRIES}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        added = point.load()
        if not isinstance(added, MethodSpec):
            raise MethodError(f"entry point {point.name!r} must be a dpkmeans.methods.registry.MethodSpec; it is not.")
        entries.setdefault(added.name, replace(added, package=_package_of(point)))
    return entries


def _package_of(point: EntryPoint) -> str:
    """The name and version of the package that has the entry point, or its module where that is not known."""
    found = getattr(point, "dist", None)
    return str(getattr(point, "module", point.name)) if found is None else f"{found.name} {found.version}"


def make_method(name: str, **options: Any) -> Method:
    """The method called `name` with the options that are not None."""
    entries = registry()
    if name not in entries:
        raise MethodError(f"unknown method {name!r}. Known: {', '.join(sorted(entries))}.")
    entry = entries[name]
    given = {key: value for key, value in options.items() if value is not None}
    unknown = sorted(set(given) - set(entry.options))
    if unknown:
        takes = [option for option in entry.options if option in options] or entry.options
        raise MethodError(
            f"is not for method {name!r}.",
            parameter=unknown[0],
            hint=f"It takes {' and '.join(f'{{{option}}}' for option in takes) or 'no options'}. Leave the others out, "
            "or choose another {method}.",
        )
    return entry.factory(**given)
