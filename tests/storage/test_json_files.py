from __future__ import annotations

import contextlib
import hashlib
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpkmeans.errors import FileError
from dpkmeans.storage import json_files as files
from dpkmeans.storage.json_files import read_json, write_json, write_text

CONTENT = {"centroids": [[0.1, 0.2]], "name": "ε", "none": None}


@pytest.fixture
def path(tmp_path):
    target = tmp_path / "model.json"
    write_json(target, "thing", 3, CONTENT)
    return target


def rewrite(path, **changes):
    wrapper = json.loads(path.read_text())
    wrapper.update(changes)
    path.write_text(json.dumps(wrapper))


def test_what_was_written_is_read(path):
    assert read_json(path, "thing", 3) == CONTENT
    assert read_json(str(path), "thing", 4) == CONTENT


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_any_plain_content_survives(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("files") / "x.json"
    write_json(path, "thing", 1, content)
    assert read_json(path, "thing", 1) == content


@given(data=st.data())
def test_a_file_with_any_bit_turned_is_refused_or_reads_the_same(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("files") / "x.json"
    write_json(path, "thing", 1, CONTENT)
    raw = bytearray(path.read_bytes())
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(raw)
    with contextlib.suppress(FileError):
        assert read_json(path, "thing", 1) == CONTENT


def test_a_file_cut_anywhere_is_refused(path):
    raw = path.read_bytes()
    for size in range(len(raw) - 2):
        path.write_bytes(raw[:size])
        with pytest.raises(FileError):
            read_json(path, "thing", 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("hello", "not JSON"),
        ("[1, 2]", "not a thing file"),
        ("{}", "not a thing file"),
        ('{"kind": "other", "content": {}}', "not a thing file"),
        ('{"kind": "thing", "content": []}', "not a thing file"),
        ('{"kind": "thing", "content": {}}', "names no version"),
        ('{"kind": "thing", "version": "3", "content": {}}', "names no version"),
        ('{"kind": "thing", "version": true, "content": {}}', "names no version"),
        ('{"kind": "thing", "version": 0, "content": {}}', "names no version"),
        ('{"kind": "thing", "version": 4, "content": {}}', "newer version of dpkmeans. Update"),
        ('{"kind": "thing", "version": 3, "content": {}}', "checksum"),
        ('{"kind": "thing", "version": 3, "sha256": null, "content": {}}', "checksum"),
        ('{"kind": "thing", "version": 3, "content": {"a": NaN}}', "not JSON"),
        ('{"kind": "thing", "version": 3, "content": {"a": -Infinity}}', "not JSON"),
        ('{"kind": "thing", "version": 3, "content": {"a": 1e999}}', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"a":' * 100_000, "not JSON"),
    ],
)
def test_foreign_and_damaged_files_are_refused(tmp_path, text, message):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(FileError, match=message) as caught:
        read_json(path, "thing", 3)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("depth", [300, 900, 960, 980, 990])
def test_deep_content_without_a_right_checksum_is_refused(tmp_path, depth):
    path = tmp_path / "x.json"
    deep = '{"a":' * depth + "1" + "}" * depth
    path.write_text(f'{{"kind": "thing", "version": 3, "sha256": null, "content": {deep}}}')
    with pytest.raises(FileError):
        read_json(path, "thing", 3)


def test_changed_content_does_not_match_its_checksum(path):
    rewrite(path, content={**CONTENT, "centroids": [[0.1, 0.3]]})
    with pytest.raises(FileError, match="checksum"):
        read_json(path, "thing", 3)


def test_infinity_is_refused_even_with_a_matching_checksum(path):
    body = json.dumps({"a": float("inf")}, separators=(",", ":"))
    text = f'{{"kind": "thing", "version": 3, "sha256": "{hashlib.sha256(body.encode()).hexdigest()}", '
    for spelling in ("Infinity", "1e999"):
        path.write_text(text + f'"content": {{"a": {spelling}}}}}')
        with pytest.raises(FileError, match="not JSON"):
            read_json(path, "thing", 3)


def test_an_older_version_is_read(path):
    assert read_json(path, "thing", 7) == CONTENT


def test_a_file_that_is_too_large_is_refused(path, monkeypatch):
    monkeypatch.setattr(files, "MAX_BYTES", 20)
    with pytest.raises(FileError, match="larger than"):
        read_json(path, "thing", 3)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(FileError, match="not text"):
        read_json(path, "thing", 3)


def test_a_file_that_is_not_there_or_is_a_folder_is_refused(tmp_path):
    with pytest.raises(FileError, match="No such file"):
        read_json(tmp_path / "absent.json", "thing", 3)
    with pytest.raises(FileError, match="cannot read"):
        read_json(tmp_path, "thing", 3)


@pytest.mark.parametrize("fails", ["fsync", "replace", "chmod"])
def test_the_old_file_is_intact_when_a_write_fails(path, monkeypatch, fails):
    old = path.read_bytes()

    def broken(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, fails, broken)
    with pytest.raises(FileError, match=r"No space left on device. The file was left as it was"):
        write_json(path, "thing", 3, {"new": 1})
    assert path.read_bytes() == old
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_the_old_file_is_intact_when_a_write_is_interrupted(path, monkeypatch):
    old = path.read_bytes()

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_text(path, "new")
    assert path.read_bytes() == old
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("content", [{"a": float("nan")}, {"a": float("inf")}, {"a": {1, 2}}])
def test_content_that_is_no_json_leaves_the_old_file(path, content):
    old = path.read_bytes()
    with pytest.raises((ValueError, TypeError)):
        write_json(path, "thing", 3, content)
    assert path.read_bytes() == old


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileError, match="cannot write"):
        write_text(tmp_path / "absent" / "x.json", "text")
    with pytest.raises(FileError, match="cannot write"):
        write_text(tmp_path, "text")


def test_a_written_file_has_ordinary_permissions(path):
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask
