"""What every command prints with --json fits the schema that the documentation publishes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.schemas import problems

from dpkmeans.cli.main import main
from dpkmeans.reproduction.baselines import problem_of

DOCS = Path(__file__).resolve().parents[2] / "docs"
BOX = "--bounds 0:100"
CALLS = {
    "fit": (
        f"fit visits.csv --header --k 2 {BOX} --epsilon 1",
        f"fit visits.csv --header --k 2 {BOX} --epsilon 1 --method synopsis-prior",
        f"fit visits.csv --header --k 2 {BOX} --epsilon 1 --method su",
        "fit visits.csv --columns east,north --k 2 --bounds-epsilon 0.2 --scale box --epsilon 2",
        f"fit visits.csv --header --k 2 {BOX} --method posterior --guarantee paper",
        f"fit visits.csv --header --k 2 {BOX} --method lloyd --guarantee none",
    ),
    "predict": ("predict model.json visits.csv", "predict model.json visits.csv --keep east,north"),
    "show": ("show model.json",),
    "show-verify": ("show model.json --verify",),
    "show-registry": ("show model.json --registry", "show model.json --registry --contact a@b.example"),
    "report": ("report model.json --out again.html",),
    "quality": ("quality model.json visits.csv --epsilon 0.1",),
    "profile": ("profile model.json visits.csv --columns east --bins 4 --epsilon 0.2",),
    "synopsis": (f"synopsis visits.csv --header --epsilon 1 {BOX} --out other.json",),
    "explore": ("explore synopsis.json --k 2:3",),
    "plan": (
        "plan --records 5000 --features 2 --bounds 0:10",
        "plan --records 50 --features 30 --k 60 --epsilon 0.01 --delta 1e-6",
        "plan --records 50000 --features 4 --loss-at-most 2%",
    ),
    "ledger-create": ("ledger create new.db --dataset visits --cap 2",),
    "ledger-cap": ("ledger cap ledger.db --dataset visits --cap 4",),
    "ledger-show": ("ledger show ledger.db", "ledger show ledger.db --dataset visits"),
    "ledger-export": ("ledger export ledger.db",),
    "ledger-verify": ("ledger verify ledger.db",),
    "ledger-head": ("ledger head ledger.db",),
    "ledger-recover": ("ledger recover ledger.db",),
    "ledger-sign": ("ledger sign other.db --sign curator.key",),
    "key-create": ("key create second.key",),
    "methods": ("methods",),
    "demo": ("demo --out demo.html",),
    "bench": (f"bench visits.csv --header --k 2 {BOX} --epsilon 1 --methods synopsis,posterior --runs 1",),
    "schema": ("schema visits.csv --header", "schema visits.csv --no-header --out schema.toml --force"),
    "audit": ("audit laplace --runs 64 --jobs 1",),
    "audit-replay": ("audit dwork --replay --pairs 3",),
    "reproduce": (
        "reproduce --dataset tiny --k 2 --runs 2 --epsilons 0.5 --methods posterior,prior,su --jobs 1 --out results",
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    """Records, a model, a synopsis and a ledger with a fit in it."""
    place: Path = tmp_path_factory.mktemp("schemas")
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(c, 3, (1000, 2)) for c in (20, 70)])
    np.savetxt(place / "visits.csv", X, delimiter=",", header="east,north", comments="")
    np.savetxt(place / "tiny.csv", X[::20], delimiter=",")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for line in (
            "ledger create ledger.db --dataset visits --cap 3",
            "ledger create other.db --dataset visits --cap 3",
            "key create curator.key",
            f"fit visits.csv --header --k 2 {BOX} --epsilon 1 --out model.json --ledger ledger.db --dataset visits",
            f"synopsis visits.csv --header --epsilon 1 {BOX} --out synopsis.json",
        ):
            assert main(line.split()) == 0
    return place


def names_of_commands() -> list[str]:
    from dpkmeans.cli.app import app

    names: list[str] = []
    for name in app:
        if name.startswith("-"):
            continue
        inner = [other for other in app[name] if not other.startswith("-")]
        names += [f"{name} {other}" for other in inner] or [name]
    return names


def schema_of(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((DOCS / "schemas" / f"{name}.json").read_text("utf-8"))
    return schema


@pytest.mark.parametrize("name", CALLS)
def test_what_a_command_prints_as_json_fits_its_schema(name, folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("DPKMEANS_DATA", str(folder))
    problem_of.cache_clear()
    for line in CALLS[name]:
        assert main([*line.split(), "--json"]) == 0
        printed = json.loads(capsys.readouterr().out)
        assert printed
        assert problems(printed, schema_of(name)) == []
    problem_of.cache_clear()


def test_every_command_has_json_a_schema_and_a_call_here_and_the_reference_names_it():
    reference = (DOCS / "reference.md").read_text("utf-8")
    commands = {command.replace(" ", "-") for command in names_of_commands()} | {
        "show-verify",
        "show-registry",
        "audit-replay",
    }
    assert {path.stem for path in (DOCS / "schemas").glob("*.json")} == commands
    assert set(CALLS) == commands
    for command in commands:
        assert f"(schemas/{command}.json)" in reference


@pytest.mark.parametrize("command", names_of_commands())
def test_the_help_of_every_command_has_json_and_an_example_of_that_command(command, capsys):
    assert main([*command.split(), "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"Example: dpkmeans {command}" in shown
    assert "--json" in shown


def test_the_demo_draws_the_picture_of_the_readme_and_that_one_is_small(tmp_path, capsys):
    picture = tmp_path / "demo.png"
    assert main(["demo", "--out", str(tmp_path / "r.html"), "--picture", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert (DOCS / "figures" / "demo.png").stat().st_size < 150_000


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ("3", {"type": "number"}),
        (True, {"type": "integer"}),
        (2, {"enum": [1, "two"]}),
        ([1, None], {"type": "array", "items": {"type": "number"}}),
        ({}, {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]}),
        ({"b": 1}, {"type": "object", "properties": {}, "additionalProperties": False}),
        ({"b": 1}, {"type": "object", "additionalProperties": {"type": "string"}}),
        (1, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
    ],
)
def test_the_checker_of_schemas_finds_what_is_wrong(value, schema):
    assert problems(value, schema) != []


def test_the_checker_of_schemas_refuses_a_word_it_does_not_know():
    with pytest.raises(ValueError, match="minimum"):
        problems(1, {"type": "number", "minimum": 2})
