"""Seeded fits give the same bits on every machine: those in golden.json. `python -m tools.golden` writes it anew."""

from __future__ import annotations

import json

import pytest
from tools.golden import GOLDEN, cases, summary

from dpkmeans.methods.registry import registry

EXPECTED = json.loads(GOLDEN.read_text())
CASES = {case.name: case for case in cases()}


def test_every_method_has_golden_results():
    assert EXPECTED.keys() == CASES.keys()
    assert {case.method for case in CASES.values()} >= set(registry())


@pytest.mark.parametrize("name", CASES)
def test_a_seeded_fit_gives_the_golden_bits(name):
    assert summary(CASES[name]) == EXPECTED[name]
