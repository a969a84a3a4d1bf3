"""A bad network: packets lost and delayed, or none at all for a while, in a network namespace of its own.

Everything runs in the namespace: scheduler, worker and fit. Its loopback has a queue that is too short for what is
sent, so that packets wait and are dropped; or it is taken down for some time.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict

from benchmarks.chaos.clusters import case, dask_scheduler, dask_worker, environment, why_no_dask
from benchmarks.chaos.fault import Fault, Outcome, Tally

UP = "ip link set lo mtu 1500 up"
LOSSY = "tc qdisc add dev lo root tbf rate 20mbit burst 4kb latency 5ms"


def why_no_network() -> str | None:
    if why_no_dask() is not None:
        return why_no_dask()
    if not all(map(shutil.which, ("unshare", "ip", "tc"))):
        return "needs unshare, ip and tc"
    command = ["unshare", "-n", "sh", "-c", f"{UP} && {LOSSY}"]
    refused = subprocess.run(command, check=False, capture_output=True).returncode
    return "no right to a network namespace" if refused else None


def apart(kind: str) -> Callable[[int], Outcome]:
    """Run this module in a namespace of its own, and read what it saw."""

    def run(times: int) -> Outcome:
        script = f'{UP} && exec "$0" -m benchmarks.chaos.network "$@"'
        command = ["unshare", "-n", "sh", "-c", script, sys.executable, kind, str(times)]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        return Outcome(**json.loads(done.stdout))

    return run


def inside(kind: str, times: int) -> Outcome:
    tally = Tally()
    with case() as here, dask_scheduler(here.folder) as scheduler, dask_worker(scheduler, "--no-nanny"):
        scheduler.until_workers(1)
        options = ("--engine", "dask", "--scheduler", scheduler.address, "--worker-timeout", "30")
        if kind == "lossy":
            subprocess.run(LOSSY.split(), check=True)
        for _ in range(times):
            cut = threading.Timer(random.uniform(1, 12), _cut, (8.0,))
            if kind == "cut":
                cut.start()
            tally.saw(here.fit(tally, *options))
            if kind == "cut":
                cut.join()
    return tally.outcome()


def _cut(seconds: float) -> None:
    subprocess.run(["ip", "link", "set", "lo", "down"], check=True)
    time.sleep(seconds)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


ENDS = "the right result, or a typed error within the stated time"
FAULTS = (
    Fault("packets between driver, scheduler and worker are delayed and lost", ENDS, apart("lossy"), times=4, short=0,
          cluster=True, unavailable=why_no_network),
    Fault("no packet goes through for eight seconds", ENDS, apart("cut"), times=4, short=0, cluster=True,
          unavailable=why_no_network),
)  # fmt: skip

if __name__ == "__main__":
    print(json.dumps(asdict(inside(sys.argv[1], int(sys.argv[2])))))
