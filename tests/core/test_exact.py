from __future__ import annotations

import operator
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dpkmeans.core import exact as module
from dpkmeans.core.exact import Exact, reveal

SECRET = 31415926


def test_an_exact_value_has_no_text():
    value = Exact(SECRET)
    for text in (repr(value), str(value), f"{value}", f"{[value]}"):
        assert str(SECRET) not in text


@pytest.mark.parametrize("compare", [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge])
def test_an_exact_value_cannot_be_compared(compare):
    with pytest.raises(TypeError, match="mechanism"):
        compare(Exact(SECRET), SECRET)


def test_an_exact_value_cannot_be_branched_on_or_hashed():
    with pytest.raises(TypeError, match="mechanism"):
        bool(Exact(SECRET))
    with pytest.raises(TypeError):
        hash(Exact(SECRET))


@pytest.mark.parametrize("use", [int, float, len, iter, lambda value: value + 1, lambda value: value[0]])
def test_an_exact_value_cannot_be_used_as_a_number_or_an_array(use):
    with pytest.raises(TypeError):
        use(Exact(np.array([SECRET])))


def test_a_mapped_value_stays_exact():
    doubled = Exact(SECRET).map(lambda value: 2 * value)
    assert isinstance(doubled, Exact)
    assert reveal(doubled, why="test") == 2 * SECRET


def test_nothing_is_revealed_without_a_reason():
    with pytest.raises(AssertionError):
        reveal(Exact(SECRET), why="")


def test_a_leak_is_a_type_error(tmp_path):
    pytest.importorskip("mypy")
    shutil.copy(Path(module.__file__), tmp_path / "exact.py")
    leak = "from exact import Exact\ndef publish(count: int) -> None: ...\npublish({})\n"
    (tmp_path / "leak.py").write_text(leak.format("Exact(3)"))
    (tmp_path / "fine.py").write_text(leak.format("3"))
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir=cache"]

    fine = subprocess.run([*command, "fine.py"], cwd=tmp_path, capture_output=True, text=True)
    caught = subprocess.run([*command, "leak.py"], cwd=tmp_path, capture_output=True, text=True)

    assert fine.returncode == 0, fine.stdout
    assert caught.returncode == 1
    assert 'incompatible type "Exact[int]"; expected "int"' in caught.stdout
