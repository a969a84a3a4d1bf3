"""What the documentation says runs: doctests, notebooks, examples in the help, the navigation, planning."""

from __future__ import annotations

import doctest
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpkmeans.cli import main

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


def test_there_are_four_notebooks():
    assert [path.stem for path in NOTEBOOKS] == ["attack", "explore", "first_fit", "zones"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebooks_run_from_top_to_bottom(notebook, tmp_path):
    environment = {**os.environ, "DPKMEANS_FIGURES": str(tmp_path), "MPLBACKEND": "agg"}
    done = subprocess.run(
        [sys.executable, str(notebook)], capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr


def test_every_page_is_in_the_navigation_and_every_link_leads_somewhere():
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8")
    pages = sorted(DOCS.rglob("*.md"))
    for page in pages:
        assert f"{page.relative_to(DOCS).as_posix()}\n" in navigation, f"{page.name} is not in mkdocs.yml"
    for name in re.findall(r": ([\w/.-]+\.md)\n", navigation):
        assert (DOCS / name).is_file(), name
    for page in (*pages, ROOT / "README.md"):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_a_plan_expects_less_loss_from_more_epsilon_and_reads_nothing(capsys):
    from dpkmeans.errors import MethodError
    from dpkmeans.planning import plan

    advice = plan(50_000, 4, 8, [2.0, 0.1], [(0.0, 10.0)] * 4)
    losses = [e.loss for e in advice.expectations if e.method == "synopsis"]
    assert losses[0] > losses[1]
    assert all(e.low <= e.loss <= e.high for e in advice.expectations)
    assert advice.noise[0].deviation == pytest.approx(20 * advice.noise[-1].deviation)
    assert "Do not expect" in plan(50, 4, 8, [0.1]).recommendation
    with pytest.raises(MethodError, match="records must be at least 1"):
        plan(0, 4, 8, [0.1])
    with pytest.raises(MethodError, match="at least one epsilon"):
        plan(10, 4, 8, [])
    assert main(["plan", "--records", "50000", "--features", "4", "--k", "8", "--epsilon", "0.1", "1"]) == 0
    assert "synopsis" in capsys.readouterr().out
    assert main(["plan", "--records", "50", "--features", "4", "--bounds", "from data"]) == 2


def documented() -> dict[str, Any]:
    """What a user calls: exported names, plots, and methods of the estimator and the synopsis."""
    import dpkmeans
    from dpkmeans import planning, plot

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
