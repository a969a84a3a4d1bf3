"""The command `dpkmeans key`: keys that sign models and ledgers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from dpkmeans.cli import output
from dpkmeans.cli.options import Json

app = App(
    name="key",
    help="Keys that sign models and ledgers.",
    help_format="plaintext",
    default_parameter=Parameter(negative=()),
)


@app.command
def create(
    key: Annotated[Path, Parameter(help="Where to write the private key, such as curator.key.")],
    /,
    *,
    json: Json = False,
) -> None:
    """Create a key pair: a private key for you alone and, beside it, a public key (.pub) for everybody.

    Example: dpkmeans key create curator.key

    Anyone who has the private key can sign in your name: keep it where the ledger's administrators and analysts cannot
    read it, or where only the process that runs fits can. Send the public key to reviewers by another channel than the
    models. Existing files are never replaced.
    """
    from dpkmeans.storage.keys import SigningKey, public_path

    made = SigningKey.create(key)
    public = public_path(made.path)
    output.note(f"The private key is in {key}, readable by you alone. The public key is in {public.name} beside it.")
    if json:
        output.print_json({"private": str(key), "public": str(key.with_name(public.name)), "key": made.public})
    else:
        output.print_lines([made.public])
