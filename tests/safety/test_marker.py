"""A planted record appears in nothing that the library prints, raises, warns of, logs or, where proved, releases.

Traces are looked for as whole numbers, never inside the digits of another one. Fits are seeded, so that no draw can hit
a trace of six digits by chance. One fit is not: there the record's own sixteen digits are looked for, which some number
of its at most 10^5 has with a probability below 1e-10. False alarm: 1e-10.
"""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpkmeans import DPKMeans
from dpkmeans.cli.main import main
from dpkmeans.core.bounds import GRID
from dpkmeans.errors import DPKMeansError
from dpkmeans.methods.registry import registry
from dpkmeans.report import render_report

BOX = 10.0
MARKER = (7.123456712345671, 2.765432176543217)
N = 1237  # private too
RNG = np.random.default_rng(3)
RECORDS = np.vstack([RNG.normal(3, 0.5, (600, 2)), RNG.normal(6, 0.5, (N - 601, 2)), [MARKER]]).clip(0, BOX)
OPTIONS: dict[str, dict[str, Any]] = {"lloyd": {}, "posterior": {"max_iter": 30}, "prior": {"max_iter": 30}}
OPTIONS["gaussian"] = OPTIONS["dp-em"] = {"epsilon": 1.0, "delta": 1e-6}


def traces() -> list[str]:
    """Beginnings of numbers: the marker as given, on the grid, in unit coordinates; and all of it in grid steps."""
    found = []
    for value in MARKER:
        steps = round(value / BOX * GRID)
        found += [rf"{number}\d*" for number in (str(value)[:8], str(steps * BOX / GRID)[:9], str(steps / GRID)[:9])]
        found.append(str(steps))
    return found


def check(text: str, *, count: bool = True) -> None:
    numbers = "|".join([*traces(), *([str(N), str(N - 1)] if count else [])])
    assert not re.search(rf"(?<![\d.])({numbers})(?![\d.])", text)


class Everything(logging.Handler):
    """Collects what is logged, warned of and printed."""

    def __init__(self, capsys: Any) -> None:
        super().__init__(level=0)
        self.lines: list[str] = []
        self.caught: list[warnings.WarningMessage] = []
        self.capsys = capsys

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def text(self) -> str:
        printed = self.capsys.readouterr()
        return "\n".join([*self.lines, printed.out, printed.err])


@pytest.fixture
def everything(capsys):
    handler = Everything(capsys)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)  # numba's own debug log prints its byte code
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        handler.caught = caught
        yield handler
    root.removeHandler(handler)
    root.setLevel(level)


def all_of(everything: Any) -> str:
    return everything.text() + "\n".join(str(warning.message) for warning in everything.caught)


@pytest.mark.parametrize("name", sorted(registry()))
def test_a_fit_shows_nothing_and_a_proved_release_holds_nothing(name, everything, tmp_path):
    options = OPTIONS.get(name, {"epsilon": 1.0}) | {"guarantee": "none", "random_state": 0}
    model = DPKMeans(3, bounds=(0, BOX), method=name, verbose=True, **options).fit(RECORDS)
    model.predict(RECORDS)
    release = model.release_
    check(all_of(everything))
    check(repr(model))
    if registry()[name].guarantee == "proved":
        release.save(tmp_path / "model.json")
        release.save_transcript(tmp_path / "t.jsonl")
        texts = [render_report(release), repr(release), json.dumps(release.to_dict())]
        for text in (*texts, *((tmp_path / file).read_text() for file in ("model.json", "t.jsonl"))):
            check(text, count=False)


def test_a_private_fit_and_its_release_hold_none_of_the_digits_of_a_record(everything):
    release = DPKMeans(3, bounds=(0, BOX), epsilon=1.0, verbose=True).fit(RECORDS).release_
    assert release.guarantee.label == "proved"
    text = all_of(everything) + render_report(release) + json.dumps(release.to_dict())
    assert not any(str(value) in text for value in MARKER)


@pytest.mark.parametrize("trace", [7.123456712345671, "[7.1234567, 1]", "7.12345699", round(0.7123456712345671 * GRID)])
def test_a_trace_is_found(trace):
    with pytest.raises(AssertionError):
        check(f"x: {trace}, y: 1")


@pytest.mark.parametrize("text", [f"0.{round(0.7123456712345671 * GRID)}", "17.1234567", "1.71234567e-05", f"x{N}0"])
def test_digits_inside_another_number_are_no_trace(text):
    check(text)


def fit(records: Any = RECORDS, **options: Any) -> Callable[[], Any]:
    given = {"bounds": (0, BOX), "epsilon": 1.0, "method": "su"} | options
    return lambda: DPKMeans(given.pop("n_clusters", 3), **given).fit(records)


def with_entry(value: Any) -> Any:
    records = RECORDS.astype(object)
    records[0, 0] = value
    return records


FAILURES: dict[str, Callable[[], Any]] = {
    "NaN": fit(np.vstack([RECORDS, [[np.nan, 1.0]]])),
    "infinite, bounds from data": fit(np.vstack([RECORDS, [[np.inf, 1]]]), bounds="from data", guarantee="none"),
    "huge, bounds from data": fit(np.vstack([RECORDS, [[1e300, 1]]]), bounds="from data", guarantee="none"),
    "text": fit(with_entry(f"{MARKER[0]} someone")),
    "object": fit(with_entry(object())),
    "ragged": fit([*RECORDS.tolist(), [1.0]]),
    "one dimension": fit(RECORDS.ravel()),
    "three dimensions": fit(RECORDS[None]),
    "complex": fit(RECORDS.astype(complex)),
    "dates": fit(np.array([["2020-01-01"]] * N, dtype="datetime64[D]")),
    "masked": fit(np.ma.masked_array(RECORDS, RECORDS > 7)),
    "no features": fit(RECORDS[:, :0]),
    "too many clusters": fit(RECORDS, n_clusters=5000, method="lloyd", guarantee="none", epsilon=None),
    "wrong bounds": fit(bounds=([0, 0, 0], [1, 1, 1])),
    "wrong init": fit(init=np.zeros((2, 2))),
    "budget runs out": fit(method="posterior", guarantee="paper", epsilon=0.15),
    "budget too small": fit(epsilon=1e-9),
    "guarantee": fit(method="posterior"),
    "fewer features in predict": lambda: fit()().predict(RECORDS[:, :1]),
    "NaN in predict": lambda: fit()().predict(np.full((2, 2), np.nan)),
    "other names in predict": lambda: fit(pd.DataFrame(RECORDS, columns=["a", "b"]))().predict(
        pd.DataFrame(RECORDS, columns=["c", "d"])
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_no_error_and_no_traceback_shows_a_record_or_their_number(name, everything):
    with pytest.raises((DPKMeansError, ValueError)) as caught:
        FAILURES[name]()
    check("".join(traceback.format_exception(caught.value)))
    check(all_of(everything))


ROW = f"{MARKER[0]},{MARKER[1]}"
FILES = {
    "long row": "a,b\n" + "1,2\n" * 5 + f"{ROW},5\n",
    "text cell": "a,b\n" + "1,2\n" * 5 + f"{ROW}x\n",
    "empty cell": "a,b\n" + "1,2\n" * 5 + f"{MARKER[0]},\n{ROW}\n",
    "text in the first record": f"a,b\n{MARKER[0]},c\n{ROW}\n",
    "not UTF-8": f"a,b\n{ROW}\n\xff\xfe\n",
    "quote": f'a,b\n{ROW}\n"{ROW}\n',
}


SU = ["--bounds", "0:10", "--epsilon", "1", "--method", "su", "--k", "2"]


@pytest.mark.parametrize("name", FILES)
def test_the_command_shows_no_record_of_a_bad_file(name, tmp_path, everything):
    path = tmp_path / "visits.csv"
    path.write_bytes(FILES[name].encode("latin-1"))
    assert main(["fit", str(path), "--header", *SU]) == 4
    check(all_of(everything), count=False)


def test_an_unforeseen_fault_shows_its_type_alone(tmp_path, everything, monkeypatch):
    def fault(*_: Any, **__: Any) -> None:
        raise RuntimeError(f"cannot handle record {ROW}")

    monkeypatch.setattr("dpkmeans.engines.memory.MemoryEngine.cell_statistics", fault)
    path = tmp_path / "visits.csv"
    np.savetxt(path, RECORDS, delimiter=",", fmt="%.15f")
    assert main(["fit", str(path), "--no-header", *SU]) == 1
    shown = all_of(everything)
    check(shown)
    assert "RuntimeError" in shown


def test_the_command_shows_nothing_as_a_process(tmp_path):
    path, out = tmp_path / "visits.csv", tmp_path / "model.json"
    np.savetxt(path, RECORDS, delimiter=",", fmt="%.15f")
    command = ["fit", str(path), "--no-header", *SU[:-1], "3", "--out", str(out)]
    command += ["--seed", "0", "--guarantee", "none"]
    done = subprocess.run(
        [sys.executable, "-W", "always", "-m", "dpkmeans", *command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0
    check(done.stdout + done.stderr)
    check(Path(out).read_text(), count=False)
