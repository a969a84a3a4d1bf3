"""Where the paper's data sets come from, and how their files become records.

The content of every download is checked, so a mirror that moved or changed is skipped, never trusted.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpkmeans._typing import FloatArray

Recipe = Callable[[Sequence[Path]], FloatArray]

AS_IN_PAPER = "as in the paper"
EXTRA = "not in the paper"
GITHUB = "https://raw.githubusercontent.com"
SIPU = "https://cs.uef.fi/sipu/datasets"
DP_CLUSTERING = f"{GITHUB}/D-Diaa/privateclustering/e873e0bfaa2282617a8e1bd361756104d50d1efb/data"
BIRCH = f"{GITHUB}/ryh95/uniform-double-kmc2-sampling/facfca3e0ef91aa89ab47504fabf8245b79679a1/data"


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

    @property
    def stand_in(self) -> bool:
        """Whether it replaces a set of the paper that is not available."""
        return self.status.startswith("stand-in")


def content_hash(records: FloatArray) -> str:
    """SHA-256 of shape and values, rows in lexicographic order: independent of a file's order and number format."""
    ordered = sorted_rows(records)
    digest = hashlib.sha256(f"{ordered.shape[0]}x{ordered.shape[1]}".encode())
    digest.update(np.ascontiguousarray(ordered, dtype="<f8").tobytes())
    return digest.hexdigest()


def sorted_rows(records: FloatArray) -> FloatArray:
    """Rows in lexicographic order, without negative zeros."""
    ordered: FloatArray = records[np.lexsort(records.T[::-1])] + 0.0
    return ordered


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


_SOURCES = (
    DatasetSource(
        "iris",
        "Iris",
        3,
        (150, 4),
        "9ff0d3ffbc640861a33276c0f2d4f1c415be9939cb24dee90ffc9c6305225090",
        AS_IN_PAPER,
        "UCI Machine Learning Repository, Iris, file iris.data (class dropped)",
        (("https://archive.ics.uci.edu/ml/machine-learning-databases/iris/iris.data", f"{DP_CLUSTERING}/iris.txt"),),
    ),
    DatasetSource(
        "house",
        "House",
        3,
        (1837, 3),
        "99f74866124a37696801a126f3aba4e07c60c9bb3489f5e548e3d28199b35d7f",
        AS_IN_PAPER,
        "SIPU clustering data sets, House with 5 bits per colour",
        ((f"{DP_CLUSTERING}/house.txt", f"{SIPU}/house.txt"),),
    ),
    DatasetSource(
        "s1",
        "S1",
        15,
        (5000, 2),
        "a6bd6d74a5e1d27245cf6daa2771aaad6ae3c8251e538e566dd1d5b5aa4179b6",
        AS_IN_PAPER,
        "SIPU clustering data sets, S1",
        ((f"{SIPU}/s1.txt", f"{DP_CLUSTERING}/s1.txt"),),
    ),
    DatasetSource(
        "birch2",
        "Birch2",
        5,
        (12000, 2),
        "268f11d43865800a168628043197d800252b105b65c8b96750698cb258e012df",
        "stand-in: the paper's own 12000 rows of Birch2 were not found",
        "SIPU clustering data sets, Birch2, random subsets b2-random-10 and b2-random-15",
        ((f"{BIRCH}/b2-random-10.txt",), (f"{BIRCH}/b2-random-15.txt",)),
        birch2_subset,
    ),
    DatasetSource(
        "image",
        "Image",
        3,
        (33925, 3),
        "8b43e1f07cba9c23294ee69e74dd2203f5b5f8a141c40857ae80e1eeac6341ea",
        "stand-in: 33925 colours of the same picture where the paper has 34112",
        "USC-SIPI image database, 4.1.05 (House): its distinct RGB triples",
        (("https://sipi.usc.edu/database/download.php?vol=misc&img=4.1.05",),),
        distinct_colours,
    ),
    DatasetSource(
        "lifesci",
        "Lifesci",
        3,
        (26733, 10),
        "308d13283eee804b6bce7d0de2de2e3e40e3bb3350c558d08d159063fe85d54a",
        AS_IN_PAPER,
        "Komarek, ds1.10 life sciences (class dropped)",
        ((f"{GITHUB}/mijungi/dpem_code/13c705c9/data/lifesci.csv",),),
    ),
    DatasetSource(
        "a2",
        "A2",
        35,
        (5250, 2),
        "de7103abc1e89ef5e8551cb3125e13f79897c3b91b4b48ee9629e5ee35583d8d",
        EXTRA,
        "SIPU clustering data sets, A2",
        ((f"{SIPU}/a2.txt",),),
    ),
)

CATALOG = {source.name: source for source in _SOURCES}
PAPER_SETS = ("iris", "house", "s1", "birch2", "image", "lifesci")
