"""The durable ledger: caps hold over all fits and processes, spends come before noise, the chain tells of changes."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from dpkmeans import DPKMeans, DurableLedger, Ledger
from dpkmeans.core.epsilon import Epsilon, Spend
from dpkmeans.core.exact import Exact
from dpkmeans.core.query import Sensitivity
from dpkmeans.errors import BudgetError, GuaranteeError, LedgerError, MethodError, UnsettledWarning
from dpkmeans.privacy.durable import tables
from dpkmeans.privacy.durable.hash_chain import LedgerEntry, verify
from dpkmeans.privacy.mechanisms import Laplace
from dpkmeans.privacy.randomness import Randomness, SecureNoise

RECORDS = np.random.default_rng(0).random((10_000, 2))


@pytest.fixture
def store(tmp_path: Path) -> DurableLedger:
    made = DurableLedger.create(tmp_path / "ledger.db", analyst="ada")
    made.add("visits", 1.5)
    return made


def spend(nano: int, label: str = "counts") -> Spend:
    return Spend(label, (Epsilon(nano),))


def model(store: DurableLedger, **options) -> DPKMeans:
    given = {"bounds": (0, 1), "epsilon": 1.0, "method": "su", "ledger": str(store.path), "dataset": "visits"}
    return DPKMeans(2, **(given | options))


def kinds(store: DurableLedger) -> list[str]:
    return [entry.kind for entry in store.entries()]


# --- spending ---------------------------------------------------------------------------------------


def test_a_fit_reserves_its_promise_in_one_entry_and_settles_it(store):
    fitted = model(store).fit(RECORDS)
    assert kinds(store) == ["create", "reserve", "settle", "release"]
    assert store.entries()[-1].label == fitted.release_.identity.digest
    assert float(store.dataset("visits").spent) == pytest.approx(fitted.release_.epsilon_spent, abs=1e-12)
    assert store.verify().intact


def test_a_fit_past_the_cap_is_refused_before_anything_is_spent_or_drawn(store, monkeypatch):
    model(store).fit(RECORDS)
    monkeypatch.setattr(SecureNoise, "laplace", None)
    with pytest.raises(BudgetError, match=r"epsilon=1 is asked for, but data set 'visits' has only 0.5 left"):
        model(store).fit(RECORDS)
    assert kinds(store) == ["create", "reserve", "settle", "release"]


def test_a_refused_guarantee_spends_nothing(store):
    with pytest.raises(GuaranteeError):
        model(store, random_state=1).fit(RECORDS)
    with pytest.raises(GuaranteeError, match="no budget of the ledger covers it"):
        model(store, random_state=1, guarantee="none").fit(RECORDS)
    with pytest.raises(GuaranteeError, match="no budget of the ledger covers it"):
        model(store, method="lloyd", epsilon=None, guarantee="none").fit(RECORDS)
    assert kinds(store) == ["create"]


def test_bad_data_spends_nothing(store):
    with pytest.raises(ValueError, match="NaN"):
        model(store).fit(np.full((3, 2), np.nan))
    assert kinds(store) == ["create"]


def test_an_interrupted_fit_stays_spent_in_full(store, monkeypatch):
    draws = []

    def interrupt(self, values, scale):
        draws.append(store.dataset("visits").spent)
        raise KeyboardInterrupt

    monkeypatch.setattr(SecureNoise, "laplace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model(store).fit(RECORDS)
    assert draws == [Epsilon.of(1.0)]  # on the disk before the first draw
    assert store.dataset("visits").spent == Epsilon.of(1.0)
    assert kinds(store) == ["create", "reserve"]


@pytest.mark.filterwarnings("ignore::dpkmeans.errors.NotConvergedWarning")
def test_what_a_promise_does_not_use_is_given_back(store):
    fitted = model(store, method="posterior", guarantee="paper", epsilon=1.4, max_iter=3)
    fitted.fit(RECORDS)
    spent = fitted.release_.epsilon_spent
    assert spent < 1.4
    assert float(store.dataset("visits").spent) == pytest.approx(spent)
    assert next(entry.nano for entry in store.entries() if entry.kind == "settle") < 0


@pytest.mark.filterwarnings("ignore::dpkmeans.errors.NotConvergedWarning")
def test_without_a_promise_every_spend_is_an_entry(store):
    fitted = model(store, method="posterior", guarantee="paper", epsilon=None, max_iter=3).fit(RECORDS)
    assert kinds(store) == ["create"] + ["spend"] * len(fitted.release_.spends) + ["release"]


def test_without_a_promise_the_cap_still_holds(store):
    store.set_cap("visits", 0.15)
    with pytest.raises(BudgetError, match=r"has only 0.05 left"):
        model(store, method="posterior", guarantee="paper", epsilon=None).fit(RECORDS)
    assert store.dataset("visits").spent == Epsilon.of(0.1)


def test_every_mechanism_commits_before_it_draws(store):
    rng = Randomness.secure()
    seen = []

    class Watching(SecureNoise):
        def laplace(self, values, scale):
            seen.append(DurableLedger(store.path).dataset("visits").spent.nano)
            return super().laplace(values, scale)

    ledger = Ledger(parent=store.account("visits"))
    for _ in range(3):
        five = Exact(np.array([5]), Sensitivity.of_row((1,)))
        watching = Randomness(rng.generator, Watching())
        Laplace(Epsilon.of(0.25)).release(five, ledger=ledger, rng=watching, label="counts")
    assert seen == [250_000_000, 500_000_000, 750_000_000]


def test_one_nano_past_the_cap_is_too_much(store):
    account = store.account("visits")
    account.record(spend(1_499_999_999))
    with pytest.raises(BudgetError):
        account.record(spend(2))
    account.record(spend(1))
    assert store.dataset("visits").remaining == Epsilon(0)


def test_an_account_refuses_more_than_its_promise(store):
    account = store.account("visits", promised=0.5)
    account.record(spend(400_000_000))
    with pytest.raises(BudgetError):
        account.record(spend(200_000_000))
    assert store.dataset("visits").spent == Epsilon.of(0.5)


def test_settling_twice_gives_back_once(store):
    account = store.account("visits", promised=0.5)
    account.record(spend(100_000_000))
    account.settle()
    account.settle()
    assert kinds(store) == ["create", "reserve", "settle"]
    assert store.dataset("visits").spent == Epsilon.of(0.1)


def test_nothing_is_settled_that_was_not_reserved_nor_twice_nor_beyond_it(store):
    store.add("sales", 1.0)
    store.reserve("visits", Epsilon.of(0.5), fit="a", label="")
    store.spend("visits", Epsilon.of(0.5), fit="b", label="")
    for dataset, fit in (("visits", "b"), ("visits", "c"), ("sales", "a")):
        with pytest.raises(MethodError, match="no open reservation"):
            store.settle(dataset, Epsilon(1), fit=fit, label="")
    for unused in (Epsilon(500_000_001), Epsilon(-1)):
        with pytest.raises(BudgetError, match="cannot give back"):
            store.settle("visits", unused, fit="a", label="")
    store.settle("visits", Epsilon.of(0.2), fit="a", label="")
    with pytest.raises(MethodError, match="no open reservation"):
        store.settle("visits", Epsilon(1), fit="a", label="")
    with pytest.raises(MethodError, match="has entries"):
        store.reserve("visits", Epsilon(1), fit="a", label="")
    assert kinds(store) == ["create", "create", "reserve", "spend", "settle"]
    assert store.dataset("visits").spent == Epsilon.of(0.8)
    assert store.verify().intact


@pytest.mark.parametrize("nano", [0, -1, -(10**9)])
def test_no_amount_below_one_nano_is_spent_or_reserved(store, nano):
    for charge in (store.spend, store.reserve):
        with pytest.raises(BudgetError, match="at least 1e-9"):
            charge("visits", Epsilon(nano), fit="a", label="")
    with pytest.raises(BudgetError, match="positive"):
        store.account("visits").record(spend(nano))
    assert kinds(store) == ["create"]


def test_a_promise_that_cannot_be_settled_stays_spent_and_the_result_is_kept(store, monkeypatch):
    def full(*_, **__):
        raise LedgerError("the disk is full.")

    monkeypatch.setattr(DurableLedger, "settle", full)
    with pytest.warns(UnsettledWarning, match="whole promised budget stays spent"):
        fitted = model(store, epsilon=0.5).fit(RECORDS)
    assert fitted.release_.epsilon_spent == 0.5
    assert store.dataset("visits").spent == Epsilon.of(0.5)


def test_a_cap_may_be_raised_and_lowered_and_both_are_entries(store):
    store.account("visits").record(spend(10**9))
    store.set_cap("visits", 0.5)
    assert store.dataset("visits").remaining == Epsilon(0)
    with pytest.raises(BudgetError):
        store.account("visits").record(spend(1))
    store.set_cap("visits", 2.0)
    store.account("visits").record(spend(1))
    assert kinds(store) == ["create", "spend", "cap", "cap", "spend"]
    assert store.verify().intact


def test_data_sets_do_not_share_their_budget(store):
    store.add("sales", 0.5)
    store.account("sales").record(spend(500_000_000))
    assert [(d.name, float(d.remaining)) for d in store.datasets()] == [("sales", 0.0), ("visits", 1.5)]


def test_entries_say_who_and_what(store):
    model(DurableLedger(store.path)).fit(RECORDS)
    DurableLedger(store.path, analyst="grace").account("visits", note="by hand").record(spend(1, "counts"))
    first, *_, last = store.entries()
    assert (first.analyst, first.kind) == ("ada", "create")
    assert (last.analyst, last.label) == ("grace", "by hand: counts")


# --- the estimator's parameters ---------------------------------------------------------------------


def test_a_ledger_and_a_data_set_come_together(store):
    with pytest.raises(MethodError, match="dataset='visits'"):
        model(store, dataset=None).fit(RECORDS)
    with pytest.raises(MethodError, match=r"ledger='ledger.db'"):
        model(store, ledger=None).fit(RECORDS)
    with pytest.raises(MethodError, match=r"ledger='ledger.db'"):
        model(store, ledger=Ledger(1.0)).fit(RECORDS)
    with pytest.raises(MethodError, match="a DurableLedger or a path; got int"):
        model(store, ledger=7).fit(RECORDS)
    with pytest.raises(MethodError, match="no data set 'vists'; it has: visits"):
        model(store, dataset="vists").fit(RECORDS)


@pytest.mark.parametrize("kind", ["text", "path", "store"])
def test_a_ledger_is_given_as_a_path_or_a_store_and_clones_share_it(store, kind):
    given = {"text": str(store.path), "path": store.path, "store": store}[kind]
    twin = clone(model(store, ledger=given, epsilon=0.25))
    assert twin.get_params()["dataset"] == "visits"
    twin.fit(RECORDS)
    assert store.dataset("visits").spent == Epsilon.of(0.25)


# --- many at once -----------------------------------------------------------------------------------


def test_threads_share_a_cap_to_the_nano(store):
    store.set_cap("visits", Epsilon(100))
    refused = []

    def work(_: int) -> None:
        account = store.account("visits")
        for _ in range(5):
            try:
                account.record(spend(3))
            except BudgetError:
                refused.append(threading.get_ident())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert store.dataset("visits").spent == Epsilon(99)
    assert len(refused) == 40 - 33
    assert store.verify().intact


def test_processes_share_a_cap_to_the_nano(store):
    store.set_cap("visits", Epsilon(100))
    code = (
        "import sys\n"
        "from dpkmeans.errors import BudgetError\n"
        "from dpkmeans.core.epsilon import Epsilon\n"
        "from dpkmeans.core.epsilon import Spend\n"
        "from dpkmeans.privacy.durable.ledger import DurableLedger\n"
        "account = DurableLedger(sys.argv[1]).account('visits')\n"
        "for _ in range(12):\n"
        "    try: account.record(Spend('x', (Epsilon(3),)))\n"
        "    except BudgetError: pass\n"
    )
    command = [sys.executable, "-c", code, str(store.path)]
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(4)]
    assert [(w.communicate(timeout=120)[1], w.returncode) for w in writers] == [(b"", 0)] * 4
    assert store.dataset("visits").spent == Epsilon(99)
    assert store.verify().intact


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_store_that_came_through_a_fork_opens_the_file_anew(store):
    pid = os.fork()
    if pid == 0:
        try:
            store.account("visits").record(spend(7))
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    store.account("visits").record(spend(1))
    assert store.dataset("visits").spent == Epsilon(8)
    assert store.verify().intact


def test_two_may_create_the_same_ledger_at_once(tmp_path):
    path = tmp_path / "ledger.db"
    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(lambda _: DurableLedger.create(path), range(8)))
    stores[0].add("visits", 1.0)
    assert all(len(s.entries()) == 1 for s in stores)


def test_a_writer_that_waits_too_long_says_so(store):
    blocker = sqlite3.connect(store.path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerError, match=r"in use by other processes for too long. Nothing was spent"):
        DurableLedger(store.path, patience=0.05).account("visits").record(spend(1))
    blocker.execute("ROLLBACK")
    blocker.close()
    assert kinds(store) == ["create"]


# --- the chain --------------------------------------------------------------------------------------


@pytest.fixture
def long(store) -> DurableLedger:
    account = store.account("visits")
    for number in range(6):
        account.record(spend(1000 + number, f"step {number}"))
    return store


def tamper(store: DurableLedger, *statements: str) -> None:
    store.close()
    with sqlite3.connect(store.path) as connection:
        connection.execute("DROP TRIGGER no_update")
        connection.execute("DROP TRIGGER no_delete")
        for statement in (*statements, *tables.BEFORE_3[2:]):
            connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    ("statement", "broken_at", "why"),
    [
        ("UPDATE entries SET nano = 1 WHERE number = 4", 4, "does not match its hash"),
        ("UPDATE entries SET analyst = 'mallory' WHERE number = 2", 2, "does not match its hash"),
        ("UPDATE entries SET time = '2020-01-01' WHERE number = 1", 1, "does not match its hash"),
        ("DELETE FROM entries WHERE number = 3", 3, "removed or added"),
        ("DELETE FROM entries WHERE number = 1", 1, "removed or added"),
        ("UPDATE entries SET nano = 'x' WHERE number = 5", 5, "does not match its hash"),
    ],
)
def test_verify_says_where_a_changed_chain_breaks(long, statement, broken_at, why):
    tamper(long, statement)
    found = long.verify()
    assert (found.intact, found.broken_at) == (False, broken_at)
    assert why in found.why


def forged(entries: tuple[LedgerEntry, ...], number: int, **changes: object) -> list[LedgerEntry]:
    """The chain with one entry changed and everything after it hashed anew."""
    made: list[LedgerEntry] = []
    for entry in entries:
        previous = made[-1].sha256 if made else entry.previous
        entry = replace(entry, previous=previous, **(changes if entry.number == number else {}))
        made.append(replace(entry, sha256=entry.digest()))
    return made


def test_a_chain_that_was_hashed_anew_breaks_at_its_totals(long):
    found = verify(forged(long.entries(), 4, nano=1))
    assert found.broken_at == 4
    assert "totals" in found.why


def test_a_chain_that_was_written_anew_is_told_by_a_head_that_was_noted(long):
    head = long.verify().head
    renamed = forged(long.entries(), 4, label="something else")
    assert verify(renamed).intact
    assert not verify(renamed, head).intact
    assert not verify(long.entries()[:-1], head).intact
    assert verify(long.entries(), head).intact


def test_an_overspend_or_a_double_settlement_cannot_stand_in_a_chain(store):
    account = store.account("visits", promised=0.5)
    account.record(spend(10))
    account.settle()
    entries = store.entries()
    assert "cap" in verify(forged(entries, 2, nano=2 * 10**9, spent=2 * 10**9)).why
    assert "not reserved" in verify(forged(entries, 3, fit="other")).why
    again = replace(entries[1], number=3, spent=2 * entries[1].spent)
    assert "duplicate" in verify(forged((*entries[:2], again), 0)).why


def test_entries_cannot_be_changed_by_accident(long):
    connection = sqlite3.connect(long.path)
    for statement in ("UPDATE entries SET nano = 1", "DELETE FROM entries"):
        with pytest.raises(sqlite3.IntegrityError, match="never"):
            connection.execute(statement)
    connection.close()


def test_nothing_is_spent_on_top_of_a_changed_entry(long):
    tamper(long, "UPDATE entries SET spent = 0 WHERE number = 7")
    with pytest.raises(LedgerError, match="entry 7 of the ledger was changed"):
        long.account("visits")


def test_nothing_is_spent_without_the_rules_that_protect_entries(long):
    long.close()
    with sqlite3.connect(long.path) as connection:
        connection.execute("DROP TRIGGER no_delete")
    connection.close()
    with pytest.raises(LedgerError, match="rules that protect its entries were removed"):
        long.account("visits").record(spend(1))
    assert long.verify().broken_at == 8


# --- stores that cannot be used ---------------------------------------------------------------------


def test_a_missing_ledger_is_not_made_by_mistake(tmp_path):
    with pytest.raises(LedgerError, match=r"there is no ledger at .* dpkmeans ledger create"):
        DurableLedger(tmp_path / "ledger.db")
    assert list(tmp_path.iterdir()) == []


def test_a_newer_ledger_is_left_alone(store):
    store.close()
    with sqlite3.connect(store.path) as connection:
        connection.execute(f"PRAGMA user_version = {tables.VERSION + 1}")
    connection.close()
    with pytest.raises(LedgerError, match="newer version of dpkmeans"):
        DurableLedger(store.path)


@pytest.mark.parametrize("content", [b"", b"not a database", b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_file_that_is_no_ledger_is_refused(tmp_path, content):
    path = tmp_path / "ledger.db"
    path.write_bytes(content)
    with pytest.raises(LedgerError, match="not a ledger"):
        DurableLedger(path)


def test_a_strangers_database_is_refused_and_runs_nothing(tmp_path):
    path = tmp_path / "ledger.db"
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA application_id = {tables.APPLICATION}")
        connection.execute(f"PRAGMA user_version = {tables.VERSION}")
        connection.execute("CREATE VIEW entries AS SELECT load_extension('evil')")
    connection.close()
    with pytest.raises(LedgerError, match="is not a ledger"):
        DurableLedger(path)
    with pytest.raises(LedgerError):
        DurableLedger.create(path)


def test_a_truncated_ledger_is_damaged(long):
    long.close()
    path = long.path
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(LedgerError, match="damaged"):
        DurableLedger(path).verify()


def test_a_folder_is_no_ledger(tmp_path):
    with pytest.raises(LedgerError):
        DurableLedger(tmp_path)
    with pytest.raises(LedgerError):
        DurableLedger.create(tmp_path / "missing" / "ledger.db")


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 201, None, 7, "\x1b[2J"])
def test_names_are_short_and_printable(store, name):
    with pytest.raises(MethodError, match="printable"):
        store.add(name, 1.0)


@pytest.mark.parametrize("cap", [0, -1, float("nan"), float("inf"), 1e-12, 1001, "x"])
def test_a_cap_is_a_budget(store, cap):
    with pytest.raises(BudgetError):
        store.add("sales", cap)
    with pytest.raises(BudgetError):
        store.set_cap("visits", cap)
    assert kinds(store) == ["create"]


def test_eight_writers_survive_forty_kills():
    harness = Path(__file__).parents[3] / "benchmarks" / "kill_ledger.py"
    command = [sys.executable, str(harness), "--kills", "40", "--seconds", "0", "--cap", "0.0003"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["kills"] >= 40
    assert result["draws"] > 40


@pytest.mark.parametrize("promised", [None, 1.0])
def test_a_ledger_in_memory_under_a_durable_account_reserves_in_both_or_spends_nothing(store, promised):
    X = np.random.default_rng(0).random((10_000, 2))
    total = float(store.dataset("visits").remaining)
    ledger = Ledger(5 * total, parent=store.account("visits", promised=promised))
    with pytest.raises(BudgetError):
        DPKMeans(2, epsilon=2 * total, bounds=(0, 1), method="su", ledger=ledger).fit(X)
    assert (ledger.spent, store.dataset("visits").spent) == (Epsilon(0), Epsilon(0))
    DPKMeans(2, epsilon=total / 2, bounds=(0, 1), method="su", ledger=ledger).fit(X)
    assert ledger.spent == Epsilon.of(total / 2)
