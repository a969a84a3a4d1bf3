"""A small data set of our own, so that nothing here needs the paper's files."""

from __future__ import annotations

import numpy as np
import pytest

from dpkmeans.reproduction.baselines import problem_of


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """Three blobs of 30 points in a folder that DPKMEANS_DATA names."""
    rng = np.random.default_rng(7)
    centres = np.array([[0, 0], [6, 1], [2, 7]])
    records = np.concatenate([centre + rng.standard_normal((30, 2)) for centre in centres])
    folder = tmp_path / "data"
    folder.mkdir()
    np.savetxt(folder / "tiny.csv", records, delimiter=",")
    monkeypatch.setenv("DPKMEANS_DATA", str(folder))
    problem_of.cache_clear()
    yield "tiny"
    problem_of.cache_clear()
