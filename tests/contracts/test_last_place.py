"""No seeded result, label, certificate or cell hangs on the last place of a function that NumPy picks by processor.

NumPy has several versions of exp, log, sin and their like, and BLAS several of a product; which one runs depends on
the processor, and they differ in the last place. Additions, products, quotients and square roots are rounded alike
everywhere; sums of NumPy run in one order; functions of `math` and of compiled loops come from the C library.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools.golden import cases, summary

import dpkmeans

ROOT = Path(dpkmeans.__file__).parent
DISPATCHED = {
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "logaddexp", "logaddexp2", "power", "float_power"),
    *("sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2", "asin", "acos", "atan", "atan2", "hypot"),
    *("sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "asinh", "acosh", "atanh", "pow", "cbrt", "sinc"),
    *("angle", "geomspace", "logspace", "i0"),
}
PRODUCTS = {
    *("dot", "vdot", "inner", "outer", "matmul", "matvec", "vecmat", "vecdot", "tensordot", "einsum", "kron"),
    *("convolve", "correlate", "cov", "corrcoef", "polyfit"),
}
LINEAR_ALGEBRA = {"norm", "qr", "inv", "pinv", "solve", "lstsq", "svd", "eigh", "eig", "cholesky", "det"}


# -- neighbouring floats ----------------------------------------------------------------------------------------------


def moved(value: Any) -> Any:
    """Every tenth float next to where it was, up or down; which ones, its own bits say."""
    if isinstance(value, tuple):
        return type(value)(*map(moved, value)) if hasattr(value, "_fields") else tuple(map(moved, value))
    if not isinstance(value, np.ndarray | np.floating) or value.dtype != np.float64:
        return value
    bits = np.asarray(value).view(np.uint64)
    draw = (bits * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(59)  # of 32
    out = np.where(draw == 0, np.nextafter(value, np.inf), value)
    out = np.where((draw == 1) | (draw == 2), np.nextafter(value, -np.inf), out)
    return out if isinstance(value, np.ndarray) else np.float64(out)


class Off:
    """A function of NumPy whose results are off by one place."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, *args: Any, **options: Any) -> Any:
        found = moved(self.function(*args, **options))
        if options.get("out") is not None:
            options["out"][...] = found
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.function, name)


@pytest.fixture
def off_by_one_place():
    """Called, it puts neighbours in the place of NumPy's results until the test ends."""
    with pytest.MonkeyPatch.context() as patch:

        def replace() -> None:
            for module, names in ((np, DISPATCHED | PRODUCTS), (np.linalg, LINEAR_ALGEBRA)):
                for name in names:
                    if hasattr(module, name):
                        patch.setattr(module, name, Off(getattr(module, name)))

        yield replace


def test_a_tenth_of_the_floats_is_replaced_by_neighbours(off_by_one_place):
    x = np.linspace(0.1, 3, 10_000)
    exact = np.exp(x), np.log1p(x), np.dot(x, x)
    off_by_one_place()
    for found, before in ((np.exp(x), exact[0]), (np.log1p(x), exact[1])):
        up, down = found == np.nextafter(before, np.inf), found == np.nextafter(before, -np.inf)
        assert (up | down | (found == before)).all()
        assert 0.02 < up.mean() < 0.05
        assert 0.05 < down.mean() < 0.08
    assert np.dot(x, x) == pytest.approx(exact[2], rel=1e-15)


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_a_seeded_fit_does_not_hang_on_the_last_place_of_numpy(case, off_by_one_place):
    exact = summary(case)  # also compiles: numba would not know the replaced functions
    off_by_one_place()
    assert summary(case) == exact


# -- another processor ------------------------------------------------------------------------------------------------


def processor() -> tuple[list[str], str]:
    """Features of this processor that NumPy chooses code by, and which BLAS kernels an older one would get."""
    core = "numpy._core" if hasattr(np, "_core") else "numpy.core"  # NumPy 1 has the second only
    built = import_module(f"{core}._multiarray_umath")
    features = [name for name in built.__cpu_dispatch__ if built.__cpu_features__[name]]
    return features, "Haswell" if any("512" in name or name == "X86_V4" for name in features) else "Nehalem"


@pytest.mark.slow
@pytest.mark.parametrize("which", ["the newest", "all"])
def test_another_processor_gives_the_same_seeded_fits(which, tmp_path):
    """The features are switched off for NumPy and BLAS: first those of the newest kind, then all that can be."""
    features, kernels = processor()
    newest = [name for name in features if name.startswith("AVX512") or name == "X86_V4"]
    disabled = newest if which == "the newest" else features
    if not disabled:
        pytest.skip("NumPy chooses no code by a feature of this processor")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT.parent), str(Path(__file__).resolve().parents[2])]),
        "NPY_DISABLE_CPU_FEATURES": " ".join(disabled),
        "OPENBLAS_CORETYPE": kernels,
    }
    command = [sys.executable, "-W", "error::ImportWarning", "-m", "tools.golden", "--print"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    there = json.loads(done.stdout)
    different = [case.name for case in cases() if there[case.name] != summary(case)]
    assert different == []


# -- the sources ------------------------------------------------------------------------------------------------------

DECIDING = ("core", "engines", "kernels", "methods", "privacy", "synopsis", "wide")
DERIVED = {"core/intervals.py", "core/rounding.py", "synopsis/intervals.py"}  # what a release says; nothing is decided
ALLOWED = {
    ("synopsis/histogram.py", "(n / math.sqrt(math.log(n))) ** (2 * d / (2 + d))"): "one Python float; the C library",
    ("methods/mixture_moments.py", "2.0 ** units.product_shift"): "a power of two: exact",
    ("methods/mixture_moments.py", "2.0 ** units.sum_shift"): "a power of two: exact",
    ("methods/gupt.py", "n_records ** 0.4"): "one Python float; the C library",
    ("synopsis/grid.py", "(3 / k) ** self.unit_exponent"): "one Python float; the C library",
    ("synopsis/grid.py", "(n * float(epsilon) / unit) ** (2 * d / (2 + d))"): "one Python float; the C library",
    ("synopsis/smoothing.py", "float(parts) ** int(wide.sum())"): "a small whole number to a whole power: exact",
    ("kernels/block_pruning.py", "side ** d"): "whole numbers",
    ("synopsis/zoom.py", "grid ** d"): "whole numbers",
    ("wide/queries.py", "rows.T @ rows"): "whole numbers whose sums stay below 2^53: exact in any order",
}
"""Powers and products that may be written, each with its reason."""


def whole(node: ast.expr) -> bool:
    """A whole number as it is written."""
    return ast.unparse(node).strip("-()").isdigit()


def is_compiled(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and any(ast.unparse(d) == "compiled" for d in node.decorator_list)


def suspects(tree: ast.AST, compiled: bool = False) -> Iterator[str]:
    """Code whose last place, or whose order of ties, depends on the processor.

    In compiled functions, special functions come from the C library; products would still go to BLAS.
    """
    for node in ast.iter_child_nodes(tree):
        text = ast.unparse(node) if isinstance(node, ast.expr | ast.stmt) else ""
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
            yield text
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and not (whole(node.left) or whole(node.right)):
            yield text
        if isinstance(node, ast.Attribute):
            module = ast.unparse(node.value)
            if module in ("np", "numpy"):
                banned = PRODUCTS | {"linalg", "fft"} | (set() if compiled else DISPATCHED)
                if node.attr in banned:
                    yield text
            elif node.attr == "dot":
                yield text
        if isinstance(node, ast.ImportFrom | ast.Import) and "scipy" in text:
            yield text
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("argsort", "argpartition")):
            options = {option.arg: ast.unparse(option.value) for option in node.keywords}
            yield from [text] if options.get("kind") not in ("'stable'", "'mergesort'") else []  # two names of one
        yield from suspects(node, compiled or is_compiled(node))


SUSPECT = """
a @ b; np.exp(x); np.linalg.norm(x); x.dot(y); x ** y; 2.0 ** np.arange(3); x ** 0.5; import scipy; np.argsort(x)
from scipy.special import ndtri; x.argsort(); np.einsum("i,i", a, b)
@compiled
def f(a, b): return np.dot(a, b)
"""
INNOCENT = """
x ** 2; 2 ** n; math.exp(x); np.sqrt(x); x.sum(); np.argsort(x, kind="stable"); np.ldexp(1.0, n)
@compiled
def f(x): return np.exp(x)
"""


@pytest.mark.parametrize("statement", ast.parse(SUSPECT).body, ids=ast.unparse)
def test_the_check_of_the_sources_finds(statement):
    assert list(suspects(ast.Module([statement], [])))


@pytest.mark.parametrize("statement", ast.parse(INNOCENT).body, ids=ast.unparse)
def test_the_check_of_the_sources_lets_pass(statement):
    assert not list(suspects(ast.Module([statement], [])))


def test_no_source_that_decides_uses_what_depends_on_the_processor():
    found = {
        (path.relative_to(ROOT).as_posix(), text)
        for folder in DECIDING
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.relative_to(ROOT).as_posix() not in DERIVED
        for text in suspects(ast.parse(path.read_text()))
    }
    assert found - set(ALLOWED) == set()
    assert set(ALLOWED) - found == set(), "allowed, and no longer there"
