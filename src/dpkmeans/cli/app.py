"""All commands in one application. What is slow to import is imported inside them, so that `--help` answers at once."""

from __future__ import annotations

import re

from cyclopts import App, CoercionError, CycloptsError, MissingArgumentError, Parameter, UnusedCliTokensError

from dpkmeans import __version__
from dpkmeans.cli import output
from dpkmeans.cli.audit import audit
from dpkmeans.cli.bench import bench
from dpkmeans.cli.demo import demo, methods
from dpkmeans.cli.evaluation import profile, quality
from dpkmeans.cli.fit import fit
from dpkmeans.cli.keys import app as key
from dpkmeans.cli.ledger import app as ledger
from dpkmeans.cli.model import predict, report, show
from dpkmeans.cli.outcomes import DONE, USAGE
from dpkmeans.cli.plan import plan
from dpkmeans.cli.reproduce import reproduce
from dpkmeans.cli.schema import schema
from dpkmeans.cli.synopsis import explore, synopsis

ONE_DATA = "DATA is one file, folder or pattern; put a pattern in quotes: 'visits/*.csv'."
app = App(
    name="dpkmeans",
    help="Differentially private k-means. Every result says what is proved and what is not.",
    version=__version__,
    help_format="plaintext",
    default_parameter=Parameter(negative=()),
)
for command in (
    fit,
    schema,
    predict,
    show,
    report,
    quality,
    profile,
    synopsis,
    explore,
    plan,
    ledger,
    key,
    methods,
    demo,
    bench,
    audit,
    reproduce,
):
    app.command(command)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code, 2 if the arguments cannot be parsed. Library errors pass through."""
    try:
        command, bound, _ = app.parse_args(_with_dash(arguments), exit_on_error=False, print_error=False)
    except CycloptsError as error:
        output.note(f"error: {_in_words(error)} Try: {' '.join(['dpkmeans', *(error.command_chain or ())])} --help")
        return USAGE
    from dpkmeans.kernels.jit import tell_of_compiling

    tell_of_compiling(output.compiling)
    code = command(*bound.args, **bound.kwargs)
    return code if isinstance(code, int) else DONE


def _with_dash(arguments: list[str]) -> list[str]:
    """`--out -` as `--out=-`: the parser would take the dash for an option.

    >>> _with_dash(["fit", "--out", "-"])
    ['fit', '--out=-']
    """
    joined: list[str] = []
    for argument in arguments:
        if argument == "-" and joined and re.fullmatch("--[a-z-]+", joined[-1]):
            joined[-1] += "=-"
        else:
            joined.append(argument)
    return joined


def _in_words(error: CycloptsError) -> str:
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        named = set(error.argument.names) & set(error.root_input_tokens or ())
        return f"{error.argument.name} {'needs a value' if named else 'is missing'}."
    if isinstance(error, UnusedCliTokensError):
        several = "data" in getattr(error.target, "__annotations__", ())
        return f"not expected here: {' '.join(error.unused_tokens or ())}.{f' {ONE_DATA}' if several else ''}"
    if isinstance(error, CoercionError) and error.target_type is float and error.token is not None:
        return f"{error.token.keyword} must be a number; got {error.token.value!r}."
    return " ".join(str(error).split())
