"""Disks that fill up, folders without permission, signals in a fit: old files stay, the ledger is right, codes tell."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from dpkmeans import DPKMeans, DurableLedger, interrupts
from dpkmeans.cli.main import main
from dpkmeans.core.epsilon import Epsilon, Spend
from dpkmeans.data.source import Files
from dpkmeans.engines import config
from dpkmeans.errors import EngineError, FileError, LedgerError
from dpkmeans.privacy.randomness import SecureNoise
from dpkmeans.storage.json_files import write_text

ONE = Spend("counts", (Epsilon.of(0.25),))

CHILD = """
import os, sys, time
from pathlib import Path
from dpkmeans.cli.main import main
from dpkmeans.privacy.randomness import SecureNoise

moment, ready = sys.argv[1], Path(sys.argv[2])

def wait(*_):
    ready.touch()
    time.sleep(120)

class Importing:
    def find_spec(self, name, *_):
        if name == "cyclopts":
            wait()

if moment == "draw":
    SecureNoise.laplace = wait
elif moment == "write":
    os.fsync = wait
elif moment == "start":
    sys.meta_path.insert(0, Importing())
else:
    from concurrent.futures import ThreadPoolExecutor
    from dpkmeans.engines import stream

    class Pool(ThreadPoolExecutor):
        def submit(self, work, *given):
            return super().submit(wait)

    stream.ThreadPoolExecutor = Pool
    if moment == "patience":
        from dpkmeans import interrupts
        from dpkmeans.cli import signals
        signals.GRACE = 1000.0
        request = interrupts.request

        def noted(number):
            request(number)
            ready.with_name("asked").touch()

        interrupts.request = noted
sys.argv[1:] = sys.argv[3:]
sys.exit(main())
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    np.savetxt(path, np.random.default_rng(0).random((100, 2)), delimiter=",", fmt="%.6f")
    return path


def arguments(data: Path, ledger: Path, out: Path) -> list[str]:
    options = ["--k", "2", "--bounds", "0:1", "--method", "blum", "--epsilon", "1", "--dataset", "visits"]
    return ["fit", str(data), "--no-header", *options, "--ledger", str(ledger), "--out", str(out), "--force"]


def started(moment: str, ready: Path, given: list[str], **environment: str) -> subprocess.Popen[str]:
    """A command that has come to the moment."""
    command = [sys.executable, "-c", CHILD, moment, str(ready), *given]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environment
    )
    wait_for(ready, child)
    return child


def wait_for(path: Path, child: subprocess.Popen[str]) -> None:
    """Until the child has made the file, or has ended."""
    deadline = time.monotonic() + 100
    while not path.exists() and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)


@pytest.mark.parametrize("moment", ["draw", "write"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_a_fit_leaves_the_old_file_and_the_right_ledger(tmp_path, data, moment, number, code):
    folder = tmp_path / "models"
    folder.mkdir()
    out, ready = folder / "model.json", tmp_path / "ready"
    out.write_text("the old file")
    store = DurableLedger.create(tmp_path / "ledger.db")
    store.add("visits", 1.5)
    child = started(moment, ready, arguments(data, store.path, out))
    child.send_signal(number)
    _, errors = child.communicate(timeout=100)
    assert child.returncode == code, errors
    assert errors.splitlines()[-1].endswith("What was spent before stays spent.")
    assert "Traceback" not in errors
    assert [path.name for path in folder.iterdir()] == ["model.json"]
    assert out.read_text() == "the old file"
    assert store.dataset("visits").spent == Epsilon.of(1.0)
    assert store.verify().intact


@pytest.mark.parametrize("moment", ["threads", "patience"])
def test_a_streamed_fit_ends_and_leaves_no_records_though_its_threads_never_do(tmp_path, data, moment):
    """One signal ends it after a while; a second one at once, however patient the first would be."""
    (tmp_path / "temporary").mkdir()
    given = ["fit", str(data), "--no-header", "--k", "2", "--bounds", "0:1", "--epsilon", "1", "--engine", "stream"]
    child = started(moment, tmp_path / "ready", given, TMPDIR=str(tmp_path / "temporary"))
    records = list((tmp_path / "temporary").glob("dpkmeans-records-*/*"))
    child.send_signal(signal.SIGTERM)
    if moment == "patience":
        wait_for(tmp_path / "asked", child)  # two signals at once have no order
        child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=100)
    assert child.returncode == 143, errors
    assert errors.splitlines()[-1] == "error: terminated. What was spent before stays spent."
    assert len(records) == 1
    assert list((tmp_path / "temporary").iterdir()) == []


BUSY = """
import subprocess, sys, time
from dpkmeans.cli.signals import watched
with watched(to_the_end=True):
    subprocess.Popen([sys.executable, "-c", "import time; print('started', flush=True); time.sleep(600)"])
    time.sleep(600)
"""


def test_a_command_that_meets_no_request_takes_with_it_what_it_has_started():
    """As the Java of Spark, which may not notice by itself. What it has started holds the pipe open."""
    child = subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "started\n"
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=100)
    assert child.returncode == 143


def test_the_command_starts_spark_where_it_takes_no_signals(monkeypatch):
    class Builder:
        def getOrCreate(self) -> bool:
            return threading.current_thread() is threading.main_thread()

    assert config._started(Builder())
    monkeypatch.setattr(interrupts, "is_process_ours", lambda: True)
    assert not config._started(Builder())


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_the_command_starts_prints_one_line(tmp_path, number, code):
    child = started("start", tmp_path / "ready", ["--help"])
    child.send_signal(number)
    _, errors = child.communicate(timeout=100)
    assert child.returncode == code
    assert errors == f"error: {'interrupted' if code == 130 else 'terminated'}.\n"


def test_work_of_several_threads_ends_on_a_request(data):
    interrupts.request(signal.SIGTERM)
    try:
        for engine in ("memory", "stream"):
            model = DPKMeans(2, bounds=(0, 1), epsilon=1.0, engine=engine)
            with pytest.raises(interrupts.Stopped):
                model.fit(Files(data, header=False))
    finally:
        interrupts.withdraw()


def test_an_error_of_work_that_is_given_up_is_not_what_the_command_says(monkeypatch, capsys):
    """A cluster that ends because of the signal fails: the exit code is still that of the signal."""
    from dpkmeans.cli import app

    def run(_):
        interrupts.request(signal.SIGTERM)
        raise EngineError("a Spark job failed.")

    monkeypatch.setattr(app, "run", run)
    assert main(["methods"]) == 143
    assert capsys.readouterr().err == "error: terminated. What was spent before stays spent.\n"
    assert interrupts.requested() is None


# --- disks ------------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A small disk of its own in memory; call it with mount options."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = []

    def mount(options: str) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        try:
            done = subprocess.run(command, capture_output=True, check=False)
        except OSError:
            pytest.skip("there is no mount command")
        if done.returncode != 0:
            pytest.skip("mounting a small disk is not permitted")
        mounted.append(folder)
        return folder

    yield mount
    for _ in mounted:
        subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)


def fill(folder: Path) -> Path:
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            return ballast


def test_a_disk_that_fills_during_a_write_keeps_the_old_file(disk):
    folder = disk("size=512k")
    path = folder / "model.json"
    write_text(path, "the old file")
    with pytest.raises(FileError, match=r"No space left on device. The file was left as it was"):
        write_text(path, "x" * 2**20)
    assert path.read_text() == "the old file"
    assert [file.name for file in folder.iterdir()] == ["model.json"]


def test_a_full_folder_for_temporary_files_is_named_before_anything_is_spent(disk, data, tmp_path, monkeypatch, capsys):
    folder = disk("size=64k")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    np.savetxt(data, np.random.default_rng(0).random((20_000, 2)), delimiter=",")
    store = DurableLedger.create(tmp_path / "ledger.db")
    store.add("visits", 1.5)
    out = tmp_path / "model.json"
    assert main([*arguments(data, store.path, out), "--engine", "stream"]) == 4
    assert f"temporary files, {folder}: No space left on device." in capsys.readouterr().err
    assert store.dataset("visits").spent.nano == 0
    assert list(folder.iterdir()) == []


def test_a_full_disk_refuses_spends_and_loses_none(disk, monkeypatch):
    folder = disk("size=1m")
    store = DurableLedger.create(folder / "ledger.db")
    store.add("visits", 10.0)
    account = store.account("visits")
    account.record(ONE)
    ballast = fill(folder)
    monkeypatch.setattr(SecureNoise, "laplace", None)
    refused = 0
    for _ in range(20):  # the log still has some room inside its last block
        try:
            account.record(ONE)
        except LedgerError as error:
            assert "full" in str(error)  # noqa: PT017
            refused += 1
    assert refused > 0
    spent = Epsilon.of(0.25 * (21 - refused))
    assert store.dataset("visits").spent == spent
    store.close()
    ballast.unlink()
    again = DurableLedger(folder / "ledger.db")
    assert again.dataset("visits").spent == spent
    again.account("visits").record(ONE)
    assert again.verify().intact


def test_a_fit_on_a_full_ledger_exits_with_4_and_draws_nothing(disk, data, tmp_path, monkeypatch, capsys):
    folder = disk("size=1m")
    store = DurableLedger.create(folder / "ledger.db")
    store.add("visits", 10.0)
    fill(folder)
    monkeypatch.setattr(SecureNoise, "laplace", None)
    for _ in range(20):
        try:
            store.account("visits").record(ONE)
        except LedgerError:
            break
    out = tmp_path / "model.json"
    assert main(arguments(data, store.path, out)) == 4
    assert "error: the disk of" in capsys.readouterr().err
    assert not out.exists()


def test_a_read_only_ledger_can_be_looked_at_and_not_spent_from(disk, data, tmp_path, capsys):
    folder = disk("size=1m")
    store = DurableLedger.create(folder / "ledger.db")
    store.add("visits", 1.5)
    store.close()
    remount = ["mount", "-o", "remount,ro", str(folder)]
    if subprocess.run(remount, capture_output=True, check=False).returncode:
        pytest.skip("remounting is not permitted")
    assert main(["ledger", "verify", str(store.path)]) == 0
    assert main(["ledger", "show", str(store.path)]) == 0
    capsys.readouterr()
    assert main(arguments(data, store.path, tmp_path / "model.json")) == 4
    assert "is read-only, so nothing can be spent" in capsys.readouterr().err
    assert not (tmp_path / "model.json").exists()
    with pytest.raises(FileError, match="Read-only file system"):
        write_text(folder / "model.json", "new")
    with pytest.raises(LedgerError):
        DurableLedger.create(folder / "other.db")


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind this user")
def test_a_folder_without_permission_gives_typed_errors(tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir()
    store = DurableLedger.create(folder / "ledger.db")
    store.add("visits", 1.0)
    store.close()
    for name in ("ledger.db", "."):
        (folder / name).chmod(0o555 if name == "." else 0o444)
    try:
        with pytest.raises(FileError, match="Permission denied"):
            write_text(folder / "model.json", "new")
        with pytest.raises(LedgerError, match="read-only"):
            DPKMeans(2, bounds=(0, 1), epsilon=0.5, ledger=str(store.path), dataset="visits").fit([[0.5], [0.7]])
    finally:
        folder.chmod(0o755)


def test_a_file_is_on_the_disk_before_it_takes_its_name(tmp_path, monkeypatch):
    steps: list[str] = []
    sync, rename = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (steps.append("sync"), sync(handle)))
    monkeypatch.setattr(os, "replace", lambda *names: (steps.append("rename"), rename(*names)))
    write_text(tmp_path / "model.json", "new")
    assert steps == ["sync", "rename", "sync"]
