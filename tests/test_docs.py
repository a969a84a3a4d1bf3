"""What the documentation says runs: doctests, notebooks, examples in the help, schemas, pictures and the navigation."""

from __future__ import annotations

import doctest
import importlib
import json
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


def names_of_commands() -> list[str]:
    from dpkmeans.cli_commands import app

    names: list[str] = []
    for name in app:
        if name.startswith("-"):
            continue
        inner = [other for other in app[name] if not other.startswith("-")]
        names += [f"{name} {other}" for other in inner] or [name]
    return names


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


@pytest.mark.parametrize("command", names_of_commands())
def test_the_help_of_every_command_has_an_example_of_that_command(command, capsys):
    assert main([*command.split(), "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"Example: dpkmeans {command}" in shown


def problems(value: Any, schema: dict[str, Any], place: str = "$") -> list[str]:
    """Where `value` differs from a JSON schema; the few words that ours use."""
    if "anyOf" in schema:
        tries = [problems(value, one, place) for one in schema["anyOf"]]
        return [] if any(not one for one in tries) else tries[0]
    if "enum" in schema:
        return [] if value in schema["enum"] else [f"{place}: {value!r}"]
    kinds: dict[str, Any] = {
        "object": dict,
        "array": list,
        "string": str,
        "boolean": bool,
        "null": type(None),
        "integer": int,
        "number": (int, float),
    }
    if not isinstance(value, kinds[schema["type"]]) or (isinstance(value, bool) and schema["type"] != "boolean"):
        return [f"{place}: not {schema['type']}"]
    found: list[str] = []
    if schema["type"] == "array" and "items" in schema:
        for i, item in enumerate(value):
            found += problems(item, schema["items"], f"{place}[{i}]")
    if schema["type"] == "object" and "properties" in schema:
        found += [f"{place}: no {name}" for name in schema["required"] if name not in value]
        for name, item in value.items():
            known = schema["properties"].get(name)
            found += [f"{place}: unknown {name}"] if known is None else problems(item, known, f"{place}.{name}")
    return found


def printed(capsys: Any, *arguments: str) -> Any:
    assert main(list(arguments)) == 0
    return json.loads(capsys.readouterr().out)


def schema_of(command: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((DOCS / "schemas" / f"{command}.json").read_text("utf-8"))
    return schema


def test_what_the_commands_print_as_json_fits_the_published_schemas(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(c, 3, (400, 2)) for c in (20, 70)])
    data, model = tmp_path / "visits.csv", tmp_path / "model.json"
    np.savetxt(data, X, delimiter=",", header="east,north", comments="")
    bounded = ("fit", str(data), "--k", "2", "--bounds", "0:100", "--json")
    for more in (
        ("--epsilon", "1", "--method", "synopsis-prior", "--out", str(model)),
        ("--epsilon", "1", "--method", "su"),
        ("--method", "posterior", "--guarantee", "paper"),
        ("--method", "lloyd", "--guarantee", "none"),
    ):
        assert problems(printed(capsys, *bounded, *more), schema_of("fit")) == []
    assert problems(printed(capsys, "show", str(model), "--json"), schema_of("show")) == []
    assert problems(printed(capsys, "methods", "--json"), schema_of("methods")) == []
    plan = printed(capsys, "plan", "--records", "5000", "--features", "2", "--bounds", "0:10", "--json")
    assert problems(plan, schema_of("plan")) == []
    assert problems({"expectations": 3}, schema_of("plan")) != []
    report = tmp_path / "report.html"
    assert main(["report", str(model), "--out", str(report)]) == 0
    assert "What is guaranteed" in report.read_text("utf-8")


def test_the_demo_writes_its_picture_and_fits_its_schema(tmp_path, capsys):
    picture = tmp_path / "demo.png"
    shown = printed(capsys, "demo", "--out", str(tmp_path / "r.html"), "--picture", str(picture), "--json")
    assert problems(shown, schema_of("demo")) == []
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert (DOCS / "figures" / "demo.png").stat().st_size < 150_000


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
