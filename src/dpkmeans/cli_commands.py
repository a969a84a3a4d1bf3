"""All commands in one application. What is slow to import is imported inside them, so that `--help` answers at once."""

from __future__ import annotations

from cyclopts import App, CycloptsError, Parameter

import dpkmeans
from dpkmeans import cli_output as output
from dpkmeans.cli import DONE, USAGE
from dpkmeans.cli_audit import audit
from dpkmeans.cli_demo import demo, methods
from dpkmeans.cli_fit import fit
from dpkmeans.cli_ledger import app as ledger
from dpkmeans.cli_model import predict, report, show
from dpkmeans.cli_plan import plan
from dpkmeans.cli_reproduce import reproduce
from dpkmeans.cli_synopsis import explore, synopsis

app = App(
    name="dpkmeans",
    help="Differentially private k-means that says honestly what is proved and what is not.",
    version=dpkmeans.__version__,
    help_format="plaintext",
    default_parameter=Parameter(negative=()),
)
for command in (fit, predict, show, report, synopsis, explore, plan, ledger, methods, demo, audit, reproduce):
    app.command(command)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; 2 where the arguments make no sense. Library errors pass through."""
    try:
        command, bound, _ = app.parse_args(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        output.note(f"error: {' '.join(str(error).split())} Try: dpkmeans --help")
        return USAGE
    code = command(*bound.args, **bound.kwargs)
    return code if isinstance(code, int) else DONE
