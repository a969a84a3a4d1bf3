"""Whatever bytes a file holds, reading it gives a good value or a typed error, and runs nothing."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path

import numpy as np
import pytest
from fuzz.targets import MUTATIONS, TARGETS, mutate_json, seeds

from dpkmeans.core.release import Release
from dpkmeans.errors import DPKMeansError, FileError
from dpkmeans.storage import json_files as files
from dpkmeans.storage.models import read_transcript

ROOT = Path(__file__).parents[2]
CORPUS = Path(__file__).parent / "corpus"
N_MUTATED = 10_000 // len(TARGETS)  # of each kind; `make fuzz` goes on for as long as it is told


@pytest.fixture(scope="module")
def good() -> dict[str, list[bytes]]:
    return seeds()


@pytest.mark.parametrize("kind", TARGETS)
def test_ten_thousand_mutated_files_give_typed_errors_only(good, kind):
    rng = random.Random(9)
    assert all(TARGETS[kind](data) for data in good[kind])
    taken = 0
    for _ in range(N_MUTATED):
        mutate = rng.choice(MUTATIONS[kind])
        taken += TARGETS[kind](mutate(rng.choice(good[kind]), rng))
    assert taken < 0.5 * N_MUTATED


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*/*")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_files_of_the_corpus_give_typed_errors_only(path):
    taken = TARGETS[path.parent.name](path.read_bytes())
    assert taken == path.name.startswith("good")


def test_no_code_of_ours_reads_what_can_run():
    loads = re.compile(r"\b(pickle|cloudpickle|joblib|dill|marshal|shelve)\b|allow_pickle\s*=\s*True|\beval\(|\bexec\(")
    for path in (ROOT / "src").rglob("*.py"):
        assert not loads.search(path.read_text()), path.name


def write(path: Path, content: object, kind: str = "dpkmeans model", **more: object) -> Path:
    identity = content.get("identity") if isinstance(content, dict) else None
    version = identity["schema"] if isinstance(identity, dict) else 1
    head = {"kind": kind, "version": version, "sha256": files.checksum(content)}
    path.write_text(json.dumps(head | {"content": content} | more))
    return path


@pytest.fixture
def content(good) -> dict[str, object]:
    return json.loads(good["model"][0])["content"]


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "not JSON"),
        (b"\x80\x04\x95", "not text"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a dpkmeans model file"),
        (b'{"kind": "dpkmeans model", "version": 1, "sha256": "", "content": {"a": NaN}}', "not JSON"),
        (b'{"kind": "dpkmeans model", "version": 1, "sha256": "", "content": {"a": 1e999}}', "not JSON"),
        (b'{"kind": "other", "version": 1, "sha256": "", "content": {}}', "not a dpkmeans model file"),
        (b'{"kind": "dpkmeans model", "version": 99, "sha256": "", "content": {}}', "newer version"),
        (b'{"kind": "dpkmeans model", "version": true, "sha256": "", "content": {}}', "no version"),
        (b'{"kind": "dpkmeans model", "version": 1, "sha256": "", "content": {}}', "checksum"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not JSON"),
    ],
)
def test_a_file_that_is_no_model_says_why(tmp_path, raw, says):
    path = tmp_path / "model.json"
    path.write_bytes(raw)
    with pytest.raises(FileError, match=says):
        Release.load(path)


def test_files_are_read_within_limits_of_size_depth_and_counts(tmp_path, content, monkeypatch):
    path = tmp_path / "model.json"
    with pytest.raises(FileError, match="not a dpkmeans model file"):
        Release.load(write(path, content | {"certificate": nested(files.MAX_DEPTH)}))
    Release.load(write(path, content))
    monkeypatch.setattr(files, "MAX_LISTS", 5)
    with pytest.raises(FileError, match="larger than any"):
        Release.load(path)
    monkeypatch.setattr(files, "MAX_LISTS", 2**20)
    monkeypatch.setattr(files, "MAX_VALUES", 5)
    with pytest.raises(FileError, match="larger than any"):
        Release.load(path)
    monkeypatch.setattr(files, "MAX_VALUES", 2**20)
    monkeypatch.setattr(files, "MAX_BYTES", 100)
    with pytest.raises(FileError, match="larger than any"):
        Release.load(path)


def test_a_pipe_or_a_device_is_no_model_and_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero", tmp_path):
        with pytest.raises(FileError, match="it is a folder, a pipe or a device"):
            Release.load(path)


def test_a_model_in_which_a_key_stands_twice_is_refused(tmp_path, good):
    path = tmp_path / "model.json"
    once = good["model"][0]
    for key in (b'"version"', b'"epsilon_promised"', b'"label"'):
        start = once.index(key)
        path.write_bytes(once[:start] + key + b': "proved", ' + once[start:])
        with pytest.raises(FileError, match="it has a duplicate key"):
            Release.load(path)


def test_what_could_not_be_read_again_is_not_written(tmp_path, monkeypatch, good):
    path = tmp_path / "model.json"
    path.write_bytes(good["model"][0])
    release = Release.load(path)
    monkeypatch.setattr(files, "MAX_VALUES", 3)
    with pytest.raises(FileError, match="too large to be read again"):
        release.save(path)
    assert path.read_bytes() == good["model"][0]


@pytest.mark.parametrize(
    "change",
    [
        {"centroids": [[9.0, 0.5], [0.5, 0.5]]},
        {"centroids": [[0.5, -1.0], [0.5, 0.5]]},
        {"epsilon_promised": 0.5},
        {"epsilon_spent": 1.0, "spends": [{"label": "x", "nano": [2 * 10**9]}]},
    ],
)
def test_a_proved_model_that_contradicts_itself_is_refused(tmp_path, content, change):
    with pytest.raises(FileError, match="contradicts"):
        Release.load(write(tmp_path / "model.json", content | change))


@pytest.mark.parametrize("change", [{"seeded": True}, {"bounds": "from data"}, {"arithmetic": "floating point"}])
def test_a_proved_model_has_a_guarantee_that_can_be_proved(tmp_path, content, change):
    guarantee = content["guarantee"] | change
    with pytest.raises(FileError, match="contradicts"):
        Release.load(write(tmp_path / "model.json", content | {"guarantee": guarantee}))


def test_a_transcript_comes_back_as_it_was_written(tmp_path, good):
    path = tmp_path / "model.json"
    path.write_bytes(good["model"][1])
    release = Release.load(path)
    release.save_transcript(tmp_path / "t.jsonl")
    assert read_transcript(tmp_path / "t.jsonl") == release.transcript
    lines = (tmp_path / "t.jsonl").read_bytes().splitlines(keepends=True)
    for cut in (lines[:-1], [lines[0], *lines[2:]], lines[1:], [*lines, lines[-1]]):
        (tmp_path / "cut.jsonl").write_bytes(b"".join(cut))
        with pytest.raises(FileError):
            read_transcript(tmp_path / "cut.jsonl")


def test_a_model_written_by_any_method_can_be_read_again(tmp_path):
    from dpkmeans import DPKMeans

    records = np.random.default_rng(2).random((80, 3))
    outside = [[9.0, 9.0, 9.0], [-1.0, 0.5, 0.5]]
    box = ([0, 0, 0], [1, 0.3, 0.7])
    for options in (
        {"method": "blum", "init": outside},
        {"method": "dwork"},
        {"method": "gupt"},
        {"method": "privgene"},
        {"method": "su"},
        {"method": "lloyd", "guarantee": "none"},
    ):
        given = {"epsilon": 0.01} if "guarantee" not in options else {}
        release = DPKMeans(2, bounds=box, **given, **options).fit(records).release_
        release.save(tmp_path / "model.json")
        assert (Release.load(tmp_path / "model.json").centroids == release.centroids).all()


def test_mutations_do_reach_behind_the_checksum(good):
    rng = random.Random(1)
    refused = 0
    for _ in range(50):
        try:
            Release.from_dict(json.loads(mutate_json(good["model"][0], rng))["content"])
        except DPKMeansError:
            refused += 1
    assert refused > 25
