"""How well clusters are found in many features under (epsilon, delta): `python -m benchmarks.many_features`.

Sets: sentence embeddings (a file `embeddings384.npz` in the folder of data sets, with unit vectors X), Gaussian blobs,
a cube with 16 features, and scikit-learn's handwritten digits. Runs are unseeded, and the number of records is private.
A row shows the median over the runs, except for `integral`, the integral of the mean cost per record over epsilon by
the trapezoid rule. `explained` is (cost of one cluster - cost)/(cost of one cluster - best cost); `ratio` is the cost
over the best one. The best cost is that of scikit-learn's KMeans with ten starts. `--peers` puts other people's methods
beside it, where they can be imported: see benchmarks/peers.py.
"""

from __future__ import annotations

import argparse
import math
import secrets
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.peers import PEERS, Peer, available
from benchmarks.problems import cube16, data_file, random_problem
from benchmarks.timing import Allowance
from dpkmeans.core.ball import Ball
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.release import Release
from dpkmeans.engines.config import Stream
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.engines.open import open_data
from dpkmeans.methods.base import Method
from dpkmeans.methods.registry import make_method
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis.intervals import intervals
from dpkmeans.synopsis.method import synopsis
from dpkmeans.wide.method import gaussian

EMBEDDINGS = "embeddings384.npz"
GRID_OF_EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
DELTA = 1e-6
BASELINES = ("su", "blum", "gupt")


@dataclass(frozen=True, eq=False)
class Problem:
    """Records (n, d), the number of clusters, public bounds, delta, and what is wanted at each epsilon."""

    name: str
    X: np.ndarray
    k: int
    bounds: Bounds
    score: str
    wanted: dict[float, float]
    delta: float = DELTA

    @cached_property
    def engine(self) -> MemoryEngine:
        """The records, on the grid once."""
        return MemoryEngine.of_records(self.X, self.bounds)


def embeddings(k: int, wanted: dict[float, float]) -> Problem:
    file = data_file(EMBEDDINGS)
    if file is None:
        raise SystemExit(f"error: {EMBEDDINGS} is not here. Name its folder in DPKMEANS_DATA.")
    X = np.load(file)["X"].astype(np.float64)
    return Problem("embeddings", X, k, Bounds.of(Ball(0, 1), X.shape[1]), "explained", wanted)


def blobs(n: int, d: int, k: int, score: str, wanted: dict[float, float]) -> Problem:
    """`make_blobs`, centred and scaled to the unit ball."""
    from sklearn.datasets import make_blobs

    X = make_blobs(n, d, centers=k, random_state=1)[0]
    X -= X.mean(axis=0)
    X /= np.sqrt((X**2).sum(axis=1)).max()
    return Problem(f"blobs {n}x{d}", X, k, Bounds.of(Ball(0, 1), d), score, wanted, float(n) ** -1.1)


def cube(wanted: dict[float, float]) -> Problem:
    w = cube16()
    return Problem("cube16", w.X, w.k, w.box, "ratio", wanted)


def digits(wanted: dict[float, float]) -> Problem:
    from sklearn.datasets import load_digits

    return Problem("digits", load_digits().data, 10, Bounds.of((0, 16), 64), "ratio", wanted)


INTEGRALS = {(16, 64): 0.085, (64, 64): 0.115, (16, 128): 0.095, (64, 128): 0.16, (64, 16): 0.07, (4, 128): 0.106}
PROBLEMS: dict[str, Callable[[], Problem]] = {
    "embeddings20": lambda: embeddings(20, {0.25: 0.28, 1.0: 0.81, 3.0: 0.95}),
    "embeddings50": lambda: embeddings(50, {0.25: 0.22, 1.0: 0.67, 3.0: 0.90}),
    **{f"blobs{k}_{d}": partial(blobs, 20_000, d, k, "integral", {0.0: most}) for (k, d), most in INTEGRALS.items()},
    "blobs784": lambda: blobs(20_000, 784, 10, "ratio", {0.5: 1.04, 1.0: 1.012}),
    "blobs100k": lambda: blobs(100_000, 64, 16, "ratio", {0.1: 1.015}),
    "cube16": lambda: cube({0.1: 2.1, 0.5: 1.007, 1.0: 1.003}),
    "digits": lambda: digits({1.0: 1.22, 3.0: 1.035}),
}


def those_here() -> list[str]:
    """All problems, but for those whose file is not here."""
    if data_file(EMBEDDINGS) is not None:
        return list(PROBLEMS)
    print(f"left out, not here: {EMBEDDINGS}. Name its folder in DPKMEANS_DATA.", file=sys.stderr)
    return [name for name in PROBLEMS if not name.startswith("embeddings")]


def cost_of(X: np.ndarray, centroids: np.ndarray) -> float:
    """Sum of squared distances to the nearest centroid, a block of records at a time."""
    norms = (centroids**2).sum(axis=1)
    return float(
        sum(
            np.maximum((norms - 2 * x @ centroids.T).min(axis=1) + (x**2).sum(axis=1), 0.0).sum()
            for x in np.array_split(X, max(len(X) // 4096, 1))
        )
    )


def best_cost(problem: Problem) -> float:
    from sklearn.cluster import KMeans

    return float(KMeans(problem.k, n_init=10, random_state=0).fit(problem.X).inertia_)


Fit = Callable[[Problem, float], np.ndarray]
"""Centroids (k, d) of one unseeded run at an epsilon."""


def with_gaussian_noise(problem: Problem, epsilon: float) -> np.ndarray:
    return _fit(problem, gaussian(), Ledger(epsilon, delta=problem.delta))


def with_pure_epsilon(problem: Problem, epsilon: float) -> np.ndarray:
    return _fit(problem, synopsis(), Ledger(epsilon))


def _fit(problem: Problem, method: Method, ledger: Ledger) -> np.ndarray:
    return method.run(problem.engine, problem.k, ledger=ledger, rng=Randomness.secure()).centroids


def with_baseline(name: str, problem: Problem, epsilon: float) -> np.ndarray:
    """Of the paper's related work, with Gaussian noise in place of its own."""
    return _fit(problem, make_method(name, noise="gaussian"), Ledger(epsilon, delta=problem.delta))


def others_of(with_pure: bool, baselines: bool, peers: str) -> dict[str, Fit]:
    """What stands beside our own, by the title of its column; says what is missing."""
    others: dict[str, Fit] = {"pure ε": with_pure_epsilon} if with_pure else {}
    if baselines:
        others |= {f"`{name}`": partial(with_baseline, name) for name in BASELINES}
    found, missing = available(peers.split(",")) if peers else ([], [])
    for peer in found:

        def fit(problem: Problem, epsilon: float, peer: Peer = peer) -> np.ndarray:
            return peer.fit(problem.X, problem.k, epsilon, problem.delta, problem.bounds)

        others[peer.name] = fit
    print(*missing, sep="\n", end="\n" if missing else "")
    return others


@dataclass(frozen=True)
class Row:
    """Of one problem at an epsilon: the score, what is wanted, CPU seconds a fit, and the scores of others."""

    epsilon: str
    ours: float
    wanted: float
    seconds: float
    others: tuple[float, ...]


def rows(problem: Problem, runs: int, others: Iterable[Fit]) -> Iterator[Row]:
    n, best = len(problem.X), best_cost(problem)
    one = float(((problem.X - problem.X.mean(axis=0)) ** 2).sum())

    def scores(fit: Fit, epsilon: float) -> np.ndarray:
        found = np.array([cost_of(problem.X, fit(problem, epsilon)) for _ in range(runs)])
        return (one - found) / (one - best) if problem.score == "explained" else found / best

    def integral(fit: Fit, epsilon: float) -> float:
        means = [float(scores(fit, epsilon).mean()) * best / n for epsilon in GRID_OF_EPSILONS]
        return float(np.trapezoid(means, GRID_OF_EPSILONS))

    def median(fit: Fit, epsilon: float) -> float:
        return float(np.median(scores(fit, epsilon)))

    score, fits = (integral, len(GRID_OF_EPSILONS)) if problem.score == "integral" else (median, 1)
    for epsilon, wanted in problem.wanted.items():
        before = time.process_time()
        ours = score(with_gaussian_noise, epsilon)
        seconds = (time.process_time() - before) / runs / fits
        yield Row(
            f"{epsilon:g}" if fits == 1 else "all", ours, wanted, seconds, tuple(score(f, epsilon) for f in others)
        )


def speed(rounds: int = 3) -> None:
    """CPU seconds of a fit of 100 000 embeddings, with reading, beside scikit-learn's, turn by turn on one thread."""
    import pyarrow as pa
    from pyarrow import parquet
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    rng, given = np.random.default_rng(0), embeddings(50, {})
    X = given.X[rng.integers(len(given.X), size=100_000)] + 0.02 * rng.standard_normal((100_000, given.X.shape[1]))

    def ours(records: np.ndarray) -> None:
        engine = MemoryEngine.of_records(records, given.bounds, n_threads=1)
        gaussian().run(engine, given.k, ledger=Ledger(1.0, delta=DELTA), rng=Randomness.secure())

    def streamed(folder: str) -> None:
        with closing(open_data(Path(folder), Stream(n_threads=1)).engine(given.bounds)) as engine:
            gaussian().run(engine, given.k, ledger=Ledger(1.0, delta=DELTA), rng=Randomness.secure())

    ours(X[:2000])  # compiles
    with threadpool_limits(1), TemporaryDirectory() as folder:
        columns = pa.table({f"x{j}": column for j, column in enumerate(X.astype(np.float32).T)})
        parquet.write_table(columns, Path(folder) / "embeddings.parquet")
        for _ in range(rounds):
            for name, work in (
                ("gaussian", lambda: ours(X)),
                ("gaussian, streamed from Parquet", lambda: streamed(folder)),
                ("KMeans, float64", lambda: KMeans(given.k, n_init=1, max_iter=20).fit(X)),
                ("KMeans, float32", lambda: KMeans(given.k, n_init=1, max_iter=20).fit(X.astype(np.float32))),
            ):
                before = time.process_time()
                work()
                print(f"{name}: {time.process_time() - before:.2f} CPU s", flush=True)


def fresh(n_problems: int, seed: int, first: int = 0, runs: int = 3) -> None:
    """Random problems with 11 to 500 features: medians of costs over those of the pure default, and of one mean.

    The mean has all of rho for one release. A cluster counts as missed where the cost is above 1.3 times the best one
    although the signal is above 3.5 a cluster.
    """
    from sklearn.cluster import KMeans

    print(
        f"seed {seed}\n| features | records | k | ε | signal | over pure | over one mean | over the best | coverage |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    behind, worse, missed, clear = 0, 0, 0, 0
    for number in range(first, first + n_problems):
        w = random_problem(seed, number, (11, 500), 800_000)
        rng = np.random.default_rng([seed, number, 1])
        epsilon, (n, d) = float(rng.choice([0.1, 0.25, 0.5, 1.0, 2.0, 4.0])), w.X.shape
        engine, half = MemoryEngine.of_records(w.X, w.box), np.subtract(w.box.upper, w.box.lower) / 2
        deviation = math.sqrt(float(half @ half)) / math.sqrt(2 * float(Ledger(epsilon, delta=DELTA).remaining_rho)) / n
        means = w.X.mean(axis=0) + deviation * rng.standard_normal((runs, 1, d))
        mean = np.median([cost_of(w.X, np.clip(m, w.box.lower, w.box.upper)) for m in means])
        found = [
            gaussian().run(engine, w.k, ledger=Ledger(epsilon, delta=DELTA), rng=Randomness.secure())
            for _ in range(runs)
        ]
        ours = float(np.median([cost_of(w.X, release.centroids) for release in found]))
        pure = np.median(
            [
                cost_of(w.X, synopsis().run(engine, w.k, ledger=Ledger(epsilon), rng=Randomness.secure()).centroids)
                for _ in range(runs)
            ]
        )
        best, signal = KMeans(w.k, n_init=3, random_state=0).fit(w.X).inertia_, found[0].parameters["signal"]
        ratios = ours / pure, ours / mean, ours / best
        print(
            f"| {d} | {n} | {w.k} | {epsilon:g} | {signal:.3g} | {ratios[0]:.4g} | {ratios[1]:.4g} | {ratios[2]:.4g} "
            f"| {coverage(w.X, found[0]):.2f} |",
            flush=True,
        )
        behind, worse = behind + (ratios[0] > 1.005), worse + (ratios[1] > 1.005)
        clear, missed = clear + (signal > 3.5), missed + (signal > 3.5 and ratios[2] > 1.3)
    print(f"behind pure epsilon in {behind}, behind one mean in {worse} of {n_problems}; missed in {missed} of {clear}")


def coverage(X: np.ndarray, release: Release) -> float:
    """The part of the coordinates of exact means of released cells that lie in their intervals of 95 %."""
    found, labels = intervals(release), release.predict(X)
    means = [(c, X[labels == c].mean(axis=0)) for c in range(release.n_clusters) if (labels == c).any()]
    return float(np.mean([((found.lower[c] <= m) & (m <= found.upper[c])).mean() for c, m in means]))


def main(names: Iterable[str], runs: int, others: dict[str, Fit]) -> None:
    titles = ["set", "score", "ε", "reached", "wanted", *others, "CPU s"]
    print(f"| {' | '.join(titles)} |", f"|{' --- |' * len(titles)}", sep="\n")
    for name in names:
        problem = PROBLEMS[name]()
        for row in rows(problem, runs, others.values()):
            cells = [
                f"{problem.name}, k = {problem.k}",
                problem.score,
                row.epsilon,
                f"{row.ours:.4g}",
                f"{row.wanted:g}",
            ]
            cells += [*(f"{other:.4g}" for other in row.others), f"{row.seconds:.2f}"]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(PROBLEMS)}; all by default")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--minutes", type=float, help="after so long no new set begins, and what is left out is named")
    parser.add_argument(
        "--pure", action="store_true", help="the default under pure epsilon beside it; takes much longer"
    )
    parser.add_argument("--baselines", action="store_true", help="su, blum and gupt with Gaussian noise beside it")
    parser.add_argument(
        "--peers",
        nargs="?",
        const=",".join(PEERS),
        default="",
        help="other people's methods beside it; all, or by name",
    )
    parser.add_argument("--speed", action="store_true", help="CPU time of one large fit beside scikit-learn, alone")
    parser.add_argument("--fresh", type=int, default=0, help="so many random problems beside pure epsilon")
    parser.add_argument("--first", type=int, default=0, help="number of the first random problem: to run them in parts")
    parser.add_argument("--seed", type=int, help="of the random problems; a new secret one by default")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # of a weak signal
    if given.speed:
        speed()
    elif given.fresh:
        fresh(given.fresh, secrets.randbits(32) if given.seed is None else given.seed, given.first)
    else:
        chosen = filter(Allowance(given.minutes).admits, given.names or those_here())
        main(chosen, given.runs, others_of(given.pure, given.baselines, given.peers))
