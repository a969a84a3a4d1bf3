"""Passes and convergence on the paper's data. The claims hold for any seed: it is drawn anew in every run and shown
where a claim fails."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from dpkmeans.core.bounds import Bounds
from dpkmeans.core.exact import reveal
from dpkmeans.core.release import Release
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.methods.lloyd import lloyd
from dpkmeans.methods.lu_shen.strategies import posterior, prior
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness

DATA = Path(os.environ.get("DPKMEANS_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
SEED = secrets.randbits(32)
CLUSTERS = {"s1": 15, "house": 3, "lifesci": 3}
STARTS = {"s1": 100, "house": 1000, "lifesci": 100}
"""House needs more for the convergence degree, see there; the other claims are safe with 100."""


@dataclass(frozen=True)
class ExactMeans:
    """Instead of the noisy last step: the exact means where the loop stopped."""

    def centroids(self, engine, end, *, ledger, rng):
        return reveal(end.exact, why="convergence is measured before the final noise").means(empty=end.centroids)


class Run(NamedTuple):
    passes: dict[str, int]
    stopped: dict[str, bool]
    matches: dict[str, bool]


@cache
def runs(name: str) -> list[Run]:
    """Lloyd, posterior and prior from the same starts, sampled rows."""
    path = DATA / f"{name}.csv.gz"
    if not path.exists():
        pytest.skip(f"{path} is absent; set DPKMEANS_DATA to the folder that holds the paper's data sets")
    records = np.loadtxt(path, delimiter=",")
    low, high = records.min(axis=0), records.max(axis=0)
    engine = MemoryEngine.of_records((records - low) / (high - low), Bounds.of((0, 1), records.shape[1]))
    done = []
    for start in range(STARTS[name]):
        rng = Randomness.with_seed(SEED + start)
        init = engine.bounds.from_unit(reveal(engine.sample_rows(CLUSTERS[name], rng.generator), why="a test's start"))
        releases: dict[str, Release] = {}
        for make in (lloyd, posterior, prior):
            method = make(init=init)
            if method.name != "lloyd":
                method = replace(method, final=ExactMeans())
            releases[method.name] = method.run(engine, CLUSTERS[name], ledger=Ledger(), rng=rng)
        done.append(
            Run(
                {name: release.n_passes for name, release in releases.items()},
                {name: bool(release.converged) for name, release in releases.items()},
                {name: same(release.centroids, releases["lloyd"].centroids) for name, release in releases.items()},
            )
        )
    return done


def same(centroids, reference) -> bool:
    """The paper's match: every coordinate within [0.99, 1.01] of Lloyd's."""
    return bool(np.all(np.abs(centroids - reference) <= 0.01 * np.abs(reference)))


def ratio_of_passes(name: str, method: str) -> float:
    done = runs(name)
    return sum(run.passes[method] for run in done) / sum(run.passes["lloyd"] for run in done)


def convergence_degree(name: str, method: str) -> float:
    return float(np.mean([run.matches[method] for run in runs(name)]))


# One test, so that the runs are made once, whichever process they are dealt to.
@pytest.mark.parametrize("name", ["s1", pytest.param("house", marks=pytest.mark.slow), "lifesci"])
def test_prior_stops_by_itself_near_lloyds_passes_and_ends_where_lloyd_does_more_often_than_posterior(name):
    """Every run stops by itself: all of them, so there is no band.

    Passes of prior / passes of Lloyd lies in 1.15 to 1.45. Measured over 14 seeds of 100 starts: S1 1.290, House 1.276,
    Lifesci 1.252; standard errors of one seed 0.034, 0.009, 0.014. The nearer end of the band is 4.1 standard errors
    away on S1 (false alarms 2e-5), 14 on House (44 with 1000 starts) and 7 on Lifesci.

    Convergence degree of prior against posterior, measured: S1 0.78 and 0.20, Lifesci 0.99 and 0.70 (14 seeds of 100
    starts), House 0.998 and 0.978 (3000 starts). With 100 starts the difference is 10 standard errors on S1 and 6 on
    Lifesci. On House nearly every run of either ends in the same optimum: from these rates, 100 starts show a tie or
    worse for about one seed in seven, 1000 starts for fewer than one in 20 000 (4 standard errors).
    """
    assert all(all(run.stopped.values()) for run in runs(name)), f"{name} with {SEED=}"
    ratio = ratio_of_passes(name, "prior")
    assert 1.15 <= ratio <= 1.45, f"{name}: {ratio:.3f} with {SEED=}"
    degrees = {method: convergence_degree(name, method) for method in ("prior", "posterior")}
    assert degrees["prior"] > degrees["posterior"], f"{name}: {degrees} with {SEED=}"
