"""Temporary folders with records: for this user alone, and gone with their process, however it ended."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile

import pytest

from dpkmeans import DPKMeans
from dpkmeans.storage.temporary import PREFIX, TemporaryFolder, remove_abandoned

OWNER = """
import sys, time
from dpkmeans import DPKMeans
from dpkmeans.storage.temporary import TemporaryFolder
folder = TemporaryFolder()
(folder.path / "records").write_text("private")
print(folder.path, flush=True)
time.sleep(100)
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def owner(place):
    child = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(place)}
    )
    child.stdout.readline()
    yield child
    child.kill()
    child.communicate()


def test_only_this_user_may_enter_and_it_goes_with_its_object(place):
    folder = TemporaryFolder()
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    (folder.path / "records").write_text("private")
    del folder
    assert list(place.iterdir()) == []


def test_a_folder_whose_process_was_killed_goes_with_the_next_one(place, owner):
    (folder,) = place.iterdir()
    remove_abandoned()
    assert (folder / "records").exists(), "its owner is alive"
    owner.kill()
    owner.wait()
    assert (folder / "records").exists()
    DPKMeans(1, epsilon=1.0, bounds=(0, 1), method="blum").fit([[0.5], [0.6]])
    assert not folder.exists()


def test_what_is_not_ours_stays(place):
    kept = [place / "dpkmeans-other", place / f"{PREFIX}abcdefgh", place / f"{PREFIX}readable"]
    for path in (kept[0], kept[2]):
        path.mkdir(mode=0o755)
    target = place / "target"
    target.mkdir(mode=0o700)
    kept[1].symlink_to(target)
    remove_abandoned()
    assert all(path.exists() for path in kept)
    assert target.exists()


def test_two_folders_of_one_process_do_not_take_each_other_for_abandoned(place):
    first = TemporaryFolder()
    second = TemporaryFolder()
    assert first.path.exists()
    assert second.path.exists()
    first.close()
    assert not first.path.exists()
    assert second.path.exists()
