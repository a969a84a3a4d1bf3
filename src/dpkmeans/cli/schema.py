"""The command `dpkmeans schema`."""

from __future__ import annotations

import shlex
from pathlib import Path

from dpkmeans.cli import output
from dpkmeans.cli.inputs import check_outputs, refuse_existing
from dpkmeans.cli.options import ANY, Data, Force, Json, Reading


def schema(
    data: Data, /, *, reading: Reading = ANY, out: Path | None = None, force: Force = False, json: Json = False
) -> None:
    """Write a schema for you to fill in, from declared names and types. Reads no values.

    Example: dpkmeans schema visits.csv --header --out schema.toml

    Parameters
    ----------
    out:
        Write to this file (TOML) instead of stdout.
    """
    from dpkmeans.data.declared import declared_columns
    from dpkmeans.storage.json_files import write_text
    from dpkmeans.storage.schema_files import template

    check_outputs(out, inputs=(data,))
    refuse_existing(out, force=force, paid=False)
    columns = declared_columns(reading.files(data))
    text = template(columns)
    if out is not None:
        write_text(out, text)
        typed = shlex.join([str(data), "--schema", str(out), *reading.arguments()])
        output.note(f"The schema is in {out}. Fill in what is known, then try:")
        output.note(f"dpkmeans fit {typed} --scale box --k 5 --epsilon 1 --out model.json")
    if json:
        output.print_json([{"column": name, "kind": kind} for name, kind in columns])
    elif out is None:
        output.print_lines([text.rstrip("\n")])
