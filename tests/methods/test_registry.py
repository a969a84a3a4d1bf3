from __future__ import annotations

import numpy as np
import pytest

import dpkmeans.methods.registry as methods
from dpkmeans import DPKMeans
from dpkmeans.core.guarantee import LABELS
from dpkmeans.errors import MethodError
from dpkmeans.methods.lloyd import lloyd
from dpkmeans.methods.registry import ENTRY_POINT_GROUP, MethodSpec, make_method, registry

X = np.random.default_rng(0).random((50, 2))


class Point:
    def __init__(self, name, value):
        self.name, self.value = name, value

    def load(self):
        return self.value


@pytest.fixture
def installed(monkeypatch):
    """Pretend that a package with these entry points is installed."""

    def install(*points):
        monkeypatch.setattr(methods, "entry_points", lambda group: points if group == ENTRY_POINT_GROUP else ())
        registry.cache_clear()

    yield install
    monkeypatch.undo()
    registry.cache_clear()


def test_another_package_can_add_a_method(installed):
    installed(Point("mine", MethodSpec("mine", lloyd, "none", "Lloyd under another name", "me")))
    assert "mine" in registry()
    assert DPKMeans(2, method="mine", bounds=(0, 1), guarantee="none", max_iter=99).fit(X).release_.n_iter >= 1


def test_another_package_cannot_replace_a_method(installed):
    ours = registry()["posterior"]
    installed(Point("posterior", MethodSpec("posterior", lloyd, "paper", "not the real one", "me")))
    assert registry()["posterior"] is ours


def test_an_entry_point_that_is_no_entry_is_refused_by_name(installed):
    installed(Point("broken", lloyd))
    with pytest.raises(MethodError, match=r"'broken' must be a dpkmeans\.methods\.registry\.MethodSpec"):
        registry()


@pytest.mark.parametrize("name", ["lloyd", "posterior", "prior", "su", "blum", "dwork", "gupt", "privgene"])
def test_every_method_is_registered_with_the_label_that_it_offers(name):
    entry = registry()[name]
    assert entry.guarantee in LABELS
    assert make_method(name).claim.label == entry.guarantee
    assert make_method(name).name == name
    assert entry.summary
    assert entry.source


def test_options_that_are_none_are_left_to_the_method():
    assert make_method("lloyd", max_iter=None, init=None) == lloyd()


def test_unknown_options_are_refused_with_those_there_are():
    with pytest.raises(MethodError, match=r"steps is not for method 'lloyd'\. It takes init and max_iter"):
        make_method("lloyd", steps=3)
