"""All commands in one application. What is slow to import is imported inside them, so that `--help` answers at once."""

from __future__ import annotations

from cyclopts import App, CycloptsError, Parameter

from dpkmeans import __version__
from dpkmeans.cli import output
from dpkmeans.cli.audit import audit
from dpkmeans.cli.demo import demo, methods
from dpkmeans.cli.fit import fit
from dpkmeans.cli.ledger import app as ledger
from dpkmeans.cli.main import DONE, USAGE
from dpkmeans.cli.model import predict, report, show
from dpkmeans.cli.plan import plan
from dpkmeans.cli.reproduce import reproduce
from dpkmeans.cli.synopsis import explore, synopsis

app = App(
    name="dpkmeans",
    help="Differentially private k-means that says honestly what is proved and what is not.",
    version=__version__,
    help_format="plaintext",
    default_parameter=Parameter(negative=()),
)
for command in (fit, predict, show, report, synopsis, explore, plan, ledger, methods, demo, audit, reproduce):
    app.command(command)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code, 2 if the arguments cannot be parsed. Library errors pass through."""
    try:
        command, bound, _ = app.parse_args(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        output.note(f"error: {' '.join(str(error).split())} Try: dpkmeans --help")
        return USAGE
    code = command(*bound.args, **bound.kwargs)
    return code if isinstance(code, int) else DONE
