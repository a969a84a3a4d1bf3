"""Settings that all tests share."""

from __future__ import annotations

import sys

from hypothesis import settings

# The first call of a kernel compiles it or reads it from the disk, and machines are shared: time proves nothing.
settings.register_profile("dpkmeans", deadline=None)
settings.load_profile("dpkmeans")


def pytest_sessionfinish() -> None:
    """Stop what the tests of this process shared."""
    clusters = sys.modules.get("tests.engines.clusters")
    if clusters is not None:
        clusters.stop_started()
