"""Every promise of SECURITY.md names a test, and every test that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text()
FOLDERS = ("", "tests/safety/", "tests/privacy/durable/")
ROW = re.compile(r"^\| (?!promise|---|label|what)(.+) \| (.+) \|$", re.MULTILINE)


def promises() -> list[tuple[str, str]]:
    section = PAGE.split("## What the library promises besides")[1].split("\n### ")[0]
    return ROW.findall(section)


def file_of(name: str) -> Path:
    found = [ROOT / folder / name for folder in FOLDERS if (ROOT / folder / name).exists()]
    assert found, f"{name} is not there"
    return found[0]


def test_every_promise_names_a_test_that_is_there():
    assert len(promises()) > 20
    for promise, evidence in promises():
        path, named = None, re.findall(r"`([^`]+)`", evidence)
        assert named, f"{promise}: no test is named"
        for name in named:
            if name.startswith("make "):
                assert f"\n{name.removeprefix('make ')}:" in (ROOT / "Makefile").read_text(), name
                continue
            file, _, test = name.partition("::") if ".py" in name else ("", "", name)
            path = file_of(file) if file else path
            assert path is not None, name
            assert not test or f"def {test}(" in path.read_text(), f"{path} has no {test}"
