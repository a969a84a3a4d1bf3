"""What a process and its forked children commit is on the disk for both, whoever closes the file first.

SQLite's locks belong to a process, so each scenario runs in processes of its own, and the ledger is judged from here.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from dpkmeans import DurableLedger
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.errors import BudgetError

pytestmark = pytest.mark.slow

HEAD = """
import multiprocessing, os, sys, threading, time, warnings
warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
import numpy as np
from dpkmeans import DPKMeans, DurableLedger
from dpkmeans.core.epsilon import Epsilon, Spend
from dpkmeans.errors import BudgetError, LedgerError

path = sys.argv[1]
store = DurableLedger(path, analyst="parent")
store.dataset("visits")

def fit(ledger):
    model = DPKMeans(2, bounds=(0, 1), epsilon=1.0, method="su", ledger=ledger, dataset="visits")
    release = model.fit(np.random.default_rng(0).random((10_000, 2))).release_
    assert (release.guarantee.label, release.epsilon_spent) == ("proved", 1.0)

def in_child(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return pid

def spend(ledger, nano=1, times=1):
    for _ in range(times):
        ledger.account("visits").record(Spend("counts", (Epsilon(nano),)))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = DurableLedger.create(tmp_path / "ledger.db", analyst="ada")
    made.add("visits", 1.0)
    made.close()
    return made.path


def run(path: Path, script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", HEAD + textwrap.dedent(script), str(path)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def spent(path: Path) -> Epsilon:
    store = DurableLedger(path, analyst="judge")
    assert store.verify().intact
    return store.dataset("visits").held.pure


def wait_for(path: Path, budget: Epsilon) -> None:
    end = time.monotonic() + 60
    while spent(path) != budget:
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("mine", ["store", "DurableLedger(path)"], ids=["inherited", "fresh"])
def test_a_cap_of_one_pays_for_one_release_when_the_parent_closes_its_ledger_before_the_child_spends(path, mine):
    said = run(
        path,
        f"""
        open_read, open_write = os.pipe()
        closed_read, closed_write = os.pipe()

        def work():
            mine = {mine}
            mine.dataset("visits")
            os.write(open_write, b"x")
            os.read(closed_read, 1)
            fit(mine)

        pid = in_child(work)
        os.read(open_read, 1)
        store.close()
        os.write(closed_write, b"x")
        assert os.waitpid(pid, 0)[1] == 0
        try:
            fit(DurableLedger(path))
        except BudgetError:
            print("refused")
        """,
    )
    assert said.strip() == "refused"
    assert spent(path) == Epsilon.of(1.0)


def test_a_child_whose_parent_exits_commits_to_the_disk(path):
    run(
        path,
        """
        parent = os.getpid()

        open_read, open_write = os.pipe()

        def work():
            store.dataset("visits")
            os.write(open_write, b"x")
            while os.getppid() == parent:
                time.sleep(0.01)
            spend(store, 7)

        in_child(work)
        os.read(open_read, 1)
        """,
    )
    wait_for(path, Epsilon(7))


def test_a_daemon_commits_to_the_disk(path):
    run(
        path,
        """
        def daemon():
            os.setsid()
            in_child(lambda: (time.sleep(0.3), fit(store)))

        assert os.waitpid(in_child(daemon), 0)[1] == 0
        """,
    )
    wait_for(path, Epsilon.of(1.0))
    with pytest.raises(BudgetError):
        DurableLedger(path).account("visits", promised=1e-9)


def test_forked_workers_of_multiprocessing_and_their_parent_share_a_cap_to_the_nano(path):
    said = run(
        path,
        """
        store.set_cap("visits", Epsilon(100))

        def work(_):
            try:
                spend(store, 3)
            except BudgetError:
                return 0
            return 1

        with multiprocessing.get_context("fork").Pool(4) as pool:
            granted = sum(pool.map(work, range(20), chunksize=1))
            store.close()
            pending = pool.map_async(work, range(10), chunksize=1)
            granted += sum(work(0) for _ in range(10)) + sum(pending.get(60))
        print(granted)
        """,
    )
    assert said.strip() == "33"
    assert spent(path) == Epsilon(99)


def test_a_fork_waits_for_the_transaction_of_another_thread(path):
    said = run(
        path,
        """
        inside, order = threading.Event(), []
        commit = store._file._commit

        def slow_commit(connection):
            inside.set()
            time.sleep(0.5)
            commit(connection)
            order.append("commit")

        store._file._commit = slow_commit
        thread = threading.Thread(target=spend, args=(store, 5))
        thread.start()
        inside.wait()
        pid = in_child(lambda: (order.append("fork"), print(order, flush=True), spend(DurableLedger(path), 2)))
        thread.join()
        assert os.waitpid(pid, 0)[1] == 0
        spend(DurableLedger(path), 1)
        """,
    )
    assert said.strip() == "['commit', 'fork']"
    assert spent(path) == Epsilon(8)


def test_threads_that_spend_while_others_fork_lose_nothing(path):
    run(
        path,
        """
        threads = [threading.Thread(target=spend, args=(store, 1, 40)) for _ in range(3)]
        for thread in threads:
            thread.start()
        pids = [in_child(lambda: spend(store, 1, 3)) for _ in range(12)]
        for thread in threads:
            thread.join()
        assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 12
        """,
    )
    assert spent(path) == Epsilon(3 * 40 + 12 * 3)


def test_a_fork_by_a_signal_handler_inside_a_transaction_leaves_no_half_of_it(path):
    said = run(
        path,
        """
        import signal
        pids = []
        signal.signal(signal.SIGUSR1, lambda *_: pids.append(os.fork()))
        commit = store._file._commit

        def struck(connection):
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0.05)
            commit(connection)

        store._file._commit = struck
        try:
            spend(store, 5)
        except LedgerError as error:
            said = str(error)
        store._file._commit = commit
        spend(store, 3)
        if pids[0] == 0:
            os._exit(0)
        assert os.waitpid(pids[0], 0)[1] == 0
        print(said)
        """,
    )
    assert "forked while it used" in said
    assert spent(path) == Epsilon(6)


def test_a_fork_that_python_does_not_know_of_is_refused(path):
    said = run(
        path,
        """
        import ctypes
        pid = ctypes.PyDLL(None).fork()
        if pid == 0:
            try:
                spend(DurableLedger(path))
            except LedgerError as error:
                print(error, flush=True)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        """,
    )
    assert "forked without Python's knowledge" in said
    assert spent(path) == Epsilon(0)


def test_an_account_and_a_ledger_in_memory_do_not_count_twice_in_a_forked_child(path):
    said = run(
        path,
        """
        from dpkmeans import Ledger
        memory = Ledger(1.0)
        account = store.account("visits", promised=1.0)
        account.record(Spend("counts", (Epsilon.of(0.5),)))

        def work():
            for act in (lambda: account.record(Spend("sums", (Epsilon.of(0.5),))), account.settle, lambda: fit(memory),
                        lambda: memory.spend(Epsilon(1), "counts")):
                try:
                    act()
                except BudgetError as error:
                    print(error, flush=True)

        fit = lambda ledger: DPKMeans(2, bounds=(0, 1), epsilon=1.0, ledger=ledger).fit(np.zeros((9, 2)))
        assert os.waitpid(in_child(work), 0)[1] == 0
        """,
    )
    assert [line.split(". ")[0] for line in said.splitlines()] == ["This ledger came into this process by a fork"] * 4
    assert spent(path) == Epsilon.of(1.0)


def test_a_child_draws_other_noise_than_its_parent(path):
    """Equal by chance with a probability below 2^-400: 16 draws of a scale of 2^30."""
    said = run(
        path,
        """
        from fractions import Fraction
        from dpkmeans.privacy.randomness import SecureNoise

        def draw():
            print(SecureNoise().laplace(np.zeros(16, np.int64), Fraction(2**30)).tolist(), flush=True)

        draw()
        assert os.waitpid(in_child(draw), 0)[1] == 0
        draw()
        """,
    )
    assert len(set(said.splitlines())) == 3


def test_a_fork_in_another_folder_leaves_a_ledger_of_a_relative_path_where_it_was(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        DurableLedger.create(tmp_path / name / "ledger.db", analyst="ada").add("visits", 1.0)
    script = """
        os.chdir(sys.argv[1]); relative = DurableLedger("ledger.db")
        fit(relative)
        os.chdir("../two")
        os.waitpid(in_child(lambda: None), 0)
        try:
            fit(relative)
        except BudgetError:
            print("refused")
    """
    head = HEAD.replace('store = DurableLedger(path, analyst="parent")\nstore.dataset("visits")\n', "")
    command = [sys.executable, "-c", head + textwrap.dedent(script), str(tmp_path / "one")]
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout == "refused\n"
    assert DurableLedger(tmp_path / "two" / "ledger.db").dataset("visits").spent == Epsilon(0)
