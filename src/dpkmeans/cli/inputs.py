"""What the commands take: bounds, columns, data files, and places for output."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import TYPE_CHECKING

from dpkmeans.cli import output
from dpkmeans.errors import BoundsError, DataError, FileError, MethodError

if TYPE_CHECKING:
    from dpkmeans.cli.options import Reading
    from dpkmeans.core.release import Release
    from dpkmeans.engines.open import EngineSpec, OpenedData

FROM_DATA = "from data"
MAX_HELD = 2**27  # bytes up to which one file is held in memory unless an engine is named


def parse_bounds(text: str | None, estimable: bool = False) -> str | list[tuple[float, float]]:
    """`"from data"`, or the pairs of `LOW:HIGH,LOW:HIGH`. `estimable` says that the command can estimate them.

    >>> parse_bounds("0:1,-5:1e3")
    [(0.0, 1.0), (-5.0, 1000.0)]
    """
    how = 'Write LOW:HIGH, such as 0:1, or one pair per feature, such as 0:10,-5:5, or "from data" (not private).'
    if text is None:
        if estimable:
            how += " If you know none, --bounds-epsilon 0.1 spends that much of epsilon on a private estimate."
        raise BoundsError(
            "--bounds are missing. Noise is scaled to the bounds, so they must be known without looking at the data: "
            f"an age lies in 0:120, a share in 0:1. {how}"
        )
    if text.strip() == FROM_DATA:
        return FROM_DATA
    try:
        pairs = [tuple(float(side) for side in pair.split(":")) for pair in text.split(",")]
        return [(low, high) for low, high in pairs]
    except ValueError:
        raise BoundsError(f"--bounds cannot be read; got {text!r}. {how}") from None


def sides(pairs: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """The lower and the upper ends of the pairs, as the library takes them."""
    return [low for low, _ in pairs], [high for _, high in pairs]


def engine_for(data: Path) -> EngineSpec:
    """Where no engine is named: one small file is held in memory, and all else is streamed."""
    from dpkmeans.engines.config import Stream

    pattern = not data.exists() and glob.has_magic(str(data))
    large = data.is_dir() or pattern or (data.exists() and data.stat().st_size > MAX_HELD)
    return Stream(watch=output.show_pass) if large else "memory"


def open_for(release: Release, data: Path, reading: Reading, spec: EngineSpec = None) -> OpenedData:
    """The records in the columns of the model: those asked for, else those of its names, else all."""
    from dpkmeans.data.files import find_files, is_parquet
    from dpkmeans.engines.open import open_data

    named = reading.header is not False or is_parquet(find_files(data)[0])
    files = reading.files(data, release.feature_names if named else None)
    opened = open_data(files, engine_for(data) if spec is None else spec)
    expected = release.bounds.n_features
    if opened.n_features != expected:
        raise DataError(
            f"{data} gives {opened.n_features} column(s); the model was fitted on {expected}: "
            f"{', '.join(release.names)}.",
            hint="Choose as many with {columns}, in that order.",
        )
    return opened


def check_outputs(*paths: Path | None, inputs: tuple[Path, ...] = ()) -> None:
    """Refuse a path that cannot be written, or that would replace an input, before anything is spent."""
    given = [path for path in paths if path is not None]
    for path in given:
        if path.is_dir():
            raise FileError(f"cannot write {path}: it is a folder. Give a file name.")
        if not path.parent.is_dir():
            raise FileError(f"cannot write {path}: the folder {path.parent} does not exist. Make it first.")
        if not os.access(path.parent, os.W_OK):
            raise FileError(f"cannot write {path}: no permission for the folder {path.parent}.")
    read = {path.resolve() for path in inputs}
    if len(read) < len(inputs):
        raise MethodError(f"one file is given for two things: {', '.join(map(str, inputs))}. Check the arguments.")
    for i, path in enumerate(given):
        if path.resolve() in read:
            raise MethodError(f"{path} would be replaced, but it is read. Give the output another name.")
        if path.resolve() in {other.resolve() for other in given[:i]}:
            raise MethodError(f"{path} is the name of two outputs. Give each its own.")


def refuse_existing(*paths: Path | None, force: bool) -> None:
    """Refuse to replace a file that may have been paid for, unless the user says so."""
    for path in paths:
        if path is not None and path.is_file() and not force:
            raise FileError(
                f"{path} exists already, and what it holds may have been paid for with privacy budget. Give another "
                "name, or write --force to replace it."
            )
