"""Compiled code is kept on disk where a folder can be written; fits work where none can; no code outlives a change."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dpkmeans
from dpkmeans.kernels.jit import COMPILING

FIT = """
import sys
import numpy as np
from dpkmeans.core.bounds import Bounds
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.kernels.jit import compile_from_now_on, tell_of_compiling
from dpkmeans.kernels.quantise import quantise
import dpkmeans
compile_from_now_on()
tell_of_compiling(lambda line: print(line, file=sys.stderr))
engine = MemoryEngine.of_records(np.array([[0.0], [1.0]]), Bounds.of((0, 1), 1), n_threads=1)
hits = sum(quantise.built.stats.cache_hits.values())
print(dpkmeans.__file__, type(quantise.built._cache).__name__, hits, "sklearn" in sys.modules)
"""


def fit(package_folder, **environment):
    environment = {**os.environ, "PYTHONPATH": str(package_folder), **{k: str(v) for k, v in environment.items()}}
    done = subprocess.run([sys.executable, "-c", FIT], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    place, cache, hits, sklearn = done.stdout.split()
    assert done.stderr.splitlines() == ([] if int(hits) else [COMPILING]), "said once, where it compiles"
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


SPREAD = """
import logging
import sys
import numpy as np
import dpkmeans
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.exact import reveal
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.synopsis import hyperplane_cells
if sys.argv[1:] == ["logged"]:
    logging.basicConfig(level="INFO", format="%(name)s: %(message)s")
query = hyperplane_cells.Spread(np.ones((1, 1)), np.zeros(1), 0.5)
engine = MemoryEngine.of_records(np.ones((1, 1)), Bounds.of((0, 1), 1), n_threads=1)
added = reveal(engine.answer(query), why="a test")[0, 0]
hits = sum(hyperplane_cells._add_spread.built.stats.cache_hits.values())
print(dpkmeans.__file__, added, query.sensitivity.linf, hits)
"""


def spread(package_folder, cache, *, logged=False):
    """What a corner record adds to `Spread`, what the query declares, and how often compiled code was found.

    A process that asked for the log is told that it compiles, once; any other hears nothing.
    """
    environment = {**os.environ, "PYTHONPATH": str(package_folder), "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", SPREAD, *(["logged"] if logged else [])]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    place, added, declared, hits = done.stdout.split()
    assert Path(place).is_relative_to(package_folder)
    assert done.stderr.splitlines() == ([f"dpkmeans: {COMPILING}"] if logged and not int(hits) else [])
    return int(added), int(declared), int(hits)


def test_a_constant_that_changes_in_another_file_is_not_left_behind_in_compiled_code(package, tmp_path):
    """`Spread` takes UNIT from `residual_queries`. Code compiled before the change would add 16 times as much."""
    cache, elsewhere = tmp_path / "cache", package / "dpkmeans" / "synopsis" / "residual_queries.py"
    assert spread(package, cache) == (2**20, 2**20, 0)
    assert spread(package, cache, logged=True) == (2**20, 2**20, 1)
    text = elsewhere.read_text()
    assert "UNIT = 2**20" in text
    elsewhere.write_text(text.replace("UNIT = 2**20", "UNIT = 2**16"))
    assert spread(package, cache, logged=True) == (2**16, 2**16, 0)


def kernel_constants():
    """(file of a kernel, module that a constant in it comes from) for each imported name in capitals."""
    root = Path(dpkmeans.__file__).parent
    for path in root.rglob("*.py"):
        if "@compiled" in (text := path.read_text()):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dpkmeans."):
                    capitals = {alias.name for alias in node.names if alias.name.isupper()}
                    functions = [f for f in ast.walk(ast.parse(text)) if isinstance(f, ast.FunctionDef)]
                    marks = ("compiled", "drives_kernels")
                    kernels = [f for f in functions if any(ast.unparse(d).startswith(marks) for d in f.decorator_list)]
                    used = {n.id for f in kernels for n in ast.walk(f) if isinstance(n, ast.Name)}
                    if capitals & used:
                        yield path.name, root.joinpath(*node.module.split(".")[1:]).with_suffix(".py")


def test_every_constant_of_a_kernel_stands_in_a_file_whose_content_the_cache_knows():
    from dpkmeans.kernels.jit import MARKS

    found = set(kernel_constants())
    assert any(name == "hyperplane_cells.py" for name, _ in found)
    unknown = {(name, file.name) for name, file in found if not any(mark in file.read_bytes() for mark in MARKS)}
    assert not unknown, "numba would keep these constants as they were compiled"
