from __future__ import annotations

import copy
import io
import operator
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dpkmeans.core import exact as module
from dpkmeans.core.engine import CellStatistics, centred_sums
from dpkmeans.core.exact import Exact, reveal
from dpkmeans.core.query import Sensitivity
from dpkmeans.errors import BudgetError

SECRET = 31415926


def cloudpickle_dumps(value):
    return pytest.importorskip("cloudpickle").dumps(value)


def joblib_dumps(value):
    return pytest.importorskip("joblib").dump(value, io.BytesIO())


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


def test_an_exact_value_cannot_be_transformed_freely():
    assert not hasattr(Exact(SECRET), "map")


def test_a_transformed_value_stays_exact_and_its_sensitivity_follows():
    table = Exact(np.array([[3, 4], [5, 6]]), Sensitivity.of_row((1, 7)))
    tripled = table.times(-3)
    assert reveal(tripled, why="test").tolist() == [[-9, -12], [-15, -18]]
    assert tripled.sensitivity == Sensitivity.of_row((3, 21))
    entry = table.entry(1, 1)
    assert reveal(entry, why="test").tolist() == [6]
    assert entry.sensitivity == Sensitivity.of_row((7,))
    scores = Exact(np.array([3, 4, 5]), Sensitivity(l1=9, linf=4, gap=5))
    chosen = scores.entries(np.array([2, 0]))
    assert reveal(chosen, why="test").tolist() == [5, 3]
    assert chosen.sensitivity == Sensitivity(l1=9, linf=4, gap=5)
    local = scores.with_local_sensitivity(Sensitivity(gap=1), why="test")
    assert local.sensitivity == Sensitivity(gap=1)
    assert all(isinstance(value, Exact) for value in (tripled, entry, chosen, local))


def test_a_transformation_whose_effect_is_not_known_is_refused():
    with pytest.raises(BudgetError, match="at most once"):  # an entry chosen twice would change twice
        Exact(np.array([3, 4, 5]), Sensitivity(l1=1)).entries(np.array([1, 1]))
    with pytest.raises(BudgetError, match="by column"):
        Exact(np.array([[3, 4]]), Sensitivity(l1=1)).entry(0, 0)
    with pytest.raises(BudgetError, match="declare no sensitivity"):
        centred_sums(Exact(CellStatistics(np.ones(1), np.ones((1, 1)), 0.0, 0.0)))


def test_nothing_is_revealed_without_a_reason_not_even_under_python_with_O():
    with pytest.raises(ValueError, match="reason"):
        reveal(Exact(SECRET), why="")
    code = "from dpkmeans.core.exact import Exact, reveal; print(reveal(Exact(5), why='x')); reveal(Exact(5), why='')"
    done = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "5"
    assert "ValueError" in done.stderr


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_exact_value_cannot_be_pickled(protocol):
    for value in (Exact(SECRET), Exact(np.array([SECRET]), Sensitivity.of_row((1,)))):
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps({"kept": [value]}, protocol)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, cloudpickle_dumps, joblib_dumps])
def test_an_exact_value_cannot_be_copied_or_written_by_other_means(copied):
    with pytest.raises(TypeError, match="pickled or copied"):
        copied(Exact(np.array([SECRET]), Sensitivity.of_row((1,))))


@pytest.mark.slow
def test_a_leak_is_a_type_error(tmp_path):
    pytest.importorskip("mypy")
    leak = "from dpkmeans.core.exact import Exact\ndef publish(count: int) -> None: ...\npublish({})\n"
    (tmp_path / "leak.py").write_text(leak.format("Exact(3)"))
    (tmp_path / "fine.py").write_text(leak.format("3"))
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir=cache"]
    environment = {**os.environ, "MYPYPATH": str(Path(module.__file__).parents[2])}

    fine = subprocess.run([*command, "fine.py"], cwd=tmp_path, capture_output=True, text=True, env=environment)
    caught = subprocess.run([*command, "leak.py"], cwd=tmp_path, capture_output=True, text=True, env=environment)

    assert fine.returncode == 0, fine.stdout
    assert caught.returncode == 1
    assert 'incompatible type "Exact[int]"; expected "int"' in caught.stdout


@pytest.mark.parametrize("chosen", [[0, -3], [[0, 1], [0, 1]], [1, 1]])
def test_no_entry_is_released_twice_under_one_sensitivity(chosen):
    vector = Exact(np.arange(3, dtype=np.int64), Sensitivity.of_row((1, 1, 1)))
    with pytest.raises(BudgetError, match="at most once"):
        vector.entries(np.array(chosen))


def test_an_entry_is_one_number_and_not_a_slice():
    table = Exact(np.zeros((2, 2), np.int64), Sensitivity.of_row((1, 1)))
    with pytest.raises(BudgetError, match="one number"):
        table.entry(slice(None), 0)
