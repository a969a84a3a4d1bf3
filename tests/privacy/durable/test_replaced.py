"""A ledger whose file is replaced, cut back or old: nothing is drawn that the right file does not know of."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from dpkmeans.core.epsilon import Epsilon, Spend
from dpkmeans.core.privacy import Loss, Privacy
from dpkmeans.errors import BudgetError, LedgerError, MethodError
from dpkmeans.privacy.durable.hash_chain import verify
from dpkmeans.privacy.durable.ledger import DurableLedger
from dpkmeans.privacy.durable.processes import marked, state_of, unmarked
from dpkmeans.privacy.durable.tables import VERSION, version_of

CORPUS = Path(__file__).parents[2] / "safety" / "corpus" / "ledger"
TENTH = Epsilon.of(0.1)


@pytest.fixture
def store(tmp_path: Path) -> DurableLedger:
    made = DurableLedger.create(tmp_path / "ledger.db", analyst="ada")
    made.add("visits", 1.0)
    return made


def copy(path: Path, to: Path) -> None:
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)


# --- replaced -------------------------------------------------------------------------------------------------------


def test_a_copy_that_takes_the_place_of_an_open_ledger_is_refused_until_it_is_opened_anew(store, tmp_path):
    copy(store.path, tmp_path / "backup.db")
    store.spend("visits", Epsilon.of(0.7), fit="a", label="x")
    account = store.account("visits", promised=0.3)
    os.replace(tmp_path / "backup.db", store.path)
    for act in (
        lambda: store.spend("visits", TENTH, fit="b", label="x"),
        lambda: account.record(Spend("counts", (TENTH,))),
        lambda: store.dataset("visits"),
        lambda: store.verify(),
    ):
        with pytest.raises(LedgerError, match="was replaced or removed while it was in use"):
            act()
    store.close()
    with pytest.raises(LedgerError, match="was replaced"):
        store.spend("visits", TENTH, fit="b", label="x")
    assert DurableLedger(store.path).dataset("visits").cap == Epsilon.of(1.0)


def test_a_ledger_that_was_moved_away_is_refused(store, tmp_path):
    store.path.rename(tmp_path / "elsewhere.db")
    with pytest.raises(LedgerError, match="replaced or removed"):
        store.spend("visits", TENTH, fit="a", label="x")
    assert not store.path.exists()


def test_a_replacement_between_the_commit_and_the_noise_is_noticed_before_anything_is_drawn(store, tmp_path):
    copy(store.path, tmp_path / "backup.db")
    commit = store._file._commit

    def then_replace(connection):
        commit(connection)
        os.replace(tmp_path / "backup.db", store.path)

    store._file._commit = then_replace
    with pytest.raises(LedgerError, match="Nothing is drawn"):
        store.spend("visits", TENTH, fit="a", label="x")


def test_a_copy_written_over_the_file_in_place_is_noticed_by_who_saw_more(store, tmp_path):
    copy(store.path, tmp_path / "backup.db")
    store.spend("visits", TENTH, fit="a", label="x")
    store.close()
    for end in ("-wal", "-shm"):
        Path(f"{store.path}{end}").unlink(missing_ok=True)
    shutil.copyfile(tmp_path / "backup.db", store.path)  # the same inode
    with pytest.raises(LedgerError, match=r"entry 2 of .* is missing or another"):
        store.spend("visits", TENTH, fit="b", label="x")


def test_the_head_in_a_release_shows_that_a_ledger_is_an_older_copy(store, tmp_path):
    copy(store.path, tmp_path / "backup.db")
    store.spend("visits", TENTH, fit="a", label="x")
    head = store.head()
    assert store.verify(head).intact
    assert "the head given is not in the chain" in DurableLedger(tmp_path / "backup.db").verify(head).why


# --- older files ----------------------------------------------------------------------------------------------------


def test_a_file_of_the_first_version_is_read_as_it_is_and_brought_up_to_date_by_the_first_write(tmp_path):
    path = tmp_path / "old.db"
    shutil.copyfile(CORPUS / "good.db", path)
    with closing(sqlite3.connect(path)) as connection:
        assert version_of(connection) == 1
    old = DurableLedger(path, analyst="ada")
    before, head = old.entries(), old.head()
    assert old.verify(head).intact
    assert [r.state for r in old.history("visits").reservations] == []
    with closing(sqlite3.connect(path)) as connection:
        assert version_of(connection) == 1
    old.set_cap("visits", 50.0)
    old.reserve("visits", TENTH, fit="new", label="su")
    old.settle("visits", Epsilon(0), fit="new", label="1 spends", digest="ab" * 32)
    assert old.entries()[: len(before)] == before
    assert old.verify(head).intact
    with closing(sqlite3.connect(path)) as connection:
        assert version_of(connection) == VERSION
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_process_of_an_older_version_that_has_the_file_open_refuses_to_write(tmp_path):
    """It compares the rules of the file with its own before each write; those of an upgraded file are others."""
    shutil.copyfile(CORPUS / "good.db", tmp_path / "old.db")
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection:
        rules = {row[0] for row in connection.execute("SELECT sql FROM sqlite_master")}
        DurableLedger(tmp_path / "old.db").set_cap("visits", 50.0)
        assert {row[0] for row in connection.execute("SELECT sql FROM sqlite_master")} > rules


# --- reservations ---------------------------------------------------------------------------------------------------

CHILD = """
import sys, time
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.privacy.durable.ledger import DurableLedger
DurableLedger(sys.argv[1], analyst="grace").reserve("visits", Epsilon.of(0.25), fit="child", label="su")
print("reserved", flush=True)
time.sleep(600)
"""


def test_running_and_crashed_reservations_look_different_and_crashed_ones_are_settled_as_spent(store):
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(store.path)], stdout=subprocess.PIPE)
    try:
        assert child.stdout.readline() == b"reserved\n"
        store.reserve("visits", TENTH, fit="mine", label="synopsis")
        assert {r.fit: r.state for r in store.history("visits").reservations} == {"child": "running", "mine": "running"}
        assert store.recover() == ()
        with pytest.raises(MethodError, match="'child' runs"):
            store.recover(fit="child")
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    states = {r.fit: (r.state, r.note, r.analyst) for r in store.history("visits").reservations}
    assert states == {"child": ("crashed", "su", "grace"), "mine": ("running", "synopsis", "ada")}
    assert [r.fit for r in store.recover("visits")] == ["child"]
    assert store.recover() == ()
    assert store.dataset("visits").spent == Epsilon.of(0.35)
    last = store.entries()[-1]
    assert (last.kind, last.nano, last.analyst, last.label) == ("settle", 0, "ada", "crashed: all of it stays spent")
    assert store.verify().intact


def test_what_cannot_be_told_is_unknown_and_settled_by_name_alone(store):
    store._write(lambda book: book.charge("reserve", "visits", Loss(TENTH), fit="old", label="synopsis"))
    assert [r.state for r in store.history().reservations] == ["unknown"]
    assert store.recover() == ()
    assert [r.fit for r in store.recover(fit="old")] == ["old"]
    assert store.verify().intact


def test_a_mark_names_a_process_and_nothing_else():
    label = marked("su; 3 [x]")
    assert unmarked(label) == "su; 3 [x]"
    assert state_of(label) == "running"
    boot, space, pid, start = label.rsplit("[", 1)[1].rstrip("]").split(".")
    assert state_of(f"su [{boot}.{space}.{pid}.{int(start) + 1}]") == "crashed"  # the number went to another process
    assert state_of(f"su [00000000.{space}.{pid}.{start}]") == "crashed"  # before the machine was started again
    assert state_of(f"su [{boot}.1.{pid}.{start}]") == "unknown"
    assert state_of("su") == "unknown"


def test_a_fit_that_ends_with_an_error_says_so_and_stays_spent(store):
    def fit() -> None:
        with store.account("visits", promised=0.5, note="su") as account:
            account.record(Spend("counts", (TENTH,)))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fit()
    assert [r.state for r in store.history().reservations] == []
    assert store.dataset("visits").spent == Epsilon.of(0.5)
    assert store.entries()[-1].label == "failed: all of it stays spent"


# --- analysts -------------------------------------------------------------------------------------------------------


def test_an_analyst_spends_no_more_than_a_share_and_all_together_no_more_than_the_cap(store):
    store.set_share("visits", "ada", 0.6)
    store.set_share("visits", "grace", 0.6)
    grace, alan = DurableLedger(store.path, analyst="grace"), DurableLedger(store.path, analyst="alan")
    store.spend("visits", Epsilon.of(0.5), fit="a", label="x")
    with pytest.raises(BudgetError, match=r"ada has spent epsilon=0.5 of a share of epsilon=0.6"):
        store.spend("visits", Epsilon.of(0.2), fit="b", label="x")
    with pytest.raises(BudgetError, match="alan has no share"):
        alan.account("visits", promised=0.1)
    with grace.account("visits", promised=0.5) as account:
        account.record(Spend("counts", (TENTH,)))
    assert {s.analyst: str(s.held) for s in store.shares("visits")} == {"ada": "epsilon=0.5", "grace": "epsilon=0.1"}
    grace.spend("visits", Epsilon.of(0.4), fit="c", label="x")
    store.set_share("visits", "grace", 5.0)
    with pytest.raises(BudgetError, match="has only 0 left"):
        grace.spend("visits", TENTH, fit="d", label="x")
    assert store.verify().intact


def test_a_share_below_what_is_spent_ends_spending_and_others_cannot_settle_for_an_analyst(store):
    store.set_share("visits", "ada", 0.5)
    store.reserve("visits", Epsilon.of(0.4), fit="a", label="su")
    grace = DurableLedger(store.path, analyst="grace")
    with pytest.raises(BudgetError, match="who alone can give back"):
        grace.settle("visits", Epsilon.of(0.3), fit="a", label="x")
    store.set_share("visits", "ada", 0.1)
    with pytest.raises(BudgetError, match="of a share of"):
        store.spend("visits", Epsilon(1), fit="b", label="x")


def test_shares_hold_in_rho_and_at_a_delta_too(tmp_path):
    store = DurableLedger.create(tmp_path / "ledger.db", analyst="ada")
    for name, cap in (("rho", Privacy.of(rho=0.1)), ("delta", Privacy.of(1.0, 1e-6))):
        store.add(name, cap)
        store.set_share(name, "ada", cap if name == "rho" else 0.5)
    store.spend("delta", Epsilon.of(0.3), fit="a", label="x")
    with pytest.raises(BudgetError, match="ada has spent"):
        store.spend("delta", Epsilon.of(0.3), fit="b", label="x")
    store.spend("rho", Epsilon.of(0.2), fit="c", label="x")
    assert store.verify().intact


def test_the_chain_tells_of_a_spend_past_a_share(store):
    store.set_share("visits", "ada", 0.2)
    store.spend("visits", TENTH, fit="a", label="x")
    *good, last = store.entries()
    much = replace(last, nano=3 * last.nano, spent=3 * last.spent).sealed(None)
    assert "passes the share of its analyst" in verify([*good, much]).why
    other = replace(last, analyst="alan").sealed(None)
    assert "passes the share of its analyst" in verify([*good, other]).why


# --- a full disk ----------------------------------------------------------------------------------------------------


def test_a_ledger_on_a_full_disk_can_be_read_and_not_spent_from(tmp_path):
    """On a real file system of 400 kB, filled to the last byte; once with a log that a killed writer left behind."""
    from benchmarks.chaos.ledger import _no_mount, full_disk

    reason = _no_mount()
    if reason is not None:
        pytest.skip(reason)
    outcome = full_disk(4)
    assert outcome.kept
    assert outcome.seen == {"read, and spending refused": 4}
