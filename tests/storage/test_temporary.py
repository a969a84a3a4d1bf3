"""Temporary folders with records: for this user alone, and gone with their process, however it ended."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile

import pytest

from dpkmeans import DPKMeans
from dpkmeans.storage.json_files import write_text
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


WRITER = """
import sys, time
from dpkmeans.storage.outputs import opened_output
with opened_output(sys.argv[1], room=4096) as output:
    if sys.argv[2]:
        output.file.write(sys.argv[2].encode())
        output.file.flush()
    print("open", flush=True)
    time.sleep(100)
"""


@pytest.mark.parametrize("content", ["", "a result that was paid for"])
def test_room_that_a_killed_process_reserved_goes_with_the_next_write_of_the_same_file(tmp_path, content):
    """What has content stays: it may be a whole result that had not taken its name yet."""
    target = tmp_path / "model.json"
    command = [sys.executable, "-c", WRITER, str(target), content]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "open\n"
        (reserved,) = tmp_path.iterdir()
        write_text(target, "another")
        assert reserved.exists(), "its owner is alive"
    finally:
        child.kill()
        child.communicate()
    write_text(tmp_path / "other.json", "of another name")
    assert reserved.exists()
    write_text(target, "the next")
    assert reserved.exists() == bool(content)
    assert target.read_text() == "the next"


def test_files_of_others_that_look_like_reserved_room_stay(tmp_path):
    target = tmp_path / "model.json"
    kept = [tmp_path / f".model.json.{name}" for name in ("swp", "abcdefgh", "abcdefgh.dpkmeans", "link1234.dpkmeans")]
    for path in kept[:3]:
        path.touch(mode=0o644)
    kept[3].symlink_to(kept[0])
    write_text(target, "a result")
    assert all(path.exists() for path in kept)
