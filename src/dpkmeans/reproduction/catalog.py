"""Where the paper's data sets come from, and how their files become records.

The content of every download is checked, so a mirror that moved or changed is skipped, never trusted.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np

from dpkmeans._typing import FloatArray

Recipe = Callable[[Sequence[Path]], FloatArray]

EXTRA = "not in the paper"


@dataclass(frozen=True)
class DatasetSource:
    """One data set: its name, k, shape and hash, how it relates to the paper, and the URLs of its files.

    `files` has the mirrors of each file; `recipe` makes the records from one copy of each. Without one, they are the
    first numbers of each line.
    """

    name: str
    title: str
    k: int
    shape: tuple[int, int]
    sha256: str
    status: str
    origin: str
    files: tuple[tuple[str, ...], ...]
    recipe: Recipe | None = None

    def read(self, files: Sequence[Path]) -> FloatArray:
        """The records in one copy of each file."""
        return _numbers(files[0], self.shape[1]) if self.recipe is None else self.recipe(files)


def content_hash(records: FloatArray) -> str:
    """SHA-256 of shape and values, rows in lexicographic order: independent of a file's order and number format."""
    ordered = sorted_rows(records)
    digest = hashlib.sha256(f"{ordered.shape[0]}x{ordered.shape[1]}".encode())
    digest.update(np.ascontiguousarray(ordered, dtype="<f8").tobytes())
    return digest.hexdigest()


def sorted_rows(records: FloatArray) -> FloatArray:
    """Rows in lexicographic order, without negative zeros."""
    return np.asarray(records[np.lexsort(records.T[::-1])] + 0.0)


def birch2_subset(files: Sequence[Path]) -> FloatArray:
    """b2-random-10, then the rows of b2-random-15 that are not in it, 12000 in all."""
    first, more = _numbers(files[0], 2), _numbers(files[1], 2)
    known = set(map(tuple, first.tolist()))
    further = np.array([row for row in more.tolist() if tuple(row) not in known])
    return np.concatenate([first, further.reshape(-1, 2)])[:12000]


def distinct_colours(files: Sequence[Path]) -> FloatArray:
    """The distinct RGB triples of a picture, shape (colours, 3)."""
    from PIL import Image

    with Image.open(files[0]) as picture:
        pixels = np.asarray(picture.convert("RGB")).reshape(-1, 3)
    return np.unique(pixels, axis=0).astype(np.float64)


def _numbers(file: Path, n: int) -> FloatArray:
    """The first `n` numbers of each line, separated by commas or blanks; blank lines are skipped."""
    lines = file.read_text(encoding="utf-8").splitlines()
    rows = [[float(cell) for cell in re.split(r"[,;\s]+", line.strip())[:n]] for line in lines if line.strip()]
    if not rows or any(len(row) != n for row in rows):
        raise ValueError(f"expected {n} numbers in every line")
    return np.array(rows)


def _catalog() -> dict[str, DatasetSource]:
    content = tomllib.loads(files("dpkmeans.reproduction").joinpath("catalog.toml").read_text("utf-8"))
    recipes = {None: None, "birch2_subset": birch2_subset, "distinct_colours": distinct_colours}
    found = {}
    for name, entry in content.items():
        shape, mirrors = tuple(entry.pop("shape")), tuple(map(tuple, entry.pop("files")))
        recipe = recipes[entry.pop("recipe", None)]
        found[name] = DatasetSource(name, shape=shape, files=mirrors, recipe=recipe, **entry)
    return found


CATALOG = _catalog()
PAPER_SETS = ("iris", "house", "s1", "birch2", "image", "lifesci")
