"""Schemas in TOML files, and a first one for a person to fill in, from declared names and types, never from values."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from dpkmeans.core.schema import Schema
from dpkmeans.errors import FileError, SchemaError

MAX_BYTES = 2**20
OPEN = "?"  # what a person has to fill in
_MARKS = {"lower": OPEN, "upper": OPEN, "length": OPEN, "levels": [OPEN]}  # elsewhere, "?" is a text like others

_HEAD = """\
# A schema for dpkmeans: the columns to use, in this order, with what is known without looking at the data.
# Fill in every "?", and delete the columns that are not to be used, such as ids and names.
#
# kind = "number"      lower = 0, upper = 120
# kind = "date"        lower = "2015-01-01", upper = "2025-12-31"; format = "%d.%m.%Y" if dates are not like 2015-01-31
# kind = "time"        lower = "08:00", upper = "18:00"
# kind = "boolean"     true = "ja", false = "nein" if the texts are not yes and no, true and false, or 1 and 0
# kind = "category"    levels = ["N", "S", "E"]; whatever is not a level counts as "other"
# kind = "vector"      length = 384; lower = -1, upper = 1, or no ends and --max-norm 1 or --normalize
#
# Missing values are refused; or write missing = "midpoint", or a value or level of your choice, for a column.
# A CSV file declares no types: every kind below is then "number", and has to be changed where it is not.
"""

_TEMPLATES: dict[str, tuple[str, ...]] = {
    "number": ('lower = "?"', 'upper = "?"'),
    "date": ('lower = "?"', 'upper = "?"'),
    "time": ('lower = "?"', 'upper = "?"'),
    "boolean": (),
    "category": ('levels = ["?"]',),
    "vector": ('length = "?"',),
}


def read_schema(path: str | PathLike[str]) -> Schema:
    """Read a schema file; errors name the file and the column."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise FileError(
            f"cannot read {path}: {error.strerror or type(error).__name__}.",
            hint="A first schema is written by: dpkmeans schema DATA --out schema.toml",
        ) from None
    if len(data) > MAX_BYTES:
        raise FileError(f"{path} is too large for a schema.")
    try:
        plain = tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        what = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "it is not UTF-8, or too deep"
        raise SchemaError(
            f"{path} is not TOML: {what}.", hint="A first schema is written by: dpkmeans schema DATA --out schema.toml"
        ) from None
    for name, options in plain.items():
        unfilled = (
            [key for key, mark in _MARKS.items() if options.get(key) == mark] if isinstance(options, dict) else []
        )
        if unfilled:
            raise SchemaError(
                f"{path}: {unfilled[0]} of column {name!r} is still to be filled in.",
                hint="Give what is known without looking at the data, or delete the column.",
            )
    try:
        return Schema.from_dict(plain)
    except SchemaError as error:
        raise SchemaError(f"{path}: {error.message}", hint=error.hint) from None


def write_schema(schema: Schema) -> str:
    """A schema as the text of a TOML file.

    >>> from dpkmeans.core.kinds import Number
    >>> print(write_schema(Schema.of({"age": Number(0, 120)})))
    [age]
    kind = "number"
    lower = 0.0
    upper = 120.0
    <BLANKLINE>
    """
    tables = []
    for name, options in schema.to_dict().items():
        if options.get("levels") == [OPEN]:
            raise SchemaError(
                f"column {name!r} has the one level {OPEN!r}, which in a file marks what is to be filled in.",
                hint="Add another level; whatever is not a level counts as other.",
            )
        tables += [f"[{_key(name)}]", *(f"{key} = {_value(value)}" for key, value in options.items()), ""]
    return "\n".join(tables)


def template(columns: Iterable[tuple[str, str]]) -> str:
    """The text of a first schema file for columns with their declared kinds.

    >>> print(template([("age", "number")])[-46:])
    [age]
    kind = "number"
    lower = "?"
    upper = "?"
    <BLANKLINE>
    """
    tables = [_HEAD]
    for name, kind in columns:
        tables += [f"[{_key(name)}]", f"kind = {_value(kind)}", *_TEMPLATES[kind], ""]
    return "\n".join(tables)


def _key(name: str) -> str:
    plain = name and all(c.isascii() and (c.isalnum() or c in "_-") for c in name)
    return name if plain else _value(name)


def _value(value: Any) -> str:
    """A plain value in TOML, whose strings are those of JSON, and DEL must be escaped too."""
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
