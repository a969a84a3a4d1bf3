"""The version stands in one place, and what repeats it agrees."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import dpkmeans

ROOT = Path(__file__).parents[1]


def test_the_package_takes_its_version_from_the_module():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert "version" not in project["project"]
    source = ROOT / project["tool"]["hatch"]["version"]["path"]
    assert f'__version__ = "{dpkmeans.__version__}"' in source.read_text()


def test_the_citation_and_the_changelog_name_this_version():
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (.+)$", citation, re.MULTILINE) == [dpkmeans.__version__]
    first = re.search(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first is not None
    assert first.group(1) == dpkmeans.__version__
