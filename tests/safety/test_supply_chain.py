"""What is installed is pinned by hash, and the oldest versions tested are the oldest promised."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PINNED = sorted((ROOT / "requirements").glob("*.txt"))


@pytest.mark.parametrize("path", PINNED, ids=lambda path: path.name)
def test_every_requirement_is_pinned_by_hash_and_no_file_holds_an_address(path):
    text = path.read_text()
    assert "://" not in text
    for block in re.split(r"\n(?=[a-z])", text.strip()):
        assert re.match(r"[a-z0-9._-]+==\S+", block), block[:80]
        assert "--hash=sha256:" in block, block[:80]


def test_the_oldest_versions_tested_are_the_lower_bounds():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = dict(re.findall(r"^([a-z-]+)==(\S+)$", (ROOT / "requirements" / "oldest.in").read_text(), re.MULTILINE))
    for requirement in project["dependencies"]:
        name, lowest = requirement.split(">=")
        assert pinned[name].startswith(lowest), name


def test_the_bill_of_materials_lists_what_is_installed_without_addresses():
    spec = importlib.util.spec_from_file_location("sbom", ROOT / "tools" / "sbom.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    bill = module.bill()
    names = {component["name"] for component in bill["components"]}
    assert {"numpy", "scipy", "scikit-learn", "numba", "opendp", "llvmlite"} <= names
    assert "pytest" not in names
    assert all(component["version"] for component in bill["components"])
    assert "://" not in json.dumps(bill)


def test_the_source_distribution_carries_what_its_tests_need(tmp_path):
    pytest.importorskip("hatchling")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        carried = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"pyproject.toml", "Makefile", "mkdocs.yml", *(path.name for path in ROOT.glob("*.md")), "CITATION.cff"}
    for folder in ("src", "tests", "benchmarks", "fuzz", "tools", "requirements", "proofs", "docs", "examples"):
        files = (path for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".md", ".json", ".txt", ".in"})
        needed |= {path.relative_to(ROOT).as_posix() for path in files}
    assert sorted(needed - carried) == []


def test_two_wheels_are_the_same_to_the_bit_and_carry_the_proofs(tmp_path):
    pytest.importorskip("hatchling")
    digests = []
    for name in ("first", "second"):
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / name)]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True, env=environment)
        (wheel,) = (tmp_path / name).glob("*.whl")
        digests.append(hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert digests[0] == digests[1]
    with zipfile.ZipFile(wheel) as archive:
        carried = {name for name in archive.namelist() if name.startswith("dpkmeans/proofs/")}
        metadata = archive.read(next(name for name in archive.namelist() if name.endswith("METADATA"))).decode()
    assert carried == {f"dpkmeans/proofs/{page.name}" for page in (ROOT / "proofs").glob("*.md")}
    assert "Provides-Extra: all" in metadata
    assert "Project-URL: Source" in metadata
    assert "Programming Language :: Python :: 3.14" in metadata
