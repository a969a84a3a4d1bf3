"""Settings that all tests share."""

from __future__ import annotations

import os
import sys

import pytest
from hypothesis import settings

# The first call of a kernel compiles it or reads it from the disk, and machines are shared: time proves nothing.
settings.register_profile("dpkmeans", deadline=None)
settings.load_profile("dpkmeans")


# Tests start hundreds of processes: each would compile the package's source again where bytecode is not kept.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With `--dist loadgroup` one process runs the tests on clusters, and starts Spark and Dask once for all."""
    for item in items:
        if item.get_closest_marker("cluster"):
            item.add_marker(pytest.mark.xdist_group("cluster"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Say so where pytest-xdist does not take groups over from marks, as with pytest 9.2: Spark would start twice."""
    if getattr(session.config.option, "loadgroup", False):
        cluster = [item.nodeid for item in session.items if item.get_closest_marker("cluster")]
        lost = [name for name in cluster if not name.endswith("@cluster")]
        if lost:
            raise pytest.UsageError(f"these tests must share a process and are in no group: {', '.join(lost)}")


def pytest_sessionfinish() -> None:
    """Stop what the tests of this process shared."""
    clusters = sys.modules.get("tests.engines.clusters")
    if clusters is not None:
        clusters.stop_started()
