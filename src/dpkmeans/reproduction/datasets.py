"""`load_dataset`: the paper's data sets from a folder, a cache or a download, always with a content check."""

from __future__ import annotations

import gzip
import io
import logging
import os
import tempfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.errors import DataError, FileError, MethodError
from dpkmeans.reproduction.catalog import CATALOG, EXTRA, DatasetSource, content_hash, sorted_rows

FOLDER_VARIABLE = "DPKMEANS_DATA"
ENDINGS = (".csv.gz", ".csv")
TIMEOUT = 30  # seconds


@dataclass(frozen=True)
class Dataset:
    """Records, shape (n, d), rows in lexicographic order, with k, their hash, and how they relate to the paper.

    Public data only: nothing here is private.
    """

    name: str
    title: str
    records: FloatArray
    k: int
    sha256: str
    status: str

    @property
    def stand_in(self) -> bool:
        """Whether it replaces a set of the paper that is not available."""
        return self.status.startswith("stand-in")

    @property
    def label(self) -> str:
        """The title for tables and figures; a stand-in is always named as one."""
        return f"{self.title} (stand-in)" if self.stand_in else self.title

    def unit_records(self) -> FloatArray:
        """Records scaled to [0, 1] feature by feature, as the paper does; a constant feature becomes 0."""
        low, high = self.records.min(axis=0), self.records.max(axis=0)
        return np.asarray((self.records - low) / np.where(high > low, high - low, 1.0))


def load_dataset(
    name: str, *, k: int | None = None, catalog: Mapping[str, DatasetSource] = CATALOG, cache: Path | None = None
) -> Dataset:
    """The data set called `name`: from the folder DPKMEANS_DATA, else from the cache, else downloaded into it.

    Known names: see `dpkmeans.reproduction.catalog`. Any other name is a CSV file of that folder, and needs `k`.
    """
    source = catalog.get(name)
    folder = os.environ.get(FOLDER_VARIABLE)
    file = None if folder is None else _file_in(Path(folder), name)
    if source is None:
        return _other(name, file, k, catalog)
    if file is not None:
        records = _checked(source, _read_csv(file), f"{file}")
    else:
        records = _cached(source, cache_folder() if cache is None else cache, folder)
    return Dataset(name, source.title, records, source.k if k is None else k, source.sha256, source.status)


def cache_folder() -> Path:
    """The per-user cache."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "dpkmeans" / "datasets"


def _file_in(folder: Path, name: str) -> Path | None:
    if not name or Path(name).name != name:
        raise MethodError(f"a data set's name is the name of a file without its folder; got {name!r}.")
    return next((path for ending in ENDINGS if (path := folder / f"{name}{ending}").is_file()), None)


def _other(name: str, file: Path | None, k: int | None, catalog: Mapping[str, DatasetSource]) -> Dataset:
    if file is None:
        raise FileError(
            f"unknown data set {name!r}. Known: {', '.join(catalog)}. For one of your own, put {name}.csv (numbers "
            f"separated by commas, no header) into a folder and name the folder in the variable {FOLDER_VARIABLE}."
        )
    if k is None:
        raise MethodError(f"the data set {name!r} is not one of the paper's, so its number of clusters must be given.")
    records = sorted_rows(_read_csv(file))
    return Dataset(name, name, records, k, content_hash(records), EXTRA)


def _cached(source: DatasetSource, cache: Path, folder: str | None) -> FloatArray:
    file = cache / f"{source.name}.csv.gz"
    if file.is_file():
        return _checked(source, _read_csv(file), f"{file}")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{source.name}.", dir=cache) as work:
            records = _download(source, Path(work))
            _write_csv(Path(work) / "records", records)
            os.replace(Path(work) / "records", file)
    except OSError as error:
        if isinstance(error, FileError):
            raise FileError(f"{error} {_by_hand(source, folder)}") from None
        raise FileError(f"cannot write to {cache}: {error.strerror}. {_by_hand(source, folder)}") from None
    return records


def _download(source: DatasetSource, work: Path) -> FloatArray:
    """The records from the first mirrors with the right content."""
    try:
        import pooch
    except ModuleNotFoundError:
        raise FileError(
            f"the data set {source.name!r} is not in the cache, and its download needs pooch. Install it with: "
            "pip install 'dpkmeans[all]'."
        ) from None
    pooch.get_logger().setLevel(logging.ERROR)
    tries: list[str] = []
    for mirrors in _choices(source.files):
        try:
            files = []
            for place, address in enumerate(mirrors):
                got = pooch.retrieve(
                    address, None, fname=f"{place}.raw", path=work, downloader=pooch.HTTPDownloader(timeout=TIMEOUT)
                )
                files.append(Path(got))
            return _checked(source, source.read(files), "what came from there")
        except Exception as error:  # the network, a page instead of a file, half a file: try the next mirror
            tries.append(f"{' and '.join(mirrors)} ({_why(error)})")
        for raw in work.glob("*.raw"):
            raw.unlink()
    raise FileError(
        f"the data set {source.name!r} ({source.title}, {source.shape[0]} x {source.shape[1]}) is not in the cache, "
        f"and no download gave it: {'; '.join(tries)}."
    )


def _choices(files: tuple[tuple[str, ...], ...]) -> Iterable[tuple[str, ...]]:
    """One address for each file: the first mirrors of all, then the second ones, and so on."""
    for place in range(max(map(len, files))):
        yield tuple(mirrors[min(place, len(mirrors) - 1)] for mirrors in files)


def _why(error: Exception) -> str:
    if isinstance(error, DataError):
        return str(error).rstrip(".")
    return "not the file that was expected" if isinstance(error, ValueError | SyntaxError) else type(error).__name__


def _by_hand(source: DatasetSource, folder: str | None) -> str:
    where = f"the folder {folder}" if folder else f"a folder, and name the folder in the variable {FOLDER_VARIABLE}"
    file = f"{source.name}.csv (numbers separated by commas, no header)"
    return f"It comes from: {source.origin}. Put it as {file} into {where}."


def _checked(source: DatasetSource, records: FloatArray, where: str) -> FloatArray:
    """The records in order, if they are the right ones."""
    if records.shape != source.shape:
        raise DataError(
            f"the data set {source.name!r} has shape {source.shape}; {where} holds {records.shape}. It is not that set."
        )
    if content_hash(records) != source.sha256:
        raise DataError(
            f"the data set {source.name!r} is identified by its content, and {where} holds other numbers. "
            "Remove it, or give it another name."
        )
    return sorted_rows(records)


def _read_csv(file: Path) -> FloatArray:
    try:
        raw = file.read_bytes()
        text = gzip.decompress(raw) if file.name.endswith(".gz") else raw
        if not text.strip():
            raise ValueError("no records")
        records = np.loadtxt(io.BytesIO(text), delimiter=",", ndmin=2, dtype=np.float64)
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or "it is damaged"
        raise FileError(f"cannot read {file}: {why}. Remove it, or replace it by an intact copy.") from None
    except ValueError:
        raise DataError(f"{file} must hold numbers separated by commas, without a header; it does not.") from None
    if not records.size or not np.isfinite(records).all():
        raise DataError(f"{file} must hold finite numbers; it does not.")
    return records


def _write_csv(file: Path, records: FloatArray) -> None:
    lines = "".join(",".join(map(repr, row)) + "\n" for row in records.tolist())
    file.write_bytes(gzip.compress(lines.encode(), mtime=0))
