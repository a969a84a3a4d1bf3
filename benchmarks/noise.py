"""Microseconds of CPU time for one draw of Gaussian noise: ours and OpenDP's, one thread, the best of a few turns.

Run with `python benchmarks/noise.py`. Both draw the discrete Gaussian exactly, from the operating system's source.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import opendp.domains as domains
import opendp.measurements as measurements
import opendp.metrics as metrics
import opendp.mod as opendp

from dpkmeans.privacy.randomness import SecureNoise

DEVIATIONS = (0.1, 1.0, 100.0, 2.0**20, 2.0**40)


def best(draw: Callable[[], object], draws: int, repeats: int) -> float:
    """Microseconds of CPU time for each draw."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        draw()
        times.append(time.process_time() - start)
    return 1e6 * min(times) / draws


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=300_000)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    opendp.enable_features("contrib")
    space = domains.vector_domain(domains.atom_domain(T="i64")), metrics.l2_distance(T="f64")
    values, few = np.zeros(given.draws, dtype=np.int64), [0] * (given.draws // 10)
    source = SecureNoise()
    source.gaussian(values[:10], Fraction(1))
    for deviation in DEVIATIONS:
        variance = Fraction(deviation) ** 2
        measure = measurements.make_gaussian(*space, scale=deviation)
        ours = best(partial(source.gaussian, values, variance), given.draws, given.repeats)
        theirs = best(partial(measure, few), len(few), given.repeats)
        print(f"sigma {deviation:<14g} dpkmeans {ours:6.2f} µs   OpenDP {theirs:6.2f} µs   a draw")


if __name__ == "__main__":
    main()
