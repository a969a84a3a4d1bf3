"""What the documentation says runs: doctests, notebooks, examples in the help, the navigation, planning."""

from __future__ import annotations

import doctest
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.py"))
MODULES = sorted(
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    for path in (ROOT / "src").rglob("*.py")
    if ">>> " in path.read_text("utf-8")
)


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_in_docstrings_run(module):
    found = doctest.testmod(importlib.import_module(module), extraglobs={"np": np})
    assert found.attempted > 0
    assert found.failed == 0


def test_the_notebooks_are_these():
    stems = ["attack", "curator", "embeddings", "explore", "first_fit", "segments", "zones"]
    assert [path.stem for path in NOTEBOOKS] == stems


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebooks_run_from_top_to_bottom(notebook, tmp_path):
    environment = {**os.environ, "DPKMEANS_FIGURES": str(tmp_path), "MPLBACKEND": "agg"}
    done = subprocess.run(
        [sys.executable, str(notebook)], capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "outputs"),
    [("segments", 8), ("embeddings", 5), ("first_fit", 3), ("explore", 3), ("curator", 3), ("attack", 2)],
)
def test_the_page_of_a_notebook_is_the_notebook(name, outputs):
    from tools.notebook_page import cells_of, page, without_outputs

    cells = cells_of((DOCS / "notebooks" / f"{name}.py").read_text("utf-8"))
    written = (DOCS / f"{name}.md").read_text("utf-8")
    assert without_outputs(written) == page(name, cells, [""] * len(cells)), (
        f"run: python tools/notebook_page.py {name}"
    )
    assert written.count("```text") >= outputs  # and it shows what the cells print


def test_every_page_is_in_the_navigation_and_every_link_leads_somewhere():
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8")
    pages = sorted(DOCS.rglob("*.md"))
    for page in pages:
        assert f"{page.relative_to(DOCS).as_posix()}\n" in navigation, f"{page.name} is not in mkdocs.yml"
    for name in re.findall(r": ([\w/.-]+\.md)\n", navigation):
        assert (DOCS / name).is_file() or (ROOT / name).is_file(), name
    for page in (ROOT / "proofs").glob("*.md"):
        assert f"proofs/{page.name}\n" in navigation, f"{page.name} is not in mkdocs.yml"
    for page in (*pages, *ROOT.glob("*.md"), *(ROOT / "proofs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


SCHEMA = """
age = {kind = "number", lower = 0, upper = 120}
income = {kind = "number", lower = 0, upper = 2e5}
region = {kind = "category", levels = ["N", "S", "E"]}
"""


def test_the_examples_of_the_readme_run(tmp_path, monkeypatch, capsys):
    """The commands in their order, with a schema that is filled in when it was made, then the Python code."""
    from dpkmeans.cli.main import main

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"customer_id": range(2000), "age": rng.normal(40, 9, 2000).round(1)})
    frame = frame.assign(income=1000 * frame["age"], region=rng.choice(["N", "S", "E"], 2000))
    frame.to_csv("customers.csv", index=False)
    commands, (code,) = examples_of(ROOT / "README.md")
    assert [command.split()[1] for command in commands] == ["plan", "schema", "ledger", "fit", "show"]
    for command in commands:
        assert main(shlex.split(command, comments=True)[1:]) == 0, capsys.readouterr().err
        if command.startswith("dpkmeans schema"):
            assert "income" in Path("schema.toml").read_text("utf-8")
            Path("schema.toml").write_text(SCHEMA, "utf-8")
    names: dict[str, Any] = {"frame": frame}
    exec(code, names)  # noqa: S102 (our own example)
    assert len([line for line in code.splitlines() if line]) <= 6
    assert "Proved: 1-differential privacy" in capsys.readouterr().out
    assert names["model"].release_.epsilon_spent == 1.0


def examples_of(page: Path) -> tuple[list[str], list[str]]:
    """The commands on a page, and its blocks of Python code."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    lines = "".join(block for kind, block in blocks if not kind).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.startswith("dpkmeans ")], [
        block for kind, block in blocks if kind == "python"
    ]


def test_the_examples_of_the_page_on_persons_run(tmp_path, monkeypatch, capsys):
    from dpkmeans.cli.main import main

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    visits = pd.DataFrame({"patient": rng.integers(0, 900, 3000), "x": rng.random(3000), "y": rng.random(3000)})
    visits.to_parquet("visits.parquet")
    commands, (code,) = examples_of(DOCS / "persons.md")
    assert [command.split()[1] for command in commands] == ["plan", "ledger", "fit", "fit", "ledger"]
    said = []
    for command in commands:
        assert main(shlex.split(command, comments=True)[1:]) == 0, capsys.readouterr().err
        said.append(" ".join(capsys.readouterr().out.split()))
    assert "all rows of one person (at most 5 of which count)" in said[2]
    assert "all rows of one person (whose mean counts)" in said[3]
    assert re.search(r"visits person 2 1\.5 0\.5", said[4]), said[4]
    exec(code, {"visits": visits})  # noqa: S102 (our own example)
    shown = " ".join(line.removeprefix("# ") for line in code.splitlines() if line.startswith("# "))
    assert shown in " ".join(capsys.readouterr().out.split())


def test_the_ten_steps_of_the_officer_run(tmp_path, monkeypatch, capsys):
    """First what the page has a curator do, then its ten commands, each of which must succeed and say what it found."""
    from dpkmeans.cli.main import main
    from dpkmeans.core.epsilon import Epsilon
    from dpkmeans.privacy.durable.ledger import DurableLedger

    pytest.importorskip("cryptography")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    pd.DataFrame(rng.normal(50, 9, (3000, 2)), columns=["east", "north"]).to_csv("visits.csv", index=False)
    page = (DOCS / "officer.md").read_text("utf-8")
    before = re.findall(r"^```text\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[0].replace("\\\n", " ")
    for command in before.splitlines():
        command += " --analyst grace" if command.startswith("dpkmeans fit") else ""
        if command.startswith("dpkmeans fit"):
            noted = DurableLedger("ledger.db").head()
            shutil.copy("ledger.db", "older.db")
        assert main(shlex.split(command.replace("0.5 --for", "1.5 --for"))[1:]) == 0, capsys.readouterr().err
    open_fit = {"fit": "never-ended", "label": "synopsis"}
    DurableLedger("ledger.db", analyst="grace", key="curator.key").reserve("visits", Epsilon.of(0.1), **open_fit)
    Path("curator.key").rename("away")  # an officer has no private key
    steps = re.findall(r"^\*\*(\d+)\..*?^```\n(dpkmeans [^\n]*)\n```", page, re.DOTALL | re.MULTILINE)
    commands = [command.replace("HEX", noted) for _, command in steps]
    assert [int(number) for number, _ in steps] == list(range(1, 11))
    assert [command for _, command in steps] == examples_of(DOCS / "officer.md")[0]
    said = []
    for command in commands:
        capsys.readouterr()
        assert main(shlex.split(command)[1:]) == 0, (command, capsys.readouterr().err)
        said.append(capsys.readouterr().out)
    assert said[0].startswith("Proved: 1-differential privacy")
    assert "who signed it (key " in said[1].splitlines()[-1]
    assert "holds: it is signed by the key given" in said[2]
    assert "holds: the ledger keeps its digest" in said[3]
    assert "its entry in ledger.db. Only claimed: when" in said[3].splitlines()[-1]
    assert "(the key given)" in said[4]
    assert said[5] == said[4]  # the same chain, which has the head that was noted before
    head = said[4].splitlines()[-1].removeprefix("head: ")
    assert main(shlex.split(commands[5].replace("ledger.db", "older.db").replace(noted, head))[1:]) == 4
    assert "entries were removed, or it is the head of another ledger" in capsys.readouterr().err
    assert re.search(r"fit not settled.*never-ended +visits +grace", said[7], re.DOTALL), said[7]
    assert "in eight of ten cases" in said[8]


def documented() -> dict[str, Any]:
    """What a user calls: exported names, plots, and methods of the estimator and the synopsis."""
    import dpkmeans
    from dpkmeans import plot
    from dpkmeans.planning import advice as planning

    found = {name: getattr(dpkmeans, name) for name in dpkmeans.__all__ if name != "__version__"}
    found |= {f"plot.{name}": getattr(plot, name) for name in plot.__all__}
    found["planning.plan"] = planning.plan
    estimator, made = dpkmeans.DPKMeans, dpkmeans.Synopsis
    found |= {
        f"DPKMeans.{name}": getattr(estimator, name) for name in ("fit", "predict", "transform", "score", "report")
    }
    return found | {f"Synopsis.{name}": getattr(made, name) for name in ("fit", "explore", "save", "load")}


@pytest.mark.parametrize(("name", "thing"), documented().items(), ids=documented())
def test_the_docstring_of_what_users_call_has_an_example_and_says_what_is_guaranteed(name, thing):
    text = thing.__doc__
    assert ">>> " in text
    assert "Guarantee:" in text or "guarantee:" in text or "Not private" in text


def test_the_tables_of_the_readme_are_those_of_the_pages_they_come_from():
    from tools.readme_tables import SOURCES, refreshed, table_with

    readme = (ROOT / "README.md").read_text("utf-8")
    assert refreshed(readme) == readme, "run: python tools/readme_tables.py"
    for column in SOURCES:
        assert len(table_with(readme, column)[1]) >= 3
    rows = table_with(readme, "`synopsis`")[1]
    drifted = readme.replace(" | ".join(rows[0]), " | ".join([*rows[0][:-1], "0.5"]))
    assert drifted != readme
    assert refreshed(drifted) == readme
    with pytest.raises(ValueError, match="has no row"):
        refreshed(readme.replace(f"| {rows[0][0]} |", "| Mars |"))
