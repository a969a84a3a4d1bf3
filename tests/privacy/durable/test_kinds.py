"""Data sets of a durable ledger whose cap is an epsilon at a delta, or a rho."""

from __future__ import annotations

import json
import random
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from dpkmeans import DPKMeans
from dpkmeans.cli.ledger import _show
from dpkmeans.cli.main import main
from dpkmeans.core.conversion import capacity, epsilon_of
from dpkmeans.core.epsilon import Epsilon, Spend
from dpkmeans.core.exact import Exact
from dpkmeans.core.privacy import Loss, Privacy
from dpkmeans.core.query import Sensitivity
from dpkmeans.core.rho import Rho
from dpkmeans.errors import BudgetError, LedgerError, MethodError
from dpkmeans.privacy.durable.book import Book
from dpkmeans.privacy.durable.hash_chain import verify
from dpkmeans.privacy.durable.ledger import DurableLedger
from dpkmeans.privacy.durable.terms import Terms
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Gaussian
from dpkmeans.privacy.randomness import Randomness

APPROXIMATE, CONCENTRATED, PURE = Privacy.of(1.0, 1e-6), Privacy.of(rho=0.1), Privacy.of(1.0)
HALF, TENTH = Epsilon.of(0.5), Epsilon.of(0.1)
EXACT = Exact(np.zeros(3, dtype=np.int64), Sensitivity(l1=1, l2_squared=1))


@pytest.fixture
def store(tmp_path):
    ledger = DurableLedger.create(tmp_path / "ledger.db", analyst="ann")
    for name, cap in (("approximate", APPROXIMATE), ("concentrated", CONCENTRATED), ("pure", PURE)):
        ledger.add(name, cap)
    return ledger


def spend_rho(rho: float) -> Loss:
    return Loss(rho=Rho.of(rho))


def test_a_data_set_has_one_kind_from_its_creation_on(store):
    assert [(d.name, d.kind, str(d.cap)) for d in store.datasets()] == [
        ("approximate", "epsilon-delta", "1"),
        ("concentrated", "rho", "0.1"),
        ("pure", "epsilon", "1"),
    ]
    with pytest.raises(MethodError, match="one kind of cap"):
        store.set_cap("concentrated", 2.0)
    with pytest.raises(MethodError, match="one kind of cap"):
        store.set_cap("pure", Privacy.of(1.0, 1e-6))
    with pytest.raises(MethodError, match="one kind of cap"):
        store.set_cap("approximate", Privacy.of(1.0, 1e-7))
    store.set_cap("approximate", 2.0)
    store.set_cap("concentrated", Privacy.of(rho=0.2))
    assert store.dataset("approximate").privacy == Privacy.of(2.0, 1e-6)
    assert store.dataset("concentrated").cap == Rho.of(0.2)
    assert store.verify().intact


def test_a_cap_in_rho_adds_up_rhos_and_half_the_squares_of_pure_spends(store):
    store.spend("concentrated", spend_rho(0.05), fit="a", label="x")
    store.spend("concentrated", TENTH, fit="b", label="y")
    assert store.dataset("concentrated").held == spend_rho(0.055)
    with pytest.raises(BudgetError, match=r"only rho=0\.045 left"):
        store.spend("concentrated", Loss(rho=Rho.of(0.045) + Rho(1)), fit="c", label="z")
    store.spend("concentrated", spend_rho(0.045), fit="c", label="z")
    assert store.dataset("concentrated").remaining == Rho(0)
    assert store.verify().intact


def test_a_cap_at_a_delta_counts_pure_spends_as_themselves_until_the_first_rho(store):
    store.spend("approximate", HALF, fit="a", label="x")
    left = store.dataset("approximate").remaining_rho
    assert left == capacity(HALF, 1e-6)
    store.spend("approximate", Loss(rho=left - Rho.of(0.005)), fit="b", label="y")
    store.spend("approximate", TENTH, fit="c", label="z")  # 0.005 of rho
    known = store.dataset("approximate")
    assert known.held == Loss(HALF, left)
    assert known.spent == Epsilon.of(1.0)
    assert (known.remaining, known.remaining_rho) == (Epsilon(0), Rho(0))
    for more in (Loss(Epsilon(1)), Loss(rho=Rho(1))):
        with pytest.raises(BudgetError, match="has only"):
            store.spend("approximate", more, fit="d", label="too much")
    assert [e.kind for e in store.entries() if e.fit] == ["spend", "spend rho", "spend rho"]
    assert store.verify().intact


def test_gaussian_noise_is_refused_where_pure_epsilon_is_counted(store):
    with pytest.raises(BudgetError, match="pure epsilon"):
        store.spend("pure", spend_rho(0.01), fit="a", label="x")
    with pytest.raises(MethodError, match="knows no delta"):
        store.account("pure", promised=Privacy.of(0.5, 1e-6))
    assert len(store.entries()) == 3


@pytest.mark.parametrize("dataset", ["approximate", "concentrated"])
@pytest.mark.parametrize("promised", [Privacy.of(0.5, 1e-6), Privacy.of(rho=0.005)], ids=str)
def test_a_fit_reserves_its_rho_in_one_entry_and_settles_it(store, dataset, promised):
    rho = promised.as_rho()
    with store.account(dataset, promised=promised) as account:
        own = Ledger(promised.in_rho(), parent=account)
        Gaussian(Rho.of(0.001)).release(EXACT, ledger=own, rng=Randomness.secure(), label="sums")
        own.spend(Epsilon.of(0.02), "counts")
        assert store.dataset(dataset).held.rho == rho
        with pytest.raises(BudgetError):
            own.spend_rho(rho, "too much")
    assert store.dataset(dataset).held == spend_rho(0.0012)
    assert [e.kind.split()[0] for e in store.entries() if e.fit] == ["reserve", "settle"]
    assert store.verify().intact


def test_of_a_fit_that_dies_all_its_rho_stays_spent(store):
    account = store.account("approximate", promised=Privacy.of(rho=0.005))
    account.record(Spend("sums", rho=Rho.of(0.001)))
    with pytest.raises(RuntimeError), account:
        raise RuntimeError("killed")
    assert store.dataset("approximate").held == spend_rho(0.005)
    assert store.verify().intact


def test_a_pure_reservation_is_not_given_back_once_rho_is_spent(store):
    first = store.account("approximate", promised=0.5)
    first.record(Spend("counts", (TENTH,)))
    store.spend("approximate", spend_rho(0.001), fit="other", label="sums")
    first.record(Spend("counts", (TENTH,)))
    first.settle()
    assert store.dataset("approximate").held == Loss(HALF, Rho.of(0.001))
    assert store.verify().intact
    with store.account("approximate", promised=0.05) as later:  # a pure fit after the first rho costs half its square
        later.record(Spend("counts", (Epsilon.of(0.05),)))
    assert store.dataset("approximate").held == Loss(HALF, Rho.of(0.001) + Rho.of(0.00125))


def test_a_pure_fit_gives_back_what_it_did_not_use_before_the_first_rho(store):
    with store.account("approximate", promised=0.5) as account:
        account.record(Spend("counts", (TENTH,)))
    assert store.dataset("approximate").held == Loss(TENTH)


@pytest.mark.parametrize("seed", range(6))
def test_no_order_of_fits_spends_more_than_the_cap(store, seed):
    """Pure and concentrated fits, nested and interleaved, at random: the total never passes epsilon at delta."""
    rng = random.Random(seed)
    open_accounts, dataset = [], rng.choice(["approximate", "concentrated"])
    for _ in range(60):
        try:
            if open_accounts and rng.random() < 0.4:
                open_accounts.pop(rng.randrange(len(open_accounts))).settle()
            elif open_accounts and rng.random() < 0.6:
                account = rng.choice(open_accounts)
                part = Rho.of(rng.choice([1e-5, 1e-4, 1e-3]))
                pure = (Epsilon.of(rng.choice([0.001, 0.01, 0.05])),)
                account.record(Spend("x", rho=part) if rng.random() < 0.5 else Spend("x", pure))
            else:
                promised = rng.choice([Privacy.of(0.05), Privacy.of(0.2, 1e-6), Privacy.of(rho=0.002)])
                open_accounts.append(store.account(dataset, promised=promised))
        except BudgetError:
            pass
        known = store.dataset(dataset)
        assert known.privacy.covers(known.held)
        if dataset == "approximate":
            assert known.held.pure + epsilon_of(known.held.rho, 1e-6) <= Epsilon.of(1.0)
    assert store.verify().intact


# Files from before, and the chain.


def as_older(path, version):
    """The file as an older version would have made it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP INDEX fits")
        connection.execute("DROP INDEX kinds")
        connection.execute(f"PRAGMA user_version = {version}")
        connection.commit()


def head_version(store):
    store.close()
    with closing(sqlite3.connect(store.path)) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


def test_a_file_from_before_there_was_a_delta_keeps_its_chain_and_takes_new_data_sets(tmp_path):
    old = DurableLedger.create(tmp_path / "old.db")
    old._write(lambda book: book.append("create", "visits", 10**9, cap=10**9, spent=0))
    old.spend("visits", TENTH, fit="a", label="x")
    head = old.verify().head
    old.close()
    as_older(old.path, 1)
    old = DurableLedger(old.path)
    assert old.dataset("visits").privacy == PURE
    assert old.verify(head).intact
    assert head_version(old) == 1  # looking changes nothing
    old.add("embeddings", APPROXIMATE)
    assert head_version(old) == 3
    old.spend("visits", TENTH, fit="b", label="y")
    old.spend("embeddings", spend_rho(0.01), fit="c", label="z")
    assert old.verify(head).intact
    assert old.dataset("visits").remaining == Epsilon.of(0.8)


def chain(store):
    return list(store.entries())


def rehashed(entries):
    """The chain with new hashes, as somebody writes it who knows how."""
    previous, out = "0" * 64, []
    for entry in entries:
        entry = replace(entry, previous=previous)
        entry = replace(entry, sha256=entry.digest())
        previous = entry.sha256
        out.append(entry)
    return out


def test_a_chain_that_was_hashed_anew_breaks_at_what_it_overspends(store):
    store.spend("approximate", HALF, fit="a", label="x")
    store.spend("approximate", spend_rho(0.004), fit="b", label="y")
    good = chain(store)
    assert verify(rehashed(good)).intact
    assert verify(rehashed([*good[:-1], replace(good[-1], cap=good[-1].cap + 10**6)])).broken_at == 5
    much = replace(good[-1], nano=good[-1].cap + 1, spent=good[-1].cap + 1)
    assert "passes the cap" in verify(rehashed([*good[:-1], much])).why
    late = replace(good[3], number=6, fit="c", spent=2 * good[3].spent)
    assert "passes the cap" in verify(rehashed([*good, late])).why  # pure, once there is rho
    stray = replace(good[-1], dataset="pure")
    assert "cannot stand here" in verify(rehashed([*good[:-1], stray])).why
    odd = replace(good[0], label="delta: 1e-06; rho")
    assert "not known" in verify(rehashed([odd])).why


@pytest.mark.parametrize("label", ["delta: 0", "delta: x", "rho; rho", "rho; unit: person", "delta: 1e-6", "gamma"])
def test_terms_that_are_not_known_are_refused(label):
    with pytest.raises(LedgerError, match="does not know"):
        Terms.read(label, "visits")


@pytest.mark.parametrize("unit", ["row", "person"])
@pytest.mark.parametrize("cap", [PURE, APPROXIMATE, CONCENTRATED], ids=str)
def test_terms_survive_their_label(unit, cap):
    terms = Terms.of(unit, cap)
    assert Terms.read(terms.label, "visits") == terms
    assert terms.cap(terms.units(cap)) == cap


# Fits and commands.


def test_fits_are_charged_to_caps_of_either_kind(store):
    X = np.random.default_rng(0).random((20_000, 2))

    def fit(dataset, **privacy):
        return DPKMeans(2, bounds=(0, 1), ledger=store, dataset=dataset, **privacy).fit(X).release_

    assert fit("approximate", epsilon=0.25, delta=1e-6).epsilon_spent == 0.25  # no Gaussian noise: pure
    assert store.dataset("approximate").held == Loss(Epsilon.of(0.25))
    assert fit("concentrated", rho=0.02).epsilon_spent == 0.2
    assert Rho(0) < store.dataset("concentrated").held.rho <= Rho.of(0.02)
    with pytest.raises(BudgetError, match="has only"):
        fit("approximate", epsilon=0.9)
    assert store.verify().intact


def test_commands_create_show_and_change_caps_of_either_kind(tmp_path, capsys):
    file = str(tmp_path / "ledger.db")
    assert main(["ledger", "create", file, "--dataset", "notes", "--epsilon", "4", "--delta", "1e-6"]) == 0
    assert "a cap of 4 at delta 1e-06 per row" in capsys.readouterr().err
    assert main(["ledger", "create", file, "--dataset", "clicks", "--rho", "0.1", "--json"]) == 0
    created = json.loads(capsys.readouterr().out)
    assert (created["kind"], created["cap"], created["remaining_rho"]) == ("rho", 0.1, 0.1)
    store = DurableLedger(file)
    store.spend("notes", HALF, fit="a", label="counts")
    store.spend("notes", spend_rho(0.01), fit="b", label="sums")
    assert main(["ledger", "show", file]) == 0
    shown = capsys.readouterr().out
    for word in ("4 at delta 1e-06", "epsilon=0.5 and rho=0.01", "or rho 0.", "rho 0.1"):
        assert word in " ".join(shown.split())
    assert main(["ledger", "show", file, "--dataset", "notes"]) == 0
    assert "spend rho" in capsys.readouterr().out
    assert main(["ledger", "cap", file, "--dataset", "clicks", "--rho", "0.2"]) == 0
    assert main(["ledger", "cap", file, "--dataset", "notes", "--cap", "5"]) == 0
    assert "a cap of 5 at delta 1e-06" in capsys.readouterr().err
    assert main(["ledger", "cap", file, "--dataset", "notes", "--rho", "0.2"]) != 0
    assert "one kind of cap" in capsys.readouterr().err
    assert main(["ledger", "create", file, "--dataset", "empty"]) != 0
    assert "--cap is missing" in capsys.readouterr().err
    assert main(["ledger", "verify", file]) == 0


@pytest.mark.parametrize("dataset", ["concentrated", "pure"])
def test_a_spend_takes_no_more_steps_after_hundreds_of_entries(store, dataset):
    book = Book(sqlite3.connect(store.path), store.path, "ann", None)
    spend = spend_rho(1e-6) if dataset == "concentrated" else Loss(Epsilon.of(1e-6))

    def steps() -> int:
        """Instructions of SQLite's own machine for one spend."""
        counted = []
        book.connection.set_progress_handler(lambda: counted.append(1), 1)
        book.charge("spend", dataset, spend, fit="fit", label="step")
        book.connection.set_progress_handler(None, 0)
        return len(counted)

    first = steps()
    for _ in range(500):
        book.charge("spend", dataset, spend, fit="fit", label="step")
    assert steps() < 1.5 * first
    book.connection.close()


@pytest.mark.slow
def test_what_it_takes_to_show_a_ledger_grows_with_its_entries_and_not_faster(store, capsys):
    """Steps of SQLite's machine, calls of Python functions: for four times the entries not sixteen times as many."""

    def work() -> tuple[int, int]:
        steps, calls = [], []
        store._read(lambda book: book.connection.set_progress_handler(lambda: steps.append(1), 1))
        sys.setprofile(lambda *_: calls.append(1))
        try:
            _show(store, "pure", json=False)
        finally:
            sys.setprofile(None)
            store._read(lambda book: book.connection.set_progress_handler(None, 0))
        return len(steps), len(calls)

    def fits(first: int, last: int) -> None:
        for i in range(first, last):
            store.reserve("pure", Epsilon(10), fit=f"fit {i}", label="synopsis")
            store.settle("pure", Epsilon(5), fit=f"fit {i}", label="", digest=f"{i:064x}")

    fits(0, 50)
    few = work()
    fits(50, 200)
    many = work()
    assert few[0] < many[0] < 5 * few[0]
    assert few[1] < many[1] < 5 * few[1]
    assert "fit 199" in capsys.readouterr().out
