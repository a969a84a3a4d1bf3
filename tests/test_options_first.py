"""Whatever can be refused without the records is refused before they are read, and before anything is spent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpkmeans import Bounds, DPKMeans, DurableLedger, Ledger, make_synopsis
from dpkmeans.cli.main import main
from dpkmeans.data.source import Files, FrameSource
from dpkmeans.errors import (
    BoundsError,
    BudgetError,
    DataError,
    GuaranteeError,
    LedgerError,
    MethodError,
    TooFewRecordsError,
)
from dpkmeans.methods.registry import registry

BOX: dict[str, Any] = {"bounds": (0, 1)}
GOOD: dict[str, Any] = {**BOX, "epsilon": 1.0}


class Unreadable:
    """Records that say when somebody looks at them."""

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise AssertionError("the records were read")

    def __len__(self) -> int:
        raise AssertionError("the records were counted")


@pytest.mark.parametrize(
    ("parameters", "kind", "says"),
    [
        (BOX, BudgetError, r"epsilon is missing\. Write, say, epsilon=1\.0\."),
        ({**BOX, "epsilon": 0}, BudgetError, "epsilon must be positive and finite; got 0"),
        ({**BOX, "epsilon": -1}, BudgetError, "epsilon must be positive and finite; got -1"),
        ({**BOX, "epsilon": "much"}, BudgetError, "epsilon must be a number; got 'much'"),
        ({**GOOD, "n_clusters": 0}, MethodError, "n_clusters must be a whole number of at least 1; got 0"),
        ({**GOOD, "n_clusters": 2**21}, MethodError, "n_clusters must be a whole number of at most"),
        ({**GOOD, "n_clusters": 9, "n_records": 5}, TooFewRecordsError, "n_clusters must be at most 5"),
        ({**GOOD, "n_records": 0}, MethodError, "n_records must be a whole number of at least 1"),
        ({**GOOD, "method": "dbscan"}, MethodError, "unknown method 'dbscan'"),
        ({**GOOD, "method": 7}, MethodError, "method must be a name or a method value"),
        ({**GOOD, "max_iter": 5}, MethodError, "max_iter is not for method 'synopsis'. It takes n_records"),
        ({**GOOD, "method": "su", "init": "middle"}, MethodError, "init"),
        ({**GOOD, "guarantee": "good"}, GuaranteeError, "guarantee must be one of"),
        ({**GOOD, "method": "posterior"}, GuaranteeError, "labelled 'paper'"),
        ({**GOOD, "random_state": 0}, GuaranteeError, "Leave random_state out"),
        ({**GOOD, "bounds": "from data"}, GuaranteeError, "The bounds were read from the data"),
        ({"epsilon": 1.0}, BoundsError, "bounds are missing"),
        ({**GOOD, "bounds": "0:1"}, BoundsError, "bounds must be a pair"),
        ({**GOOD, "bounds": (1, 0)}, BoundsError, "lower must be below upper"),
        ({**GOOD, "bounds": (0, 1, 2)}, BoundsError, "bounds must be a pair"),
        ({**GOOD, "bounds": ([0, 0], [1, 1, 1])}, BoundsError, "bounds are given for 2 features"),
        ({**GOOD, "bounds": (0, np.inf)}, BoundsError, "finite"),
        ({**GOOD, "bounds_epsilon": 0.1}, BoundsError, "not both"),
        ({"epsilon": 1.0, "bounds_epsilon": 1.0}, BudgetError, "leaves nothing"),
        ({"epsilon": 1.0, "bounds_epsilon": -1.0}, BudgetError, "bounds_epsilon must be positive"),
        ({**GOOD, "ledger": "no/such/ledger.db", "dataset": "visits"}, LedgerError, "no/such/ledger.db"),
        ({**GOOD, "ledger": Ledger(0.5)}, BudgetError, "only 0.5 of the promised"),
        ({**GOOD, "ledger": 7, "dataset": "visits"}, MethodError, "ledger must be a Ledger"),
        ({**GOOD, "dataset": "visits"}, MethodError, "dataset names the records in a durable ledger"),
        ({**GOOD, "engine": "cluster"}, MethodError, "engine must be one of"),
    ],
)
def test_a_wrong_request_is_refused_before_the_records_are_read(parameters, kind, says):
    for records in (Unreadable(), Files("no/such/file.csv", header=True)):
        with pytest.raises(kind, match=says):
            DPKMeans(**parameters).fit(records)


@pytest.mark.parametrize("method", sorted(registry()))
def test_every_method_that_divides_a_total_says_so_before_the_records_are_read(method):
    """And no other asks for one: with a total that is missing, those that need none go on to the records."""
    model = DPKMeans(2, **BOX, method=method, guarantee="none")
    if method in ("posterior", "prior", "lloyd"):
        model.fit(np.random.default_rng(0).random((50, 2)))
    else:
        with pytest.raises(BudgetError, match="epsilon is missing"):
            model.fit(Unreadable())


def test_bounds_for_another_number_of_columns_are_refused_where_that_number_is_known():
    boxes: tuple[Any, ...] = (([0, 0], [1, 1]), Bounds((0.0, 0.0), (1.0, 1.0)))
    for bounds in boxes:
        for records in (Files("no.csv", columns=("a", "b", "c")), FrameSource(Unreadable(), columns=("a", "b", "c"))):
            with pytest.raises(BoundsError, match="given for 2 features; the records have 3"):
                DPKMeans(epsilon=1.0, bounds=bounds).fit(records)


def test_a_synopsis_is_refused_early_too():
    wrong: tuple[Any, ...] = ((None, (0, 1)), (1.0, None), (1.0, (1, 0)), (-1.0, (0, 1)))
    for epsilon, bounds in wrong:
        with pytest.raises((BudgetError, BoundsError)):
            make_synopsis(Unreadable(), epsilon, bounds)


def durable(folder: Path, cap: float = 2.0) -> DurableLedger:
    ledger = DurableLedger.create(folder / "ledger.db")
    ledger.add("visits", cap)
    return ledger


def test_a_durable_ledger_refuses_before_the_records_are_read(tmp_path):
    ledger = durable(tmp_path, cap=0.5)
    with pytest.raises(BudgetError, match=r"'visits' has only 0\.5 left"):
        DPKMeans(**GOOD, ledger=ledger, dataset="visits").fit(Unreadable())
    with pytest.raises(MethodError, match="no data set 'visit'"):
        DPKMeans(**GOOD, ledger=ledger, dataset="visit").fit(Unreadable())
    with pytest.raises(GuaranteeError, match="no budget of the ledger covers it"):
        DPKMeans(**GOOD, ledger=ledger, dataset="visits", random_state=0, guarantee="none").fit(Unreadable())
    assert float(ledger.dataset("visits").spent) == 0


# --- more clusters than records -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "method", ["synopsis", "synopsis-prior", "eugkm", "su-hybrid", "lei", "su", "gupt", "privgene"]
)
def test_k_beyond_the_noisy_number_of_records_stops_the_fit_after_the_count(tmp_path, method):
    """100 records and 10^5 clusters: a noisy count that large has probability below exp(-0.02 * 99000) < 1e-800."""
    X, ledger = np.random.default_rng(0).random((100, 2)), durable(tmp_path)
    in_memory, init = Ledger(5.0), "uniform" if method == "su" else None  # its own start is slow for so many
    with pytest.raises(TooFewRecordsError, match=r"100000 clusters are more than the noisy number of records, \d+"):
        DPKMeans(100_000, **GOOD, method=method, init=init, ledger=in_memory).fit(X)
    with pytest.raises(TooFewRecordsError) as caught:
        DPKMeans(100_000, **GOOD, method=method, init=init, ledger=ledger, dataset="visits").fit(X)
    assert [spend.label for spend in in_memory.spends] == ["number of records"]
    assert 0 < float(in_memory.spent) <= 0.05
    assert ledger.dataset("visits").spent == in_memory.spent  # what was reserved for the rest was given back
    assert f"cost epsilon={in_memory.spent}" in str(caught.value)
    assert isinstance(caught.value, DataError)


def test_other_errors_leave_the_whole_reservation_spent(tmp_path):
    """What was drawn before an unforeseen error is on the disk, and so is the rest that was promised."""
    ledger = durable(tmp_path)

    def fit() -> None:
        with ledger.account("visits", promised=1.0) as account:
            Ledger(0.1, parent=account).spend(Ledger(0.1).remaining, "one")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fit()
    assert float(ledger.dataset("visits").spent) == 1.0


# --- the command ----------------------------------------------------------------------------------------


def test_the_command_refuses_options_before_it_looks_for_the_data(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    durable(tmp_path, cap=0.5)
    box = ["--bounds", "0:1"]
    rows: list[tuple[list[str], str]] = [
        (box, "--epsilon is missing"),
        ([*box, "--epsilon", "0"], "--epsilon must be positive"),
        ([*box, "--epsilon", "1", "--k", "0"], "--k must be a whole number of at least 1"),
        ([*box, "--epsilon", "1", "--method", "dbscan"], "unknown method 'dbscan'"),
        ([*box, "--epsilon", "1", "--method", "posterior"], "labelled 'paper'"),
        ([*box, "--epsilon", "1", "--seed", "1"], "Leave --seed out"),
        ([*box, "--epsilon", "1", "--delimiter", "::"], "--delimiter must be one character"),
        ([*box, "--epsilon", "1", "--ledger", "none.db", "--dataset", "visits"], "none.db"),
        ([*box, "--epsilon", "1", "--ledger", "ledger.db", "--dataset", "visits"], "has only 0.5 left"),
        ([*box, "--epsilon", "1", "--out", "no/model.json"], "/no does not exist. Make it first"),
        (["--bounds", "1:0", "--epsilon", "1"], "lower must be below upper"),
        (["--bounds", "0:1,0:2", "--columns", "a,b,c", "--epsilon", "1"], "given for 2 features; the records have 3"),
    ]
    for options, says in rows:
        assert main(["fit", "no/such/file.csv", *options]) in (2, 3, 4)
        assert says in capsys.readouterr().err, options


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    rows = np.random.default_rng(0).random((2000, 2))
    np.savetxt(path, rows, delimiter=",", header="east,north", comments="")
    return path


def test_a_file_that_may_have_been_paid_for_is_not_replaced_without_force(tmp_path, visits, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    durable(tmp_path, cap=9.0)
    box = ["--header", "--bounds", "0:1", "--epsilon", "1"]
    paid = ["--ledger", "ledger.db", "--dataset", "visits"]
    calls = {
        "model.json": ["fit", "visits.csv", *box, *paid, "--out", "model.json"],
        "moves.jsonl": ["fit", "visits.csv", *box, *paid, "--transcript", "moves.jsonl"],
        "synopsis.json": ["synopsis", "visits.csv", *box, *paid, "--out", "synopsis.json"],
        "explored.json": ["explore", "synopsis.json", "--k", "3", "--out", "explored.json"],
        "labels.csv": ["predict", "model.json", "visits.csv", "--out", "labels.csv"],
    }
    for name, call in calls.items():
        assert main(call) == 0
        before, spent = Path(name).read_bytes(), DurableLedger(tmp_path / "ledger.db").dataset("visits").spent
        assert main(call) == 4
        err = capsys.readouterr().err
        assert f"{name} exists already" in err
        assert "Give another name, or write --force to replace it." in err
        assert Path(name).read_bytes() == before
        assert DurableLedger(tmp_path / "ledger.db").dataset("visits").spent == spent
        assert main([*call, "--force"]) == 0
    assert json.loads(Path("model.json").read_text())
