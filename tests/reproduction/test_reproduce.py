from __future__ import annotations

import json
import random
import secrets
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dpkmeans.cli.main import main
from dpkmeans.engines.packing import grid_points
from dpkmeans.errors import BudgetError, FileError, MethodError
from dpkmeans.reproduction import figures
from dpkmeans.reproduction.baselines import baseline, problem_of
from dpkmeans.reproduction.cell_store import NAME, CellStore
from dpkmeans.reproduction.cells import Cell, tasks_of
from dpkmeans.reproduction.protocol import compute
from dpkmeans.reproduction.reproduce import Order, reproduce

QUICK = ("posterior", "prior", "su", "blum", "synopsis")


def order(**changes):
    given = {"datasets": ("tiny",), "runs": 3, "epsilons": (0.2, 1.0), "methods": QUICK, "k": 3}
    return Order(**{**given, **changes})


def files_in(folder: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: content for name, content in found.items() if not name.startswith(NAME)}


def cells_in(folder: Path) -> dict[str, str]:
    base = sqlite3.connect(folder / NAME)
    found = base.execute("SELECT key, row FROM cells").fetchall()
    base.close()
    assert len(dict(found)) == len(found)
    return dict(found)


@pytest.fixture
def no_pictures(monkeypatch):
    """Drawing takes most of the time of a small run, and one test looks at it."""
    monkeypatch.setattr(figures, "save", lambda figure, folder, name: None)


def test_only_the_settings_that_are_asked_for_are_run():
    every, one = order().cells()["quality"], order(settings=("paper",)).cells()["quality"]
    assert {cell.setting for cell in every} == {"paper", "proved", "total"}
    assert one == [cell for cell in every if cell.setting == "paper"]


def test_results_are_the_same_to_the_bit_for_any_number_of_processes(tiny, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    reproduce(order(runs=2), one, jobs=1)
    reproduce(order(runs=2), two, jobs=2)
    assert cells_in(one) == cells_in(two)
    first = files_in(one)
    assert first == files_in(two)
    assert {"manifest.json", "path.csv", "tables/iterations.csv", "figures/quality.png", "figures/zones.svg"} <= set(
        first
    )


def test_finished_cells_are_not_run_again_and_fewer_runs_are_a_part_of_more(tiny, tmp_path, no_pictures):
    counted = []
    reproduce(order(runs=2), tmp_path / "a", progress=lambda done, total: counted.append((done, total)))
    few = cells_in(tmp_path / "a")
    assert counted[-1] == (len(few), len(few))
    again = []
    reproduce(order(runs=2), tmp_path / "a", progress=lambda done, total: again.append((done, total)))
    assert again == [(0, 0)]
    reproduce(order(runs=3), tmp_path / "a")
    more = cells_in(tmp_path / "a")
    assert {key: more[key] for key in few} == few
    reproduce(order(runs=3), tmp_path / "b")
    assert files_in(tmp_path / "a") == files_in(tmp_path / "b")


@pytest.mark.slow
def test_ten_kills_at_random_and_a_resume_give_the_files_of_an_undisturbed_run(tiny, tmp_path):
    """Each start is killed with SIGKILL after a random number of further cells, so that ten kills always fit."""
    seed = secrets.randbits(32)
    dice = random.Random(seed)
    wanted = order(runs=40, parts=("iterations",), methods=("posterior", "prior"))
    reproduce(wanted, tmp_path / "whole")
    total = len(cells_in(tmp_path / "whole"))
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "dpkmeans", "reproduce", "iterations", "--dataset", "tiny", "--k", "3"]
    command += ["--runs", "40", "--epsilons", "0.2,1", "--methods", "posterior,prior", "--jobs", "1"]
    command += ["--out", str(out), "--json"]
    kills, goal = 0, 0
    while kills < 10:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        goal += dice.randint(1, total // 14)
        while process.poll() is None and _count(out) < goal:
            time.sleep(0.002)
        time.sleep(dice.random() * 0.01)
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
        goal = max(goal, _count(out))
        assert goal < total, f"{seed=}"
    assert subprocess.run(command, check=True, capture_output=True).returncode == 0
    assert cells_in(out) == cells_in(tmp_path / "whole"), f"{seed=}"
    assert files_in(out) == files_in(tmp_path / "whole"), f"{seed=}"


def _count(out: Path) -> int:
    if not (out / NAME).exists():
        return 0
    try:
        base = sqlite3.connect(f"file:{out / NAME}?mode=ro", uri=True)
        try:
            return int(base.execute("SELECT count(*) FROM cells").fetchone()[0])
        finally:
            base.close()
    except sqlite3.OperationalError:
        return 0


@pytest.mark.slow
def test_workers_end_when_their_parent_is_killed(tiny, tmp_path):
    command = [sys.executable, "-m", "dpkmeans", "reproduce", "iterations", "--dataset", "tiny", "--k", "3"]
    command += ["--runs", "3000", "--jobs", "2", "--out", str(tmp_path / "out")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_until(lambda: _count(tmp_path / "out") > 0)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(children) >= 2
    finally:
        process.kill()
        process.wait()
    _wait_until(lambda: not any(_alive(pid) for pid in children))


def _alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _wait_until(condition, seconds=600):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_command_prints_passes_and_degrees_with_standard_errors(tiny, tmp_path, capsys, no_pictures):
    out = str(tmp_path / "out")
    arguments = ["reproduce", "iterations", "--dataset", tiny, "--k", "3", "--runs", "4", "--out", out, "--json"]
    assert main([*arguments, "--jobs", "1", "--epsilons", "0.5"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert [row["method"] for row in found["iterations"]] == ["lloyd", "posterior", "prior"]
    assert all(row["passes"] > 0 and row["passes_error"] >= 0 for row in found["iterations"])
    assert all(0 <= row["degree"] <= 1 and row["degree_error"] >= 0 for row in found["convergence"])
    assert found["manifest"]["datasets"]["tiny"]["rows"] == 90
    assert "12 of 12 cells" in printed.err
    few = ["--runs", "2", "--epsilons", "0.5", "--jobs", "1"]
    assert main(["reproduce", "all", "--dataset", tiny, "--k", "3", "--out", out, *few]) == 0
    shown = capsys.readouterr().out
    for words in ("convergence degree", "Theorem 4", "fixed-point stop", "synopsis-prior"):
        assert words in shown


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--dataset", "absent"], 4, "unknown data set 'absent'"),
        (["--dataset", "tiny"], 2, "number of clusters"),
        (["--runs", "0"], 2, "runs must be"),
        (["--quality-runs", "400"], 2, "quality_runs must be at most"),
        (["--epsilons", "0.1,x"], 2, "epsilons must be numbers"),
        (["--epsilons", "-1"], 3, "must be positive"),
        (["--methods", "magic"], 2, "unknown method 'magic'"),
        (["--settings", "local"], 2, "unknown setting 'local'"),
        (["--epsilons", "0.1,0.1"], 2, "twice"),
        (["--jobs", "0"], 2, "jobs must be"),
    ],
)
def test_a_wrong_order_ends_with_its_exit_code_and_a_sentence(tiny, tmp_path, capsys, arguments, code, words):
    assert main(["reproduce", "iterations", *arguments, "--out", str(tmp_path / "out")]) == code
    assert words in capsys.readouterr().err


def test_orders_are_checked_before_anything_is_run():
    with pytest.raises(MethodError, match="unknown part"):
        Order(parts=("everything",))
    with pytest.raises(BudgetError):
        Order(epsilons=(float("nan"),))
    with pytest.raises(MethodError, match="at least one"):
        Order(datasets=())


def test_cells_of_another_seed_or_other_data_are_not_mixed_in(tiny, tmp_path, no_pictures):
    small = {"parts": ("iterations",), "runs": 1, "epsilons": (0.5,)}
    reproduce(order(**small), tmp_path / "out")
    with pytest.raises(FileError, match=r"seed 0; this run has 1.*--out"):
        reproduce(order(**small, seed=1), tmp_path / "out")
    with pytest.raises(FileError, match="data tiny"):
        reproduce(order(**{**small, "k": 2}), tmp_path / "out")


def test_a_store_keeps_a_key_once_and_a_failed_batch_not_at_all(tmp_path):
    store = CellStore(tmp_path, {"seed": 0})
    store.add([("a", {"x": 0.1}), ("b", {"x": 2})])
    store.add([("a", {"x": 9})])
    with pytest.raises(TypeError):
        store.add([("c", {"x": 1}), ("d", {"x": object()})])
    assert store.rows(["b", "a"]) == [{"x": 2}, {"x": 0.1}]
    assert store.missing(["a", "b", "c"]) == {"c"}
    store.close()


def test_every_method_of_a_run_starts_at_the_same_records_and_runs_differ(tiny):
    problem = problem_of(tiny, 3)
    starts = [baseline(problem, run, 0).start for run in range(3)]
    np.testing.assert_array_equal(starts[0], baseline(problem, 0, 0).start)
    assert not np.array_equal(starts[0], starts[1])
    unit = {
        tuple(row) for row in grid_points(problem.data.unit_records(), problem.engine.bounds).astype(float).tolist()
    }
    assert all(tuple(row) in unit for start in starts for row in start.tolist())


def test_rivals_get_the_total_that_posterior_realised_and_gupt_its_own_sum(tiny):
    cells = [Cell("path", tiny, 0, "paper", "posterior", 0.5)]
    cells += [Cell("quality", tiny, 0, s, m, 0.5) for s, m in (("paper", "su"), ("proved", "blum"), ("paper", "gupt"))]
    cells.append(Cell("quality", tiny, 0, "total", "synopsis", 0.5))
    rows = [row for task in tasks_of(cells, 0, 3) for _, row in compute(task)]
    posterior, su, blum, gupt, synopsis = rows
    assert posterior["epsilon_total"] == pytest.approx(0.5 * (1 + posterior["iterations"]))
    assert su["epsilon_total"] == pytest.approx(posterior["epsilon_total"])
    assert blum["epsilon_total"] == pytest.approx(posterior["epsilon_total"])
    assert gupt["epsilon_total"] == pytest.approx(0.5 * 3 * 2)
    assert synopsis["epsilon_total"] <= 0.5
