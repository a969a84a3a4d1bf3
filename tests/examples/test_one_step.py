"""The example package of the guide is installed and does what the guide says, down to the contract and the audit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "add-a-method.md").read_text("utf-8")
COMMANDS = [
    line
    for block in re.findall(r"^```text\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
    if not line.startswith("pip install")
]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the package installed into it, and records."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("one-step")
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target", str(folder / "site")]
    subprocess.run([sys.executable, *install, str(ROOT / "examples" / "one-step")], check=True, capture_output=True)
    rng = np.random.default_rng(0)
    visits = np.clip(100 * rng.random((3, 2))[rng.integers(3, size=3000)] + rng.standard_normal((3000, 2)), 0, 100)
    np.savetxt(folder / "visits.csv", visits, delimiter=",", header="east,north", comments="", fmt="%.3f")
    return folder


def ran(place, words, cwd):
    paths = [str(place / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "DPKMEANS_EXAMPLE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def test_every_command_of_the_guide_runs(place):
    said = []
    for command in COMMANDS:
        words = command.split()
        words = words[1:] if words[0] == "python" else words
        words = [word for word in words if word != "-m"] if command.startswith("python") else words
        fewer = ["-n", "0", "-q", "-p", "no:cacheprovider"] if words[0] == "pytest" else []
        said.append(ran(place, [*words, *fewer], ROOT if words[0] == "pytest" else place))
    assert [command.split()[1] for command in COMMANDS] == ["methods", "fit", "bench", "-m", "audit", "audit"]
    assert re.search(r"one-step\s.*proved\s+one-step 0\.1\.0", said[0])
    assert "The proof of OneStep is that of the package one_step, not of dpkmeans." in " ".join(said[1].split())
    assert re.search(r"one-step\s+proved\s+one-step 0\.1\.0", said[2])
    assert re.search(r"\d+ passed", said[3])
    assert "one-step" in said[4]


def test_the_tests_of_the_package_itself_pass(place):
    assert "4 passed" in ran(place, ["pytest", "-n", "0", "-q", "-p", "no:cacheprovider", "examples/one-step"], ROOT)


def test_the_code_in_the_guide_is_that_of_the_package():
    """Every line of the guide's method stands in the package, but for types and the width of features."""
    package = (ROOT / "examples/one-step/src/one_step/__init__.py").read_text("utf-8")
    code = re.findall(r"^```python\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)
    names: dict[str, object] = {}
    for block in code:
        exec(block, names)  # noqa: S102 (our own example)
    for line in code[0].splitlines():
        if line.strip() and not line.strip().startswith(("def run", "sums =", "means =", "from ", "import ")):
            assert line.strip() in package, line
