"""The identity of a release: what it says, that seeded results stay comparable, and that changes show."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from dpkmeans import DPKMeans, __version__, make_synopsis
from dpkmeans.core.release import Release
from dpkmeans.errors import FileError
from dpkmeans.privacy.durable.ledger import DurableLedger
from dpkmeans.storage import json_files as files
from dpkmeans.storage.identity import digest_of
from dpkmeans.storage.models import KIND, VERSION
from dpkmeans.synopsis.synopsis import Synopsis

X = np.random.default_rng(0).random((2000, 2))


@pytest.fixture(scope="module")
def release() -> Release:
    return DPKMeans(2, epsilon=1.0, bounds=(0, 1), method="su").fit(X).release_


def test_a_release_says_what_made_it_and_its_digest_covers_all_of_it(release):
    identity = release.identity
    assert (identity.version, identity.schema) == (__version__, 2)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", identity.time)
    assert (identity.dataset, identity.fit, identity.head, identity.signature) == (None,) * 4
    assert identity.digest == digest_of(release.to_dict())
    for change in (
        {"n_iter": 99},
        {"parameters": {}},
        {"identity": replace(identity, time="2020-01-01T00:00:00+00:00")},
    ):
        assert digest_of(replace(release, **change).to_dict()) != identity.digest


def test_a_seeded_release_is_the_same_whenever_it_is_made():
    def made() -> Release:
        return DPKMeans(2, epsilon=1.0, bounds=(0, 1), method="su", random_state=0, guarantee="none").fit(X).release_

    assert made().to_dict() == made().to_dict()
    assert made().identity.time is None


def test_changed_content_is_refused_although_its_checksum_was_made_to_match(release, tmp_path):
    path = tmp_path / "model.json"
    content = release.to_dict()
    for spend in content["spends"]:
        spend["nano"] = [nano // 10 for nano in spend["nano"]]
    files.write_json(path, KIND, VERSION, content)
    with pytest.raises(FileError, match="does not match its digest"):
        Release.load(path)
    files.write_json(path, KIND, VERSION, release.to_dict())  # 3, where the content was written as 2
    with pytest.raises(FileError, match="says version 3, and its content 2"):
        Release.load(path)


def test_a_release_that_was_changed_in_memory_is_not_saved_under_its_old_identity(release, tmp_path):
    changed = replace(release, feature_names=("east", "north"))
    with pytest.raises(FileError, match="identity=None"):
        changed.save(tmp_path / "model.json")
    replace(changed, identity=None).save(tmp_path / "model.json")
    assert Release.load(tmp_path / "model.json").identity is None


def test_under_a_ledger_a_release_names_its_data_set_its_fit_and_the_head(tmp_path):
    store = DurableLedger.create(tmp_path / "ledger.db", analyst="ada")
    store.add("visits", 3.0)
    release = DPKMeans(2, epsilon=1.0, bounds=(0, 1), method="su", ledger=store, dataset="visits").fit(X).release_
    made = make_synopsis(X, 1.0, (0, 1), ledger=store, dataset="visits")
    entries = store.entries()
    for one in (release, made):
        fit = [e for e in entries if e.fit == one.identity.fit]
        assert [e.kind for e in fit][:2] == ["reserve", "settle"]
        assert (one.identity.dataset, one.identity.head) == ("visits", fit[0].sha256)
    release.save(tmp_path / "model.json")
    made.save(tmp_path / "synopsis.json")
    assert Release.load(tmp_path / "model.json").identity == release.identity
    assert Synopsis.load(tmp_path / "synopsis.json").identity == made.identity
