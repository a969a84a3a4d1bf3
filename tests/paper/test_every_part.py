"""The page docs/paper.md names every part of the paper, and what it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split(" | "))
    for line in (ROOT / "docs" / "paper.md").read_text("utf-8").splitlines()
    if line.startswith("| ") and not line.startswith(("| part of the paper", "| ---"))
]
PARTS = [
    *(f"Definition: {name}" for name in ("ε-DP", "exponential mechanism", "convergence", "convergence degree")),
    *(f"Definition: {name}" for name in ("convergent and sampling zones", "orientation controller")),
    *(f"Equation: {name}" for name in ("local sensitivity", "k-means cost")),
    *(f"Algorithm 1, input: {name}" for name in ("ε by cluster and step", "Pr[P] and q")),
    *(f"Algorithm 1, line {i}:" for i in (*range(1, 10), 12)),
    *(f"Algorithm 2, {name}" for name in ("useFuture", "Y:", "γ:", "X:", "M and P", "centre and radius")),
    "Each party samples its own Ŝ",
    "Design rules: truncated Laplace",
    "The final centroid S^(t+r) as controller",
    *(f"Lemma {i}" for i in (1, 2, 3)),
    "Lemma 1, proof",
    "Appendix: the cost identity",
    *(f"Theorem {i}" for i in range(1, 6)),
    "Theorem 2, proof",
    *(f"Experiments: {name}" for name in ("the six", "clustering quality", "convergence degree", "iterations")),
    *(f"Cited: {name}" for name in ("Lloyd", "Blum", "Dwork", "Lei", "Mohan", "Park", "Zhang")),
    *(f"Cited: Su et al. {year}" for year in (2016, 2017)),
    *(
        f"Cited: {name}"
        for name in ("Lu and Shen 2019", "Dwork et al. 2006", "McSherry and Talwar", "Nissim", "McSherry 2009")
    ),
]


@pytest.mark.parametrize("part", PARTS)
def test_every_part_of_the_paper_has_a_row(part):
    assert [name for name, _, _ in ROWS if name.startswith(part)]


@pytest.mark.parametrize(("part", "where", "test"), ROWS, ids=[row[0] for row in ROWS])
def test_what_a_row_names_exists(part, where, test):
    """Each module, each name in brackets that is in one of them, and each test."""
    sources = [ROOT / "src" / "dpkmeans" / name for name in re.findall(r"`([\w/]+\.(?:py|toml))`", where)]
    assert sources
    text = "".join(path.read_text("utf-8") for path in sources)
    for names in re.findall(r"\(([^)]+)\)", where):
        for name in re.findall(r"`([\w.]+)`", names.replace("label `paper`", "")):
            assert name.split(".")[-1] in text, name
    path, _, function = test.strip("`").partition("::")
    assert f"def {function}" in (ROOT / path).read_text("utf-8")


def test_the_cited_systems_are_in_the_registry():
    from dpkmeans.methods.registry import registry

    assert {"lloyd", "blum", "dwork", "gupt", "privgene", "su", "eugkm", "su-hybrid", "lei", "dp-em"} <= set(registry())
