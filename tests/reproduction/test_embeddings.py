from __future__ import annotations

import numpy as np
import pytest

from dpkmeans.errors import DataError, FileError
from dpkmeans.reproduction import embeddings
from dpkmeans.reproduction.embeddings import content_of, load_embeddings

X = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float16)
KINDS = np.array(["net", "games", "net", "doc", "doc"])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DPKMEANS_DATA", str(tmp_path))
    monkeypatch.setitem(embeddings.EMBEDDINGS, "small", content_of(X, KINDS))
    return tmp_path


def test_a_set_is_read_from_the_folder_and_identified_by_its_content(folder):
    np.savez(folder / "small.npz", X=X, section=KINDS)
    found = load_embeddings("small")
    assert np.array_equal(found.vectors, X.astype(np.float32))
    assert np.array_equal(found.kinds, KINDS)
    for other in (
        {"X": X + 1, "section": KINDS},
        {"X": X, "section": KINDS[::-1]},
        {"X": X.astype(float), "section": KINDS},
    ):
        np.savez(folder / "small.npz", **other)
        with pytest.raises(DataError, match="holds other numbers"):
            load_embeddings("small")


def test_what_is_missing_or_damaged_is_said_with_what_to_do(folder, monkeypatch):
    with pytest.raises(FileError, match=r"Put small.npz into the folder"):
        load_embeddings("small")
    (folder / "small.npz").write_bytes(b"PK\x03\x04 half of it")
    with pytest.raises(FileError, match="intact copy"):
        load_embeddings("small")
    np.savez(folder / "small.npz", Y=X)
    with pytest.raises(FileError, match="X and section"):
        load_embeddings("small")
    with pytest.raises(FileError, match="unknown embeddings"):
        load_embeddings("large")
    monkeypatch.delenv("DPKMEANS_DATA")
    with pytest.raises(FileError, match="DPKMEANS_DATA"):
        load_embeddings("small")
