"""Fits diffprivlib's KMeans when asked on stdin, and answers with CPU and wall time. For an interpreter that has it.

diffprivlib needs an older scikit-learn than this project, so `speed.py --diffprivlib-python PATH` runs this file with
another interpreter: `python diffprivlib_fit.py RECORDS.npy CLUSTERS EPSILON`.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np


def main() -> None:
    from diffprivlib.models import KMeans

    warnings.simplefilter("ignore")
    X = np.load(sys.argv[1])
    bounds = (np.zeros(X.shape[1]), np.ones(X.shape[1]))
    print("ready", flush=True)
    for _ in sys.stdin:
        cpu, wall = time.process_time(), time.perf_counter()
        KMeans(int(sys.argv[2]), epsilon=float(sys.argv[3]), bounds=bounds).fit(X)
        print(time.process_time() - cpu, time.perf_counter() - wall, flush=True)


if __name__ == "__main__":
    main()
