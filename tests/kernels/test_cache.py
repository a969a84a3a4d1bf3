"""Compiled code is kept on disk where a folder can be written, and fits work where none can."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dpkmeans

FIT = """
import sys
import numpy as np
from dpkmeans.core.bounds import Bounds
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.kernels.quantise import quantise
import dpkmeans
engine = MemoryEngine.of_records(np.array([[0.0], [1.0]]), Bounds.of((0, 1), 1), n_threads=1)
hits = sum(quantise.stats.cache_hits.values())
print(dpkmeans.__file__, type(quantise._cache).__name__, hits, "sklearn" in sys.modules)
"""


def fit(package_folder, **environment):
    environment = {**os.environ, "PYTHONPATH": str(package_folder), **{k: str(v) for k, v in environment.items()}}
    done = subprocess.run([sys.executable, "-c", FIT], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    place, cache, hits, sklearn = done.stdout.split()
    return Path(place), cache, int(hits), sklearn == "True"


@pytest.fixture
def package(tmp_path):
    """A copy of the package, with a file where each folder for compiled code would be: even root cannot write there."""
    copy = tmp_path / "lib" / "dpkmeans"
    shutil.copytree(Path(dpkmeans.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in (copy, *(path for path in copy.rglob("*") if path.is_dir())):
        (folder / "__pycache__").touch()
    return copy.parent


def test_a_fit_works_without_a_folder_for_compiled_code(package, tmp_path):
    wall = tmp_path / "a file"
    wall.touch()
    place, cache, hits, _ = fit(package, NUMBA_CACHE_DIR=wall / "cache", HOME=wall / "home", XDG_CACHE_HOME=wall / "x")
    assert place.is_relative_to(package)
    assert (cache, hits) == ("NullCache", 0)


def test_compiled_code_is_kept_for_the_next_process_and_no_fit_imports_scikit_learn(package, tmp_path):
    first, second = (fit(package, NUMBA_CACHE_DIR=tmp_path / "cache") for _ in range(2))
    assert first[1:] == ("FunctionCache", 0, False)
    assert second[1:] == ("FunctionCache", 1, False)
