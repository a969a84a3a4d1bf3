"""Peak memory of one fit at 1M x 10, beyond the records, in MB: `python peak_memory.py lloyd|private`.

In a process of its own, from what the system says about it, so that nothing is missed. A small fit before loads and
compiles what is needed.
"""

from __future__ import annotations

import resource
import sys
import warnings
from pathlib import Path

import numpy as np

from dpkmeans import DPKMeans

MB = 2**20


def resident() -> int:
    """Bytes of memory that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def main() -> None:
    warnings.simplefilter("ignore")
    options = {"lloyd": {"method": "lloyd", "guarantee": "none", "max_iter": 20}, "private": {"epsilon": 1.0}}[
        sys.argv[1]
    ]
    rng = np.random.default_rng(0)
    DPKMeans(10, bounds=(0.0, 1.0), **options).fit(rng.random((20_000, 10)))
    X = np.empty((1_000_000, 10))
    for part in np.split(X, 100):
        part[:] = np.clip(rng.random(10) + 0.2 * rng.standard_normal(part.shape), 0.0, 1.0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    before = resident()
    DPKMeans(10, bounds=(0.0, 1.0), **options).fit(X)
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(int(peak.split()[1]) * 1024 / MB - before / MB, X.size * 4 / MB)


if __name__ == "__main__":
    main()
