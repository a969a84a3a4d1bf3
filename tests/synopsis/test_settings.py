"""The table of constants is complete, and each constant is explained."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from dpkmeans.synopsis import settings

ROOT = Path(__file__).parents[2]
TABLE = Path(settings.__file__)
FORMATS = {"KIND", "VERSION", "UNIT"}  # of files and of queries: they are not choices


def constants(path: Path) -> list[str]:
    targets = [t for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign) for t in node.targets]
    names = [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]
    return [name for name in names if name.isupper()]


def test_every_constant_has_a_unit_and_a_section_of_the_decision_that_explains_it():
    page = (ROOT / "docs/decisions/0001-synopsis.md").read_text()
    titles = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    anchors = {re.sub(r"[^a-z-]", "", title.lower().replace(" ", "-")) for title in titles}
    section = None
    for line in TABLE.read_text().splitlines():
        if line.startswith("# #"):
            section = line[3:]
            assert section in anchors
        elif re.match(r"[A-Z_, ]+ = ", line):
            assert section is not None, line
            assert "  # " in line, line


def test_no_other_module_of_the_synopsis_has_constants():
    found = {path.name: set(constants(path)) - FORMATS for path in TABLE.parent.glob("*.py") if path != TABLE}
    assert {name: names for name, names in found.items() if names} == {
        "box_fit.py": {"QUARTERS"},  # two of which are a half
        "method.py": {"UNIFORM"},  # a grid made of these constants
        "posterior.py": {"MOST_EXPONENT", "HUGE", "DOWN"},  # the range of float64
        "recentre.py": {"LABEL"},  # what an entry of the ledger is called
        "verify.py": {"TOLERANCE", "MAX_APART", "EDGE"},
        "zoom.py": {"SIDE"},  # the same
    }


def test_every_constant_is_used():
    code = "".join(path.read_text() for path in TABLE.parent.glob("*.py") if path != TABLE)
    assert [name for name in constants(TABLE) if not re.search(rf"\b{name}\b", code)] == []
