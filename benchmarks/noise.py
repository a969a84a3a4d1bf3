"""CPU time of exact draws, ours and OpenDP's, one thread, the best of a few turns; and of fits with many features.

Run with `python benchmarks/noise.py`. Both draw exactly, from the operating system's source.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import opendp.domains as domains
import opendp.measurements as measurements
import opendp.metrics as metrics
import opendp.mod as opendp

from dpkmeans.privacy.linf_laplace import cube_noise
from dpkmeans.privacy.randomness import SecureNoise

SCALES = (0.1, 1.0, 100.0, 2.0**20, 2.0**40)
FEATURES = (100, 1000, 2000, 5000)
FIT = """
import sys, time, warnings
import numpy as np
from dpkmeans import DPKMeans
warnings.simplefilter("ignore")
records = np.random.default_rng(0).random((200, int(sys.argv[1])))
for epsilon in (1.0, 50.0, 50.0):
    start = time.process_time()
    DPKMeans(3, epsilon=epsilon, bounds=(0, 1)).fit(records)
    print(f"{time.process_time() - start:.2f} s", end="  ")
"""


def best(draw: Callable[[], object], draws: int, repeats: int) -> float:
    """Microseconds of CPU time for each draw."""
    draw()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        draw()
        times.append(time.process_time() - start)
    return 1e6 * min(times) / draws


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    opendp.enable_features("contrib")
    integers = domains.vector_domain(domains.atom_domain(T="i64"))
    values, few, source = np.zeros(given.draws, dtype=np.int64), [0] * (given.draws // 20), SecureNoise()
    print("microseconds a draw, or an entry of a row")
    for scale in SCALES:
        laplace = measurements.make_laplace(integers, metrics.l1_distance(T="i64"), scale=scale)
        gaussian = measurements.make_gaussian(integers, metrics.l2_distance(T="f64"), scale=scale)
        exact = Fraction(scale)
        ours = {
            "Laplace": partial(source.laplace, values, exact),
            "Gaussian": partial(source.gaussian, values, exact**2),
            "max norm of 10": partial(cube_noise, source, given.draws // 10, 10, exact),
            "max norm of 1000": partial(cube_noise, source, given.draws // 1000, 1000, exact),
        }
        if scale < 1:
            del ours["max norm of 1000"]  # its law takes more bits than any use of it does
        told = {name: best(draw, given.draws, given.repeats) for name, draw in ours.items()}
        told |= {
            "OpenDP's Laplace": best(partial(laplace, few), len(few), given.repeats),
            "OpenDP's Gaussian": best(partial(gaussian, few), len(few), given.repeats),
        }
        print(f"scale {scale:<10g}", "  ".join(f"{name} {one:.2f}" for name, one in told.items()), flush=True)
    print("200 records, k = 3: first fit of a process at epsilon = 1, then two at 50, where means are asked for too")
    for d in FEATURES:
        done = subprocess.run([sys.executable, "-c", FIT, str(d)], capture_output=True, text=True, check=True)
        print(f"{d:5d} features  {done.stdout}", flush=True)


if __name__ == "__main__":
    main()
