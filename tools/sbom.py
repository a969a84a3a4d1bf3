"""Write a software bill of materials (CycloneDX 1.5, JSON) for what a user of dpkmeans installs.

    python tools/sbom.py sbom.json

Names and versions come from the pinned requirements, hashes too; licences from the installed metadata. The closure
starts at the core dependencies and the extras `cli`, `files` and `report`. It holds no address.
"""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any

EXTRAS = ("cli", "files", "report")
PINNED = Path(__file__).parents[1] / "requirements" / "dev.txt"


def main() -> int:
    """Write the file named on the command line, or print."""
    text = json.dumps(bill(), indent=1) + "\n"
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text)
        print(f"{sys.argv[1]}: {len(json.loads(text)['components'])} components")
    else:
        print(text, end="")
    return 0


def bill() -> dict[str, Any]:
    """The whole document."""
    hashes = pinned(PINNED.read_text())
    graph = closure("dpkmeans", EXTRAS)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component("dpkmeans", "application", {})},
        "components": [component(name, "library", hashes) for name in sorted(graph) if name != "dpkmeans"],
        "dependencies": [
            {"ref": reference(name), "dependsOn": [reference(other) for other in sorted(needs)]}
            for name, needs in sorted(graph.items())
        ],
    }


def component(name: str, kind: str, hashes: dict[str, list[str]]) -> dict[str, Any]:
    """One package: name, version, licence, hashes of its pinned files."""
    metadata = distribution(name).metadata.json
    licence = str(metadata.get("license_expression") or metadata.get("license") or "")
    found: dict[str, Any] = {"type": kind, "bom-ref": reference(name), "name": name, "version": version(name)}
    found["purl"] = reference(name)
    if licence and len(licence) < 100 and "\n" not in licence and "://" not in licence:
        found["licenses"] = [{"license": {"name": licence}}]
    if name in hashes:
        found["hashes"] = [{"alg": "SHA-256", "content": digest} for digest in hashes[name]]
    return found


def closure(root: str, extras: tuple[str, ...]) -> dict[str, set[str]]:
    """What is installed of everything that `root` needs, and who needs what."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    graph: dict[str, set[str]] = {}
    todo: list[tuple[str, tuple[str, ...]]] = [(root, extras)]
    while todo:
        name, wanted = todo.pop()
        needs = graph.setdefault(name, set())
        for line in distribution(name).requires or ():
            need = Requirement(line)
            if need.marker and not any(need.marker.evaluate({"extra": extra}) for extra in ("", *wanted)):
                continue
            other = str(canonicalize_name(need.name))
            try:
                version(other)
            except PackageNotFoundError:
                continue
            needs.add(other)
            if other not in graph:
                todo.append((other, tuple(need.extras)))
    return graph


def reference(name: str) -> str:
    """The package URL, which names a package and points nowhere."""
    return f"pkg:pypi/{name}@{version(name)}"


def pinned(text: str) -> dict[str, list[str]]:
    """The hashes of each pinned package."""
    found: dict[str, list[str]] = {}
    for block in re.split(r"\n(?=\S)", text):
        name = re.match(r"([a-z0-9-]+)==", block)
        if name:
            found[name[1]] = re.findall(r"--hash=sha256:([0-9a-f]{64})", block)
    return found


if __name__ == "__main__":
    sys.exit(main())
