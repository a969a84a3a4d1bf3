"""Every page: its fences have a kind that is checked, its commands parse or run, its words are spelled."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "proofs").glob("*.md")])
FENCES = re.compile(r"^(?: {4})?```(\w*)\n(.*?)^(?: {4})?```", re.DOTALL | re.MULTILINE)
KINDS = {"", "python", "text", "toml"}
TESTED_ELSEWHERE = {
    **dict.fromkeys(
        ("segments.md", "embeddings.md", "first_fit.md", "explore.md", "curator.md", "attack.md"), "notebooks"
    ),
    **dict.fromkeys(("README.md", "persons.md", "officer.md"), "tests/test_docs.py"),
    "add-a-method.md": "tests/examples",
    "clusters.md": "tests/engines/test_cluster_guide.py",
}
RUN = (
    "index.md",
    "scale.md",
    "synopsis.md",
    "uncertainty.md",
    "evaluation.md",
    "many-features.md",
    "audit.md",
    "reproduction.md",
)
PARSED_ONLY = {
    "dpkmeans audit all --quick": "minutes",
    "dpkmeans audit mutants --out audit.json": "a quarter of an hour; tests/audit/test_auditor.py runs it with 16 runs",
    "dpkmeans audit all --jobs 2 --out audit.json": "hours; make audit",
    "dpkmeans reproduce all --runs 300": "hours; a part of it runs",
    **{
        f"dpkmeans fit '{data}' --engine dask {where} --k 8 --bounds 0:100 --epsilon 1": "runs in test_cluster_guide.py"
        for data, where in (
            ("visits/*.parquet", "--workers 2 --memory 500MB"),
            ("/shared/visits/*.parquet", "--scheduler tcp://scheduler:8786"),
        )
    },
}
SHOWS_A_VIOLATION = 5
NOT_RUN = ("Dask(client", "my_method")  # runs in test_cluster_guide.py; stands for the reader's own


def fences(page: Path) -> list[tuple[str, str]]:
    return FENCES.findall(page.read_text("utf-8"))


def commands(page: Path) -> list[str]:
    lines = "".join(block for kind, block in fences(page) if not kind).replace("\\\n", " ").splitlines()
    return [line.partition(" #")[0].strip() for line in lines if line.startswith("dpkmeans ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_fence_says_what_it_holds_and_every_command_on_a_page_parses(page):
    from dpkmeans.cli.app import app

    assert page.read_text("utf-8").count("```") % 2 == 0
    assert {kind for kind, _ in fences(page)} <= KINDS
    for command in commands(page):
        app.parse_args(shlex.split(command)[1:], exit_on_error=False, print_error=False)


@pytest.mark.parametrize("name", RUN)
def test_the_examples_of_a_page_run_in_their_order(name, tmp_path, monkeypatch, capsys):
    from dpkmeans import Category, DPKMeans, Number
    from dpkmeans.cli.main import main

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = np.clip(rng.random((8, 2))[rng.integers(8, size=2000)] + 0.03 * rng.standard_normal((2000, 2)), 0, 1)
    visits = pd.DataFrame(100 * X, columns=["east", "north"])
    visits.to_csv("visits.csv", index=False)
    (tmp_path / "visits").mkdir()
    visits.to_parquet("visits/1.parquet")
    names: dict[str, Any] = {"frame": visits, "visits": visits, "X": X}
    if name == "uncertainty.md":
        names["release"] = DPKMeans(3, epsilon=1.0, bounds=(0, 1)).fit(X).release_
    if name == "evaluation.md":
        visits = visits.assign(region=rng.choice(["N", "S"], 2000), age=rng.integers(0, 100, 2000))
        visits.to_csv("visits.csv", index=False)
        bounds = {"east": (0, 100), "north": (0, 100)}
        names |= {"visits": visits, "Category": Category, "Number": Number}
        names["release"] = DPKMeans(3, epsilon=1.0, bounds=bounds).fit(visits).release_
        names["release"].save("model.json")
        (schema,) = (block for kind, block in fences(DOCS / name) if kind == "toml")
        (tmp_path / "other.toml").write_text(schema, "utf-8")
    if name == "reproduction.md":
        monkeypatch.setenv("DPKMEANS_DATA", str(tmp_path))
        np.savetxt("mine.csv", X[:90], delimiter=",")
    if name == "many-features.md":
        directions = rng.standard_normal((3, 30))[rng.integers(3, size=3000)] + 0.1 * rng.standard_normal((3000, 30))
        names["embeddings"] = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    for command in commands(DOCS / name):
        if command not in PARSED_ONLY:
            expected = SHOWS_A_VIOLATION if command.startswith("dpkmeans audit posterior") else 0
            assert main(shlex.split(command)[1:]) == expected, (command, capsys.readouterr().err)
    for kind, code in fences(DOCS / name):
        if kind == "python" and not any(word in code for word in NOT_RUN):
            exec(code, names)  # noqa: S102 (our own example)


def test_no_page_with_code_or_commands_is_forgotten():
    for page in PAGES:
        code = [block for kind, block in fences(page) if kind == "python"]
        if commands(page) or any(not any(word in block for word in NOT_RUN) for block in code):
            assert page.name in {*RUN, *TESTED_ELSEWHERE}, f"nothing runs the code of {page.name}"
    assert set(PARSED_ONLY) <= {command for name in RUN for command in commands(DOCS / name)}


def test_the_words_of_all_pages_are_spelled_as_dictionaries_have_them():
    pytest.importorskip("codespell_lib")
    folders = [ROOT / name for name in ("docs", "proofs", "src", "examples")]
    options = ["--skip", "*.json,*.png,*.svg,*.npz,*.toml", "--ignore-words", str(ROOT / "tools" / "spelling.txt")]
    targets = [*map(str, folders), *(str(page) for page in ROOT.glob("*.md"))]
    done = subprocess.run(
        [sys.executable, "-m", "codespell_lib", *options, *targets], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
