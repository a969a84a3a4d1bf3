"""What the commands take: bounds, columns, data files, and places for output."""

from __future__ import annotations

import glob
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpkmeans.cli import output
from dpkmeans.cli.options import split_columns
from dpkmeans.errors import BoundsError, FileError, MethodError, SchemaError
from dpkmeans.storage.outputs import is_pipe, is_stdout, target_of

if TYPE_CHECKING:
    from dpkmeans.cli.options import BoxOptions, Reading
    from dpkmeans.core.release import Release
    from dpkmeans.engines.open import EngineSpec, OpenedData

FROM_DATA = "from data"
MAX_HELD = 2**27  # bytes of numbers or text up to which one file is held in memory unless an engine is named


Pairs = list[tuple[float, float]]


def parse_bounds(text: str | None, estimable: bool = False) -> str | Pairs | dict[str, tuple[float, float]]:
    """`"from data"`, the pairs of `LOW:HIGH,LOW:HIGH`, or those of `age=0:120,income=0:2e5` by name.

    `estimable` says that the command can estimate them.

    >>> parse_bounds("0:1,-5:1e3"), parse_bounds("age=0:120")
    ([(0.0, 1.0), (-5.0, 1000.0)], {'age': (0.0, 120.0)})
    """
    how = (
        "Write bounds by name, such as age=0:120,income=0:2e5, which also chooses the columns; LOW:HIGH for all "
        'features, such as 0:1; one pair per feature, such as 0:10,-5:5; or "from data" (not private).'
    )
    if text is None:
        if estimable:
            how += " Describe columns that are not numbers with --schema. If you know no bounds, --bounds-epsilon 0.1 "
            how += "spends that much of epsilon on a private estimate."
        raise BoundsError(
            "--bounds are missing. Noise is scaled to the bounds, so they must be known without looking at the data: "
            f"an age lies in 0:120, a share in 0:1. {how}"
        )
    if text.strip() == FROM_DATA:
        return FROM_DATA
    try:
        cells = split_columns(text) or [""]
        named = {name: _pair(pair) for name, _, pair in (cell.rpartition("=") for cell in cells) if name}
        if named and len(named) < len(cells):
            raise BoundsError(f"--bounds must name every column, each once, or none; got {text!r}. {how}")
        return named or [_pair(cell) for cell in cells]
    except ValueError as error:
        if isinstance(error, BoundsError):
            raise
        raise BoundsError(f"--bounds cannot be read; got {text!r}. {how}") from None


def _pair(text: str) -> tuple[float, float]:
    low, high = text.split(":")
    return float(low), float(high)


def parse_scale(text: str | None) -> Any:
    """`box`, `none`, or weights by name; without it, widths are checked.

    >>> parse_scale("box"), parse_scale("none"), parse_scale("age=2,income=0.5")
    ('box', None, {'age': 2.0, 'income': 0.5})
    """
    if text is None or text.strip() in ("auto", "box"):
        return "auto" if text is None else text.strip()
    if text.strip().lower() == "none":
        return None
    try:
        cells = [cell.rpartition("=") for cell in split_columns(text)]
        weights = {name: float(weight) for name, _, weight in cells}
    except ValueError:
        weights = {"": 0.0}
    if "" in weights:
        raise SchemaError(
            f"--scale cannot be read; got {text!r}. Write box, none, or weights by name, such as age=2,income=0.5."
        )
    return weights


def sides(bounds: str | Pairs | dict[str, tuple[float, float]]) -> Any:
    """Bounds as the library takes them: pairs as their lower and their upper ends."""
    return ([low for low, _ in bounds], [high for _, high in bounds]) if isinstance(bounds, list) else bounds


def given_box(box: BoxOptions, *, estimable: bool = False, estimated: bool = False) -> dict[str, Any]:
    """The fields of a request that say what the public box is. Where it can be `estimated`, it may be left out."""
    elsewhere = estimated or box.schema is not None or box.max_norm is not None or box.normalize
    bounds = None if box.bounds is None and elsewhere else sides(parse_bounds(box.bounds, estimable))
    scale = parse_scale(box.scale)
    return {**asdict(box), "bounds": bounds, "scale": scale}


def engine_for(data: Path) -> EngineSpec:
    """Where no engine is named: one file that is small when it is unfolded is held in memory, all else is streamed."""
    from dpkmeans.engines.config import Stream

    if data.is_file():
        from dpkmeans.data.unfolded import unfolds_within

        return "memory" if unfolds_within(data, MAX_HELD) else Stream(watch=output.show_pass)
    pattern = not data.exists() and glob.has_magic(str(data))
    return Stream(watch=output.show_pass) if data.is_dir() or pattern else "memory"


def open_for(release: Release, data: Path, reading: Reading, spec: EngineSpec = None) -> OpenedData:
    """The records in the columns of the model: those asked for, else those of its names, else all."""
    from dpkmeans.engines.labels import open_for

    columns = None if reading.columns is None else split_columns(reading.columns)
    files = replace(reading.files(data), columns=None)
    return open_for(release, files, engine_for(data) if spec is None else spec, columns)


def check_outputs(*paths: Path | None, inputs: tuple[Path, ...] = ()) -> None:
    """Refuse a path that cannot be written, or that would replace an input, before anything is spent."""
    given = [path for path in paths if path is not None]
    for path in (path for path in given if not is_stdout(path) and not is_pipe(path)):
        target = target_of(path)
        if not target.parent.is_dir():
            raise FileError(f"cannot write {path}: the folder {target.parent} does not exist. Make it first.")
        if not os.access(target.parent, os.W_OK):
            raise FileError(f"cannot write {path}: no permission for the folder {target.parent}.")
    read = {os.path.realpath(path) for path in inputs}
    if len(read) < len(inputs):
        raise MethodError(f"one file is given for two things: {', '.join(map(str, inputs))}. Check the arguments.")
    places = ["standard output" if is_stdout(path) else os.path.realpath(path) for path in given]
    for i, (path, place) in enumerate(zip(given, places, strict=True)):
        if place in read:
            raise MethodError(f"{path} would be replaced, but it is read. Give the output another name.")
        if place in places[:i]:
            raise MethodError(f"{path} is the name of two outputs. Give each its own.")


def refuse_existing(*paths: Path | None, force: bool, paid: bool = True) -> None:
    """Refuse to replace a file that may have been paid for, unless the user says so."""
    for path in paths:
        if path is not None and not is_stdout(path) and path.is_file() and not force:
            why = ", and what it holds may have been paid for with privacy budget" if paid else ""
            raise FileError(f"{path} exists already{why}. Give another name, or write --force to replace it.")
