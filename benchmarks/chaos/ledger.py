"""Faults of the durable ledger: replaced files, killed writers, a full disk, forged and cut-back chains."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from benchmarks.chaos.fault import Fault, Outcome, Tally
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.errors import DPKMeansError, LedgerError
from dpkmeans.privacy.durable.hash_chain import LedgerEntry, verify
from dpkmeans.privacy.durable.ledger import DurableLedger

WRITERS, SPENDS = 16, 200
ONE = Epsilon(1000)


def replaced(times: int) -> Outcome:
    """A backup, made before something was spent, takes the place of the file of an open store."""
    tally = Tally()
    for _ in range(times):
        with tempfile.TemporaryDirectory() as name:
            store = DurableLedger.create(Path(name) / "ledger.db", analyst="chaos")
            store.add("visits", 1.0)
            backup = Path(name) / "backup.db"
            with closing(sqlite3.connect(store.path)) as source, closing(sqlite3.connect(backup)) as target:
                source.backup(target)
            store.spend("visits", Epsilon.of(0.7), fit="a", label="x")
            how = random.choice(("renamed over", "moved away", "written over in place"))
            if how == "written over in place":
                store.close()
                for end in ("-wal", "-shm"):
                    Path(f"{store.path}{end}").unlink(missing_ok=True)
                store.path.write_bytes(backup.read_bytes())
            else:
                (backup if how == "renamed over" else store.path).rename(
                    store.path if how == "renamed over" else Path(name) / "elsewhere.db"
                )
            _expect_refusal(tally, store, how)
    return tally.outcome()


def _expect_refusal(tally: Tally, store: DurableLedger, how: str) -> None:
    try:
        store.spend("visits", Epsilon.of(0.7), fit="b", label="x")
    except LedgerError:
        tally.saw(f"{how}: refused")
    except Exception as error:
        tally.saw(f"{how}: {type(error).__name__}")
        tally.must_not("untyped", happened=not isinstance(error, DPKMeansError))
    else:
        tally.saw(how)
        tally.must_not("lost_spends", happened=True, why=how)


def killed_writers(times: int) -> Outcome:
    """Sixteen processes make 200 spends each, and are killed and started again `times` times in all."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = DurableLedger.create(folder / "ledger.db", analyst="chaos")
        store.add("visits", Epsilon(10 * (WRITERS * SPENDS + times) * ONE.nano))
        running: dict[int, int] = {}
        each, spends = SPENDS if times >= SPENDS else 20, 0
        deadline = time.monotonic() + 1800
        while (running or tally.runs < times) and time.monotonic() < deadline:
            if not running:  # at first, and where all were done before enough of them were killed
                spends += each
                running = {_writer(store, folder, number, spends): number for number in range(WRITERS)}
            time.sleep(random.uniform(0.001, 0.03))
            if tally.runs < times:
                victim = random.choice(list(running))
                os.kill(victim, signal.SIGKILL)
            for pid in list(running):
                found, status = os.waitpid(pid, os.WNOHANG)
                if found:
                    number = running.pop(pid)
                    if os.WIFSIGNALED(status):
                        tally.saw("killed")
                    if len(_noted(folder, number)) < spends:
                        running[_writer(store, folder, number, spends)] = number
        tally.must_not("hangs", happened=bool(running))
        for pid in running:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        entries = [entry for entry in store.entries() if entry.kind == "spend"]
        noted = {fit for number in range(WRITERS) for fit in _noted(folder, number)}
        known = [entry.fit for entry in entries]
        tally.must_not("lost_spends", happened=not noted <= set(known), why="a spend without its entry")
        tally.must_not("wrong", happened=len(known) != len(set(known)), why="an entry twice")
        tally.must_not("wrong", happened=not store.verify().intact, why="a broken chain")
        total = store.dataset("visits").spent
        tally.must_not("lost_spends", happened=total != Epsilon(len(known) * ONE.nano), why="a wrong total")
    return tally.outcome()


def _writer(store: DurableLedger, folder: Path, number: int, spends: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        log = os.open(folder / f"{number}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for done in range(len(_noted(folder, number)), spends):
            fit = f"{number}-{done}-{os.getpid()}"
            store.spend("visits", ONE, fit=fit, label="count")
            os.write(log, f"{fit}\n".encode())
        os._exit(0)
    finally:
        os._exit(70)


def _noted(folder: Path, number: int) -> list[str]:
    path = folder / f"{number}.log"
    return path.read_text().split() if path.exists() else []


def full_disk(times: int) -> Outcome:
    """The disk of a ledger fills up: it can be read, nothing is spent, and what was spent is still there."""
    tally = Tally()
    for _ in range(times):
        with tempfile.TemporaryDirectory() as name:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", name], check=True, capture_output=True)
            try:
                _fill(tally, Path(name))
            finally:
                subprocess.run(["umount", name], check=True, capture_output=True)
    return tally.outcome()


def _fill(tally: Tally, folder: Path) -> None:
    store = DurableLedger.create(folder / "ledger.db", analyst="chaos")
    store.add("visits", 1.0)
    store.spend("visits", Epsilon.of(0.1), fit="a", label="x")
    killed = random.random() < 0.5
    if killed:  # a writer that was killed leaves its log behind
        pid = os.fork()
        if pid == 0:
            DurableLedger(store.path).spend("visits", Epsilon.of(0.1), fit="b", label="x")
            os._exit(9)
        os.waitpid(pid, 0)
        Path(f"{store.path}-shm").unlink(missing_ok=True)
    store.close()
    handle = os.open(folder / "fill", os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(handle, bytes(1024))
    except OSError:
        os.close(handle)
    try:
        look = DurableLedger(store.path)
        spent = look.dataset("visits").spent
        tally.must_not("lost_spends", happened=spent != Epsilon.of(0.2 if killed else 0.1), why=f"{spent} is left")
        try:
            look.spend("visits", Epsilon.of(0.1), fit="c", label="x")
            tally.saw("spent all the same")
        except LedgerError:
            tally.saw("read, and spending refused")
        look.close()
    except Exception as error:
        tally.saw(f"not readable: {type(error).__name__}")
        tally.must_not("wrong", happened=True, why="not readable")


def _no_mount() -> str | None:
    with tempfile.TemporaryDirectory() as name:
        made = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", name], capture_output=True, check=False)
        if made.returncode == 0:
            subprocess.run(["umount", name], check=True, capture_output=True)
    return None if made.returncode == 0 else "no right to mount"


def forged(times: int) -> Outcome:
    """Somebody without the key edits an entry of a signed ledger and makes all hashes from there on match."""
    from dpkmeans.storage.keys import SigningKey

    tally = Tally()
    with tempfile.TemporaryDirectory() as name:
        key = SigningKey.create(Path(name) / "curator.key")
        store = DurableLedger.create(Path(name) / "ledger.db", analyst="chaos", key=key)
        store.add("visits", 1.0)
        for fit in range(12):
            store.spend("visits", Epsilon.of(0.01), fit=str(fit), label="count")
        good = list(store.entries())
        for _ in range(times):
            cut = random.random() < 0.2
            changed = good[: random.randrange(1, len(good))] if cut else _edited(good)
            found = verify(changed, good[-1].hash, key.public)
            tally.saw("not found" if found.intact else found.why.split(":")[0])
            tally.must_not("wrong", happened=found.intact, why=json.dumps([vars(e) for e in changed])[:80])
    return tally.outcome()


def _edited(good: list[LedgerEntry]) -> list[LedgerEntry]:
    at = random.randrange(len(good))
    change = random.choice(({"nano": good[at].nano + 1}, {"analyst": "mallory"}, {"spent": 0, "nano": 1}))
    changed, previous = [], good[0].previous
    for number, entry in enumerate(good):
        one = replace(entry, previous=previous, **(change if number == at else {}))
        changed.append(replace(one, sha256=f"{one.digest()} {entry.signature}"))
        previous = changed[-1].sha256
    return changed


FAULTS = (
    Fault("a backup takes the place of an open ledger's file", "refused, nothing is drawn", replaced, 100, 3),
    Fault("16 writers with 200 spends each are killed", "no spend without its entry", killed_writers, 320, 8),
    Fault("the disk of a ledger fills up", "it can be read, and nothing is spent", full_disk, 20, 1, False, _no_mount),
    Fault("a signed ledger is edited, hashes made to match", "found, and where", forged, 1000, 20),
)
