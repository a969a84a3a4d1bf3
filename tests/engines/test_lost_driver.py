"""A driver that is killed in the middle of a fit: the ledger says what was committed, no less and no more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest
from tests.engines.clusters import blobs, write_parquet

from dpkmeans import DurableLedger
from dpkmeans.cli.outcomes import REFUSED
from dpkmeans.core.epsilon import Epsilon

psutil = pytest.importorskip("psutil", reason="comes with dask: make setup-scale")

DRIVER = """
import sys, time
from pathlib import Path
from dpkmeans.cli.main import main
from dpkmeans.privacy.randomness import SecureNoise

if __name__ == "__main__":
    ready, draw, n = Path(sys.argv[1]), SecureNoise.laplace, 0

    def wait(*arguments, **options):
        global n
        n += 1
        if n > 2:
            ready.touch()
            time.sleep(120)
        return draw(*arguments, **options)

    SecureNoise.laplace = wait
    sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["stream", "dask"])
def test_a_killed_driver_spends_what_the_ledger_says_and_a_new_fit_works(tmp_path, engine):
    if engine == "dask":
        pytest.importorskip("distributed", reason="the Dask engine needs dask: make setup-scale")
    (tmp_path / "visits").mkdir()
    write_parquet(tmp_path / "visits", blobs(2000), [700])
    (tmp_path / "driver.py").write_text(DRIVER)
    store = DurableLedger.create(tmp_path / "ledger.db")
    store.add("visits", 2.5)
    ready, out = tmp_path / "ready", tmp_path / "model.json"
    command = ["fit", f"{tmp_path}/visits/*.parquet", "--engine", engine, "--k", "3", "--bounds", "0:1"]
    command += ["--method", "blum", "--epsilon", "1", "--dataset", "visits", "--ledger", str(store.path)]
    command += ["--out", str(out), "--force", "--json", *(["--workers", "1"] if engine == "dask" else [])]

    files = set(os.listdir(tmp_path))
    driver = subprocess.Popen([sys.executable, str(tmp_path / "driver.py"), str(ready), *command], cwd=tmp_path)
    deadline = time.monotonic() + 100
    while not ready.exists() and driver.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    workers = psutil.Process(driver.pid).children(recursive=True)
    driver.kill()
    assert driver.wait() == -9
    assert bool(workers) == (engine == "dask")
    assert not psutil.wait_procs(workers, timeout=60)[1]  # workers go when their driver has gone
    left = set(os.listdir(tmp_path)) - files
    room = {name for name in left if name.startswith(".model.json.")}  # reserved for the model, and empty
    assert not any((tmp_path / name).read_bytes().strip(b"\0") for name in room)
    assert left - room <= {"ready", "ledger.db-wal", "ledger.db-shm"}

    held = store.dataset("visits").spent
    assert held == Epsilon.of(1.0)  # reserved before the first noise, and not given back
    assert store.verify().intact
    again = subprocess.run([sys.executable, "-m", "dpkmeans", *command], capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert len(json.loads(again.stdout)["centroids"]) == 3
    assert out.exists()
    assert store.dataset("visits").spent == Epsilon.of(2.0)
    refused = subprocess.run([sys.executable, "-m", "dpkmeans", *command], capture_output=True, text=True, check=False)
    assert refused.returncode == REFUSED, refused.stderr
    assert store.dataset("visits").spent == Epsilon.of(2.0)
    assert store.verify().intact
