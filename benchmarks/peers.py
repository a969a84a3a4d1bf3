"""Other people's private k-means, for `python -m benchmarks.many_features --peers`, where they can be imported.

None is a dependency, and none is on a package index. Put a checkout of each on PYTHONPATH:

- Google's LSH clustering: the folder `learning` of github.com/google/differential-privacy; needs absl-py, dp-accounting
- FastLloyd: github.com/D-Diaa/FastLloyd; needs diffprivlib, hence scikit-learn below 1.7, and tqdm
- PE-means: github.com/t3humphries/PE-means; needs Google's package and faiss-cpu

Each is called as its authors call it. What their promises are worth was not examined in general. All three take the
number of records as public, except Google's. FastLloyd sets its own delta, 1/(N ln N). The variant of PE-means for many
features (`hdpe_means`) is left out: its code adds one random number to all coordinates of a cluster's sum, which hides
no record.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from contextlib import chdir, redirect_stderr
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from dpkmeans.core.bounds import Bounds

Fit = Callable[[np.ndarray, int, float, float, Bounds], np.ndarray]


@dataclass(frozen=True)
class Peer:
    """A name, how it is fitted to (X, k, epsilon, delta, bounds), and the modules that it is made of."""

    name: str
    fit: Fit
    modules: tuple[str, ...]


def available(names: Iterable[str]) -> tuple[list[Peer], list[str]]:
    """Those of these names that can be imported, and in words what is missing for the others."""
    found, missing = [], []
    for peer in (PEERS[name] for name in names):
        try:
            _load(peer.modules)
        except ImportError as error:
            missing.append(f"{peer.name} is left out: {error}.")
        else:
            found.append(peer)
    return found, missing


GOOGLE = ("clustering.clustering_params", "clustering.clustering_algorithm")
FAST_LLOYD = ("configs", "data_io", "utils.protocols")
PE = (*GOOGLE, "src.helpers", "src.pe_means_main")


def google(X: np.ndarray, k: int, epsilon: float, delta: float, bounds: Bounds) -> np.ndarray:
    """A tree of hash prefixes with noisy counts and means, then k-means on its leaves."""
    params, algorithm = _load(GOOGLE)
    middle, radius = _ball(bounds)
    data = params.Data(X - middle, radius)
    result = algorithm.private_lsh_clustering(k, data, params.DifferentialPrivacyParam(epsilon, delta))
    return np.asarray(result.centers) + middle


def fast_lloyd(X: np.ndarray, k: int, epsilon: float, delta: float, bounds: Bounds) -> np.ndarray:
    """Noisy Lloyd with bounded moves; one client, the settings of its command line."""
    configs, data_io, protocols = _load(FAST_LLOYD)
    lower, upper = np.array(bounds.lower), np.array(bounds.upper)
    scale = np.where(upper > lower, (upper - lower) / 2, 1.0)
    params = configs.Params(
        num_clients=1, k=k, dim=X.shape[1], data_size=len(X), dp="gaussiananalytic", eps=epsilon, alpha=0.8,
        method="diagonal_then_frac", post="fold", seed=_seed(),
    )  # fmt: skip
    params.calculate_iters()
    with open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):  # its progress bar
        records = data_io.to_fixed((X - (lower + upper) / 2) / scale)
        centroids, _ = protocols.local_proto([records], params, method="unmasked")
    return np.asarray(data_io.unscale(centroids)) * scale + (lower + upper) / 2


def pe(X: np.ndarray, k: int, epsilon: float, delta: float, bounds: Bounds) -> np.ndarray:
    """Noisy votes for mutated centroids, ten rounds, in all features."""
    params, _, helpers, main = _load(PE)
    middle, radius = _ball(bounds)
    data = params.Data((X - middle).astype(np.float32), radius)
    settings = {**helpers.PE_PARAMS, "run_id": _seed()}
    privacy = params.DifferentialPrivacyParam(epsilon, delta)
    _, centroids, _ = main.pe_means(k, data, settings, privacy_param=privacy, visualize=False)
    return np.asarray(centroids, dtype=np.float64) + middle


def _ball(bounds: Bounds) -> tuple[np.ndarray, float]:
    """The middle of the bounds, and how far from it a record may lie."""
    lower, upper = np.array(bounds.lower), np.array(bounds.upper)
    if bounds.ball is not None:
        return (lower + upper) / 2, float(bounds.ball.radius)
    return (lower + upper) / 2, float(np.linalg.norm(upper - lower)) / 2


def _load(modules: tuple[str, ...]) -> list[Any]:
    """The modules. FastLloyd lists a folder `data` while it is imported; an empty one will do."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        Path("data").mkdir()
        return [import_module(name) for name in modules]


def _seed() -> int:
    """For those that must be given one: another each time."""
    return int(np.random.default_rng().integers(2**31))


PEERS = {
    peer.name: peer
    for peer in (Peer("Google", google, GOOGLE), Peer("FastLloyd", fast_lloyd, FAST_LLOYD), Peer("PE-means", pe, PE))
}
