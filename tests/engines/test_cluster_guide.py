"""What the guide on clusters and the page on scale say of clusters runs, on workers that are processes of their own."""

from __future__ import annotations

import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.engines.clusters import why_no_spark

from dpkmeans import DPKMeans
from dpkmeans.cli.main import main

DOCS = Path(__file__).resolve().parents[2] / "docs"


def blocks(page):
    return re.findall(r"^```(\w*)\n(.*?)^```", (DOCS / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)


BLOCKS = blocks("clusters.md")
FITS = {command.split()[4]: command for kind, block in BLOCKS if not kind for command in block.splitlines()}
LOCAL, GIVEN = (
    line for kind, block in blocks("scale.md") if not kind for line in block.splitlines() if "--engine dask" in line
)
(IN_PYTHON,) = (block for kind, block in blocks("scale.md") if kind == "python" and "Dask(client=client)" in block)
STARTS = [line for _, block in BLOCKS for line in block.splitlines() if line.startswith("dask ")]

pytestmark = pytest.mark.cluster


@pytest.fixture
def shared(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(100 * rng.random((4000, 2)), columns=["east", "north"])
    frame.to_parquet(tmp_path / "visits.parquet")
    (tmp_path / "visits").mkdir()
    frame.to_parquet(tmp_path / "visits" / "1.parquet")
    return tmp_path


def run(command, shared, capsys):
    words = shlex.split(command.replace("/shared/", f"{shared}/"))[1:]
    assert main(words) == 0, capsys.readouterr().err


def run_apart(command, shared):
    """In a process of its own: Spark would hand out the session that the tests of this process share, and end it."""
    words = shlex.split(command.replace("/shared/", f"{shared}/"))[1:]
    words[words.index("--out") + 1] = str(shared / words[words.index("--out") + 1])
    done = subprocess.run([sys.executable, "-m", "dpkmeans", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_commands_for_dask_run(shared, capsys, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.chdir(shared)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    assert [line.split()[1] for line in STARTS] == ["scheduler", "worker"]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", *line.replace("8786", port).split(), "--no-dashboard"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for line in STARTS
    ]
    try:
        run(FITS["dask"].replace("8786", port), shared, capsys)
        run(GIVEN.replace("scheduler:8786", f"127.0.0.1:{port}"), shared, capsys)
        with distributed.Client(f"tcp://127.0.0.1:{port}", set_as_default=False) as client:
            code = IN_PYTHON.replace("/shared/", f"{shared}/")
            exec(code, {"DPKMeans": DPKMeans, "client": client})  # noqa: S102 (our own example)
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(30)
    assert (shared / "dask.json").is_file()
    run(LOCAL, shared, capsys)


def test_the_command_for_spark_runs_on_executors_of_their_own(shared):
    if why := why_no_spark():
        pytest.skip(why)
    run_apart(FITS["spark"], shared)
    assert (shared / "spark.json").is_file()
