"""`load_embeddings`: sentence embeddings with the kind of each text, from the folder DPKMEANS_DATA, content checked."""

from __future__ import annotations

import hashlib
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpkmeans._typing import Float32Array
from dpkmeans.errors import DataError, FileError
from dpkmeans.reproduction.datasets import FOLDER_VARIABLE

EMBEDDINGS = {"embeddings384": "cdd9e7730f2878ab7e143fb4142d55efd897f4c6d342c0fd407662b70c9003ef"}
"""Known sets by name: the SHA-256 of the vectors as float16, row by row, and of the kinds, joined by line feeds."""


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Vectors of unit length, shape (n, d), and what each text is about, shape (n,). Public data only."""

    name: str
    vectors: Float32Array
    kinds: np.ndarray


def load_embeddings(name: str = "embeddings384") -> Embeddings:
    """The file NAME.npz of the folder DPKMEANS_DATA: `X`, vectors in float16, and `section`, their kinds.

    `embeddings384` has 20 000 short descriptions of software packages, each with one of 58 sections.
    """
    if name not in EMBEDDINGS:
        raise FileError(f"unknown embeddings {name!r}. Known: {', '.join(EMBEDDINGS)}.")
    folder = os.environ.get(FOLDER_VARIABLE)
    file = None if folder is None else Path(folder) / f"{name}.npz"
    if file is None or not file.is_file():
        where = "a folder" if folder is None else f"the folder {folder}"
        raise FileError(
            f"the embeddings {name!r} are not at hand. Put {name}.npz into {where}"
            + (f", and name the folder in the variable {FOLDER_VARIABLE}." if folder is None else ".")
        )
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as content:
            vectors, kinds = content["X"], content["section"]
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):
        raise FileError(f"cannot read {file}. Replace it by an intact copy, with the arrays X and section.") from None
    if vectors.dtype != np.float16 or content_of(vectors, kinds) != EMBEDDINGS[name]:
        raise DataError(f"the embeddings {name!r} are identified by their content, and {file} holds other numbers.")
    return Embeddings(name, vectors.astype(np.float32), kinds)


def content_of(vectors: np.ndarray, kinds: np.ndarray) -> str:
    """What identifies a set."""
    found = hashlib.sha256(np.ascontiguousarray(vectors).astype("<f2").tobytes())
    found.update("\n".join(kinds.tolist()).encode())
    return found.hexdigest()
