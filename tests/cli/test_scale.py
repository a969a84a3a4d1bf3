"""The command on files that are streamed, and on workers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from pyarrow import parquet
from tests.engines.clusters import blobs, dask_client, why_no_spark, write_parquet

from dpkmeans import DurableLedger
from dpkmeans.cli.main import main
from dpkmeans.engines import reach

X = blobs(2000)
OPTIONS = ["--k", "3", "--bounds", "0:1", "--epsilon", "1", "--seed", "4", "--guarantee", "none", "--json"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "visits").mkdir()
    return write_parquet(tmp_path / "visits", X, [700])


def centroids(capsys):
    return json.loads(capsys.readouterr().out)["centroids"]


def test_a_pattern_is_streamed_with_progress_and_gives_what_memory_gives(folder, tmp_path, capsys):
    assert main(["fit", f"{folder}/*.parquet", *OPTIONS]) == 0
    captured = capsys.readouterr()
    assert "pass 1: " in captured.err
    assert re.search(r" s, \d+ rows per second", captured.err)
    (tmp_path / "whole").mkdir()
    whole = write_parquet(tmp_path / "whole", X, []) / "part-00.parquet"
    assert main(["fit", str(whole), *OPTIONS]) == 0
    assert json.loads(captured.out)["centroids"] == centroids(capsys)
    assert main(["fit", str(whole), "--engine", "stream", *OPTIONS]) == 0
    assert json.loads(captured.out)["centroids"] == centroids(capsys)


def run(*arguments):
    """The command as a process of its own."""
    command = [sys.executable, "-m", "dpkmeans", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done


def passes(done):
    return [line for line in done.stderr.splitlines() if re.fullmatch(r"pass \d+: .* s, .* rows per second", line)]


@pytest.mark.slow
def test_the_command_starts_dask_workers_and_stops_them(folder, capsys):
    pytest.importorskip("distributed", reason="the Dask engine needs dask: make setup-scale")
    done = run("fit", str(folder), "--engine", "dask", "--workers", "2", "--memory", "500MB", *OPTIONS)
    assert passes(done)
    assert main(["fit", str(folder), *OPTIONS]) == 0
    assert json.loads(done.stdout)["centroids"] == centroids(capsys)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_command_finds_a_scheduler_by_its_address_and_leaves_it_running(folder, capsys):
    with dask_client(1) as client:
        address = client.scheduler.address
        assert address.startswith("tcp://127.0.0.1:")
        done = run("fit", f"{folder}/*.parquet", "--engine", "dask", "--scheduler", address, *OPTIONS)
        assert client.submit(sum, [1, 2]).result() == 3
    assert passes(done)
    assert main(["fit", str(folder), *OPTIONS]) == 0
    assert json.loads(done.stdout)["centroids"] == centroids(capsys)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(reach, "TIMEOUT", 0.5)


@contextmanager
def web_server():
    """The port of a server that speaks HTTP, as a dashboard does, and logs nothing."""
    quiet = type("Quiet", (BaseHTTPRequestHandler,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), quiet) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign] # of a client that hangs up; it would print
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("engine", "address", "message"),
    [
        ("dask", "tcp://127.0.0.1:9", "no Dask scheduler answers at 'tcp://127.0.0.1:9'"),
        ("dask", "tcp://127.0.0.1:{web}", "no Dask scheduler answers"),
        ("dask", "nobody.invalid:8786", "no Dask scheduler answers"),
        ("dask", "127.0.0.1", "Write its address as tcp://HOST:PORT"),
        ("spark", "spark://127.0.0.1:9", "no Spark master answers at 'spark://127.0.0.1:9'"),
        ("spark", "spark://127.0.0.1:{web}", "no Spark master answers"),
        ("spark", "spark://nobody.invalid:7077,127.0.0.1", "no Spark master answers"),
    ],
)
@pytest.mark.usefixtures("impatient")
def test_an_unknown_scheduler_is_one_line_and_spends_nothing(folder, capfd, engine, address, message):
    pytest.importorskip("distributed" if engine == "dask" else "pyspark", reason="make setup-scale")
    store = DurableLedger.create(folder.parent / "ledger.db")
    store.add("visits", 1.0)
    asked = ["fit", str(folder), *OPTIONS[:6], "--ledger", str(store.path), "--dataset", "visits"]
    with web_server() as port:
        assert main([*asked, "--engine", engine, "--scheduler", address.format(web=port)]) == 6
        time.sleep(0.5)  # whatever goes on trying would log it now
    shown = capfd.readouterr().err.splitlines()
    lines = [line for line in shown if not line.startswith(("Reading", "Fitting"))]
    assert len(lines) == 1
    assert message in lines[0]
    assert not float(store.dataset("visits").spent)


@pytest.mark.parametrize("master", ["127.0.0.1:7077", "sc://127.0.0.1", "sparc"])
def test_what_is_no_spark_master_is_refused_by_name(folder, capsys, master):
    pytest.importorskip("pyspark", reason="make setup-scale")
    assert main(["fit", str(folder), "--engine", "spark", "--scheduler", master, *OPTIONS]) == 2
    assert "is not a Spark master. Write spark://HOST:PORT" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(why_no_spark() is not None, reason=why_no_spark() or "Spark runs")
def test_the_command_starts_spark_and_stops_it(folder, capsys):
    done = run("fit", str(folder), "--engine", "spark", "--workers", "2", "--memory", "700MB", *OPTIONS)
    assert passes(done)
    assert main(["fit", str(folder), *OPTIONS]) == 0
    assert json.loads(done.stdout)["centroids"] == centroids(capsys)


def test_nulls_are_refused_by_default_and_put_in_the_middle_on_request(tmp_path, capsys):
    holed = X.copy()
    holed[5, 1] = np.nan
    path = write_parquet(tmp_path, holed, []) / "part-00.parquet"
    assert main(["fit", f"{tmp_path}/*.parquet", *OPTIONS]) == 4
    message = capsys.readouterr().err
    assert "column 'x1'" in message
    assert "row group 0" in message
    assert "--nulls midpoint" in message
    assert main(["fit", str(path), "--nulls", "midpoint", *OPTIONS]) == 0


def test_predict_streams_and_writes_parquet_and_csv_alike(folder, tmp_path, capsys):
    model, out = tmp_path / "model.json", tmp_path / "clusters.parquet"
    assert main(["fit", str(folder), *OPTIONS, "--out", str(model)]) == 0
    assert main(["predict", str(model), str(folder), "--out", str(out)]) == 0
    capsys.readouterr()
    assert main(["predict", str(model), f"{folder}/*.parquet"]) == 0
    printed = capsys.readouterr().out.split()
    labels = parquet.read_table(out).column("cluster").to_pylist()
    assert printed == ["cluster", *map(str, labels)]
    assert len(labels) == len(X)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clusters.parquet", "model.json", "visits"]


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore")
def test_predict_finds_the_labels_on_the_workers_and_writes_them_in_the_order_of_the_rows(folder, tmp_path, capsys):
    model, kept = tmp_path / "model.json", ["--keep", "x0"]
    assert main(["fit", str(folder), *OPTIONS, "--out", str(model)]) == 0
    capsys.readouterr()
    assert main(["predict", str(model), str(folder), *kept]) == 0
    expected = capsys.readouterr().out
    for engine in ("memory", "stream"):
        assert main(["predict", str(model), str(folder), *kept, "--engine", engine]) == 0
        assert capsys.readouterr().out == expected
    with dask_client(2) as client:
        scheduler = ["--engine", "dask", "--scheduler", client.scheduler.address]
        assert main(["predict", str(model), str(folder), *kept, *scheduler]) == 0
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workers", "2"], "only --engine dask and --engine spark take --workers"),
        (["--engine", "dask", "--worker-timeout", "-1"], "number of seconds"),
        (["--engine", "dask", "--workers", "0"], "at least 1"),
        (["--engine", "dask", "--memory", "much"], "500MB"),
    ],
)
def test_options_that_make_no_sense_exit_with_2(folder, capsys, arguments, message):
    assert main(["fit", str(folder), *OPTIONS, *arguments]) == 2
    assert message in capsys.readouterr().err
