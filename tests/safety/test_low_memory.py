"""Too little memory is one typed error that names the limit, and what is small is measured when it is unfolded."""

from __future__ import annotations

import gzip
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from dpkmeans import DPKMeans
from dpkmeans.cli import inputs
from dpkmeans.cli.main import main
from dpkmeans.data.parquet import ParquetPiece
from dpkmeans.data.source import Files
from dpkmeans.data.unfolded import unfolds_within
from dpkmeans.engines import limits
from dpkmeans.engines.config import Stream
from dpkmeans.errors import FileError, OutOfMemoryError

COMMAND = "import sys; from dpkmeans.cli.main import main; sys.exit(main())"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    np.savetxt(path, np.random.default_rng(0).random((100, 2)), delimiter=",", fmt="%.6f")
    return path


@pytest.mark.parametrize("megabytes", [600, 2000])
def test_a_fit_under_a_limit_that_is_too_small_names_it(data, megabytes):
    size = megabytes * 10**6
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "fit", str(data), "--no-header", "--bounds", "0:1", "--epsilon", "1"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)),
    )
    assert done.returncode == 4, done.stderr
    said = (
        f"error: there is not enough memory: this process may use {megabytes / 1000:g} GB (RLIMIT_AS, as by ulimit -v)"
    )
    assert done.stderr.startswith(said)


def fails(*_: object) -> None:
    raise pa.ArrowMemoryError("malloc of size 1 failed")


def test_arrow_without_memory_is_not_a_damaged_file(tmp_path, monkeypatch, capsys):
    path = tmp_path / "visits.parquet"
    parquet.write_table(pa.table({"east": np.linspace(0.1, 0.9, 1000)}), path)
    monkeypatch.setattr("dpkmeans.data.parquet.encode_columns", fails)
    with pytest.raises(OutOfMemoryError, match="engine='stream'"):
        DPKMeans(1, epsilon=1.0, bounds=(0, 1)).fit(path)
    assert main(["fit", str(path), "--k", "1", "--bounds", "0:1", "--epsilon", "1"]) == 4
    assert "Read the records in pieces with --engine stream" in capsys.readouterr().err


def test_whatever_fails_near_a_limit_fails_for_lack_of_memory(data, monkeypatch, capsys):
    def unexpected(*_: object) -> None:
        raise ImportError("failed to map segment")

    monkeypatch.setattr(ParquetPiece, "batches", unexpected)
    given = ["fit", str(data), "--no-header", "--bounds", "0:1", "--epsilon", "1", "--engine", "stream"]
    monkeypatch.setattr(limits, "limits", list)
    assert main(given) == 1
    tiny = limits.Limit(1, "RLIMIT_AS", 0.0, "VmPeak")
    monkeypatch.setattr(limits, "limits", lambda: [tiny])
    assert main(given) == 4
    assert "not enough memory for this: this process may use" in capsys.readouterr().err


def test_limits_of_control_groups_are_numbers_or_none():
    found = limits._of_control_group()
    assert found is None or 0 < found < 2**60


# --- what is small ----------------------------------------------------------------------------------


def test_a_small_file_that_unfolds_to_much_is_streamed(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "MAX_HELD", 100_000)
    text = b"0.5,0.5\n" * 50_000
    packed, plain, zeros = tmp_path / "v.csv.gz", tmp_path / "v.csv", tmp_path / "v.parquet"
    packed.write_bytes(gzip.compress(text))
    plain.write_bytes(text)
    parquet.write_table(pa.table({"east": np.zeros(50_000), "north": np.zeros(50_000)}), zeros)
    assert packed.stat().st_size < 10_000
    assert zeros.stat().st_size < 10_000
    for path in (packed, plain, zeros, tmp_path):
        assert isinstance(inputs.engine_for(path), Stream), path
    monkeypatch.setattr(inputs, "MAX_HELD", 1_000_000)
    for path in (packed, plain, zeros, tmp_path / "absent.csv"):
        assert inputs.engine_for(path) == "memory"


def test_the_look_is_bounded(tmp_path, monkeypatch):
    path, seen = tmp_path / "v.csv.gz", []
    path.write_bytes(gzip.compress(b"0" * 50_000_000))
    open_stream = pa.input_stream

    class Counted:
        def __init__(self, *given, **more):
            self.stream = open_stream(*given, **more)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.stream.close()

        def read(self, size):
            seen.append(size)
            return self.stream.read(size)

    monkeypatch.setattr(pa, "input_stream", Counted)
    assert not unfolds_within(path, 3_000_000)
    assert sum(seen) < 5_000_000


def test_a_damaged_file_is_left_to_its_reader(tmp_path):
    path = tmp_path / "v.csv.gz"
    path.write_bytes(gzip.compress(b"0.5,0.5\n" * 1000)[:-10])
    assert unfolds_within(path, 10**6)
    with pytest.raises(FileError, match="damaged"):
        DPKMeans(2, epsilon=1.0, bounds=(0, 1), engine="memory").fit(Files(path, header=False))
