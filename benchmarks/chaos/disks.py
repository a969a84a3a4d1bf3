"""Disks that are full or taken away where the result goes, or where records are kept meanwhile."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import numpy as np

from benchmarks.chaos.fault import Fault, Outcome, Tally
from dpkmeans import DurableLedger, session
from dpkmeans.cli.main import main
from dpkmeans.core.release import Release
from dpkmeans.errors import DPKMeansError


def cannot_mount() -> str | None:
    """Why no small disk can be mounted here."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            with _disk(Path(folder) / "disk", "64k"):
                return None
        except (OSError, subprocess.CalledProcessError):
            return "mounting a small disk is not permitted"


@contextlib.contextmanager
def _disk(folder: Path, size: str) -> Iterator[Path]:
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    subprocess.run(mount, check=True, capture_output=True)
    try:
        yield folder
    finally:
        _unmount(folder)


def _unmount(folder: Path) -> None:
    subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)


class Place:
    """A ledger, records, and a folder for temporary files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "visits.csv"
        np.savetxt(self.data, np.random.default_rng(0).random((20_000, 2)), delimiter=",")
        self.store = DurableLedger.create(folder / "ledger.db")
        self.store.add("visits", 1.5)
        (folder / "temporary").mkdir()

    @property
    def spent(self) -> float:
        return float(self.store.dataset("visits").spent.nano) / 1e9

    def fit(self, out: Path, *more: str, temporary: Path | None = None) -> tuple[int, str, str]:
        """Exit code and what was printed."""
        options = ["--no-header", "--k", "2", "--bounds", "0:1", "--epsilon", "1", "--method", "blum", *more]
        options += ["--ledger", str(self.store.path), "--dataset", "visits", "--out", str(out)]
        place = str(temporary or self.folder / "temporary")
        raw = io.BytesIO()
        stdout = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
        errors, moved = io.StringIO(), mock.patch.object(tempfile, "tempdir", place)
        with moved, contextlib.redirect_stderr(errors), contextlib.redirect_stdout(stdout):
            code = main(["fit", str(self.data), *options])
        return code, raw.getvalue().decode(), errors.getvalue()


def _each(times: int, cause: Callable[[Place, Tally], str]) -> Outcome:
    tally = Tally()
    for _ in range(times):
        with tempfile.TemporaryDirectory() as folder:
            place = Place(Path(folder))
            tally.saw(cause(place, tally))
            tally.must_not("lost_spends", happened=not place.store.verify().intact)
            place.store.close()
    return tally.outcome()


def full_at_out(times: int) -> Outcome:
    """No room for the model."""

    def cause(place: Place, tally: Tally) -> str:
        with _disk(place.folder / "disk", "64k") as disk:
            code, _, errors = place.fit(disk / "model.json")
            tally.must_not("untyped", happened=code != 4 or "No space left" not in errors, why=f"exit {code}")
            tally.must_not("left_behind", happened=bool(os.listdir(disk)))
        tally.must_not("lost_releases", happened=place.spent > 0)
        return "refused before anything was spent"

    return _each(times, cause)


def gone_at_out(times: int) -> Outcome:
    """The disk of the model is taken away after the release was paid for."""

    def cause(place: Place, tally: Tally) -> str:
        run = session.run
        with _disk(place.folder / "disk", "8m") as disk:

            def then_gone(*given: object) -> object:
                fitted = run(*given)
                _unmount(disk)
                return fitted

            with mock.patch.object(session, "run", then_gone):
                code, _, errors = place.fit(disk / "model.json")
        tally.must_not("untyped", happened=code != 4 or "Traceback" in errors, why=f"exit {code}")
        saved = list((place.folder / "temporary").iterdir())
        try:
            kept = len(saved) == 1 and str(saved[0]) in errors and Release.load(saved[0]).epsilon_spent == 1.0
        except DPKMeansError:
            kept = False
        tally.must_not("lost_releases", happened=not kept)
        tally.must_not("lost_spends", happened=place.spent != 1.0)
        return "the whole model is in the folder for temporary files, and the command says where"

    return _each(times, cause)


def full_for_records(times: int) -> Outcome:
    """No room for the records that a streamed fit keeps meanwhile."""

    def cause(place: Place, tally: Tally) -> str:
        with _disk(place.folder / "disk", "64k") as disk:
            code, _, errors = place.fit(place.folder / "model.json", "--engine", "stream", temporary=disk)
            tally.must_not("untyped", happened=code != 4 or "temporary files" not in errors, why=f"exit {code}")
            tally.must_not("left_behind", happened=bool(os.listdir(disk)))
        tally.must_not("lost_releases", happened=place.spent > 0)
        return "refused before anything was spent, nothing left"

    return _each(times, cause)


FAULTS = (
    Fault(
        "the disk of --out is full", "refused before anything is spent", full_at_out, times=50, unavailable=cannot_mount
    ),
    Fault(
        "the disk of --out goes away after the release was paid for",
        "the whole model is kept elsewhere, and the command says where",
        gone_at_out,
        times=50,
        unavailable=cannot_mount,
    ),
    Fault(
        "the folder for temporary files is full",
        "refused before anything is spent, no record is left there",
        full_for_records,
        times=50,
        unavailable=cannot_mount,
    ),
)
